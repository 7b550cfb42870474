"""Normalisation: running statistics, affine parts, each rank."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.models.case import LayerCase, normal

OF_RANK = {1: normal(4, 6, 5), 2: normal(3, 6, 4, 5), 3: normal(2, 6, 3, 2, 4)}


def made(name: str, *argument: Any, x: Any, mode: str = "train", **options: Any) -> LayerCase:
    words = ", ".join([*map(str, argument), *(f"{key}={value}" for key, value in options.items())])
    return LayerCase(
        f"{name}, {words}, {mode}", lambda lib: getattr(lib.nn, name)(*argument, **options), (x,), mode=mode
    )


def twice(lib: Any, module: Any, x: Any) -> Any:
    """Two batches, so that the running statistics are mixed twice."""
    return module(x), module(x * 2 + 1)


CASES = [
    made("BatchNorm1d", 6, x=normal(5, 6)),
    *(made(f"BatchNorm{rank}d", 6, x=OF_RANK[rank], mode=mode) for rank, mode in product((1, 2, 3), ("train", "eval"))),
    made("BatchNorm2d", 6, x=OF_RANK[2], momentum=None),
    made("BatchNorm2d", 6, x=OF_RANK[2], affine=False, eps=1e-3),
    made("BatchNorm2d", 6, x=OF_RANK[2], track_running_stats=False, mode="eval"),
    LayerCase("BatchNorm2d, two batches", lambda lib: lib.nn.BatchNorm2d(6, momentum=0.3), (OF_RANK[2],), call=twice),
    LayerCase("BatchNorm1d, averaged", lambda lib: lib.nn.BatchNorm1d(6, momentum=None), (OF_RANK[1],), call=twice),
    *(made(f"InstanceNorm{rank}d", 6, x=OF_RANK[rank]) for rank in (1, 2, 3)),
    *(
        made("InstanceNorm2d", 6, x=OF_RANK[2], affine=True, track_running_stats=True, mode=mode)
        for mode in ("train", "eval")
    ),
    made("InstanceNorm1d", 6, x=OF_RANK[1][0]),
    made("GroupNorm", 3, 6, x=OF_RANK[2]),
    *(made(name, 6, x=OF_RANK[2], affine=True, bias=False) for name in ("BatchNorm2d", "InstanceNorm2d")),
    made("GroupNorm", 3, 6, x=OF_RANK[2], bias=False),
    made("GroupNorm", 6, 6, x=OF_RANK[1], affine=False),
    made("LayerNorm", 5, x=OF_RANK[1]),
    made("LayerNorm", (4, 5), x=OF_RANK[2], eps=1e-3),
    made("LayerNorm", [4, 5], x=OF_RANK[2], elementwise_affine=False),
    made("LayerNorm", 5, x=OF_RANK[1], bias=False),
    made("RMSNorm", 5, x=OF_RANK[1]),
    made("RMSNorm", (4, 5), x=OF_RANK[2], eps=1e-3, elementwise_affine=False),
    made("LocalResponseNorm", 3, x=OF_RANK[2]),
    made("LocalResponseNorm", 4, x=OF_RANK[1], alpha=0.5, beta=0.6, k=2.0),
]
