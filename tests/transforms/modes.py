"""How a function of tensors is run: eagerly, and as a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

Mode = Callable[[Callable[..., Any]], Callable[..., Any]]

each_mode = pytest.mark.parametrize("mode", [lambda f: f, jg.trace], ids=["eager", "traced"])


def tensor(*shape: int, seed: int = 0, dtype: Any = np.float32) -> jg.Tensor:
    return jg.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def values(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, jg.Tensor) else np.asarray(x)


def close(actual: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    assert np.shape(values(actual)) == np.shape(values(wanted))
    np.testing.assert_allclose(values(actual), values(wanted), rtol=tolerance, atol=tolerance)
