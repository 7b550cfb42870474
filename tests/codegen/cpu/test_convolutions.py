"""Convolutions by copies of their operands, with rows of places, sums over images and groups of one channel.

Each has the bits of the interpreter, which sums in the order of ``kernel.Contract``, whatever way a shape is computed.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pytest

from jitgraph import ops
from jitgraph.compiler import compile
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.runtime.executable import Executable

PROGRAMS = int(os.environ.get("CONVOLUTIONS", "60"))


class Convolution(NamedTuple):
    x: tuple[int, ...]
    w: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    rhs_dilation: tuple[int, ...]
    groups: int
    dtype: str = "float32"
    lhs_dilation: tuple[int, ...] | None = None


def _plain(
    x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, groups: int = 1, dtype: str = "float32"
) -> Convolution:
    spatial = len(x) - 2
    padding = tuple((extent // 2, extent // 2) for extent in w[2:])
    return Convolution(x, w, (stride,) * spatial, padding, (1,) * spatial, groups, dtype)


NAMED = {
    "images together": _plain((9, 5, 6, 8), (17, 5, 3, 3)),
    "images together, runs of vectors": _plain((8, 5, 6, 6), (20, 5, 3, 3)),
    "each image": _plain((2, 5, 7, 26), (9, 5, 3, 3)),
    "each image, strided": _plain((2, 5, 9, 51), (9, 5, 3, 3), 2),
    "each image, strided by three": _plain((1, 3, 9, 75), (4, 3, 5, 5), 3),
    "steps of many blocks": _plain((2, 67, 5, 32), (18, 67, 3, 3)),
    "groups": _plain((9, 12, 6, 8), (24, 4, 3, 3), 1, 3),
    "depthwise": _plain((3, 17, 9, 21), (17, 1, 3, 3), 1, 17),
    "depthwise, strided": _plain((3, 17, 9, 21), (17, 1, 5, 5), 2, 17),
    "halves": _plain((9, 5, 6, 8), (17, 5, 3, 3), 1, 1, "float16"),
    "integers": _plain((9, 5, 6, 8), (17, 5, 3, 3), 1, 1, "int32"),
    "bytes, depthwise": _plain((3, 17, 9, 21), (17, 1, 3, 3), 1, 17, "uint8"),
    "wide": _plain((9, 5, 6, 8), (17, 5, 3, 3), 1, 1, "float64"),
    "large windows": Convolution((40, 5, 13, 30), (33, 5, 11, 28), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "large windows in parts": Convolution((70, 9, 20, 26), (65, 9, 20, 24), (1, 1), ((1, 1), (0, 0)), (1, 1), 1),
    "large windows, dilated": Convolution((16, 5, 25, 31), (8, 5, 11, 14), (1, 1), ((1, 1), (0, 0)), (2, 2), 1),
    "large windows of groups of one": Convolution((1, 171, 15, 19), (19, 9, 13, 17), (1, 1), ((0, 0),) * 2, (1, 1), 19),
    "cropped": Convolution((9, 5, 9, 12), (17, 5, 3, 3), (1, 1), ((-1, 2), (3, -2)), (1, 1), 1),
    "cropped, strided": Convolution((2, 5, 9, 60), (9, 5, 3, 3), (2, 2), ((-1, 2), (-3, 2)), (1, 2), 1),
    "nothing but padding": Convolution((8, 2, 1, 8), (16, 2, 2, 2), (3, 1), ((5, 5), (1, 1)), (1, 1), 1),
}


def _random(random: np.random.Generator) -> Convolution:
    def sizes(least: int, most: int, count: int) -> tuple[int, ...]:
        return tuple(int(size) for size in random.integers(least, most + 1, count))

    spatial = int(random.integers(1, 4))
    groups = int(random.choice([1, 1, 1, 2, 16]))
    images, per_group = sizes(1, 10, 2)
    of_group = 1 if groups == 16 else int(random.integers(1, 20))
    window = sizes(1, 4, spatial)
    extents = [*sizes(4, 9, spatial - 1), int(random.choice([5, 7, 8, 16, 26, 33]))]
    strides, dilations = sizes(1, 2, spatial), sizes(1, 2, spatial)
    padding = []
    for extent, taps, dilation in zip(extents, window, dilations, strict=True):
        low, high = sizes(-1, 3, 2)
        lacking = (taps - 1) * dilation + 1 - (extent + low + high)
        padding.append((low, high + max(lacking, 0)))
    dtype = str(random.choice(["float32", "float32", "float64", "float16", "int32"]))
    return Convolution(
        (images, per_group * groups, *extents),
        (of_group * groups, per_group, *window),
        strides,
        tuple(padding),
        dilations,
        groups,
        dtype,
    )


def _graph(case: Convolution) -> Graph:
    attrs: Any = case._asdict()
    dtype = np.dtype(attrs.pop("dtype"))
    shapes = attrs.pop("x"), attrs.pop("w")
    attrs["lhs_dilation"] = case.lhs_dilation or (1,) * len(case.strides)

    def program(x: Any, w: Any) -> Any:
        return ops.neg(ops.conv(ops.abs(x), w, **attrs))

    return build(program, [TensorType(dtype, shape) for shape in shapes])


def _arguments(case: Convolution, random: np.random.Generator) -> list[Any]:
    if case.dtype[0] in "iu":
        return [random.integers(0, 100, shape).astype(case.dtype) for shape in (case.x, case.w)]
    pixels, weight = (random.standard_normal(shape).astype(case.dtype) for shape in (case.x, case.w))
    for special in (np.nan, np.inf, -0.0):
        pixels.flat[int(random.integers(pixels.size))] = special
    return [pixels, weight]


def require_bits_of_the_interpreter(case: Convolution, random: np.random.Generator, level: str) -> None:
    graph = _graph(case)
    arguments = _arguments(case, random)
    compiled = compile(graph, Target.named(level))
    assert isinstance(compiled, Executable)
    if case.dtype[0] == "f":  # memory that the call below finds
        compiled.run([np.full_like(argument, np.nan) for argument in arguments])
    actual = np.asarray(compiled.run(arguments)[0])
    expected = np.asarray(interpret(graph, arguments)[0])
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    same = actual == expected
    if actual.dtype.kind == "f":  # any NaN is as good as another
        same |= np.isnan(actual) & np.isnan(expected)
        same &= np.signbit(actual) == np.signbit(expected)
    assert same.all(), case


@pytest.mark.parametrize("level", sorted({"x86-64-v3", Target.host().name}))
@pytest.mark.parametrize("case", NAMED)
def test_bits_of_a_convolution(case: str, level: str) -> None:
    require_bits_of_the_interpreter(NAMED[case], np.random.default_rng(0), level)


def test_bits_of_random_convolutions() -> None:
    random = np.random.default_rng(int(os.environ.get("CONVOLUTIONS_SEED", "0")))
    for _ in range(PROGRAMS):
        require_bits_of_the_interpreter(_random(random), random, Target.host().name)
