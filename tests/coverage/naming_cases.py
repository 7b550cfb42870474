"""Functions that PyTorch has beside its families: combinations, runs, spectra, windows, segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.coverage.case import case, integers, positive

M, N = (3, 5), (2, 3, 4)
LENGTHS = np.array([2, 0, 3])
RUNS = np.array([1, 1, 2, 2, 2, 1, 3])
PLACES = np.array([0, 2, 0])


def _complex(m: Any, x: Any) -> Any:
    """The samples as the real part of complex ones."""
    return m.complex(x, x * 0.5)


CASES = [
    case("cartesian_prod", lambda m, x, y: m.cartesian_prod(x, y), None, (3,), (2,)),
    case("cartesian_prod of one", lambda m, x: m.cartesian_prod(x), None, (3,)),
    case("combinations", lambda m, x: m.combinations(x, 3), None, (5,)),
    case("combinations, with replacement", lambda m, x: m.combinations(x, 2, True), None, (4,)),
    case("unravel_index", lambda m, i: m.unravel_index(i, (4, 5)), None, integers((6,), 0, 20)),
    case("put", lambda m, x, v: m.put(x, m.asarray(PLACES + 4), v), None, M, (3,), second=False, gradient=False),
    case("put, accumulate", lambda m, x, v: m.put(x, m.asarray(PLACES), v, True), None, M, (3,)),
    case("logaddexp2", lambda m, x, y: m.logaddexp2(x, y), None, M, M),
    case("isposinf", lambda m, x: m.isposinf(x), None, np.array([1.0, np.inf, -np.inf, np.nan])),
    case("isneginf", lambda m, x: m.isneginf(x), None, np.array([1.0, np.inf, -np.inf, np.nan])),
    case("isreal", lambda m, x: m.isreal(x), None, M, gradient=False),
    case("addbmm", lambda m, x, a, b: m.addbmm(x, a, b, beta=0.5, alpha=2), None, (3, 2), N, (2, 4, 2)),
    case(
        "unique_consecutive",
        lambda m, x: m.unique_consecutive(x, return_inverse=True, return_counts=True),
        None,
        RUNS,
        traced=False,
    ),
    case(
        "unique, rows",
        lambda m, x: m.unique(x, return_inverse=True, return_counts=True, axis=0),
        lambda t, x: t.unique(x, return_inverse=True, return_counts=True, dim=0),
        integers((6, 2), 0, 2),
        traced=False,
    ),
    *(
        case(
            f"index_reduce, {how}, include_self={own}",
            lambda m, x, y, how=how, own=own: m.index_reduce(x, 0, m.asarray(PLACES), y, how, include_self=own),
            None,
            M,
            positive((3, 5)),
            second=how == "prod",
        )
        for how in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    ),
    *(
        case(
            f"segment_reduce, {how}",
            lambda m, x, how=how: m.segment_reduce(x, how, lengths=m.asarray(LENGTHS), axis=0, initial=2.0),
            None,
            (5, 2),
            second=False,
        )
        for how in ("sum", "mean", "max", "min", "prod")
    ),
    case(
        "histogramdd",
        lambda m, x: m.histogramdd(x, 3, range=(-1.0, 1.0, -2.0, 2.0))[0],
        lambda t, x: t.histogramdd(x.detach(), [3, 3], range=(-1.0, 1.0, -2.0, 2.0))[0],
        (20, 2),
    ),
    *(
        case(f"{name}_window", lambda m, x, name=name: x * getattr(m, f"{name}_window")(7, dtype=m.float64), None, (7,))
        for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")
    ),
    case("logspace", lambda m, x: x * m.logspace(-1.0, 2.0, 5, 3.0, dtype=m.float64), None, (5,)),
    case(
        "stft",
        lambda m, x: m.view_as_real(m.stft(x, 8)),
        lambda t, x: t.view_as_real(t.stft(x, 8, return_complex=True)),
        (3, 40),
    ),
    case(
        "stft, window, odd sizes, both sides",
        lambda m, x, w: m.view_as_real(m.stft(x, 9, 3, 7, w, pad_mode="constant", normalized=True, onesided=False)),
        lambda t, x, w: t.view_as_real(
            t.stft(x, 9, 3, 7, w, pad_mode="constant", normalized=True, onesided=False, return_complex=True)
        ),
        (40,),
        (7,),
    ),
    case(
        "stft, no centre",
        lambda m, x: m.view_as_real(m.stft(x, 8, 2, center=False)),
        lambda t, x: t.view_as_real(t.stft(x, 8, 2, center=False, return_complex=True)),
        (20,),
    ),
    case(
        "stft of complex numbers",
        lambda m, x: m.view_as_real(m.stft(_complex(m, x), 8)),
        lambda t, x: t.view_as_real(t.stft(_complex(t, x), 8, return_complex=True)),
        (20,),
    ),
    case(
        "istft",
        lambda m, x, w: m.istft(m.view_as_complex(x), 8, 2, window=w),
        None,
        (2, 5, 6, 2),
        positive((8,)),
    ),
    case(
        "istft, length, normalized",
        lambda m, x, w: m.istft(m.view_as_complex(x), 9, 3, window=w, normalized=True, length=11),
        None,
        (5, 6, 2),
        positive((9,)),
    ),
    case(
        "istft, both sides",
        lambda m, x: m.istft(m.view_as_complex(x), 6, 3, onesided=False),
        None,
        (6, 4, 2),
    ),
    *(
        case(f"fft.{name}", lambda m, x, name=name: getattr(m.fft, name)(x, norm="ortho"), None, N)
        for name in ("hfft2", "hfftn")
    ),
    *(
        case(f"fft.{name}", lambda m, x, name=name: m.view_as_real(getattr(m.fft, name)(x)), None, N)
        for name in ("ihfft2", "ihfftn")
    ),
]
