"""Random programs keep their value under every pass, and survive being written down and read again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from jitgraph.dtypes import DTYPES
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Op
from jitgraph.ir.parser import parse
from jitgraph.ir.printer import large_constants, print_graph
from jitgraph.ir.types import TensorType
from jitgraph.ir.verifier import verify
from jitgraph.passes.pipeline import PIPELINE, Pass, run
from tests.graphs import TARGET
from tests.programs.arrays import SAMPLED, Arrays, assert_same, programs, samples_of


def check_text(graph: Graph) -> None:
    constants = large_constants(graph)
    assert parse(print_graph(graph), constants=constants) == graph
    assert parse(print_graph(graph, full=True), constants=constants, elided=False) == graph
    assert parse(graph.canonical, constants=constants, elided=False).canonical == graph.canonical


def check_passes(graph: Graph, arrays: Arrays, alone: tuple[Pass, ...] = ()) -> None:
    """The pipeline keeps the value, and so does each of the passes in ``alone`` by itself."""
    wanted = interpret(graph, arrays)
    assert_same(graph, interpret(run(graph, TARGET, verify=True), arrays), wanted)
    for step in alone:
        after = run(graph, TARGET, (step,), verify=True)
        if after is not graph:
            assert_same(graph, interpret(after, arrays), wanted)


@settings(max_examples=100)
@given(programs())
def test_random_programs(program: tuple[Graph, Arrays]) -> None:
    graph, arrays = program
    verify(graph)
    check_text(graph)
    check_passes(graph, arrays, PIPELINE)


@settings(max_examples=30)
@given(programs())
def test_pipeline_twice_changes_nothing(program: tuple[Graph, Arrays]) -> None:
    once = run(run(program[0], TARGET), TARGET)
    assert run(once, TARGET) == once


@pytest.mark.parametrize("op", SAMPLED, ids=lambda op: op.name)
def test_every_op(op: Op) -> None:
    builder = GraphBuilder()
    arrays: Arrays = []
    outputs = []
    for sample in (sample for dtype in DTYPES for sample in samples_of(op, dtype)[:3]):
        inputs = [builder.input(TensorType(x.dtype, x.shape)) for x in sample.inputs]
        arrays += sample.inputs
        with context.using(emitter=builder, constraints=builder.constraints):
            result = op(*inputs, regions=sample.regions, **sample.attrs)
        outputs += result if isinstance(result, tuple) else [result]
    assert outputs
    graph = builder.graph(outputs, op.name)
    verify(graph)
    check_text(graph)
    check_passes(graph, arrays)
