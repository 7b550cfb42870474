"""The order of reduce loops: what ``kernel.Loop`` says, the executor's and native code's results, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from jitgraph.codegen.kernels.kernel_text import print_kernel
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.dtypes import BY_SHORT_NAME
from jitgraph.errors import GraphError
from jitgraph_testing.kernels.executor import execute_kernel
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.codegen import order_samples
from tests.codegen.native_kernels import Array, run_native
from tests.codegen.order_samples import ordered

LENGTHS = (0, 1, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 257, 511, 640, 1000, 4095, 5000)


def rows(short: str, m: int, n: int) -> Array:
    """Sums of which no two orders agree: numbers of both signs and many sizes."""
    rng = np.random.default_rng(n)
    return (rng.standard_normal((m, n)) * 2.0 ** rng.integers(-8, 8, (m, n))).astype(BY_SHORT_NAME[short])


def outcomes(text: str, buffers: dict[str, Array], **sizes: int) -> list[Array]:
    """``y`` by the executor, step by step and in arrays, and by native code."""
    kernel = parse_kernel(text)
    assert parse_kernel(print_kernel(kernel)) == kernel
    verify_kernel(kernel)
    results = []
    modes = [lambda held: execute_kernel(kernel, held, sizes), lambda held: run_native(kernel, held, sizes)]
    if sizes["n"] * sizes.get("k", 1) < 130:
        modes.append(lambda held: execute_kernel(kernel, held, sizes, vectorise=False))
    for run in modes:
        held = {name: array.copy() for name, array in buffers.items()}
        run(held)
        results.append(held["y"])
    return results


@pytest.mark.parametrize(("short", "slots", "chain"), [("f32", 64, 32), ("f32", 8, 4), ("f64", 4, 2), ("f64", 32, 1)])
def test_rows(short: str, slots: int, chain: int) -> None:
    text = order_samples.order_sample(order_samples.ROW, short, slots, chain)
    for n in LENGTHS:
        x = rows(short, 2, n)
        expected = np.array([ordered(row, slots, chain) for row in x])
        for actual in outcomes(text, {"x": x.reshape(-1), "y": np.zeros(2, x.dtype)}, m=2, n=n):
            assert actual.tobytes() == expected.tobytes(), n


@pytest.mark.parametrize(("short", "chain", "m"), [("f32", 32, 5), ("f32", 4, 37), ("f64", 8, 3)])
def test_columns(short: str, chain: int, m: int) -> None:
    text = order_samples.order_sample(order_samples.COLUMN, short, 1, chain)
    for n in LENGTHS[:20]:
        x = rows(short, m, n)
        expected = np.array([ordered(row, 1, chain) for row in x])
        buffers = {"x": x.T.reshape(-1), "y": np.zeros(m, x.dtype)}
        for actual in outcomes(text, buffers, m=m, n=n):
            assert actual.tobytes() == expected.tobytes(), n


@pytest.mark.parametrize(
    ("short", "width", "slots", "chain"),
    [
        ("f32", 10, 16, 32),
        ("f32", 16, 16, 4),
        ("f32", 5, 8, 32),
        ("f32", 3, 4, 8),
        ("f64", 2, 2, 16),
        ("f64", 7, 8, 32),
    ],
)
def test_short_rows(short: str, width: int, slots: int, chain: int) -> None:
    """Rows that fill few registers, computed several at once: each has its weight and its place in the chain."""
    text = order_samples.order_sample(order_samples.SHORT_ROWS, short, slots, chain, width=width)
    for n in (0, 1, 7, 31, 33, 64, 257, 513):
        x, w = rows(short, n, width), rows(short, 1, n)[0]
        each = np.array(
            [ordered(row * weight, slots, chain) - weight for row, weight in zip(x, w, strict=True)], x.dtype
        )
        buffers = {"x": x.reshape(-1), "w": w, "y": np.zeros(1, x.dtype)}
        for actual in outcomes(text, buffers, n=n):
            assert actual.tobytes() == ordered(each, 1, chain).tobytes(), n


@pytest.mark.parametrize(("short", "slots", "chain"), [("f32", 64, 32), ("f64", 32, 4)])
def test_rows_of_named_width(short: str, slots: int, chain: int) -> None:
    """Rows of which the width decides at run time whether several of them go at once."""
    text = order_samples.order_sample(order_samples.SHORT_ROWS, short, slots, chain, width="k")
    text = text.replace("sizes(n)", "sizes(k, n)")
    for k in (0, 1, 7, 8, 10, 16, 17, 32, 33, 63, 64, 65, 200):
        for n in (0, 1, 7, 33, 257) if k <= 33 else (9, 33):
            x, w = rows(short, n, k), rows(short, 1, n)[0]
            x[:, :: max(1, k // 2)] = -0.0
            each = np.array(
                [ordered(row * weight, slots, chain) - weight for row, weight in zip(x, w, strict=True)], x.dtype
            )
            buffers = {"x": x.reshape(-1), "w": w, "y": np.zeros(1, x.dtype)}
            for actual in outcomes(text, buffers, n=n, k=k):
                assert actual.tobytes() == ordered(each, 1, chain).tobytes(), (k, n)


@pytest.mark.parametrize(("short", "slots", "chain", "run"), [("f32", 64, 32, 1), ("f32", 8, 4, 4), ("f64", 4, 2, 8)])
def test_parts_are_nodes_of_the_tree(short: str, slots: int, chain: int, run: int) -> None:
    part = slots * chain * run
    text = order_samples.order_sample(order_samples.PARTS, short, slots, chain, part)
    for n in LENGTHS:
        x = rows(short, 1, n)[0]
        work = np.zeros(slots * -(-n // part), x.dtype)
        for actual in outcomes(text, {"x": x, "w": work, "y": np.zeros(1, x.dtype)}, n=n):
            assert actual.tobytes() == ordered(x, slots, chain).tobytes(), n


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("chain 32", "chain 3", "chain should be a power of two"),
        ("from 2048*_i0", "from -2048*_i0", "may be negative"),
        ("span 2048", "span 0", "a span is at least 1"),
        ("lanes 64 chain 32", "lanes 64", "slots are kept where the order is not free"),
        ("parallel _i0 < (n + 2047) // 2048", "parallel _i0 < (n + 2047) // 2048 span 4", "over all of its axis"),
        ("store w[64*_i0 + _i2] = _v1", "store w[64*_i0 + _i2 + 1] = _v1", "is outside of"),
    ],
)
def test_what_is_refused(old: str, new: str, why: str) -> None:
    text = order_samples.order_sample(order_samples.PARTS, "f32", 64, 32, 2048)
    text = text.replace("n + 2048 - 1", "n + 2047")
    assert old in text
    with pytest.raises(GraphError, match=why):
        verify_kernel(parse_kernel(text.replace(old, new)))
