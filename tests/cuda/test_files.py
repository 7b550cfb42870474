"""``jg.save``, ``jg.load``, ``lower`` and ``jg.explain`` with tensors on GPUs; code for them in the cache on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import DeviceError
from jitgraph.runtime import loader
from tests.bits import bits_of
from tests.cuda.places import Machine, needs_two
from tests.graphs import needs_native
from tests.processes import in_child

pytestmark = needs_native


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def model_at(device: str) -> tuple[Any, Any]:
    jg.random.seed(0)
    model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.ReLU(), jg.nn.Linear(8, 3)).to(device)
    return model, jg.trace(lambda x: jg.softmax(model(x)), dynamic_shapes={"x": {0: "batch"}})


@needs_two
def test_a_model_on_a_gpu_is_saved_with_its_weights(here: Machine, tmp_path: Path) -> None:
    path, x = tmp_path / "model.jg", normal(2, 4)
    _, host = model_at("cpu")
    model, there = model_at("cuda")
    expected = host(x)
    jg.save(there, path, example_inputs=(jg.asarray(x, device="cuda"),))
    entry = loader.Artifact(path).manifest["entries"]["forward"]
    assert set(entry["cuda"]) == {"sm_80", "sm_90"} and "x86-64-v3" in entry["native"]
    alone = loader.load(path)
    assert bits_of(alone(x)) == bits_of(expected)
    assert bits_of(alone.state["model.0.weight"]) == bits_of(model[0].weight.detach().cpu().numpy())
    again = jg.load(path, device="cuda:1")
    assert {value.device for value in again.state.values()} == {"cuda:1"}
    for inputs in (x, jg.asarray(x), jg.asarray(x, device="cuda:1")):
        result = again(inputs)
        assert result.device == "cuda:1" and bits_of(result.cpu()) == bits_of(expected)
    with pytest.raises(DeviceError, match="there is no cuda:7"):
        jg.load(path, device="cuda:7")
    second = tmp_path / "second.jg"
    jg.save(again, second, example_inputs=(jg.asarray(x, device="cuda:1"),), targets="sm_90")
    assert bits_of(jg.load(second)(x)) == bits_of(expected)


def test_a_file_for_the_cpu_trains_on_a_gpu(here: Machine, tmp_path: Path) -> None:
    path = tmp_path / "model.jg"
    weight = jg.nn.Parameter(jg.asarray(normal(4, 3)))
    optimizer = jg.optim.SGD([weight], lr=0.1, momentum=0.9)

    @jg.trace
    def step(x: Any, y: Any) -> Any:
        loss = ((x @ weight - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y = normal(8, 4, seed=1), normal(8, 3, seed=2)
    jg.save(step, path, example_inputs=(x, y), targets="x86-64-v3")
    host, there = jg.load(path), jg.load(path, device="cuda")
    for _ in range(3):
        assert bits_of(there(x, y).cpu()) == bits_of(host(x, y))


def test_a_generation_that_is_unknown_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.jg"
    with pytest.raises(DeviceError, match="no target 'sm_70'"):
        jg.save(lambda x: x + 1, path, example_inputs=(normal(3),), targets="sm_70")
    assert not path.exists()


def test_lowered_code_shows_what_runs_there(here: Machine) -> None:
    _, there = model_at("cuda")
    x = jg.asarray(normal(2, 4), device="cuda")
    lowered = there.lower(x)
    compiled = lowered.compile()
    assert bits_of(compiled(x).detach().cpu()) == bits_of(there(x).detach().cpu())
    assert ".target sm_90" in compiled.ptx and compiled.ptx == compiled.asm and "nvptx64" in compiled.llvm_ir
    assert "launch" in lowered.kernels and "linear" in str(lowered.graph)
    assert "dot" in str(lowered.autograd)
    report = jg.explain(there, x)
    assert "temporaries: " in report and "kernels: " in report and "scratch memory" not in report
    with pytest.raises(DeviceError, match="on different devices"):
        jg.explain(there, normal(2, 4))
    with pytest.raises(DeviceError, match="there is no PTX"):
        _ = jg.trace(lambda x: x + 1).lower(normal(3)).compile().ptx


PROCESS = """
import sys
import numpy as np
import jitgraph as jg
from jitgraph import ops
from jitgraph.ir.types import Constant
from jitgraph.tensor import wrap
table = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
i = jg.asarray(np.array([3, 199, 0]), device="cuda")
f = jg.trace(lambda i: jg.softmax(jg.take(wrap(ops.constant(value=Constant(table))), i, axis=0)))
found = f(i)
makers = ("jitgraph.compilation", "jitgraph.passes.pipeline", "jitgraph.codegen.cuda", "jitgraph.codegen.lower")
print(found.cpu().numpy().tobytes().hex(), *[name for name in makers if name in sys.modules])
try:
    print(f(jg.asarray(np.array([3, 200, 0]), device="cuda")).cpu())
except IndexError as error:
    print("line", *[line.split(":")[-1] for line in str(error).splitlines() if " at " in line])
low = f.lower(i).compile()
print(low.lowered.runnable.is_found, len(low.ptx), len(low.llvm_ir), len(str(low.lowered.kernels)))
"""


def test_a_later_process_finds_code_for_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_CUDA", "simulated")
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    first, second = (in_child(PROCESS).splitlines() for _ in range(2))
    assert first[0].split()[0] == second[0] and len(first[0].split()) == 5  # the makers are not loaded again
    assert first[1] == second[1] and first[1].startswith("line")
    assert first[2].replace("False", "True") == second[2] and second[2].startswith("True")
