"""Pools as modules: windows of every setting, adaptive sizes, power means, and maxima put back."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.models.case import LayerCase, normal, positive

SEQUENCE, IMAGE, VOLUME = normal(2, 3, 11), normal(2, 3, 9, 7), normal(1, 2, 6, 5, 7)
OF_RANK = {1: SEQUENCE, 2: IMAGE, 3: VOLUME}
TIED = np.round(IMAGE)
MAX: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "dilation": 2, "stride": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True, "padding": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True, "return_indices": True},
]
AVG: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
]


def shown(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def made(name: str, options: dict[str, Any], x: Any) -> LayerCase:
    return LayerCase(f"{name}, {shown(options)}", lambda lib: getattr(lib.nn, name)(**options), (x,))


def unpooled(lib: Any, module: Any, x: Any) -> Any:
    """A pool and what puts its maxima back."""
    pool, unpool = module
    values, positions = pool(x)
    return unpool(values, positions)


CASES = [
    *(made(f"MaxPool{rank}d", options, OF_RANK[rank]) for rank, options in product((1, 2, 3), MAX)),
    *(made(f"AvgPool{rank}d", options, OF_RANK[rank]) for rank, options in product((1, 2, 3), AVG)),
    made("MaxPool2d", {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)}, IMAGE),
    made("MaxPool2d", {"kernel_size": 3, "padding": 1, "return_indices": True}, TIED),
    made("MaxPool2d", {"kernel_size": 2}, IMAGE[0]),
    made("AvgPool2d", {"kernel_size": 3, "divisor_override": 4}, IMAGE),
    *(
        made(f"AdaptiveAvgPool{rank}d", {"output_size": size}, OF_RANK[rank])
        for rank, size in product((1, 2, 3), (1, 3, 4))
    ),
    made("AdaptiveAvgPool2d", {"output_size": (None, 5)}, IMAGE),
    made("AdaptiveAvgPool2d", {"output_size": (18, 14)}, IMAGE),
    *(
        made(f"AdaptiveMaxPool{rank}d", {"output_size": size, "return_indices": indices}, OF_RANK[rank])
        for rank, (size, indices) in product((1, 2, 3), ((1, False), (3, True), (4, True)))
    ),
    made("AdaptiveMaxPool2d", {"output_size": (3, None), "return_indices": True}, TIED),
    *(made(f"LPPool{rank}d", {"norm_type": 2, "kernel_size": 2}, OF_RANK[rank]) for rank in (1, 2, 3)),
    made("LPPool2d", {"norm_type": 3, "kernel_size": 3, "stride": 2, "ceil_mode": True}, np.abs(IMAGE)),
    *(
        LayerCase(
            f"FractionalMaxPool{rank}d, {shown(options)}",
            lambda lib, rank=rank, options=options: getattr(lib.nn.functional, f"fractional_max_pool{rank}d"),
            (OF_RANK[rank], positive(*OF_RANK[rank].shape[:2], rank)),
            call=lambda lib, function, x, samples, options=options: function(
                x, return_indices=True, _random_samples=samples.detach(), **options
            ),
        )
        for rank in (2, 3)
        for options in ({"kernel_size": 2, "output_size": 3}, {"kernel_size": 3, "output_ratio": (0.5,) * rank})
    ),
    *(
        LayerCase(
            f"MaxUnpool{rank}d",
            lambda lib, rank=rank: (
                getattr(lib.nn, f"MaxPool{rank}d")(2, return_indices=True),
                getattr(lib.nn, f"MaxUnpool{rank}d")(2),
            ),
            (normal(2, 3, *(8, 6, 4)[:rank]),),
            call=unpooled,
        )
        for rank in (1, 2, 3)
    ),
]
