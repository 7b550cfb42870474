"""Vector loops in pieces: no masks and no divisions where they can be left out, the same bits, the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.kernels.aliasing import aliasing_pairs
from jitgraph.codegen.kernels.index import has_atoms
from jitgraph.codegen.kernels.kernel import Kernel, Load, Loop, Store, dims_of, statements_of
from jitgraph_testing.kernels.kernel_parser import parse_kernel


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")


def kernels_of(traced: Any, *args: Any) -> list[Kernel]:
    return [launch.kernel for launch in traced.lower(*args).stages.schedule.steps]


def loads(kernels: list[Kernel]) -> list[Load]:
    return [s for kernel in kernels for s in statements_of(kernel.body) if isinstance(s, Load)]


def array(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(dtype)


def heads(h: Any) -> Any:
    """Three parts of each row, each in four transposed pieces, as attention takes them."""
    b, n, width = h.shape
    each = width // 3
    q, k, v = (
        jg.permute_dims(h[:, :, i * each : (i + 1) * each].reshape(b, n, 4, each // 4), (0, 2, 1, 3)) for i in range(3)
    )
    return (q * k * v).sum()


def gates(x: Any) -> Any:
    i, f, g, o = (x[:, 16 * n : 16 * (n + 1)] for n in range(4))
    return (jg.sigmoid(f) * jg.tanh(g) + i * o).sum()


@pytest.mark.parametrize(("function", "shape"), [(heads, (2, 6, 96)), (gates, (5, 64))])
def test_gradients_of_slices_have_neither_masks_nor_divisions(function: Any, shape: Any) -> None:
    traced, x = jg.trace(jg.grad(function)), array(*shape) / 8
    loaded = loads(kernels_of(traced, x))
    assert loaded and not any(load.mask for load in loaded) and not any(has_atoms(load.index) for load in loaded)
    assert traced(x).numpy().tobytes() == jg.grad(function)(jg.asarray(x)).numpy().tobytes()


CASES: dict[str, Callable[..., Any]] = {
    "concat": lambda x, y: jg.concat([x, y, x], axis=1) * 2,
    "pads that overlap": lambda x, y: jg.pad(x, ((0, 0), (3, 30))) + jg.pad(x, ((0, 0), (17, 16))),
    "a condition as a value": lambda x, y: jg.where(jg.arange(x.shape[1]) < 9, x, -x) * (jg.arange(x.shape[1]) >= 20),
    "conditions of conditions": lambda x, y: jg.where(
        (jg.arange(x.shape[1]) >= 8) & ~(jg.arange(x.shape[1]) >= 24) | (jg.arange(x.shape[1]) < 3), x, x * x
    ),
    "none of it": lambda x, y: jg.where(jg.arange(x.shape[1]) >= 1000, x, y[:, : x.shape[1]]),
    "sums of columns": lambda x, y: jg.concat([x, y], axis=1).sum(0),
    "loops inside": lambda x, y: jg.concat([x, y], axis=1).cumulative_sum(axis=0),
    "an index": lambda x, y: jg.take(y, jg.where(jg.arange(20) < 10, jg.arange(20), 19 - jg.arange(20)), axis=1),
    "shifted": lambda x, y: jg.roll(x, 11, axis=1) - jg.roll(y, -9, axis=1)[:, : x.shape[1]],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8, np.bool_, np.complex64], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_bits(case: str, dtype: Any) -> None:
    function = CASES[case]
    if dtype == np.bool_ and case not in ("concat", "none of it", "an index", "sums of columns"):
        pytest.skip("arithmetic with bools")
    for widths in ((32, 40), (33, 41), (64, 129)):
        x, y = (array(7, width, dtype=dtype) for width in widths)
        inputs = (jg.asarray(x), jg.asarray(y))
        actual, expected = jg.trace(function)(*inputs).numpy(), function(*inputs).numpy()
        assert actual.dtype == expected.dtype and actual.tobytes() == expected.tobytes()


def test_an_index_out_of_range_is_found_in_any_piece() -> None:
    def f(x: Any, i: Any) -> Any:
        return jg.concat([jg.take(x, i, axis=0), jg.zeros(16), jg.take(x, i + 1, axis=0)])

    traced, x = jg.trace(f), jg.ones(40)
    assert traced(x, jg.arange(16)).shape == (48,)
    for position, wrong in ((0, 40), (15, 39), (7, -42)):
        indices = np.arange(16)
        indices[position] = wrong
        with pytest.raises(IndexError):
            traced(x, jg.asarray(indices))


def test_what_works_in_place_still_does() -> None:
    """A state that is lowered by a gradient in pieces takes no second buffer, and has the bits of one that does."""

    class Learner:
        def __init__(self) -> None:
            self.w = jg.asarray(array(4, 96))

        def step(self, h: Any) -> Any:
            q, k, v = (self.w[:, 32 * i : 32 * (i + 1)] for i in range(3))
            parts = [jg.permute_dims((part * h).reshape(4, 8, 4), (0, 2, 1)).reshape(4, 32) for part in (q, k, v)]
            self.w = self.w - 0.25 * jg.concat([jg.asarray(h), parts[0] * 0, -h], axis=1)
            return self.w[0, 0] + self.w[3, 95]

    eager, learner = Learner(), Learner()
    step, h = jg.trace(learner.step), array(4, 32)
    for _ in range(4):
        assert float(step(h)) == float(eager.step(h))
    assert learner.w.numpy().tobytes() == eager.w.numpy().tobytes()
    stored = {
        kernel: [s.buffer for s in statements_of(kernel.body) if isinstance(s, Store)] for kernel in kernels_of(step, h)
    }
    pieces = {(kernel, written) for kernel, _ in stored.items() for written, _ in aliasing_pairs(kernel)}
    assert any(stored[kernel].count(written) == 3 for kernel, written in pieces), "one store for each piece"


TWO_PIECES = """kernel @pieces(read p0: f32[{size}], write p1: f32[{size}]) {{
  parallel _i0 < 4 {{
    vector _i1 < 16 {{
      _v0: f32 = load p0[{row}*_i0 + _i1]
      store p1[{row}*_i0 + _i1] = _v0
    }}
    vector _i2 < {second} {{
      _v1: f32 = load p0[{row}*_i0 + _i2 + {begin}]
      store p1[{row}*_i0 + _i2 + {begin}] = _v1
    }}
  }}
}}"""


@pytest.mark.parametrize(
    ("row", "begin", "second", "may"),
    [
        (48, 16, 32, True),
        (48, 20, 28, True),
        (48, 15, 32, False),  # an element of both
        (40, 16, 32, False),  # the end of a row is the next one's begin
        (8, 16, 32, False),
    ],
)
def test_pieces_are_written_in_place_where_they_are_apart(row: int, begin: int, second: int, may: bool) -> None:
    kernel = parse_kernel(TWO_PIECES.format(size=row * 4 + 64, row=row, begin=begin, second=second))
    assert aliasing_pairs(kernel) == ({("p1", "p0")} if may else set())


def test_a_loop_around_an_outermost_one_is_parallel() -> None:
    traced = jg.trace(jg.grad(heads))
    outermost = [s for kernel in kernels_of(traced, array(2, 6, 96)) for s in kernel.body if isinstance(s, Loop)]
    assert outermost and all(loop.kind in ("parallel", "vector") for loop in outermost)
    assert any(isinstance(s, Store) for loop in outermost for s in statements_of(loop.body))
    assert not any(has_atoms(dim) for loop in outermost for s in statements_of(loop.body) for dim in dims_of(s))
