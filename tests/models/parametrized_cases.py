"""Layers whose weights are computed from others: weight and spectral norms."""

from __future__ import annotations

from typing import Any

from tests.models.case import LayerCase, normal


def normed(lib: Any, name: str, layer: Any, **options: Any) -> Any:
    return getattr(lib.nn.utils.parametrizations, name)(layer, **options)


def orthogonal(words: str, sizes: tuple[int, int], **options: Any) -> LayerCase:
    inputs = (normal(5, sizes[0]),)
    return LayerCase(
        f"orthogonal, {words}", lambda lib: normed(lib, "orthogonal", lib.nn.Linear(*sizes), **options), inputs
    )


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
    orthogonal("square", (4, 4)),
    orthogonal("tall", (3, 5)),
    orthogonal("wide", (5, 3)),
    orthogonal("wide by the exponential", (5, 3), orthogonal_map="matrix_exp"),
    orthogonal("tall by Cayley's map", (3, 5), orthogonal_map="cayley"),
    orthogonal("square by reflections alone", (4, 4), orthogonal_map="householder", use_trivialization=False),
    orthogonal("wide by reflections alone", (5, 3), use_trivialization=False),
]
