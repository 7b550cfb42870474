"""Layers whose weights are computed from others: weight and spectral norms."""

from __future__ import annotations

from typing import Any

from tests.models.case import LayerCase, normal


def normed(lib: Any, name: str, layer: Any, **options: Any) -> Any:
    where = lib.nn.utils if lib.__name__ == "jitgraph" else lib.nn.utils.parametrizations
    return getattr(where, name)(layer, **options)


def twice(lib: Any, module: Any, x: Any) -> Any:
    return module(module(x))


CASES = [
    LayerCase("weight_norm, Linear", lambda lib: normed(lib, "weight_norm", lib.nn.Linear(4, 3)), (normal(5, 4),)),
    LayerCase(
        "weight_norm, Conv2d, dim=1",
        lambda lib: normed(lib, "weight_norm", lib.nn.Conv2d(4, 3, 2), dim=1),
        (normal(2, 4, 5, 5),),
    ),
    LayerCase(
        "weight_norm, one norm", lambda lib: normed(lib, "weight_norm", lib.nn.Linear(4, 3), dim=None), (normal(5, 4),)
    ),
    LayerCase(
        "spectral_norm, Linear",
        lambda lib: normed(lib, "spectral_norm", lib.nn.Linear(4, 4)),
        (normal(5, 4),),
        call=twice,
        tolerance=1e-8,
    ),
    LayerCase(
        "spectral_norm, Conv1d, evaluating",
        lambda lib: normed(lib, "spectral_norm", lib.nn.Conv1d(4, 3, 2), n_power_iterations=2),
        (normal(2, 4, 6),),
        mode="eval",
        tolerance=1e-8,
    ),
]
