"""Eager results and gradients have the bits of a trace: every op of the table, however its operands lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.compiler import compile
from jitgraph.eager import launch, tape
from jitgraph.eager.kernels import is_pointwise
from jitgraph.eager.rules import gains_by_sizes, is_compiled
from jitgraph.eager.tape import EagerValue
from jitgraph.ir.builder import GraphBuilder, decomposition
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS
from jitgraph.passes.reverse import Reverse
from tests.op_loop import case_of, cases, label, require_same

TRIED = ("bf16", "f32", "i32")

assert jg.Tensor  # makes the eager emitter known
CASES = [
    (name, dtype)
    for name, dtype in cases()
    if OPS[name].kind not in ("control", "effect", "gradient") and dtypes.SHORT_NAMES[dtype] in TRIED
]


def taken(op: Op, dtype: Any) -> list[Sample]:
    assert op.samples is not None
    return [sample for sample in op.samples(dtype) if not sample.regions]


def apart(x: Any) -> EagerValue:
    """The array with gaps between its elements, and backwards in memory."""
    array = np.asarray(x)
    wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
    device = tuple(np.s_[::-2] for _ in array.shape)
    wide[device] = array
    return EagerValue(wide[device] if array.ndim else array)


def values(result: Any) -> list[Any]:
    return [value.array for value in (result if isinstance(result, Sequence) else [result])]


@pytest.mark.parametrize("case", CASES, ids=label)
def test_results_are_those_of_a_trace(case: tuple[str, Any]) -> None:
    op = OPS[case[0]]
    samples = taken(op, case[1])
    graph = case_of(op, samples)
    wanted = compile(graph.graph).run(list(graph.arguments))
    for device in (lambda x: EagerValue(np.asarray(x)), apart):
        results = [a for s in samples for a in values(op(*map(device, s.inputs), **s.attrs))]
        require_same(wanted, results, ulps=0.0)


DIFFERENTIABLE = [
    case
    for case in CASES
    if dtypes.SHORT_NAMES[case[1]] in ("f32", "bf16")
    and "nondifferentiable" not in OPS[case[0]].traits
    and (OPS[case[0]].vjp is not None or OPS[case[0]].decompose is not None)
]


class Traced:
    """The gradients of all samples as one compiled graph: by operand, None where none arrives."""

    def __init__(self, op: Op, samples: Sequence[Sample]) -> None:
        rng = np.random.default_rng(5)
        builder = GraphBuilder()
        arguments: list[Any] = []
        self.cotangents: list[list[Any]] = []
        results: list[list[Any]] = []
        for sample in samples:
            arrays = [np.asarray(x) for x in sample.inputs]
            inputs = [builder.input(TensorType(x.dtype, x.shape)) for x in arrays]
            outputs = builder.emit(op, inputs, sample.attrs, ())
            seeds = [value for value in outputs if dtypes.is_inexact(value.dtype)]
            given = [rng.uniform(0.5, 1.5, v.shape).astype(v.dtype) for v in seeds]
            weights = [builder.input(value.type) for value in seeds]
            arguments += [*arrays, *given]
            self.cotangents.append(given)
            wrt = [x for x in inputs if dtypes.is_inexact(x.dtype)]
            results.append(Reverse(builder).run(seeds, weights, wrt))
        kept = [value for values in results for value in values if value is not None]
        actual = iter(compile(builder.graph(kept)).run(arguments))
        self.gradients = [[None if value is None else next(actual) for value in values] for values in results]


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=label)
def test_gradients_are_those_of_a_trace(case: tuple[str, Any]) -> None:
    op = OPS[case[0]]
    samples = taken(op, case[1])
    traced = Traced(op, samples)
    for sample, cotangents, wanted in zip(samples, traced.cotangents, traced.gradients, strict=True):
        leaves = [apart(x) for x in sample.inputs]
        wrt = [i for i, x in enumerate(leaves) if dtypes.is_inexact(x.dtype)]
        for i in wrt:
            leaves[i] = leaves[i].recorded(tape.LeafRecord(jg.asarray(np.asarray(sample.inputs[i]))))
        result = op(*leaves, **sample.attrs)
        outputs = [v for v in (result if isinstance(result, Sequence) else [result]) if v.requires_grad]
        for create_graph in (False, True):
            actual = tape.sweep(
                outputs,
                [EagerValue(x) for x in cotangents] if outputs else [],
                targets=None,
                create_graph=create_graph,
                retain_graph=True,
            )
            for i, array in zip(wrt, wanted, strict=True):
                value = actual.get(leaves[i].record)
                assert (value is None) == (array is None)
                if value is not None:
                    require_same([array], [value.array], ulps=0.0, signs=False)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if dtypes.SHORT_NAMES[case[1]] == "f32" and gains_by_sizes(OPS[case[0]])],
    ids=label,
)
def test_kernels_for_given_sizes_have_the_same_bits(case: tuple[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """They take the place of those for named sizes that ran for long, here after one call."""
    monkeypatch.setattr(launch, "LONG", 0)
    for _ in range(2):
        test_results_are_those_of_a_trace(case)
        if case in DIFFERENTIABLE:
            test_gradients_are_those_of_a_trace(case)


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.decompose is not None])
def test_pointwise_composites_are_marked(name: str) -> None:
    """A composite is pointwise where its definition is elementwise on operands of one shape, and nothing else."""
    op, plain = OPS[name], []
    for dtype in dtypes.DTYPES:
        for sample in taken(op, dtype):
            types = tuple(TensorType(np.asarray(x).dtype, np.shape(x)) for x in sample.inputs)
            region = decomposition(op, types, sample.attrs, Constraints())
            kinds = {node.op.kind for node in region.walk() if node.op.decompose is None and node.op.parts is None}
            actual = {value.shape for node in region.walk() for value in node.outputs}
            actual |= {type.shape for type in types}
            plain.append(kinds <= {"elementwise", "creation"} and len(actual) == 1)
    assert all(plain) == ("pointwise" in op.traits)


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.kind == "elementwise"])
def test_math_functions_are_marked(name: str) -> None:
    """An elementwise op calls our math functions where it says so, and nowhere else."""

    class Body:
        called = False

        def __getattr__(self, word: str) -> Any:
            def apply(*operands: Any, **attrs: Any) -> Any:
                Body.called |= word == "call"
                return next((x for x in operands if isinstance(x, Body)), self)

            return apply

        dtype = np.dtype(np.float32)

    op = OPS[name]
    assert op.samples is not None and op.scalar is not None
    sample = next(
        s for s in (*taken(op, np.dtype(np.float32)), *taken(op, np.dtype(np.int32)), *taken(op, np.dtype(bool)))
    )
    op.scalar(Body(), *[Body() for _ in sample.inputs], **sample.attrs)
    assert Body.called == ("approximated" in op.traits)


def test_attributes_that_compare_equal_are_told_apart() -> None:
    x = EagerValue(np.array([-0.0, -1.0, 2.0], np.float32))
    for slope in (0.0, -0.0, 1.0):
        actual = OPS["leaky_relu"](x, negative_slope=slope).array
        wanted = np.where(x.array > 0, x.array, x.array * np.float32(slope))
        require_same([wanted], [actual], ulps=0.0)


def test_attributes_hold_no_floats_in_tuples() -> None:
    """Keys of rules compare tuples as they are: in them 1.0 would be 1."""

    def plain(x: Any) -> bool:
        return all(map(plain, x)) if isinstance(x, tuple) else type(x) in (int, str)

    for op in OPS.values():
        for dtype in dtypes.DTYPES if op.samples is not None and op.kind != "creation" else ():
            for sample in taken(op, dtype):
                assert all(plain(x) for x in sample.attrs.values() if isinstance(x, tuple)), op


def test_what_runs_compiled_code_follows_from_the_op() -> None:
    single, full = np.dtype(np.float32), np.dtype(np.int32)
    compiled = {name for name, op in OPS.items() if is_compiled(op, (single, single), {})}
    assert {"exp", "dot", "conv", "reduce_sum", "softmax", "gelu", "linear", "cross_entropy"} <= compiled
    assert compiled.isdisjoint({"add", "mul", "sqrt", "cast", "reshape", "gather", "eq", "sign"})
    assert not is_compiled(OPS["dot"], (full, full), {}) and is_pointwise(OPS["add"])
