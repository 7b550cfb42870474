"""Random programs through the whole road: interpreter, slow executor and native code agree, on any number of threads.

Executor and native code agree bit for bit. Both are judged against the interpreter as ``programs.assert_same`` says:
bit for bit where every op upstream is exact, within a propagated tolerance behind float sums and math functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from jitgraph.codegen.cpu import parallel
from jitgraph.compiler import compile
from jitgraph.dtypes import float32, is_bool, is_float
from jitgraph.ir import dims
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.runtime.executable import Executable
from jitgraph.runtime.loader import Runtime
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.op_loop import require_same
from tests.programs.arrays import Arrays, assert_same, programs
from tests.programs.smooth import assert_close, smooth_programs

ONE, TWO = Runtime(threads=1), Runtime(threads=2)
FIXTURE = HealthCheck.function_scoped_fixture  # it sets the same for every example


@pytest.fixture(autouse=True, scope="module")
def verified() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JITGRAPH_VERIFY", "1")
        yield


@pytest.fixture
def finely_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loop that can be shared among threads is, however little work it has."""
    monkeypatch.setattr(parallel, "CHUNK_WORK", 4)
    monkeypatch.setattr(parallel, "CHUNK_WORK", 4)
    monkeypatch.setattr(parallel, "BLOCK", 16)


def copies(arrays: Sequence[Any]) -> Arrays:
    return [np.array(x, order="C") for x in arrays]


def check(graph: Graph, arrays: Arrays, smooth: bool = False) -> Executable:
    """Run ``graph`` on every floor, with and without donation; the compiled graph."""
    wanted = interpret(graph, copies(arrays))
    compiled = compile(graph, donate=range(len(graph.inputs)))
    assert isinstance(compiled, Executable)
    schedule = compiled.stages.schedule
    executed = execute_schedule(schedule, arrays)
    if smooth:
        assert_close(executed, wanted, len(graph.nodes))
    else:
        assert_same(graph, executed, wanted)
    inputs = copies(arrays)
    require_same(executed, compiled.run(inputs), ulps=0.0)
    for before, after in zip(arrays, inputs, strict=True):
        assert before.tobytes() == after.tobytes(), "a call changed its argument"
    require_same(executed, execute_schedule(schedule, arrays, donate=True), ulps=0.0)
    require_same(executed, compiled.run(copies(arrays), donate=range(len(arrays))), ulps=0.0)
    return compiled


FOUND = {
    "a NaN of unusual bits, folded": """graph @folded(%x: f16[5]) -> f16[5] {
  %0: f16[5] = full() {dtype=f16, shape=[5], value=inf}
  %1: f16[5] = floor_divide(%0, %0)
  %2: f16[5] = add(%x, %1)
  return %2
}""",
    "a reduction without elements": """graph @nothing(%x: f32[3, 0], %y: f32[3]) -> f32[], f32[3] {
  %0: f32[] = reduce_max(%x) {axes=[0, 1]}
  %1: f32[] = reduce_max(%y) {axes=[0]}
  %2: f32[3] = reduce_sum(%x) {axes=[1]}
  %3: f32[] = add(%0, %1)
  return %3, %2
}""",
    "a contraction without elements": """graph @nothing(%x: i8[0, 3], %y: i8[m, 0, m]) -> i8[3], i8[m, m] {
  %0: i8[3] = dot(%x, %x) {batch=[[1], [1]], contract=[[0], [0]]}
  %1: i8[m, m] = dot(%y, %y) {batch=[[0, 2], [0, 2]], contract=[[1], [1]]}
  return %0, %1
}""",
    "a slice of a scan from a loop in it": """graph @nested(%x: f32[4, 3]) -> f32[4, 3], f32[4, 3] {
  %0: i64[] = full() {dtype=i64, shape=[], value=0}
  %1: i64[], %2: f32[4, 3], %3: f32[4, 3] = scan(%0, %x) {length=4, num_carries=1, num_xs=1, reverse=true} [
    graph @body(%n: i64[], %row: f32[3]) -> i64[], f32[3], f32[3] {
      %0: i64[], %1: f32[3] = while(%n, %row) {num_carries=2} [
        graph @condition(%i: i64[], %y: f32[3]) -> bool[] {
          %0: i64[] = full() {dtype=i64, shape=[], value=2}
          %1: bool[] = lt(%i, %0)
          return %1
        }
        graph @body(%i: i64[], %y: f32[3]) -> i64[], f32[3] {
          %0: i64[] = full() {dtype=i64, shape=[], value=1}
          %1: i64[] = add(%i, %0)
          %2: f32[3] = neg(%y)
          return %1, %2
        }
      ]
      %2: f32[3] = scan(%row) {length=3, num_carries=0, num_xs=1, reverse=false} [
        graph @body(%y: f32[]) -> f32[] {
          %0: f32[] = abs(%y)
          return %0
        }
      ]
      return %0, %1, %2
    }
  ]
  return %2, %3
}""",
}
"""The smallest graphs that once came out wrong."""


