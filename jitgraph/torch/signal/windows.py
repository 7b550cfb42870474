"""``torch.signal.windows``: weights of samples, symmetric for filters or periodic for spectra.

Formulas: F. J. Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform" (1978), and
A. H. Nuttall, "Some windows with very good sidelobe behavior" (1981).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.torch.functions import tensor
from jitgraph.torch.functions.creation import dtype_or_default

Samples = np.ndarray[Any, Any]


def _window(weights: Callable[..., Samples]) -> Callable[..., Any]:
    """A function of PyTorch's form of ``weights(k, n, ...)``, the weight of sample k of a period of n steps."""

    @functools.wraps(weights)
    def window(
        M: int,  # noqa: N803
        *,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **form: Any,
    ) -> Any:
        kind = dtype_or_default(dtype)
        if M < 0:
            raise ValueError(f"{weights.__name__} requires non-negative window length, got M={M}")
        if kind not in (dtypes.float32, dtypes.float64):
            raise ValueError(f"{weights.__name__} expects float32 or float64 dtypes, got: {dtype}")
        if layout is not None and "strided" not in str(layout):
            raise ValueError(f"{weights.__name__} is implemented for strided tensors only, got: {layout}")
        if sym and form.get("center") is not None:
            raise ValueError("Center must be None for symmetric windows")
        steps = M - 1 if sym else M
        values = weights(np.arange(M, dtype=np.float64), max(steps, 1), **form)
        if M == 1:  # the middle alone
            values = np.ones(M)
        target = dtype if dtype is not None else None
        result = tensor(values.astype(np.float64), dtype=target or _default(kind), device=device)
        return result.requires_grad_() if requires_grad else result

    return window


def _default(kind: Any) -> Any:
    from jitgraph.torch.scalar_types import scalar_type

    return scalar_type(kind)


def _cosines(k: Samples, n: int, a: Iterable[float]) -> Samples:
    terms = [(-1) ** i * x * np.cos(2 * np.pi * i * k / n) for i, x in enumerate(a)]
    total: Samples = np.sum(terms, axis=0)
    return total


@_window
def bartlett(k: Samples, n: int) -> Samples:
    """A triangle with zeros at its ends."""
    triangle: Samples = 1 - np.abs(2 * k / n - 1)
    return triangle


@_window
def blackman(k: Samples, n: int) -> Samples:
    """0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)."""
    return _cosines(k, n, (0.42, 0.5, 0.08))


@_window
def cosine(k: Samples, n: int) -> Samples:
    """Half a period of a sine."""
    half: Samples = np.sin(np.pi * (k + 0.5) / (n + 1))
    return half


@_window
def exponential(k: Samples, n: int, center: float | None = None, tau: float = 1.0) -> Samples:
    """exp(-|k - center| / tau), by default around the middle."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    middle = n / 2 if center is None else center
    decay: Samples = np.exp(-np.abs(k - middle) / tau)
    return decay


@_window
def gaussian(k: Samples, n: int, std: float = 1.0) -> Samples:
    """exp(-(k - n / 2)**2 / (2 std**2))."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    bell: Samples = np.exp(-(((k - n / 2) / (std * np.sqrt(2))) ** 2))
    return bell


@_window
def general_cosine(k: Samples, n: int, a: Iterable[float]) -> Samples:
    """The sum of (-1)**i a[i] cos(2 pi i k / n)."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not list(a):
        raise ValueError("Coefficients cannot be empty")
    return _cosines(k, n, a)


@_window
def general_hamming(k: Samples, n: int, alpha: float = 0.54) -> Samples:
    """alpha - (1 - alpha) cos(2 pi k / n)."""
    return _cosines(k, n, (alpha, 1 - alpha))


@_window
def hamming(k: Samples, n: int) -> Samples:
    """0.54 - 0.46 cos(2 pi k / n)."""
    return _cosines(k, n, (0.54, 0.46))


@_window
def hann(k: Samples, n: int) -> Samples:
    """0.5 - 0.5 cos(2 pi k / n)."""
    return _cosines(k, n, (0.5, 0.5))


@_window
def kaiser(k: Samples, n: int, beta: float = 12.0) -> Samples:
    """I0(beta sqrt(1 - (2 k / n - 1)**2)) / I0(beta)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    weights: Samples = np.i0(beta * np.sqrt(np.maximum(0, 1 - (2 * k / n - 1) ** 2))) / np.i0(np.float64(beta))
    return weights


@_window
def nuttall(k: Samples, n: int) -> Samples:
    """Four cosines whose sidelobes are least."""
    return _cosines(k, n, (0.3635819, 0.4891775, 0.1365995, 0.0106411))
