"""Comparison of a result with PyTorch's: structure, shapes, dtypes and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.torch.opinfo.translation import array_of, dtype_name

# Relative tolerance, and the absolute one as part of the largest element, by dtype.
TOLERANCES = {
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.float64: (1e-7, 1e-9),
    torch.complex128: (1e-7, 1e-9),
}


class Differs(AssertionError):
    """A result that is not PyTorch's."""


@dataclasses.dataclass
class Manner:
    """What of a result is compared."""

    values: bool = True  # False for random and uninitialised results
    phases: bool = True  # False for eigenvectors and the like, which are unique up to a factor
    tolerance: torch.dtype | None = None  # the dtype in which is computed, if not the result's
    rough: torch.dtype | None = None  # the dtype in whose precision results agree
    precise: Callable[[], Any] | None = (
        None  # the same result of PyTorch in double precision, asked where values differ
    )

    def check(self, want: Any, got: Any, what: str = "result") -> None:
        """Raise Differs where the results are not the same; in case of doubt double precision tells which is nearer."""
        try:
            self._check(want, got, None, what)
        except Differs:
            if self.precise is None or not _floats(want):
                raise
            self._check(want, got, self.precise(), what)

    def _check(self, want: Any, got: Any, precise: Any, what: str) -> None:
        if isinstance(want, torch.Tensor):
            self._tensor(want, got, precise, what)
        elif isinstance(want, dict):
            if not isinstance(got, dict) or list(want) != list(got):
                raise Differs(f"{what}: keys {_short(got)} instead of {list(want)}")
            for key in want:
                self._check(want[key], got[key], None, f"{what}[{key!r}]")
        elif isinstance(want, list | tuple):
            if not isinstance(got, list | tuple) or len(got) != len(want):
                raise Differs(f"{what}: {_short(got)} instead of {len(want)} values")
            if isinstance(want, list) != isinstance(got, list):
                raise Differs(f"{what}: a {type(got).__name__} instead of a {type(want).__name__}")
            names = [] if isinstance(want, torch.Size) else getattr(want, "__match_args__", ())
            for name in names:
                if not hasattr(got, name):
                    raise Differs(f"{what}: no field {name}")
            parts = precise if isinstance(precise, list | tuple) and len(precise) == len(want) else [None] * len(want)
            for i, (one, other, part) in enumerate(zip(want, got, parts, strict=True)):
                self._check(one, other, part, f"{what}[{i}]")
        elif isinstance(want, torch.dtype):
            if dtype_name(want) != dtype_name(got):
                raise Differs(f"{what}: {got} instead of {want}")
        elif isinstance(want, bool | int | float | complex) and self.values:
            if type(got) is not type(want):
                raise Differs(f"{what}: {type(got).__name__} instead of {type(want).__name__}")
            if not np.allclose(want, got, rtol=1e-4, equal_nan=True):
                raise Differs(f"{what}: {got} instead of {want}")
        elif want is None and got is not None:
            raise Differs(f"{what}: {_short(got)} instead of None")

    def _tensor(self, want: torch.Tensor, got: Any, precise: Any, what: str) -> None:
        if not hasattr(got, "dtype") or not hasattr(got, "shape") or isinstance(got, np.ndarray):
            raise Differs(f"{what}: {type(got).__name__} instead of Tensor")
        if tuple(got.shape) != tuple(want.shape):
            raise Differs(f"{what}: shape {tuple(got.shape)} instead of {tuple(want.shape)}")
        if dtype_name(got.dtype) != dtype_name(want.dtype):
            raise Differs(f"{what}: dtype {dtype_name(got.dtype)} instead of {dtype_name(want.dtype)}")
        if not self.values or want.numel() == 0:
            return
        a, b = array_of(want), array_of(got)
        if not self.phases:
            a, b = np.abs(a), np.abs(b)
        if not np.issubdtype(a.dtype, np.inexact):
            if not np.array_equal(a, b):
                raise Differs(f"{what}: values {_values(b, a != b)} instead of {_values(a, a != b)}")
            return
        doubled = want.dtype in (torch.float64, torch.complex128)
        computed = self.tolerance if self.tolerance and doubled else want.dtype
        wrong = ~close(a, b, self.rough or computed)
        if wrong.any() and isinstance(precise, torch.Tensor) and precise.shape == want.shape:
            exact = np.abs(array_of(precise)) if not self.phases else array_of(precise)
            wrong &= ~near(exact, a, b, want.dtype)
        if wrong.any():
            raise Differs(f"{what}: values {_values(b, wrong)} instead of {_values(a, wrong)}")


def close(want: np.ndarray, got: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    relative, absolute = TOLERANCES[dtype]
    finite = np.abs(want[np.isfinite(want)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    with np.errstate(all="ignore"):
        return np.isclose(got, want, rtol=relative, atol=absolute * scale, equal_nan=True)


def near(exact: np.ndarray, want: np.ndarray, got: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Whether a result is about as near to the result in double precision as PyTorch's is."""
    with np.errstate(all="ignore"):
        theirs, ours = np.abs(want - exact), np.abs(got - exact)
        return np.asarray(ours <= 4 * theirs + 4 * torch.finfo(dtype).eps * np.abs(exact))


def _floats(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_floats(item) for item in value)
    inexact = (torch.float16, torch.bfloat16, torch.float32, torch.complex64)
    return isinstance(value, torch.Tensor) and value.dtype in inexact


def _short(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, list | tuple) else type(value).__name__


def _values(array: np.ndarray, wrong: np.ndarray) -> str:
    return ", ".join(str(x) for x in np.asarray(array)[wrong].reshape(-1)[:3])
