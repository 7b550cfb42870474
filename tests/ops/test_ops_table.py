"""The loop over the op table by itself: types, evaluations, index maps, scalar bodies and gradients agree."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
import pytest

from jitgraph import dtypes, ops
from jitgraph.codegen.lower import select
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.schedules.gpu import GPU
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir import op as table
from jitgraph.ir.builder import GraphBuilder, build
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import AtIndex, Nest, Op, ScheduleStep, Trait
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS
from jitgraph.ops.effects import Stack, Token
from jitgraph.ops.numeric import widen
from jitgraph.ops.scalar_numpy import NumpyScalars
from tests.bits import same_bits
from tests.coverage_table import note
from tests.graphs import graph_of, type_of

FLOAT64 = dtypes.float64
BY_REGIONS = {name for name, op in OPS.items() if op.control or op.kind == "gradient"}  # for transforms, no evaluation
CASES = [
    pytest.param(op, dtype, id=f"{name}-{dtype.name}")
    for name, op in OPS.items()
    for dtype in dtypes.DTYPES
    if op.samples(dtype)
]
FLOAT_CASES = [op for op in OPS.values() if op.samples(FLOAT64)]


OF_REGIONS = {"ruled_by_region", "recomputed"}  # traits of composites that have no definition but their regions


def test_table_is_whole():
    primitives = [op for op in OPS.values() if op.kind != "composite"]
    assert len(primitives) >= 70
    for name, op in OPS.items():
        assert op.name == name
        assert op.doc, name
        if op is ops.custom_call:  # whose function no table has
            continue
        assert any(op.samples(dtype) for dtype in dtypes.DTYPES), f"{name} has no samples"
        if op.kind == "composite":
            assert op.decompose or op.traits & OF_REGIONS, name
            assert op.evaluate is None or op.is_whole, f"{name} has two meanings"
            continue
        assert op.vjp or "nondifferentiable" in op.traits or name in BY_REGIONS, f"{name} has no gradient"
        assert op.evaluate or name in BY_REGIONS, f"{name} has no evaluation"
        assert (op.scalar is not None) == (op.kind == "elementwise" or name == "random_bits"), name
        assert (op.index_map is not None) == (op.kind == "movement"), name
        assert op.reduction or op.kind != "reduce", name


def test_every_op_is_found_by_its_name() -> None:
    """An op of the table, and none that only shares a name with one, whatever family has been loaded."""
    assert set(OPS) <= set(table.all_ops())
    for op in OPS.values():
        assert table.has(op), op.name
        assert not table.has(replace(op)), op.name


def test_the_stub_names_every_op() -> None:
    named = {value.name for name in ops.__all__ if isinstance(value := getattr(ops, name), Op)}
    assert named <= set(OPS)
    assert set(OPS) <= named, f"jitgraph/ops/__init__.pyi does not name {', '.join(sorted(set(OPS) - named))}"
    with pytest.raises(AttributeError, match=r"module 'jitgraph\.ops' has no attribute 'no_such_op'"):
        ops.no_such_op  # noqa: B018


def test_traits_and_lowerings_are_those_that_ops_have():
    of_no_graph = {"fused_op"}
    assert {trait for op in OPS.values() for trait in op.traits} == {*get_args(Trait)} - of_no_graph
    named = {op.lowering for op in OPS.values() if op.lowering}
    of_users = {"host"}
    assert named | of_users == {*get_args(AtIndex), *get_args(Nest), *get_args(ScheduleStep)}
    of_gpus = {"attention", "attention_gradient"}
    assert set(CPU.anchors) == {*get_args(Nest)} - of_gpus
    assert set(GPU.anchors) == {*get_args(Nest)} - {*FOURIER, "search", "slide", "first_positions", "ranked_positions"}
    assert set(select.INLINE) == {*get_args(AtIndex), "elementwise", "movement", "reduce"}


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_types_agree_with_values(op, dtype):
    for sample in op.samples(dtype):
        if op.name == "grad":
            continue
        graph = graph_of(op, sample)
        for got, output in zip(interpret(graph, sample.inputs), graph.outputs, strict=True):
            if not isinstance(got, Stack | Token):
                assert isinstance(got, np.ndarray) and type_of(got) == output.type, sample
        note(op.name, "interpreter")


def symbolic(type, names):
    """Extents from 2 up replaced by names, one name for each extent."""
    return TensorType(type.dtype, tuple(Dim.name(f"n{d}") if d in names else d for d in type.shape))


def symbolic_attr(key, value, names):
    if key == "length":
        return Dim.name(f"n{value}") if value in names else value
    if key in ("shape", "sizes"):
        return tuple(Dim.name(f"n{d}") if d in names else d for d in value)
    return value


FOURIER = {"dft": -3, "dft_of_real": -1, "dft_to_real": -2}  # and the axis of each


def with_names(op, sample):
    """The sample's types and attributes with names for extents, and the names' values.

    Channels and axes of Fourier transforms stay numbers.
    """
    types = [type_of(x) for x in sample.inputs]
    convolutions = ("conv", "conv_nd", "conv_transpose_nd")
    fixed = {types[0].shape[1], *types[1].shape[:2], *types[-1].shape[:1]} if op.name in convolutions else set()
    if op.name in ("fft", "rfft", "irfft"):
        fixed = {types[0].shape[sample.attrs["axis"]]}
    if op.name in FOURIER:
        fixed = {2, types[0].shape[FOURIER[op.name]]}
    if op.name == "of_pairs":
        fixed = {2}
    if op.name in ("search", "first_positions"):
        fixed = set(types[0].shape)
    extents = {d for type in types if type.dtype != dtypes.uint64 for d in type.shape if d >= 2} - fixed
    named = [type if type.dtype == dtypes.uint64 else symbolic(type, extents) for type in types]
    attrs = {key: symbolic_attr(key, value, extents) for key, value in sample.attrs.items()}
    return named, attrs, {f"n{d}": d for d in extents}


NAMED = [
    op
    for op in OPS.values()
    if op.kind not in ("control", "effect") and not op.name.startswith("stack_") and not op.traits & OF_REGIONS
]


@pytest.mark.parametrize("op", [op for op in NAMED if op.name != "constant"], ids=lambda op: op.name)
def test_named_sizes_agree_with_numbers(op):
    for sample in op.samples(dtypes.float32):
        named, attrs, sizes = with_names(op, sample)
        builder = GraphBuilder()
        with context.using(emitter=builder, constraints=builder.constraints):
            results = builder.emit(op, [builder.input(type) for type in named], attrs, ())
        concrete = graph_of(op, sample).outputs
        for got, wanted in zip(results, concrete, strict=True):
            shape = tuple(dims.evaluate(d, sizes) for d in got.shape)
            assert TensorType(got.dtype, shape) == wanted.type, (sample.attrs, named)
        for constraint in builder.constraints:
            assert constraint.holds(sizes), (constraint, sample.attrs, named)
        # what was assumed is enough to derive the same types again, with nothing assumed
        with context.using(constraints=Constraints(builder.constraints, frozen=True)):
            region = builder.nodes[-1].regions
            assert op.output_types(named, attrs, region) == tuple(value.type for value in results)
        note(op.name, "named sizes")


def holds(condition):
    return all(left >= right if relation == ">=" else left < right for left, relation, right in condition)


MOVEMENT = [op for op in OPS.values() if op.kind == "movement"]


@pytest.mark.parametrize("op", MOVEMENT, ids=lambda op: op.name)
def test_index_map_says_where_elements_come_from(op):
    for sample in op.samples(dtypes.int64):
        types = [type_of(x) for x in sample.inputs]
        wanted = op.evaluate(*sample.inputs, **sample.attrs)
        axes = [Dim.name(f"_i{axis}") for axis in range(wanted.ndim)]
        reads = op.index_map(tuple(axes), *types, **sample.attrs)
        for position in product(*map(range, wanted.shape)):
            at = {f"_i{axis}": i for axis, i in enumerate(position)}
            for read in reads:
                condition = [
                    (dims.evaluate(a, at), relation, dims.evaluate(b, at)) for a, relation, b in read.condition
                ]
                if holds(condition):
                    break
            else:
                raise AssertionError((sample.attrs, position))
            index = tuple(dims.evaluate(d, at) for d in read.index)
            source = sample.inputs[read.operand]
            assert all(0 <= i < n for i, n in zip(index, source.shape, strict=True)), (sample.attrs, position, index)
            assert source[index] == wanted[position], (sample.attrs, position, index)


def test_reshape_keeps_aligned_axes_plain():
    from jitgraph.ops.movement import reshaped_index

    b, i, j, k = (Dim.name(name) for name in ("b", "_i0", "_i1", "_i2"))
    assert reshaped_index((i, j), (b, 784), (b, 28, 28)) == (i, j // 28, j % 28)
    assert reshaped_index((i, j, k), (b, 28, 28), (b, 784)) == (i, j * 28 + k)
    assert reshaped_index((i, j, k), (b, 1, 5), (b, 5)) == (i, k)
    assert reshaped_index((i,), (b * 12,), (b, 3, 4)) == (i // 12, (i // 4) % 3, i % 4)
    assert reshaped_index((i, j), (2, 6), (4, 3)) == (2 * i + j // 3, j % 3)
    assert reshaped_index((i, j), (b * 2, 3), (b, 2, 3)) == (i // 2, i % 2, j)


class ApproximateError(Exception):
    """The body calls a math function."""


class ExactScalars(NumpyScalars):
    """The scalar ops without math functions, which are approximations with a test of their own."""

    def call(self, function, *args):
        raise ApproximateError(function)


ELEMENTWISE = [param for param in CASES if param.values[0].scalar and param.values[0].kind == "elementwise"]


@pytest.mark.parametrize(("op", "dtype"), ELEMENTWISE)
def test_scalar_body_agrees_with_evaluation(op, dtype):
    """Bit by bit, but for ops whose bodies call math functions, as the trait says: those have bounds instead."""
    for sample in op.samples(dtype):
        wanted = op.evaluate(*sample.inputs, **sample.attrs)
        arrays = sample.inputs if "storage" in op.traits else tuple(map(widen, sample.inputs))
        with np.errstate(all="ignore"):
            try:
                got = np.asarray(op.scalar(ExactScalars(arrays[0].dtype), *arrays, **sample.attrs)).astype(wanted.dtype)
            except ApproximateError:
                assert "approximated" in op.traits
                return
        assert "approximated" not in op.traits
        assert same_bits(got, wanted).all(), (sample.attrs, arrays, got, wanted)


def reduced(op, x, attrs, swapped):
    """Fold one element after another by the op's ``combine``, from ``init``; on which side alternates for indices."""
    s = NumpyScalars(x.dtype)
    init = op.reduction.init(x.dtype)
    axes = attrs["axes"] if "axes" in attrs else (attrs["axis"],)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    count = int(np.prod([x.shape[axis] for axis in axes]))
    rows = np.transpose(x, (*axes, *kept)).reshape((count, *(x.shape[axis] for axis in kept)))
    pair = isinstance(init, tuple)
    acc = tuple(np.full(rows.shape[1:], v, t) for v, t in zip(init, (x.dtype, np.int64), strict=True)) if pair else None
    if acc is None:
        acc = np.full(rows.shape[1:], init, x.dtype)
    for i, row in enumerate(rows):
        element = (row, np.full(row.shape, i, np.int64)) if pair else row
        # argmax's index breaks ties by itself, whichever side is the left one
        left, right = (element, acc) if pair and (i + swapped) % 2 else (acc, element)
        acc = op.reduction.combine(s, left, right)
    return acc[1] if pair else acc


