"""Window functions of spectra in PyTorch's names, and numbers spaced evenly on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import DTypeError, NumberError, ShapeError
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.tensor import Tensor

_Waves = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def _window(name: str, length: int, periodic: bool, dtype: Any, device: str | None, waves: _Waves) -> Tensor:
    """``waves`` at 0 .. 1 in steps of 1 / (length - 1), or of 1 / length where ``periodic``."""
    if length < 0:
        raise ShapeError(f"{name} of {length} elements")
    kind = dtypes.float32 if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_float(kind):
        raise DTypeError(f"{name} in {kind.name}", hint="a float dtype")
    steps = length if periodic else length - 1
    samples = np.ones(length) if length < 2 else waves(np.arange(length) / steps)
    return asarray(samples, dtype=kind, device=device)


@array_function
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """sin(pi t) ** 2 for t from 0 to 1; float32. ``periodic`` leaves out the last element of one longer, as PyTorch."""
    return _window("hann_window", window_length, periodic, dtype, device, lambda t: 0.5 - 0.5 * np.cos(2 * np.pi * t))


@array_function
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(2 pi t) for t from 0 to 1; ``periodic`` as of ``hann_window``."""
    return _window(
        "hamming_window", window_length, periodic, dtype, device, lambda t: alpha - beta * np.cos(2 * np.pi * t)
    )


@array_function
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - cos(2 pi t) / 2 + 0.08 cos(4 pi t) for t from 0 to 1; ``periodic`` as of ``hann_window``."""

    def waves(t: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t)

    return _window("blackman_window", window_length, periodic, dtype, device, waves)


@array_function
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """1 - |2 t - 1|, a triangle, for t from 0 to 1; ``periodic`` as of ``hann_window``."""
    return _window("bartlett_window", window_length, periodic, dtype, device, lambda t: 1 - np.abs(2 * t - 1))


@array_function
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """i0(beta sqrt(1 - (2 t - 1) ** 2)) / i0(beta) for t from 0 to 1; ``periodic`` as of ``hann_window``."""

    def waves(t: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.i0(beta * np.sqrt(np.maximum(0, 1 - (2 * t - 1) ** 2))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, dtype, device, waves)


@array_function
def logspace(
    start: complex,
    stop: complex,
    num: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    endpoint: bool = True,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the powers of ``num`` evenly spaced numbers from ``start`` to ``stop``; float32, or complex64.

    ``stop`` is the last power unless ``endpoint`` is False.
    """
    return _spaced(np.logspace(start, stop, num, endpoint=endpoint, base=base), dtype, device)


@array_function
def geomspace(
    start: complex,
    stop: complex,
    num: int,
    *,
    dtype: Any = None,
    endpoint: bool = True,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``num`` numbers from ``start`` to ``stop`` with a constant ratio; float32.

    ``stop`` is the last one unless ``endpoint`` is False. NumberError for 0 at an end.
    """
    if not (start and stop):
        raise NumberError("geomspace from or to 0, of which nothing else is a multiple")
    return _spaced(np.geomspace(start, stop, num, endpoint=endpoint), dtype, device)


def _spaced(numbers: np.ndarray[Any, Any], dtype: Any, device: str | None) -> Tensor:
    is_complex = numbers.dtype.kind == "c"
    kind = dtypes.canonical(dtype or (dtypes.complex64 if is_complex else dtypes.float32))
    return asarray(numbers, dtype=kind, device=device)
