"""Each public function of arrays gives on a GPU what it gives on the CPU, but those that LAPACK alone computes.

``make nightly`` tries those of ``jg.special`` and ``jg.fft`` as well.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.cuda.places import Machine, machine

SPACES = {"": jg, "linalg.": jg.linalg}
if os.environ.get("CUDA_MODELS") == "all":
    SPACES |= {"special.": jg.special, "fft.": jg.fft}
NO_ARRAYS = frozenset(("explain", "load", "load_checkpoint", "save", "save_checkpoint", "script", "seed", "trace"))
DRAWN = frozenset(("bernoulli", "multinomial", "poisson", "rand_like", "randn_like", "randperm"))
"""Another call has other numbers."""
ON_THE_HOST = frozenset(("eig", "eigvals", "poly"))
"""What LAPACK alone computes, which is refused by name."""
OF_FREE_SIGN = frozenset(("eigh", "svd"))
"""Results that are determined but for signs."""
FIRST = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4)).astype(np.float32)
CALLS: tuple[tuple[Any, ...], ...] = ((FIRST,), (FIRST, FIRST), (FIRST[:, :3],), (FIRST, 1), (FIRST, FIRST, FIRST))
"""Arguments, of which a function is given the first that it takes on the CPU."""


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    with machine(must_end_clean=False) as actual:
        yield actual


def on(device: str, arguments: tuple[Any, ...]) -> list[Any]:
    return [jg.asarray(x).to(device) if isinstance(x, np.ndarray) else x for x in arguments]


def tensors(result: Any) -> list[Any]:
    return [x for x in (result if isinstance(result, tuple | list) else [result]) if isinstance(x, jg.Tensor)]


def tried(function: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The arguments that a function takes, and what it gives on the CPU."""
    for arguments in CALLS:
        try:
            actual = tensors(function(*on("cpu", arguments)))
        except Exception:
            continue  # it wants other arguments
        return (arguments, actual) if actual else None
    return None


@pytest.mark.parametrize("space", SPACES)
def test_public_functions(here: Machine, space: str) -> None:
    compared, refused = 0, set()
    for name in sorted(SPACES[space].__all__):
        function = getattr(SPACES[space], name)
        if inspect.isclass(function) or not callable(function) or name in NO_ARRAYS | DRAWN:
            continue
        case = tried(function)
        if case is None:
            continue
        try:
            actual = tensors(function(*on("cuda:0", case[0])))
        except jg.UnsupportedOp as error:
            assert "runs in Python on the host" in str(error), name
            refused.add(name)
            continue
        assert len(actual) == len(case[1]), name
        for x, wanted in zip(actual, case[1], strict=True):
            assert x.device == "cuda:0", name
            pair = x.cpu().numpy(), wanted.numpy()
            pair = tuple(map(np.abs, pair)) if name in OF_FREE_SIGN else pair
            np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-5, err_msg=name)
        compared += 1
    assert compared > 10 and refused <= ON_THE_HOST