REDUCTIONS = [param for param in CASES if param.values[0].kind == "reduce"]


@pytest.mark.parametrize(("op", "dtype"), REDUCTIONS)
def test_reduction_agrees_with_evaluation(op, dtype):
    for sample, swapped in product(op.samples(dtype), (0, 1)):
        (x,) = map(widen, sample.inputs)
        with np.errstate(all="ignore"):
            got = np.asarray(reduced(op, x, sample.attrs, swapped))
            wanted = op.evaluate(*sample.inputs, **sample.attrs)
            got = got.astype(wanted.dtype)
        if dtypes.is_float(dtype) and wanted.dtype == dtype:
            tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-12}[dtype.itemsize]
            np.testing.assert_allclose(widen(got), widen(wanted), rtol=tolerance, err_msg=str(sample))
        else:
            assert same_bits(got, wanted).all(), (sample, got, wanted)


def test_random_bits_scalar_is_the_stream():
    op = OPS["random_bits"]
    for sample in op.samples(dtypes.uint64):
        wanted = op.evaluate(*sample.inputs, **sample.attrs).reshape(-1)
        key = sample.inputs[0]
        with np.errstate(all="ignore"):
            got = op.scalar(NumpyScalars(key.dtype), key[0], key[1], np.arange(wanted.size))
        np.testing.assert_array_equal(got, wanted)
    # the known answer of the published test vectors: key and counter zero
    first = op.evaluate(np.zeros(2, np.uint64), shape=(4,))
    assert [f"{word:08x}" for word in first] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


