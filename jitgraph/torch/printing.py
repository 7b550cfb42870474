"""The text of a tensor, as PyTorch prints it, and ``set_printoptions``.

Source of the layout: PyTorch's documentation of ``torch.set_printoptions``, and texts that PyTorch printed, which the
tests compare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jitgraph.torch.scalar_types import get_default_dtype, scalar_type


@dataclass(frozen=True)
class PrintOptions:
    """How tensors are printed: see ``set_printoptions``."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_current = [PrintOptions()]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Digits behind the point, elements above which a tensor is abridged, how many then stand at each end, columns."""
    options = _current[0] if profile is None else _PROFILES[profile]
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _current[0] = replace(options, sci_mode=sci_mode, **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]


class _Numbers:
    """How the real numbers of a tensor are written: all in one width, in one notation."""

    def __init__(self, array: np.ndarray[Any, Any], options: PrintOptions) -> None:
        self.options = options
        self.floats = array.dtype.kind == "f"
        self.integral, self.scientific, self.width = True, False, 1
        if not self.floats:
            self.width = max([1, *(len(str(number)) for number in array.ravel().tolist())])
            return
        numbers = array.astype(np.float64).ravel()
        numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
        if not numbers.size:
            return
        sizes = np.abs(numbers)
        greatest, least = sizes.max(), sizes.min()
        with np.errstate(over="ignore"):
            wide = greatest / least > 1000 or greatest > 1e8
        self.integral = bool((numbers == np.ceil(numbers)).all())
        self.scientific = bool(wide or (not self.integral and least < 1e-4))
        if options.sci_mode is not None:
            self.scientific = options.sci_mode
        self.width = max([1, *(len(self._digits(number)) for number in numbers.tolist())])

    def _digits(self, number: Any) -> str:
        if self.scientific:
            return f"{number:.{self.options.precision}e}"
        if self.integral:
            return f"{number:.0f}." if math.isfinite(number) else f"{number:.0f}"
        return f"{number:.{self.options.precision}f}"

    def text(self, number: Any) -> str:
        """One number, filled to the width with blanks in front."""
        return (self._digits(number) if self.floats else str(number)).rjust(self.width)


class _Complex:
    """How complex numbers are written: both parts in widths of their own."""

    def __init__(self, array: np.ndarray[Any, Any], options: PrintOptions) -> None:
        self.real, self.imag = _Numbers(array.real, options), _Numbers(array.imag, options)
        self.width = self.real.width + self.imag.width + 1

    def text(self, number: complex) -> str:
        """One number."""
        imag = self.imag.text(number.imag).lstrip() + "j"
        return self.real.text(number.real) + ("" if imag[0] in "+-" else "+") + imag


def _abridged(array: np.ndarray[Any, Any], edge: int) -> np.ndarray[Any, Any]:
    """The elements that are shown of an array too large to be shown whole."""
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            array = np.take(array, [*range(edge), *range(size - edge, size)], axis=axis)
    return array


def _rows(array: np.ndarray[Any, Any], indent: int, numbers: Any, options: PrintOptions, abridge: bool) -> str:
    edge = options.edgeitems
    cut = abridge and array.ndim and array.shape[0] > 2 * edge
    if array.ndim == 0:
        return str(numbers.text(array.item()))
    if array.ndim == 1:
        shown = array.astype(np.float64) if array.dtype.kind == "f" else array
        texts = [numbers.text(number) for number in shown[:edge].tolist()] if cut else []
        texts += [" ..."] if cut else []
        texts += [numbers.text(number) for number in (shown[-edge:] if cut else shown).tolist()]
        per_line = max(1, (options.linewidth - indent) // (numbers.width + 2))
        lines = [", ".join(texts[first : first + per_line]) for first in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    inner = [*array[:edge], None, *array[-edge:]] if cut else [*array]
    parts = ["..." if row is None else _rows(row, indent + 1, numbers, options, abridge) for row in inner]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def text_of(x: Any) -> str:
    """``repr`` of a tensor outside of traces."""
    options = _current[0]
    prefix = "tensor("
    array = np.asarray(x.detach().cpu().numpy())
    kind = scalar_type(array.dtype)
    if kind.is_floating_point and array.dtype.kind != "f":  # bfloat16
        array = array.astype(np.float32)
    default = get_default_dtype()
    usual = {default, default.to_complex(), scalar_type(np.dtype(np.int64)), scalar_type(np.dtype(np.bool_))}
    endings: list[str] = []
    if x.device.type != "cpu":
        endings.append(f"device='{x.device}'")
    if not array.size:
        if array.ndim != 1:
            endings.append(f"size={tuple(array.shape)}")
        body = "[]"
        if kind != default:
            endings.append(f"dtype={kind!r}")
    else:
        if kind not in usual:
            endings.append(f"dtype={kind!r}")
        abridge = array.size > options.threshold
        shown = _abridged(array, options.edgeitems) if abridge else array
        numbers = _Complex(shown, options) if array.dtype.kind == "c" else _Numbers(shown, options)
        body = _rows(array, len(prefix), numbers, options, abridge)
    if x.grad_fn is not None:
        endings.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        endings.append("requires_grad=True")
    text = _with_endings(prefix + body, endings, len(prefix), options.linewidth)
    return f"Parameter containing:\n{text}" if x._is_parameter else text


def _with_endings(text: str, endings: list[str], indent: int, columns: int) -> str:
    """The text with what follows the elements, on lines of its own where the last one would grow too long."""
    parts = [text]
    length = len(text) - text.rfind("\n") + 1
    for ending in endings:
        if length + len(ending) + 2 > columns:
            parts.append(",\n" + " " * indent + ending)
            length = indent + len(ending)
        else:
            parts.append(", " + ending)
            length += len(ending) + 2
    return "".join(parts) + ")"
