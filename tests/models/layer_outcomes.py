"""What a layer gives in few numbers: each result and gradient by its sum with fixed weights, and of the absolute terms.

``python -m tests.models.layer_expectations`` records them from PyTorch, so that layers are compared without it, too.
"""

from __future__ import annotations

import importlib
import zlib

import numpy as np

from tests import ROOT
from tests.models.case import Array, LayerCase, modules, normal
from tests.models.compare import Outcome

PATH = ROOT / "tests" / "models" / "layer_expectations.json"

Digest = dict[str, list[float] | str]
"""By the name of a result or gradient two sums, or the name of what is no finite float."""


def cases() -> dict[str, LayerCase]:
    """All layers of ``tests/models`` by name and shapes."""
    found: dict[str, LayerCase] = {}
    for name in modules():
        for case in importlib.import_module(f"tests.models.{name}").CASES:
            if isinstance(case, LayerCase):
                shapes = " ".join("x".join(map(str, x.shape)) for x in case.inputs)
                key = f"{name.removesuffix('_cases')}: {case.name} of {shapes}"
                found[key if key not in found else f"{key}, otherwise called"] = case
    return found


def parameter(name: str, shape: tuple[int, ...]) -> Array:
    """The elements that a parameter of this name has in both libraries."""
    return normal(*shape, seed=zlib.crc32(name.encode())) * 0.4


def digest(outcome: Outcome) -> Digest:
    """The numbers of all results, buffers and gradients; what is absent counts as zeros."""
    found: Digest = {f"result {number}": _sums(x) for number, x in enumerate(outcome.outputs)}
    found |= {f"buffer {name}": _sums(x) for name, x in outcome.buffers.items()}
    found |= {f"gradient of {name}": [0.0, 0.0] if g is None else _sums(g) for name, g in outcome.gradients.items()}
    return found


def _sums(x: Array) -> list[float] | str:
    x = np.asarray(x, np.float64)
    if not np.isfinite(x).all():
        return " ".join([str(x.shape), *map(str, np.flatnonzero(~np.isfinite(x)).tolist()[:50])])
    terms = x.ravel() * np.random.default_rng(x.size).normal(size=x.size)
    return [float(terms.sum()), float(np.abs(terms).sum())]


def differences(actual: Digest, expected: Digest, tolerance: float) -> list[str]:
    """What differs by more than the tolerance, which is of the sum of the absolute terms."""
    wrong = [f"{name}: only one has it" for name in actual.keys() ^ expected.keys()]
    for name in actual.keys() & expected.keys():
        x, y = actual[name], expected[name]
        if isinstance(x, str) or isinstance(y, str):
            wrong += [] if x == y else [f"{name}: {x}, not {y}"]
        elif abs(x[0] - y[0]) > (bound := 4 * tolerance * max(1.0, y[1])) or abs(x[1] - y[1]) > bound:
            wrong.append(f"{name}: {x}, not {y}")
    return wrong