def vjp_graph(op, sample, types=None, attrs=None):
    """The op's own rule as a graph: inputs and cotangents to the cotangents of float inputs."""
    types, attrs = types or [type_of(x) for x in sample.inputs], attrs or sample.attrs
    forward = graph_of(op, sample, types, attrs)
    floats = [i for i, type in enumerate(types) if dtypes.is_inexact(type.dtype)]
    seeds = [v.type for v in forward.outputs if dtypes.is_inexact(v.dtype)]

    def run(*values):
        inputs, operands = values[: len(types)], list(values[len(types) :])
        out = op(*inputs, **attrs)
        outs = out if isinstance(out, tuple) else (out,)
        cts = tuple(operands.pop(0) if dtypes.is_inexact(value.dtype) else None for value in outs)
        several = isinstance(out, tuple)
        gradients = op.vjp(cts if several else cts[0], out, *inputs, **attrs)
        assert len(gradients) == len(inputs)
        assert all(g is None for i, g in enumerate(gradients) if i not in floats), "an integer has no gradient"
        return [
            OPS["full"](shape=inputs[i].shape, value=0, dtype=inputs[i].dtype) if gradients[i] is None else gradients[i]
            for i in floats
        ]

    graph = build(run, [*types, *seeds], f"{op.name}_vjp")
    assert [value.type for value in graph.outputs] == [types[i] for i in floats]
    return forward, graph, floats, seeds


