"""The loop over the op table: one graph for each op and dtype with all samples as outputs, and how results compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import DTypeError, GraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS

# What compiled code has no buffers for: tokens and stacks as arguments, effects in Python; and grad, a pass's business.
NOT_COMPILED = frozenset({"grad", "token", "print", "stack_new", "stack_push", "stack_pop"})


@dataclass(frozen=True)
class Case:
    """A graph of some samples, and arguments for it."""

    graph: Graph
    arguments: tuple[Any, ...]
    samples: int


def cases() -> list[tuple[str, dtypes.DType]]:
    """Every op with every dtype for which it has samples."""
    return [
        (name, dtype)
        for name, op in OPS.items()
        if name not in NOT_COMPILED and op.samples is not None
        for dtype in dtypes.DTYPES
        if op.samples(dtype)
    ]


def is_complex(case: tuple[str, dtypes.DType]) -> bool:
    """Whether an op takes or gives complex numbers, which a pass takes apart before there are kernels."""
    graph = samples_of(*case).graph
    return any(value.dtype in dtypes.COMPLEX for value in (*graph.inputs, *graph.outputs))


def label(case: tuple[str, dtypes.DType]) -> str:
    return f"{case[0]}-{dtypes.SHORT_NAMES[case[1]]}"


def case_of(op: Op, samples: Sequence[Sample]) -> Case:
    """One graph in which every sample is a node, and all of their outputs are outputs."""
    builder = GraphBuilder()
    arguments: list[Any] = []
    outputs = []
    with context.using(emitter=builder, constraints=builder.constraints):
        for sample in samples:
            arrays = [np.asarray(x) for x in sample.inputs]
            inputs = [builder.input(TensorType(x.dtype, x.shape)) for x in arrays]
            arguments += arrays
            outputs += builder.emit(op, inputs, sample.attrs, sample.regions)
    return Case(builder.graph(outputs, op.name), tuple(arguments), len(samples))


def samples_of(name: str, dtype: dtypes.DType) -> Case:
    op = OPS[name]
    assert op.samples is not None
    return case_of(op, op.samples(dtype))


def samples_by_names(name: str, dtype: dtypes.DType) -> Case:
    """The samples that can have a name for every extent of their inputs, in one graph."""
    op = OPS[name]
    assert op.samples is not None
    taken = [sample for sample in op.samples(dtype) if _takes_names(op, sample)]
    builder = GraphBuilder()
    outputs = [value for sample in taken for value in _by_names(builder, op, sample)]
    arguments = [np.asarray(x) for sample in taken for x in sample.inputs]
    return Case(builder.graph(outputs, op.name), tuple(arguments), len(taken))


def _takes_names(op: Op, sample: Sample) -> bool:
    if sample.regions or not any(np.ndim(x) for x in sample.inputs):
        return False
    builder = GraphBuilder()
    try:
        outputs = _by_names(builder, op, sample)
        interpret(builder.graph(outputs, op.name), [np.asarray(x) for x in sample.inputs])
    except (ShapeError, DTypeError, GraphError):
        return False
    return True


def _by_names(builder: GraphBuilder, op: Op, sample: Sample) -> Sequence[Any]:
    arrays = [np.asarray(x) for x in sample.inputs]
    types = [TensorType(x.dtype, tuple(Dim.name(f"n{extent}") for extent in x.shape)) for x in arrays]
    with context.using(emitter=builder, constraints=builder.constraints):
        return builder.emit(op, [builder.input(type) for type in types], sample.attrs, ())


def as_stored(x: Any) -> Any:
    """Complex numbers as memory has them: floats with a last axis of two, which executors of kernels give."""
    return np.stack([x.real, x.imag], axis=-1) if dtypes.is_complex(x.dtype) else x


def require_same(
    expected: Sequence[Any], actual: Sequence[Any], *, ulps: float, scale: float = 1.0, signs: bool = True
) -> None:
    """Equal dtypes, shapes and values: bit for bit (any NaN equals any other), or to ``ulps`` of the dtype.

    ``scale`` is the magnitude below which an error counts as one of that magnitude; without ``signs``, -0.0 is 0.0.
    """
    assert len(expected) == len(actual)
    for number, (want, got) in enumerate(zip(expected, actual, strict=True)):
        want, got = np.asarray(want), np.asarray(got)
        if dtypes.is_complex(want.dtype) or dtypes.is_complex(got.dtype):
            want, got = as_stored(want), as_stored(got)
            signs = signs and not ulps  # of a part that is nothing beside the other
        assert (want.dtype, want.shape) == (got.dtype, got.shape), f"output {number}"
        if not dtypes.is_float(want.dtype):
            np.testing.assert_array_equal(got, want, err_msg=f"output {number}")
            continue
        with np.errstate(all="ignore"):
            same = (want == got) & ((not signs) | (np.signbit(want) == np.signbit(got))) | np.isnan(want) & np.isnan(
                got
            )
            if ulps:
                wide, other = want.astype(np.float64), got.astype(np.float64)
                step = dtypes_eps(want.dtype) * np.maximum(np.abs(wide), scale)
                same |= np.abs(wide - other) <= ulps * step
        assert np.all(same), f"output {number}: {got[~same]} is not {want[~same]}"


# What a GPU computes by products and the CPU by butterflies; errors of sums of all elements are measured by their norm.
TRANSFORMS = frozenset({"dft", "dft_of_real", "dft_to_real", "fft", "rfft", "irfft"})
TRANSFORM_ULPS = 12.0  # 1.5 log2 of the size of the longest sample: the errors of two transforms


def require_same_transforms(expected: Sequence[Any], actual: Sequence[Any], *, ulps: float = TRANSFORM_ULPS) -> None:
    """Equal dtypes and shapes, and a difference whose 2-norm is at most ``ulps`` of that of the values."""
    assert len(expected) == len(actual)
    for number, (want, got) in enumerate(zip(expected, actual, strict=True)):
        want, got = as_stored(np.asarray(want)), as_stored(np.asarray(got))
        assert (want.dtype, want.shape) == (got.dtype, got.shape), f"output {number}"
        wide, other = want.astype(np.float64), got.astype(np.float64)
        error = np.linalg.norm(wide - other)
        assert error <= ulps * dtypes_eps(want.dtype) * np.linalg.norm(wide), f"output {number}: {error}"


def dtypes_eps(dtype: dtypes.DType) -> float:
    """The distance from 1 to the next value of a float dtype."""
    return 2.0**-7 if dtype == dtypes.bfloat16 else float(np.finfo(dtype).eps)
