"""Scratch memory of kernels: its layout, and calls from threads with small stacks."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.cpu.kernel_function import Scratch
from jitgraph.errors import CompileError
from jitgraph.runtime import loader
from tests.processes import in_child


def test_layout() -> None:
    scratch = Scratch("k")
    assert scratch.allocate(100) == 0
    with scratch.frame():
        assert scratch.allocate(1) == 128
        assert scratch.allocate(64) == 192
    with scratch.frame():
        assert scratch.allocate(4096) == 128
    assert scratch.allocate(64) == 128
    assert scratch.bytes == 128 + 4096
    with pytest.raises(CompileError, match=r"kernel k wants \d+ bytes of scratch memory"):
        scratch.allocate(loader.SCRATCH_BYTES)


def test_the_arena_begins_with_scratch_memory() -> None:
    @jg.trace
    def product(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        return x @ y

    x = jg.asarray(np.ones((300, 600), np.float32))
    lowered = product.lower(x, x.T)
    assert lowered.memory_plan.arena_bytes == 0
    shapes = tuple(tuple(spec.shape) for spec in lowered.runnable.signature.parameters)
    plan = lowered.runnable.entry.plan(shapes)
    assert 100_000 < plan.arena_bytes <= loader.SCRATCH_BYTES


# Threads of 128 KiB take part in each other's products, and in none of each other's memory.
SMALL_STACKS = """
import threading
import numpy as np
import jitgraph as jg

rng = np.random.default_rng(0)
arrays = [rng.standard_normal((n, n)).astype(np.float32) for n in (300, 700)]
images = rng.standard_normal((2, 8, 40, 40)).astype(np.float32)
filters = rng.standard_normal((16, 8, 5, 5)).astype(np.float32)
functions = [jg.trace(f) for f in (
    lambda x: x @ x.T,
    lambda x: jg.softmax(x @ x, axis=1) @ x,
    lambda x: jg.matmul(jg.stack([x, x + 1]), x),
    lambda x: x[:3] @ x,
    lambda x: jg.sort(x, axis=1) + jg.cumulative_sum(x, axis=0),
    lambda x: jg.nn.functional.conv2d(jg.asarray(images) * x[0, 0], jg.asarray(filters)),
)]
threading.stack_size(128 << 10)
expected = [[f(x).numpy() for x in arrays] for f in functions]
wrong = []

def work():
    for _ in range(3):
        for f, results in zip(functions, expected):
            for x, result in zip(arrays, results):
                if not np.array_equal(f(x).numpy(), result, equal_nan=True):
                    wrong.append(f)

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong
assert np.allclose(expected[0][1], arrays[1] @ arrays[1].T, atol=1e-2)
print("fine")
"""


@pytest.mark.parametrize("threads", ["1", "3"])
def test_small_stacks(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_NUM_THREADS", threads)
    assert in_child(SMALL_STACKS, "-W", "error") == "fine\n"