DOUBLES = (FLOAT64, dtypes.complex128)


def uniform(rng, low, high, type):
    """Random numbers of the type; the real and the imaginary parts each between the two bounds."""
    real = rng.uniform(low, high, type.shape)
    return (real + 1j * rng.uniform(low, high, type.shape) if dtypes.is_complex(type.dtype) else real).astype(
        type.dtype
    )


def central_difference(forward, inputs, at, direction, cotangents, step=1e-6):
    def value(sign):
        moved = list(inputs)
        moved[at] = moved[at] + sign * step * direction
        outs = [out for out in interpret(forward, moved) if dtypes.is_inexact(out.dtype)]
        return sum(np.sum(np.conj(ct) * out).real for out, ct in zip(outs, cotangents, strict=True))

    return (value(1) - value(-1)) / (2 * step)


STACKS = {"stack_push", "stack_pop"}  # their gradients are tried together, in ``ops/test_gradients.py``
COMPLEX = [op for op in OPS.values() if op.name in ("real", "imag") or op.name.startswith("complex")]
OWN_VJP = [op for op in FLOAT_CASES if op.vjp and op.name not in STACKS and not op.traits & OF_REGIONS]


def tame(op):
    """Samples where the op is smooth; those of complex ops hold special values, whose places random numbers take."""
    if op not in COMPLEX:
        return op.samples(FLOAT64)
    rng = np.random.default_rng(3)
    return [
        replace(sample, inputs=tuple(uniform(rng, 0.2, 1.2, type_of(x)) for x in sample.inputs), differentiable=True)
        for sample in op.samples(FLOAT64)
    ]


# of which results that are zeros have a gradient: tests/linalg/test_equal_values.py
LINKED = {"eigenvalues", "eigenvalue_gradient", "singular_values", "singular_value_gradient"}


