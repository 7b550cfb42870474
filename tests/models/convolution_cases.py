"""Convolutions and transposed convolutions of one to three axes, with every setting."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.models.case import LayerCase, normal

OF_RANK = {1: normal(2, 4, 9), 2: normal(2, 4, 7, 6), 3: normal(1, 4, 4, 5, 4)}
PLAIN: list[dict[str, Any]] = [
    {"kernel_size": 3},
    {"kernel_size": 3, "stride": 2, "padding": 1, "bias": False},
    {"kernel_size": 2, "dilation": 2, "groups": 2},
    {"kernel_size": 3, "padding": "same", "dilation": 2},
    {"kernel_size": 4, "padding": "same"},
    *({"kernel_size": 3, "padding": 2, "padding_mode": mode} for mode in ("reflect", "replicate", "circular")),
]
TRANSPOSED: list[dict[str, Any]] = [
    {"kernel_size": 3},
    {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
    {"kernel_size": 2, "stride": 3, "groups": 2, "bias": False},
    {"kernel_size": 3, "dilation": 2, "padding": 1},
    {"kernel_size": 2, "padding": 1},
    {"kernel_size": 1, "padding": 1},
]


def made(name: str, options: dict[str, Any], x: Any, call: Any = None) -> LayerCase:
    words = ", ".join(f"{key}={value}" for key, value in options.items())
    more = {} if call is None else {"call": call}
    return LayerCase(f"{name}, {words}", lambda lib: getattr(lib.nn, name)(4, 6, **options), (x,), **more)


CASES = [
    *(made(f"Conv{rank}d", options, OF_RANK[rank]) for rank, options in product((1, 2), PLAIN)),
    *(made("Conv3d", options, OF_RANK[3]) for options in PLAIN[:3]),
    made("Conv2d", {"kernel_size": (3, 1), "stride": (1, 2), "padding": (0, 2), "dilation": (2, 1)}, OF_RANK[2]),
    made("Conv2d", {"kernel_size": 3}, OF_RANK[2][0]),
    LayerCase("Conv2d, depthwise", lambda lib: lib.nn.Conv2d(4, 8, 3, groups=4), (OF_RANK[2],)),
    *(made(f"ConvTranspose{rank}d", options, OF_RANK[rank]) for rank, options in product((1, 2), TRANSPOSED)),
    *(made("ConvTranspose3d", options, OF_RANK[3]) for options in TRANSPOSED[:3]),
    made("ConvTranspose2d", {"kernel_size": (3, 2), "stride": (2, 1)}, OF_RANK[2][1]),
    made(
        "ConvTranspose2d",
        {"kernel_size": 3, "stride": 2},
        OF_RANK[2],
        call=lambda lib, module, x: module(x, output_size=(16, 13)),
    ),
]
