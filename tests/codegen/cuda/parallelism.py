"""How each nest of an op is spread over a GPU's threads, and how many steps each of them walks: a table.

``python -m tests.codegen.cuda.parallelism`` prints it for operands of about a million elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.codegen.cuda.launches import LaunchNest, is_pure, launch_nests_of
from jitgraph.codegen.cuda.team import is_shared
from jitgraph.codegen.kernels.kernel import Body, Contract, Loop, bodies_of
from jitgraph.codegen.kernels.schedule import Launch
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS
from tests.codegen.cuda.launched import SM_90, code_of, schedule_of
from tests.op_loop import NOT_COMPILED

LONG: Final = 1 << 20
_WIDE: Final = (64, 1 << 14)

Operands = Sequence[tuple[Any, tuple[int, ...]]]

_F, _I, _C = dtypes.float32, dtypes.int64, dtypes.complex64
_ROWS: Final[Operands] = [(_F, (LONG,))]
SORTED: Final = {"axis": 0, "descending": False, "stable": True}
_POOL: Final = {"kernel": (2, 2), "strides": (2, 2), "padding": ((0, 0), (0, 0))}
_CONV: Final = {"strides": (1,), "padding": ((0, 0),), "lhs_dilation": (1,), "rhs_dilation": (1,), "groups": 1}
_CONV_ND: Final = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
_DOUBLING: Final = {"strides": (2, 2), "padding": (1, 1), "output_padding": (0, 0), "dilation": (1, 1), "groups": 1}
_ATTENTION: Final = {"scale": 0.25, "causal": False, "dropout": 0.0}
_IMAGES: Final = (8, 16, 96, 96)

LARGE: Final[Mapping[str, tuple[Operands, dict[str, Any]]]] = {
    "full": ((), {"shape": (LONG,), "value": 1.0, "dtype": _F}),
    "iota": ((), {"shape": (LONG,), "axis": 0, "dtype": _F}),
    "random_bits": ([(dtypes.uint64, (2,))], {"shape": (LONG,)}),
    "uniform": ([(dtypes.uint64, (2,))], {"shape": (LONG,), "dtype": _F}),
    "normal": ([(dtypes.uint64, (2,))], {"shape": (LONG,), "dtype": _F}),
    "dropout": ([(_F, (LONG,)), (dtypes.uint64, (2,))], {"p": 0.5}),
    "reshape": ([(_F, _WIDE)], {"shape": (LONG,)}),
    "transpose": ([(_F, _WIDE)], {"permutation": (1, 0)}),
    "flip": (_ROWS, {"axes": (0,)}),
    "broadcast": ([(_F, ())], {"shape": (LONG,), "axes": ()}),
    "slice": (_ROWS, {"starts": (1,), "stops": (LONG,), "strides": (1,)}),
    "pad": ([(_F, (LONG,)), (_F, ())], {"low": (1,), "high": (2,), "interior": (0,)}),
    "concat": ([(_F, (LONG,)), (_F, (LONG,))], {"axis": 0}),
    "dot": ([(_F, (512, 512)), (_F, (512, 512))], {"batch": ((), ()), "contract": ((1,), (0,))}),
    "conv": ([(_F, (8, 16, 1 << 13)), (_F, (16, 16, 3))], _CONV),
    "conv_nd": ([(_F, _IMAGES), (_F, (16, 16, 3, 3)), (_F, (16,))], _CONV_ND),
    "conv_transpose_nd": ([(_F, (8, 16, 48, 48)), (_F, (16, 16, 4, 4)), (_F, (16,))], _DOUBLING),
    "complex_dot": ([(_C, (512, 512)), (_C, (512, 512))], {"batch": ((), ()), "contract": ((1,), (0,))}),
    "of_pairs": ([(_F, (LONG, 2))], {}),
    "dft": ([(_F, (1 << 14, 60, 1, 2))], {"inverse": False, "scale": 1.0}),
    "dft: columns": ([(_F, (8, 60, 1 << 11, 2))], {"inverse": True, "scale": 1.0}),
    "dft_of_real": ([(_F, (1 << 14, 60))], {"scale": 1.0}),
    "dft_to_real": ([(_F, (1 << 14, 31, 2))], {"n": 60, "scale": 1.0}),
    "dft_to_real: odd": ([(_F, (1 << 14, 31, 2))], {"n": 61, "scale": 1.0}),
    "fft": ([(_C, (1 << 14, 60))], {"axis": 1, "inverse": False, "scale": 1.0}),
    "rfft": ([(_F, (1 << 14, 60))], {"axis": 1, "scale": 1.0}),
    "irfft": ([(_C, (1 << 14, 31))], {"axis": 1, "n": 60, "scale": 1.0}),
    "linear": ([(_F, (512, 512)), (_F, (512, 512)), (_F, (512,))], {}),
    "gather": ([(_F, (LONG,)), (_I, (LONG,))], {"axis": 0}),
    "embedding": ([(_F, (1 << 14, 64)), (_I, (1 << 14,))], {}),
    "scatter": ([(_F, (LONG,)), (_I, (LONG,)), (_F, (LONG,))], {"axis": 0}),
    "scatter_add": ([(_F, (LONG,)), (_I, (LONG,)), (_F, (LONG,))], {"axis": 0}),
    "dynamic_slice": ([(_F, (LONG,)), (_I, ())], {"sizes": (LONG - 7,)}),
    "dynamic_update_slice": ([(_F, (LONG,)), (_F, (LONG - 7,)), (_I, ())], {}),
    "sort": (_ROWS, SORTED),
    "max_pool2d": ([(_F, _IMAGES)], _POOL),
    "avg_pool2d": ([(_F, _IMAGES)], {**_POOL, "count_include_pad": True}),
    "batch_norm": ([(_F, (16384, 64)), *[(_F, (64,))] * 4], {"eps": 1e-5}),
    "batch_norm_train": ([(_F, (16384, 64)), *[(_F, (64,))] * 2], {"eps": 1e-5}),
    "layer_norm": ([(_F, (1, LONG)), *[(_F, (LONG,))] * 2], {"num_axes": 1, "eps": 1e-5}),
    "nll_loss": ([(_F, (LONG, 3)), (_I, (LONG,))], {"reduction": "mean", "ignore_index": -100}),
    "attention": ([(_F, (1, 4, 512, 32))] * 3, _ATTENTION),
    "attention_gradient": ([*[(_F, (1, 4, 512, 32))] * 4, *[(_F, (1, 4, 512))] * 2], _ATTENTION),
    "cross_entropy": (
        [(_F, _WIDE), (_I, (64,))],
        {"reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0},
    ),
    "polygamma": (_ROWS, {"n": 1}),
    "reduce_sum: columns": ([(_F, (1 << 18, 5))], {"axes": (0,)}),
    "reduce_sum: long rows": ([(_F, (5, 1 << 18))], {"axes": (1,)}),
    "reduce_sum: outer and inner": ([(_F, (512, 5, 512))], {"axes": (0, 2)}),
    "reduce_sum: middle": ([(_F, (3, 1 << 16, 7))], {"axes": (1,)}),
    "argmax: columns": ([(_F, (1 << 18, 5))], {"axis": 0}),
    "argmin: middle": ([(_F, (3, 1 << 16, 7))], {"axis": 1}),
    "softmax: columns": ([(_F, (1 << 15, 33))], {"axis": 0}),
    "softmax: more columns": ([(_F, (1 << 13, 129))], {"axis": 0}),
    "cumsum: columns": ([(_F, (1 << 16, 17))], {"axis": 0}),
    "cumprod: rows": ([(_F, (17, 1 << 16))], {"axis": 1}),
    "cummax: short rows": ([(_F, (1 << 16, 17))], {"axis": 1}),
    "sort: columns": ([(_F, (1 << 16, 17))], {**SORTED, "axis": 0}),
    "sort: short rows": ([(_F, (1 << 16, 17))], {**SORTED, "axis": 1}),
    "scatter_add: rows": ([(_F, (1 << 14, 64)), (_I, (1 << 14,)), (_F, (1 << 14, 64))], {"axis": 0}),
    "scatter_add: few places": ([(_I, (10,)), (_I, (LONG,)), (_I, (LONG,))], {"axis": 0}),
    "scatter: columns": ([(_F, (64, 1 << 14)), (_I, (1 << 14,)), (_F, (64, 1 << 14))], {"axis": 1}),
    "clamp": (_ROWS, {"low": 1, "high": 3}),
    "mse_loss": ([(_F, (LONG,))] * 2, {"reduction": "mean"}),
    "l1_loss": ([(_F, (LONG,))] * 2, {"reduction": "mean"}),
}
"""Operands and attributes of ops, some in several shapes; other ops take operands and attributes like their samples."""

APART: Final = {
    "constant": "a buffer that is there",
    "check": "one bool",
    "scan": "its steps come one after another",
    "scatter_product": "a loop over its factors",
    "while": "its steps come one after another",
    "cond": "what is in it",
    "call": "what is in it",
    "custom_gradient": "what is in it",
    "recompute": "what is in it",
    "fused": "what is in it",
    "optimization_barrier": "no launch of its own",
    "eigenvalues": "one block for each matrix",
    "eigenvalue_gradient": "one block for each matrix",
    "singular_values": "one block for each matrix",
    "singular_value_gradient": "one block for each matrix",
}
"""Ops without an entry of their own in the table, and why."""


@dataclass(frozen=True)
class Row:
    """One launch: threads in all, and the steps of the longest loops in one of them."""

    op: str
    function: str
    blocks: int
    threads: int
    steps: int


def large_graph(name: str) -> Graph:
    """The op on large operands, as a graph."""
    operands, attrs = LARGE[name] if name in LARGE else _like_a_sample(name)
    builder = GraphBuilder()
    with context.using(emitter=builder, constraints=builder.constraints):
        inputs = [builder.input(TensorType(dtype, shape)) for dtype, shape in operands]
        outputs = builder.emit(OPS[name.partition(":")[0]], inputs, attrs, ())
    return builder.graph(outputs, "large")


def _like_a_sample(name: str) -> tuple[Operands, dict[str, Any]]:
    """One row of each operand of a sample, with its attributes."""
    op = OPS[name]
    assert op.samples is not None
    dtype = _F if op.samples(_F) else next(dtype for dtype in dtypes.DTYPES if op.samples(dtype))
    sample = op.samples(dtype)[0]
    attrs = dict(sample.attrs)
    if "axes" in attrs:
        attrs["axes"] = (0,)
    if "axis" in attrs:
        attrs["axis"] = 0
    arrays = [np.asarray(x) for x in sample.inputs]
    keys = [array.dtype == dtypes.uint64 and array.shape == (2,) for array in arrays]
    if any(keys) and "shape" in attrs:
        attrs["shape"] = (LONG,)
    shapes = [(2,) if key else (LONG,) if array.ndim else () for array, key in zip(arrays, keys, strict=True)]
    return [(array.dtype, shape) for array, shape in zip(arrays, shapes, strict=True)], attrs


def rows_of(name: str, target: Target = SM_90) -> Iterator[Row]:
    """The launches of an op on large operands."""
    schedule = schedule_of(large_graph(name), target)
    launches = iter(code_of(schedule, target).launches)
    for step in schedule.steps:
        assert isinstance(step, Launch)
        for nest in launch_nests_of(step.kernel):
            launch = next(launches)
            blocks = prod(int(extent) for extent in launch.grid)
            yield Row(name, launch.function, blocks, blocks * prod(launch.block), steps_of(nest, prod(launch.block)))


def steps_of(nest: LaunchNest, team: int) -> int:
    """The steps that one thread of a nest walks; an extent that is known at run time alone counts as one."""
    body = nest.body
    if body and isinstance(body[-1], Loop) and body[-1].kind == "vector" and all(map(is_pure, body[:-1])):
        body = body[-1].body  # a thread each
    return _steps(body, team)


def _steps(body: Body, team: int) -> int:
    most = 1
    for statement in body:
        inner = max(
            (
                _steps(each, 1 if isinstance(statement, Loop) and is_shared(statement) else team)
                for each in bodies_of(statement)
            ),
            default=1,
        )
        if isinstance(statement, Loop):
            extent = statement.extent if statement.span is None else statement.span
            turns = extent if isinstance(extent, int) else 1
            inner *= -(-turns // team) if is_shared(statement) else turns
        elif isinstance(statement, Contract):
            inner = statement.extents[2] if isinstance(statement.extents[2], int) else 1
        most = max(most, inner)
    return most


def names() -> list[str]:
    """The ops of the table that have launches, and some of them in other shapes."""
    ops = [
        name
        for name, op in OPS.items()
        if name not in NOT_COMPILED | set(APART) and op.lowering != "host" and op.samples
    ]
    return [*ops, *(name for name in LARGE if name not in OPS)]


def main() -> None:
    """Print the table."""
    for name in names():
        for row in rows_of(name):
            print(f"{row.op:28} {row.function:40} blocks {row.blocks:8} threads {row.threads:10} steps {row.steps:6}")


if __name__ == "__main__":
    main()