@pytest.mark.parametrize("op", [op for op in OWN_VJP if op.name not in LINKED], ids=lambda op: op.name)
def test_gradient_agrees_with_central_differences(op):
    rng = np.random.default_rng(7)
    tried = 0
    for sample in tame(op):
        forward, graph, floats, seeds = vjp_graph(
            op, sample
        )  # also where it is not differentiable: the types are checked
        cotangents = [uniform(rng, 0.5, 1.5, type) for type in seeds]
        if any(type.dtype not in DOUBLES for type in seeds) or not seeds:
            continue
        gradients = interpret(graph, [*sample.inputs, *cotangents])
        if not sample.differentiable or any(sample.inputs[i].dtype not in DOUBLES for i in floats):
            continue
        for at, gradient in zip(floats, gradients, strict=True):
            direction = uniform(rng, -1, 1, type_of(gradient))
            wanted = central_difference(forward, sample.inputs, at, direction, cotangents)
            along = np.sum(np.conj(gradient) * direction).real  # the gradient points where the real loss grows
            np.testing.assert_allclose(along, wanted, rtol=2e-5, atol=2e-6, err_msg=str(sample))
            tried += 1
    assert tried


@pytest.mark.parametrize("op", [op for op in OWN_VJP if op in NAMED], ids=lambda op: op.name)
def test_gradient_by_named_sizes_agrees_with_numbers(op):
    rng = np.random.default_rng(5)
    for sample in op.samples(dtypes.float32):
        named, attrs, sizes = with_names(op, sample)
        _, concrete, _, seeds = vjp_graph(op, sample)
        _, graph, _, _ = vjp_graph(op, sample, named, attrs)
        assert all(constraint.holds(sizes) for constraint in graph.constraints), (sample.attrs, named)
        arguments = [*sample.inputs, *(uniform(rng, 0.5, 1.5, type) for type in seeds)]
        for left, right in zip(interpret(graph, arguments), interpret(concrete, arguments), strict=True):
            np.testing.assert_array_equal(left, right, err_msg=str(sample))


COMPLEX_FORMS = {"fft", "rfft", "irfft", "as_pairs", "of_pairs"}
OWN_VJP_IN_16_BITS = [  # LAPACK has no 16-bit routines, complex numbers no 16-bit parts
    op
    for op in OWN_VJP
    if op.lowering != "host" and op not in COMPLEX and op.name not in (*LINKED, *FOURIER, *COMPLEX_FORMS)
]


@pytest.mark.parametrize("op", OWN_VJP_IN_16_BITS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float16], ids=str)
def test_gradient_keeps_16_bit_dtypes(op, dtype):
    samples = op.samples(dtype)[:3]
    assert samples
    for sample in samples:
        vjp_graph(op, sample)  # checks the types


COMPOSITES = [op for op in FLOAT_CASES if op.decompose and op.vjp]


@pytest.mark.parametrize("op", COMPOSITES, ids=lambda op: op.name)
def test_composite_gradient_is_the_derived_one(op):
    from jitgraph.passes.autodiff import vjp_graph as derive

    plain = replace(op, vjp=None)
    rng = np.random.default_rng(11)
    for sample in op.samples(FLOAT64):
        if not sample.differentiable:
            continue
        _, own, floats, seeds = vjp_graph(op, sample)
        cotangents = [uniform(rng, 0.5, 1.5, type) for type in seeds]
        forward, backward = derive(graph_of(plain, sample), floats)
        results = interpret(forward, sample.inputs)
        residuals = results[len(seeds) :]
        derived = interpret(backward, [*residuals, *cotangents])
        for left, right in zip(interpret(own, [*sample.inputs, *cotangents]), derived, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-11, err_msg=str(sample))


def evaluate(name, *arrays, **attrs):
    return OPS[name].evaluate(*arrays, **attrs)


def run(name, *arrays, **attrs):
    graph = build(lambda *x: OPS[name](*x, **attrs), [type_of(x) for x in arrays])
    results = interpret(graph, arrays)
    return results[0] if len(results) == 1 else results


def test_integer_division_is_total():
    low = np.array([-128, -128, 7, -7, 0], np.int8)
    by = np.array([-1, 0, 0, 2, 0], np.int8)
    np.testing.assert_array_equal(evaluate("floor_divide", low, by), np.array([-128, 0, 0, -4, 0], np.int8))
    np.testing.assert_array_equal(evaluate("remainder", low, by), np.array([0, 0, 0, 1, 0], np.int8))