@pytest.mark.parametrize("name", FOUND)
def test_what_random_programs_found(name: str) -> None:
    graph = parse(FOUND[name])
    rng = np.random.default_rng(0)
    shapes = [tuple(dims.evaluate(dim, {"m": 2}) for dim in value.shape) for value in graph.inputs]
    check(graph, [rng.uniform(-2, 2, x).astype(value.dtype) for value, x in zip(graph.inputs, shapes, strict=True)])


@settings(max_examples=120)
@given(programs())
def test_random_programs(program: tuple[Graph, Arrays]) -> None:
    check(*program)


@settings(max_examples=40)
@given(programs(dtypes=[float32], max_nodes=24))
def test_float_programs(program: tuple[Graph, Arrays]) -> None:
    check(*program)


@settings(max_examples=80)
@given(smooth_programs())
def test_chains_of_floats(program: tuple[Graph, Arrays]) -> None:
    check(*program, smooth=True)


@settings(max_examples=40, suppress_health_check=[*settings().suppress_health_check, FIXTURE])
@given(program=programs(max_nodes=10))
def test_threads_do_not_change_a_bit(finely_cut: None, program: tuple[Graph, Arrays]) -> None:
    graph, arrays = program
    compiled = check(graph, arrays)
    one, two = (Executable(compiled.image, compiled.signature, runtime=runtime) for runtime in (ONE, TWO))
    for left, right in zip(one.run(arrays), two.run(arrays), strict=True):
        assert left.tobytes() == right.tobytes()


def resized(graph: Graph, arrays: Arrays, sizes: dict[str, int]) -> Arrays:
    """Arguments for other values of the named sizes: tame values where a shape has names, else as they were."""
    rng = np.random.default_rng(sum(sizes.values()))
    results = []
    for value, array in zip(graph.inputs, arrays, strict=True):
        shape = tuple(dims.evaluate(dim, sizes) for dim in value.type.shape)
        if shape != array.shape:
            drawn = rng.uniform(-2, 2, shape)
            array = (drawn if is_float(array.dtype) else drawn > 0 if is_bool(array.dtype) else abs(drawn)).astype(
                array.dtype
            )
        results.append(array)
    return results


@settings(max_examples=60)
@given(programs(max_nodes=10))
def test_code_for_named_sizes_serves_other_sizes(program: tuple[Graph, Arrays]) -> None:
    graph, arrays = program
    names = sorted({name for value in graph.inputs for dim in value.type.shape for name in dims.names(dim)})
    if not names:
        return
    compiled = compile(graph)
    assert isinstance(compiled, Executable)
    for sizes in ((0, 1), (7, 5), (1, 17)):
        others = resized(graph, arrays, dict(zip(names, sizes, strict=False)))
        wanted = interpret(graph, others)
        executed = execute_schedule(compiled.stages.schedule, others)
        assert_same(graph, executed, wanted)
        require_same(executed, compiled.run(others), ulps=0.0)
