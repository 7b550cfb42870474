"""Fourier transforms, windows, and mel filters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph import fft
from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


def _complex(x: Any) -> Any:
    if x.shape[-1] == 1:
        return x[..., 0]
    if x.shape[-1] != 2:
        raise UnsupportedOp(
            f"the last axis has the size {x.shape[-1]}, where 1 or 2 stands for real or complex numbers"
        )
    return fn.complex(x[..., 0], x[..., 1])


def _pairs(z: Any, dtype: Any) -> Any:
    return fn.astype(fn.stack([fn.real(z), fn.imag(z)], axis=-1), dtype)


def _dft(x: Any, length: Any, axis: int, inverse: int, onesided: int) -> Any:
    axis += x.ndim if axis < 0 else 0
    count = None if length is None else values.one(length)
    if inverse and onesided:
        whole = fft.irfft(_complex(x), n=count, axis=axis)
        return fn.astype(fn.expand_dims(whole, axis=-1), x.dtype)
    own = _complex(x)
    if onesided and x.shape[-1] == 1:
        return _pairs(fft.rfft(own, n=count, axis=axis), x.dtype)
    z = (fft.ifft if inverse else fft.fft)(own, n=count, axis=axis)
    if onesided:
        z = z[(*[slice(None)] * axis, slice(0, (count or own.shape[axis]) // 2 + 1))]
    return _pairs(z, x.dtype)


@define("DFT", since=20, host=(1, 2))
def dft(x: Any, length: Any = None, axis: Any = None, inverse: int = 0, onesided: int = 0) -> Any:
    return _dft(x, length, -2 if axis is None else values.one(axis), inverse, onesided)


@define("DFT", host=(1,))
def dft_by_attribute(x: Any, length: Any = None, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    return _dft(x, length, axis, inverse, onesided)


@define("STFT", host=(1, 3))
def stft(x: Any, step: Any, window: Any = None, length: Any = None, onesided: int = 1) -> Any:
    hop = values.one(step)
    size = window.shape[0] if length is None else values.one(length)
    signal = _complex(x) if x.ndim == 3 else x
    count = (signal.shape[1] - size) // hop + 1
    starts = np.arange(count)[:, None] if type(count) is int else fn.expand_dims(fn.arange(count), axis=1)
    places = starts * hop + np.arange(size)
    frames = fn.take(signal, places, axis=1)
    if window is not None:
        frames = frames * window
    is_real = x.ndim == 2 or x.shape[-1] == 1
    z = fft.rfft(frames, axis=2) if onesided and is_real else fft.fft(frames, axis=2)
    if onesided and not is_real:
        z = z[..., : size // 2 + 1]
    return _pairs(z, x.dtype)


def _window(size: Any, terms: tuple[float, ...], periodic: int, number: int) -> Any:
    dtype = values.dtype_of_number(number)
    count = values.one(size)
    places = np.arange(count, dtype=np.float64) * 2 * math.pi / (count if periodic else count - 1)
    total = sum(term * np.cos(i * places) for i, term in enumerate(terms))
    return fn.asarray(np.asarray(total)).astype(dtype)


@define("HannWindow", host=(0,))
def hann_window(size: Any, output_datatype: int = 1, periodic: int = 1) -> Any:
    return _window(size, (0.5, -0.5), periodic, output_datatype)


@define("HammingWindow", host=(0,))
def hamming_window(size: Any, output_datatype: int = 1, periodic: int = 1) -> Any:
    return _window(size, (25 / 46, -21 / 46), periodic, output_datatype)


@define("BlackmanWindow", host=(0,))
def blackman_window(size: Any, output_datatype: int = 1, periodic: int = 1) -> Any:
    return _window(size, (0.42, -0.5, 0.08), periodic, output_datatype)


@define("MelWeightMatrix", host=(0, 1, 2, 3, 4))
def mel_weight_matrix(bins: Any, length: Any, rate: Any, lower: Any, upper: Any, output_datatype: int = 1) -> Any:
    count, size, sample_rate = values.one(bins), values.one(length), values.one(rate)
    low, high = float(values.one(lower)), float(values.one(upper))
    edges = [2595 * math.log10(1 + each / 700) for each in (low, high)]
    step = (edges[1] - edges[0]) / (count + 2)
    mels = np.arange(count + 2) * step + edges[0]
    places = ((size + 1) * (700 * (10 ** (mels / 2595) - 1)) // sample_rate).astype(int)
    result = np.zeros((size // 2 + 1, count))
    for i in range(count):
        begin, middle, end = places[i : i + 3]
        if middle == begin:
            result[middle, i] = 1
        else:
            result[begin : middle + 1, i] = (np.arange(begin, middle + 1) - begin) / (middle - begin)
        if end > middle:
            result[middle:end, i] = (end - np.arange(middle, end)) / (end - middle)
    return fn.asarray(result).astype(values.dtype_of_number(output_datatype))