def test_shifts_are_total():
    x = np.array([-8, 8, -1, 1], np.int8)
    for count, left, right in [
        (8, [0, 0, 0, 0], [-1, 0, -1, 0]),
        (-1, [0, 0, 0, 0], [-1, 0, -1, 0]),
        (1, [-16, 16, -2, 2], [-4, 4, -1, 0]),
    ]:
        by = np.full(4, count, np.int8)
        np.testing.assert_array_equal(evaluate("shift_left", x, by), np.array(left, np.int8))
        np.testing.assert_array_equal(evaluate("shift_right", x, by), np.array(right, np.int8))


def test_casts_saturate():
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -2.9, 2.0**63, 255.5])
    assert evaluate("cast", x, dtype=dtypes.int64).tolist() == [
        0,
        2**63 - 1,
        -(2**63),
        2**63 - 1,
        -(2**63),
        2,
        -2,
        2**63 - 1,
        255,
    ]
    assert evaluate("cast", x, dtype=dtypes.uint8).tolist() == [0, 255, 0, 255, 0, 2, 0, 255, 255]
    assert evaluate("cast", x, dtype=dtypes.uint64).tolist() == [0, 2**64 - 1, 0, 2**64 - 1, 0, 2, 0, 2**63, 255]


@pytest.mark.parametrize("source", [dtypes.float64, dtypes.int64, dtypes.uint64, dtypes.int32], ids=str)
@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float16], ids=str)
def test_cast_to_16_bits_rounds_once(source, dtype):
    """Against the nearest of all finite values, the even one of two (by exact integers scaled up)."""
    bits = np.arange(0x7F80 if dtype == dtypes.bfloat16 else 0x7C00, dtype=np.uint16)
    values = bits.view(dtype).astype(np.float64)
    ties = (values[:-1] + values[1:]) / 2  # exact
    ties = ties[(ties > 100) & (ties < 2.0**30)] if source.kind != "f" else ties[ties > 1e-30]
    ties = ties if source.kind == "f" else ties[ties == np.floor(ties)]
    x = ties.astype(source)
    below, above = (np.nextafter(x, 0), np.nextafter(x, np.inf)) if source.kind == "f" else (x - 1, x + 1)
    at = np.searchsorted(values, ties)
    low, high = bits[at - 1], bits[at]
    np.testing.assert_array_equal(evaluate("cast", below, dtype=dtype).view(np.uint16), low)
    np.testing.assert_array_equal(evaluate("cast", above, dtype=dtype).view(np.uint16), high)
    np.testing.assert_array_equal(evaluate("cast", x, dtype=dtype).view(np.uint16), np.where(low % 2 == 0, low, high))


def test_wide_integers_round_once():
    near = 2**62 + 2**54  # between two bfloat16 values, and just beside
    x = np.array([near - 1, near, near + 1, -near - 1], np.int64)
    assert evaluate("cast", x, dtype=dtypes.bfloat16).astype(float).tolist() == [
        2.0**62,
        2.0**62,
        2.0**62 + 2.0**55,
        -(2.0**62) - 2.0**55,
    ]


def test_gather_out_of_range_raises():
    x = np.arange(3.0)
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index {index} is out of range for an axis of 3 elements"):
            evaluate("gather", x, np.array([0, index]), axis=0)
    with pytest.raises(IndexError, match="out of range"):
        evaluate("scatter_add", x, np.array([5]), np.ones(1), axis=0)


def test_last_of_duplicates_is_set_and_gets_the_gradient():
    x, indices, updates = np.zeros(3), np.array([1, -2, 0, 1]), np.array([10.0, 20.0, 30.0, 40.0])
    np.testing.assert_array_equal(evaluate("scatter", x, indices, updates, axis=0), [30.0, 40.0, 0.0])
    np.testing.assert_array_equal(evaluate("scatter_add", x, indices, updates, axis=0), [30.0, 70.0, 0.0])


