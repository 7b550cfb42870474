"""How many graphs and objects typical programs compile, call by call: what clocks would show late, counts show at once.

The programs run in one process, and again in a second one that shares its cache. A graph is one call of the
pipeline, an object one module that LLVM makes code of; those that calls share (math functions, the pool) are counted
apart, as the first that needs one makes it for all.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

import pytest

from jitgraph.runtime import loader
from tests.processes import in_child

pytestmark = pytest.mark.skipif(not loader.cpu_levels(), reason="no native code here")

COUNTING = """
import json, os, threading
import numpy as np
os.environ["JITGRAPH_CACHE_DIR"] = {folder!r}
import jitgraph as jg
from jitgraph import compilation
from jitgraph.codegen.cpu.objects import ObjectStore
from jitgraph.codegen.llvm import machine

kind_here = threading.local()
assemble_unit, object_of, compiled = machine.assemble_unit, ObjectStore.object, compilation.compiled

def counted_object(self, unit, target, kind):
    kind_here.value = kind
    try:
        return object_of(self, unit, target, kind)
    finally:
        kind_here.value = None

def counted_assemble_unit(unit, target):
    kind = getattr(kind_here, "value", None)  # of the dispatcher, and of what LLVM makes first, no call waits for
    if kind not in (None, "dispatcher"):
        counts[-1]["objects" if kind == "unit" else "shared"] += 1
    return assemble_unit(unit, target)

def counted_compiled(*args):
    counts[-1]["graphs"] += 1
    return compiled(*args)

ObjectStore.object, machine.assemble_unit = counted_object, counted_assemble_unit
compilation.compiled = counted_compiled

def call(function, *args):
    counts.append(dict(graphs=0, objects=0, shared=0))
    return function(*args)

def array(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)

jg.random.seed(0)
result = dict()
for name, text in json.loads({programs!r}).items():
    counts = [dict(graphs=0, objects=0, shared=0)]  # for what a program needs before its first call
    exec(text)
    result[name] = [list(count.values()) for count in counts[1:]]
print(json.dumps(result))
"""


class Program(NamedTuple):
    """A program that calls ``call``, and for each call how many graphs and at most how many objects it compiles."""

    text: str
    calls: tuple[tuple[int, int], ...]


PROGRAMS: Final = {
    "the same call": Program(
        """
f = jg.trace(lambda x, y: jg.tanh(x * y) + x)
for factor in 1, 2, 3:
    call(f, factor * array(1000), array(1000))
""",
        ((1, 2), (0, 0), (0, 0)),
    ),
    "new shapes": Program(
        """
f = jg.trace(lambda x: jg.softmax(x * 2, axis=1))
for rows in 8, 9, 10, 11, 100:
    call(f, array(rows, 32))
""",
        ((1, 2), (1, 2), (0, 0), (0, 0), (0, 0)),
    ),
    "declared shapes": Program(
        """
f = jg.trace(lambda x: jg.softmax(x * 2, axis=1), dynamic_shapes={"x": {0: "rows"}})
for rows in 8, 9, 100:
    call(f, array(rows, 32))
""",
        ((1, 0), (0, 0), (0, 0)),  # the code is that of the program before, whose sizes got names
    ),
    "changed numbers": Program(
        """
f = jg.trace(lambda x, scale, count: x * scale + count)
for scale, count in (0.5, 1), (0.25, 2), (0.125, 3), (4.0, 4):
    call(f, array(100), scale, count)
""",
        ((1, 2), (1, 2), (0, 0), (0, 0)),
    ),
    "another function of the same code": Program(
        """
def maker():
    return jg.trace(lambda x: jg.exp(x) - 1)
for _ in range(3):
    call(maker(), array(100))
""",
        ((1, 2), (0, 0), (0, 0)),
    ),
    "a training step": Program(
        """
model = jg.nn.Sequential(jg.nn.Linear(16, 32), jg.nn.GELU(), jg.nn.Linear(32, 4))
optimizer = jg.optim.Adam(model.parameters(), lr=1e-3)

@jg.trace
def step(x, y):
    loss = jg.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

for batch in 8, 8, 8, 12, 16:
    call(step, array(batch, 16), np.arange(batch) % 4)
optimizer.param_groups[0]["lr"] = 1e-4
call(step, array(16, 16), np.arange(16) % 4)
""",
        ((1, 3), (0, 0), (0, 0), (1, 5), (0, 0), (0, 0)),
    ),
}


Counts = dict[str, list[list[int]]]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> list[Counts]:
    """The counts of two processes one after the other."""
    texts = json.dumps({name: program.text for name, program in PROGRAMS.items()})
    code = COUNTING.format(folder=str(tmp_path_factory.mktemp("cache")), programs=texts)
    return [json.loads(in_child(code)) for _ in range(2)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_compiles_what_it_needs_and_no_more(name: str, processes: list[Counts]) -> None:
    expected, counts = PROGRAMS[name].calls, processes[0][name]
    assert [graphs for graphs, _, _ in counts] == [graphs for graphs, _ in expected]
    assert all(objects <= most for (_, objects, _), (_, most) in zip(counts, expected, strict=True)), counts
    assert all(shared == 0 for graphs, _, shared in counts if not graphs), counts


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_process_compiles_nothing(name: str, processes: list[Counts]) -> None:
    assert any(objects for counts in processes[0].values() for _, objects, _ in counts)
    assert processes[1][name] == [[0, 0, 0]] * len(PROGRAMS[name].calls)
