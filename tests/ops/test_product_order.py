"""The order of dot and conv: blocks of 384 steps of fused multiply-adds, merged by a tree, the same wherever it runs.

Random data does not find a drifting sum: constant, sorted and alternating data do, and ties between two floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import jitgraph as jg
from jitgraph import ops
from jitgraph.codegen.kernels.kernel_text import print_schedule
from jitgraph.compiler import compile
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.ops.ordered_product import BLOCK_STEPS, fma32, fma64, merged
from jitgraph.runtime.executable import Executable
from jitgraph.tracing.call.backend import Bounded
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.bits import same_bits
from tests.graphs import compiled

Array = NDArray[Any]
LENGTHS = [0, 1, 7, 383, 384, 385, 768, 769, 1152, 1153, 1535, 1536, 1537, 2688, 2689, 6145]
SHAPES = [(1, 1), (1, 40), (3, 70), (5, 2), (40, 1), (13, 33), (30, 20)]  # of which each way of computing has some
THREADS = (1, 2, 5)

DATA: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "random": lambda rng, shape: rng.standard_normal(shape),
    "constant": lambda rng, shape: np.full(shape, 0.1),
    "sorted": lambda rng, shape: np.sort(rng.random(shape), axis=0),
    "alternating": lambda rng, shape: (1 - 2 * (np.arange(math.prod(shape)) % 2).reshape(shape)) * rng.random(shape),
    "ties": lambda rng, shape: rng.integers(1, 1 << 12, shape).astype(np.float64),  # sums halfway between two floats
    "tiny": lambda rng, shape: rng.standard_normal(shape) * 1e-22,  # whose products are subnormal
    "underflow": lambda rng, shape: -np.full(shape, 1e-30) * (-1.0) ** np.arange(shape[1]),
    "infinite": lambda rng, shape: np.where(rng.random(shape) < 1e-3, np.inf, rng.standard_normal(shape)),
    "nan": lambda rng, shape: np.where(rng.random(shape) < 1e-3, np.nan, 1e20 * rng.standard_normal(shape)),
}


def product(m: DimLike, n: DimLike, k: DimLike, dtype: Any = np.float32) -> Graph:
    """``x.T @ y`` of x[k, m] and y[k, n], as a weight gradient is."""
    types = [TensorType(np.dtype(dtype), (k, extent)) for extent in (m, n)]
    return build(lambda x, y: ops.dot(x, y, batch=((), ()), contract=((0,), (0,))), types)


def tree(sums: Sequence[Array]) -> Array:
    """T by its definition."""
    if len(sums) == 1:
        return sums[0]
    power = 1
    while 2 * power < len(sums):
        power *= 2
    return np.asarray(tree(sums[:power]) + tree(sums[power:]))


def by_definition(x: Array, y: Array) -> Array:
    """``x.T @ y``, step by step."""
    fma = fma64 if x.dtype == np.float64 else fma32
    sums = []
    with np.errstate(all="ignore"):
        for start in range(0, len(x), BLOCK_STEPS):
            total: Array = np.zeros((x.shape[1], y.shape[1]), x.dtype)
            for k in range(start, min(start + BLOCK_STEPS, len(x))):
                total = fma(x[k, :, None], y[k], total)
            sums.append(total)
        return tree(sums) if sums else np.zeros((x.shape[1], y.shape[1]), x.dtype)


def factors(data: str, m: int, n: int, k: int, dtype: Any = np.float32) -> list[Array]:
    rng = np.random.default_rng(m + n + k)
    with np.errstate(over="ignore"):
        return [np.ascontiguousarray(DATA[data](rng, (k, extent)).astype(dtype)) for extent in (m, n)]


def within_bound(x: Array, y: Array, actual: Array) -> bool:
    blocks = max(1, -(-len(x) // BLOCK_STEPS))
    factor = (BLOCK_STEPS + math.ceil(math.log2(blocks))) * 2.0**-24
    for column, row in zip(x.astype(np.float64).T, actual, strict=True):
        products = column[:, None] * y
        if (np.abs(row - products.sum(axis=0)) > factor * np.abs(products).sum(axis=0)).any():
            return False
    return True


def test_the_tree() -> None:
    for count in range(1, 70):
        names = [str(number) for number in range(count)]

        def spelled(names: list[str]) -> str:
            if len(names) == 1:
                return names[0]
            power = 1 << ((len(names) - 1).bit_length() - 1)
            return f"({spelled(names[:power])} {spelled(names[power:])})"

        assert merged(names, lambda x, y: f"({x} {y})") == spelled(names)
    assert merged([], max) is None


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
def test_the_evaluation_has_the_order(dtype: Any, data: str) -> None:
    for k in LENGTHS if dtype == np.float32 else [0, 1, 385, 1153]:
        graph = product(3, 2, k, dtype)
        x, y = factors(data, 3, 2, k, dtype)
        (actual,) = interpret(graph, [x, y])
        assert same_bits(actual, by_definition(x, y)).all(), k
    x, y = factors(data, 300, 90, 40, dtype)  # in several pieces
    assert same_bits(interpret(product(300, 90, 40, dtype), [x, y])[0], by_definition(x, y)).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32], ids=str)
def test_all_give_the_same_bits(dtype: Any, shape: tuple[int, int]) -> None:
    m, n = shape
    named = compiled(product(m, n, Dim.name("k"), dtype))
    all_named = compiled(product(Dim.name("m"), Dim.name("n"), Dim.name("k"), dtype))
    lengths = LENGTHS if dtype == np.float32 else [0, 384, 769, 1153, 2689]
    for k in lengths:
        graph = product(m, n, k, dtype)
        made = compiled(graph)
        for data in DATA if dtype == np.float32 and k in (385, 1537, 6145) else ["random"]:
            x, y = factors(data, m, n, k, np.float32 if np.dtype(dtype).kind != "i" else np.float64)
            inputs = [(x * 100).astype(dtype), y.astype(dtype)]
            (expected,) = interpret(graph, inputs)
            results = [run.run(inputs)[0] for run in (made, named, all_named)]
            if k < 1000 and data == "random":
                results += execute_schedule(made.stages.schedule, inputs)
            for position, result in enumerate(results):
                assert same_bits(result, expected).all(), (data, k, position)


def test_the_lower_level_gives_the_same_bits() -> None:
    target = Target.named("x86-64-v3")
    for m, n in SHAPES:
        for k in (385, 2689):
            x, y = factors("random", m, n, k)
            for graph in (product(m, n, k), product(m, n, Dim.name("k"))):
                made = compile(graph, target)
                assert isinstance(made, Executable)
                assert same_bits(made.run([x, y])[0], interpret(graph, [x, y])[0]).all(), (m, n, k)


@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (9, 17), (9, 2)], ids=str)
def test_long_sums_stay_within_their_bound(shape: tuple[int, int]) -> None:
    m, n = shape
    named = compiled(product(m, n, Dim.name("k")))
    for k in (100_003, 1_000_000):
        made = compiled(product(m, n, k))
        for data in ("constant", "sorted", "alternating") if m * n < 10 or k < 1_000_000 else ("constant",):
            x, y = factors(data, m, n, k)
            results = [run.run([x, y])[0] for run in (made, named)]
            for threads in THREADS:
                results += [Bounded(run, threads).run([x, y])[0] for run in (made, named)]
            assert within_bound(x, y, results[0]), (k, data)
            if m * n < 10:
                results.append(interpret(named.stages.graph, [x, y])[0])
            for result in results[1:]:
                assert result.tobytes() == results[0].tobytes(), (k, data)


@pytest.mark.parametrize("shape", [(150, 300, 1200), (700, 40, 2700), (3, 3000, 1600), (500, 1, 1600)], ids=str)
def test_threads_share_large_products(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    x, y = factors("random", m, n, k)
    named = compiled(product(Dim.name("m"), Dim.name("n"), Dim.name("k")))
    results = [
        Bounded(run, threads).run([x, y])[0] for run in (compiled(product(m, n, k)), named) for threads in THREADS
    ]
    rows = slice(0, m, max(1, m // 7))
    expected = interpret(product(len(range(m)[rows]), n, k), [x[:, rows], y])[0]
    for result in results:
        assert result[rows].tobytes() == expected.tobytes()
        assert result.tobytes() == results[0].tobytes()


def test_negative_zeros_stay() -> None:
    """Products too small for a float32 are -0.0, and so is any number of them."""
    for k in (1, 384, 385, 769, 1537):
        x, y = np.full((k, 9), -1e-30, np.float32), np.full((k, 33), 1e-30, np.float32)
        for graph in (product(9, 33, k), product(9, 33, Dim.name("k"))):
            for actual in (compiled(graph).run([x, y])[0], interpret(graph, [x, y])[0]):
                assert (actual == 0).all(), k
                assert np.signbit(actual).all(), k


def test_the_block_depth_is_printed() -> None:
    for graph in (product(4, 3, 10), product(4, 3, Dim.name("k"))):
        assert f" by {BLOCK_STEPS} {{" in print_schedule(compiled(graph).stages.schedule)


def _convolution(x: tuple[DimLike, ...], w: tuple[DimLike, ...], **changes: Any) -> Graph:
    spatial = len(x) - 2
    attrs: dict[str, Any] = {"strides": (1,) * spatial, "padding": ((0, 0),) * spatial, "groups": 1}
    attrs |= {"lhs_dilation": (1,) * spatial, "rhs_dilation": (1,) * spatial} | changes
    types = [TensorType(np.dtype(np.float32), shape) for shape in (x, w)]
    return build(lambda x, w: ops.conv(x, w, **attrs), types)


@pytest.mark.parametrize("changes", [{}, {"padding": ((1, 1), (2, 0)), "strides": (2, 1)}, {"groups": 2}], ids=str)
def test_convolutions(changes: dict[str, Any]) -> None:
    """Many channels, and large windows as those of a weight gradient are."""
    height, width = Dim.name("h"), Dim.name("w")
    rng = np.random.default_rng(0)
    for x_shape, w_shape in [((2, 90, 7, 6), (4, 90, 3, 3)), ((3, 6, 36, 30), (4, 6, 33, 29))]:
        w_shape = (w_shape[0], w_shape[1] // changes.get("groups", 1), *w_shape[2:])
        for data in ("random", "constant"):
            x, w = (DATA[data](rng, shape).astype(np.float32) for shape in (x_shape, w_shape))
            graph = _convolution(x_shape, w_shape, **changes)
            (expected,) = interpret(graph, [x, w])
            assert same_bits(compiled(graph).run([x, w])[0], expected).all()
            named = _convolution((*x_shape[:2], height, width), w_shape, **changes)
            assert same_bits(compiled(named).run([x, w])[0], expected).all()


@pytest.mark.parametrize("rows", [1, 385, 5000, 100_000])
def test_weight_gradients(rows: int) -> None:
    """Of a linear layer: eager, traced, and traced with a size that was promoted to a name."""

    def gradient(x: jg.Tensor, w: jg.Tensor, cotangent: jg.Tensor) -> jg.Tensor:
        return jg.grad(lambda w: (jg.nn.functional.linear(x, w) * cotangent).sum())(w)

    traced = jg.trace(gradient)
    w = jg.zeros((3, 4))
    for count in (rows, rows + 1, rows + 2):
        x, cotangent = np.full((count, 4), 0.1, np.float32), np.full((count, 3), 0.7, np.float32)
        expected = interpret(product(3, 4, count), [cotangent, x])[0]
        assert within_bound(cotangent, x, expected)
        assert gradient(jg.asarray(x), w, jg.asarray(cotangent)).numpy().tobytes() == expected.tobytes()
        assert traced(jg.asarray(x), w, jg.asarray(cotangent)).numpy().tobytes() == expected.tobytes()


def test_weight_gradients_of_convolutions() -> None:
    def gradient(x: jg.Tensor, w: jg.Tensor, cotangent: jg.Tensor) -> jg.Tensor:
        return jg.grad(lambda w: (jg.nn.functional.conv2d(x, w) * cotangent).sum())(w)

    traced = jg.trace(gradient)
    w = jg.zeros((3, 2, 3, 3))
    for images, size in ((9, 20), (9, 21), (9, 22), (10, 22)):
        x = jg.asarray(np.full((images, 2, size, size), 0.1, np.float32))
        cotangent = jg.asarray(np.full((images, 3, size - 2, size - 2), 0.7, np.float32))
        expected, actual = gradient(x, w, cotangent).numpy(), traced(x, w, cotangent).numpy()
        assert actual.tobytes() == expected.tobytes()
        count = images * (size - 2) ** 2
        exact = count * float(np.float32(0.1)) * float(np.float32(0.7))
        assert (np.abs(expected - exact) <= (BLOCK_STEPS + 8) * 2.0**-24 * exact).all()