def test_labels_out_of_range_raise():
    attrs = {"reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0}
    for label in (3, -1):
        with pytest.raises(IndexError, match="a label is not one of 3 classes"):
            run("cross_entropy", np.zeros((2, 3), np.float32), np.array([0, label]), **attrs)
    assert np.isnan(run("cross_entropy", np.zeros((2, 3), np.float32), np.array([-100, -100]), **attrs))


def test_composites_do_not_overflow():
    x = np.array([-200.0, 0.0, 200.0], np.float32)
    np.testing.assert_array_equal(run("sigmoid", x), np.array([0.0, 0.5, 1.0], np.float32))
    np.testing.assert_allclose(run("softplus", x), np.array([0.0, np.log(2), 200.0], np.float32), rtol=1e-6)
    np.testing.assert_allclose(run("softmax", x * 100, axis=0), [0.0, 0.0, 1.0])
    np.testing.assert_allclose(run("log_softmax", x, axis=0), [-400.0, -200.0, 0.0])
    np.testing.assert_array_equal(run("logsumexp", np.full(2, -np.inf), axes=(0,)), -np.inf)
    half = np.full((3000,), 60000.0, np.float16)
    assert run("mean", half, axes=(0,)) == np.float16(60000.0)
    assert run("var", half + half.dtype.type(0), axes=(0,), correction=0) == 0
    big = np.array([1e8, 1e8 + 1, 1e8 + 2])
    np.testing.assert_allclose(run("var", big, axes=(0,), correction=1), 1.0)


def test_pool_gradient_goes_to_the_first_of_ties():
    op = OPS["max_pool2d"]
    attrs = {"kernel": (2, 2), "strides": (2, 2), "padding": ((0, 0), (0, 0))}
    type = TensorType(FLOAT64, (1, 1, 2, 2))
    graph = build(lambda x, ct: op.vjp(ct, op(x, **attrs), x, **attrs), [type, TensorType(FLOAT64, (1, 1, 1, 1))])
    (gradient,) = interpret(graph, [np.ones((1, 1, 2, 2)), np.full((1, 1, 1, 1), 3.0)])
    assert gradient.ravel().tolist() == [3.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "x", "wanted"),
    [
        ("relu", [0.0, -1.0, 2.0], [0.0, 0.0, 1.0]),
        ("abs", [0.0, -1.0, 2.0], [0.0, -1.0, 1.0]),
        ("sigmoid", [0.0, -1000.0, 1000.0], [0.25, 0.0, 0.0]),
        ("softplus", [0.0, -1000.0, 1000.0], [0.5, 0.0, 1.0]),
    ],
)
def test_gradients_at_corners(name, x, wanted):
    op = OPS[name]
    type = TensorType(FLOAT64, (3,))
    graph = build(lambda v, ct: op.vjp(ct, op(v), v), [type, type])
    np.testing.assert_allclose(interpret(graph, [np.array(x), np.ones(3)])[0], wanted)


def test_equal_operands_of_maximum_share_the_gradient():
    type = TensorType(FLOAT64, (2,))
    graph = build(lambda x, y, ct: OPS["maximum"].vjp(ct, OPS["maximum"](x, y), x, y), [type] * 3)
    left, right = interpret(graph, [np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.ones(2)])
    assert (left.tolist(), right.tolist()) == ([0.5, 0.0], [0.5, 1.0])


def test_product_gradient_at_zeros():
    type = TensorType(FLOAT64, (3,))
    op = OPS["reduce_prod"]
    graph = build(lambda x, ct: op.vjp(ct, op(x, axes=(0,)), x, axes=(0,)), [type, TensorType(FLOAT64, ())])
    for x, wanted in [([0.0, 2.0, 3.0], [6.0, 0.0, 0.0]), ([0.0, 0.0, 3.0], [0.0, 0.0, 0.0])]:
        assert interpret(graph, [np.array(x), np.array(1.0)])[0].tolist() == wanted


def test_uniform_is_in_the_unit_interval_and_normal_is_normal():
    key = np.array([42, 0], np.uint64)
    for dtype in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        u = run("uniform", key, shape=(20000,), dtype=dtype).astype(float)
        z = run("normal", key, shape=(20000,), dtype=dtype).astype(float)
        assert u.min() >= 0 and u.max() < 1
        assert abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.003
        assert np.isfinite(z).all() and abs(z.mean()) < 0.03 and abs(z.var() - 1) < 0.05


MATRICES = {"batch": ((), ()), "contract": ((1,), (0,))}
LABELS = {"reduction": "mean", "ignore_index": -1, "label_smoothing": 0.0}


