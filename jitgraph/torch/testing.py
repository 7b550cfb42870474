"""``torch.testing``: tensors compared within PyTorch's tolerances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jitgraph as jg
from jitgraph.torch import module_reasons
from jitgraph.torch.functions import allclose, as_tensor
from jitgraph.torch.functions.draws import rand, randint

_TOLERANCES: Final = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "complex64": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""Relative and absolute tolerance by dtype; of others both are 0."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError where tensors, numbers, or sequences and mappings of them differ by more than the tolerances.

    Those of their dtype unless both are given, the greater of both where dtypes differ; ValueError for one alone.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or unspecified, but got {rtol=} and {atol=} instead."
        )

    def fail(text: str) -> None:
        raise AssertionError(msg(text) if callable(msg) else msg if msg is not None else text)

    def compare(x: Any, y: Any, where: str) -> None:
        if isinstance(y, Mapping) and isinstance(x, Mapping):
            if x.keys() != y.keys():
                fail(f"The keys of the mappings do not match: {sorted(x)} and {sorted(y)}{where}")
            for key in y:
                compare(x[key], y[key], f"\n\nThe failure occurred for item [{key!r}]")
            return
        if isinstance(y, Sequence) and isinstance(x, Sequence) and not isinstance(y, str):
            if len(x) != len(y):
                fail(f"The length of the sequences mismatch: {len(x)} != {len(y)}{where}")
            for number, pair in enumerate(zip(x, y, strict=True)):
                compare(*pair, f"\n\nThe failure occurred for item [{number}]")
            return
        if isinstance(x, jg.Tensor) != isinstance(y, jg.Tensor) and not allow_subclasses:
            fail(f"a {type(x).__name__} is compared with a {type(y).__name__}{where}")
        if text := _difference(as_tensor(x), as_tensor(y)):
            fail(text + where)

    def _difference(x: Any, y: Any) -> str:
        if x.shape != y.shape:
            return f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}."
        if check_device and x.device != y.device:
            return f"The values for attribute 'device' do not match: {x.device} != {y.device}."
        if check_dtype and x.dtype != y.dtype:
            return f"The values for attribute 'dtype' do not match: {x.dtype} != {y.dtype}."
        if check_stride and x.stride() != y.stride():
            return f"The values for attribute 'stride()' do not match: {x.stride()} != {y.stride()}."
        kinds = [_TOLERANCES.get(str(t.dtype).removeprefix("torch."), (0.0, 0.0)) for t in (x, y)]
        relative, absolute = (max(pair) for pair in zip(*kinds, strict=True))
        if rtol is not None and atol is not None:
            relative, absolute = rtol, atol
        left, right = x.detach().cpu().double() if not x.is_complex() else x.detach().cpu(), y.detach().cpu()
        right = right.double() if not right.is_complex() else right
        if allclose(left, right, relative, absolute, equal_nan):
            return ""
        kind = "Scalars are" if not x.ndim else "Tensor-likes are"
        close = (left - right).abs() <= absolute + relative * right.abs()
        count = int((~(close | (left == right))).sum())
        greatest = (left - right).abs().max().item()
        return (
            f"{kind} not {'equal' if not (relative or absolute) else 'close'}!\n\nMismatched elements: {count} / "
            f"{x.numel()} ({count / x.numel():.1%})\nGreatest absolute difference: {greatest} (up to {absolute} "
            f"allowed)\nThe relative tolerance is {relative}"
        )

    compare(actual, expected, "")


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of numbers drawn uniformly from [low, high): [-9, 9) unless given, [0, 10) of unsigned and [0, 2) of
    bools."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    kind = str(dtype).removeprefix("torch.")
    usual = (0, 2) if kind == "bool" else (0, 10) if kind.startswith("uint") else (-9, 9)
    begin, end = usual[0] if low is None else low, usual[1] if high is None else high
    if dtype.is_floating_point or dtype.is_complex:
        result = (rand(sizes, dtype=dtype, device=device) * (end - begin) + begin).to(dtype)
    else:
        result = randint(int(begin), int(end), sizes, device=device).to(dtype)
    if exclude_zero:
        result = result.masked_fill(result == 0, 1)
    return result.requires_grad_() if requires_grad else result


__getattr__ = module_reasons.refusal("torch.testing")
