"""Fourier transforms: NumPy's results and parameters, accuracy for sizes of each kind, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

RNG = np.random.default_rng(3)
A = RNG.normal(size=(3, 4, 6))
Z = A + 1j * RNG.normal(size=A.shape)
ONE: list[dict[str, Any]] = [
    {},
    {"n": 5},
    {"n": 9, "axis": 0},
    {"axis": 1, "norm": "ortho"},
    {"norm": "forward"},
]
SEVERAL: list[dict[str, Any]] = [{}, {"axes": (0, 2), "norm": "ortho"}, {"s": (2, 8), "axes": (1, 2)}]
CALLS = [
    *((name, kw) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for kw in ONE),
    *((name, kw) for name in ("fftn", "ifftn", "rfftn", "irfftn") for kw in SEVERAL),
    *((name, {}) for name in ("fft2", "ifft2", "rfft2", "irfft2")),
]


@pytest.mark.parametrize(("name", "kw"), CALLS, ids=str)
def test_transforms_are_numpys(name: str, kw: dict[str, Any]) -> None:
    x = A if name in ("rfft", "ihfft", "rfftn", "rfft2") else Z
    expected, actual = getattr(np.fft, name)(x, **kw), getattr(jg.fft, name)(jg.asarray(x), **kw).numpy()
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 30, 37, 97, 1000, 1024])  # 37 and 97 are convolutions
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_errors_stay_below_u_log_n(n: int, dtype: Any) -> None:
    z = (RNG.normal(size=n) + 1j * RNG.normal(size=n)).astype(dtype)
    wide = np.fft.fft(z.astype(np.complex128))
    real, wide_real = z.real.copy(), np.fft.rfft(z.real.astype(np.float64))
    unit = np.finfo(dtype).eps / 2 * max(1.0, np.log2(n))
    pairs = [
        (jg.fft.fft(jg.asarray(z)), wide),
        (jg.fft.ifft(jg.asarray(wide.astype(dtype))), z),
        (jg.fft.rfft(jg.asarray(real)), wide_real),
        (jg.fft.irfft(jg.asarray(wide_real.astype(dtype)), n), real),
    ]
    for actual, expected in pairs:
        assert actual.dtype == (real if expected is real else z).dtype
        error = np.linalg.norm(actual.numpy() - expected) / np.linalg.norm(expected)
        assert error <= 1.5 * unit, error / unit


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_gradients_are_adjoints(name: str) -> None:
    function = getattr(jg.fft, name)
    x = jg.asarray((A if name == "rfft" else Z)[0])
    shape = function(x).shape
    weight = jg.asarray(RNG.normal(size=shape) + (0 if name == "irfft" else 1j * RNG.normal(size=shape)))
    loss = lambda x: (function(x) * weight).real.sum() + (jg.abs(function(x)) ** 2).sum()
    first = jg.grad(loss)(x).numpy()
    assert first.tobytes() == jg.trace(jg.grad(loss))(x).numpy().tobytes()
    step = RNG.normal(size=x.shape) + (0 if name == "rfft" else 1j * RNG.normal(size=x.shape))
    up, down = (loss(jg.asarray(x.numpy() + sign * 1e-6 * step)).item() for sign in (1, -1))
    np.testing.assert_allclose((np.conj(first) * step).real.sum(), (up - down) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_and_shifts(n: int) -> None:
    np.testing.assert_array_equal(jg.fft.fftfreq(n, 0.5, dtype=jg.float64).numpy(), np.fft.fftfreq(n, 0.5))
    np.testing.assert_array_equal(jg.fft.rfftfreq(n, 0.5, dtype=jg.float64).numpy(), np.fft.rfftfreq(n, 0.5))
    x = np.arange(n * 3).reshape(n, 3)
    for axes in (None, 0, (0, 1)):
        np.testing.assert_array_equal(jg.fft.fftshift(jg.asarray(x), axes).numpy(), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(jg.fft.ifftshift(jg.asarray(x), axes).numpy(), np.fft.ifftshift(x, axes))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jg.fft.fft(jg.ones((0,))), jg.ShapeError, "no positive number"),
        (lambda: jg.fft.fft(jg.ones((3,)), n=0), jg.ShapeError, "n is at least 1"),
        (lambda: jg.fft.fft(jg.ones((3,)), norm="half"), jg.JitgraphError, "'backward', 'ortho' or 'forward'"),
        (lambda: jg.fft.rfft(jg.ones((3,), dtype=jg.complex64)), jg.DTypeError, "jg.fft.fft takes complex"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