@pytest.mark.parametrize(
    ("name", "types", "attrs", "error", "message"),
    [
        ("add", ["f32[2, 3]", "f32[4]"], {}, ShapeError, r"add: the shapes of f32\[2, 3\], f32\[4\] differ"),
        ("add", ["f32[2, 3]", "f32[2, 4]"], {}, ShapeError, r"add\(f32\[2, 3\], f32\[2, 4\]\): axis 1: 3 and 4 differ"),
        ("add", ["f32[2]", "f64[2]"], {}, DTypeError, r"add: the dtypes of f32\[2\], f64\[2\] differ"),
        ("exp", ["i64[2]"], {}, DTypeError, r"exp takes a float dtype, not i64\[2\]"),
        ("shift_left", ["f32[2]", "f32[2]"], {}, DTypeError, "shift_left takes an integer"),
        ("reduce_sum", ["f32[2]"], {"axes": (1,)}, ShapeError, r"reduce_sum: axes \(1,\)"),
        ("reshape", ["f32[2, 3]"], {"shape": (5,)}, ShapeError, r"f32\[2, 3\] has 6 elements, not the 5 of \[5\]"),
        ("broadcast", ["f32[2]"], {"shape": (3,), "axes": (0,)}, ShapeError, r"output axis 0: 3 and 2 differ"),
        (
            "dot",
            ["f32[2, 3]", "f32[4, 5]"],
            MATRICES,
            ShapeError,
            "axis 1 of the left and 0 of the right: 3 and 4 differ",
        ),
        ("slice", ["f32[4]"], {"starts": (1,), "stops": (5,), "strides": (1,)}, ShapeError, "4 should be at least 5"),
        ("concat", ["f32[2, 3]", "f32[2, 4]"], {"axis": 0}, ShapeError, "axis 1: 3 and 4 differ"),
        ("gather", ["f32[4]", "i32[2]"], {"axis": 0}, DTypeError, r"gather takes int64 indices, not i32\[2\]"),
        ("argmax", ["f32[2, 0]"], {"axis": 1}, ShapeError, "has no element"),
        ("select", ["f32[2]", "f32[2]", "f32[2]"], {}, DTypeError, "bool condition"),
        ("full", [], {"shape": (2,), "value": 300, "dtype": dtypes.int8}, DTypeError, "300 is not a value of int8"),
        ("softmax", ["f32[2]"], {"axis": 1}, ShapeError, "softmax: axis 1"),
        ("cross_entropy", ["f32[2, 3]", "i64[4]"], LABELS, ShapeError, "2 and 4 differ"),
    ],
)
def test_errors_name_the_op_and_the_shapes(name, types, attrs, error, message):
    from jitgraph.ir.types import parse_type

    with pytest.raises(error, match=message):
        build(lambda *x: OPS[name](*x, **attrs), [parse_type(text) for text in types])


def test_a_named_size_never_broadcasts():
    b, c = Dim.name("b"), Dim.name("c")
    builder = GraphBuilder()
    x, y = builder.input(TensorType(FLOAT64, (b,))), builder.input(TensorType(FLOAT64, (c,)))
    with context.using(emitter=builder, constraints=builder.constraints):
        OPS["add"](x, y)
        OPS["broadcast"](x, shape=(3, b), axes=(1,))
    assert [str(constraint) for constraint in builder.constraints] == ["b == c"]
    frozen = Constraints(frozen=True)
    with context.using(emitter=builder, constraints=frozen), pytest.raises(ShapeError):
        OPS["add"].infer(x.type, y.type)


def test_cond_needs_equal_branches():
    type, wide = TensorType(FLOAT64, (2,)), TensorType(FLOAT64, (4,))
    then = build(lambda x: OPS["neg"](x), [type])
    other = build(lambda x: OPS["concat"](x, x, axis=0), [type])
    predicate = TensorType(dtypes.bool_, ())
    with pytest.raises(ShapeError, match=r"the branches give \(f64\[2\]\) and \(f64\[4\]\)"):
        OPS["cond"].infer(predicate, type, regions=(then, other))
    with pytest.raises(ShapeError, match=r"takes \(f64\[2\]\), not \(f64\[4\]\)"):
        OPS["cond"].infer(predicate, wide, regions=(then, then))
    assert isinstance(then, Graph)
