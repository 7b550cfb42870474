"""PyTorch's forms of random tensors: sizes as arguments, and tensors like another."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes
from jitgraph.errors import JitgraphError
from jitgraph.random import basic
from jitgraph.random.basic import device_of, normal, permutation, uniform
from jitgraph.random.generator import Generator
from jitgraph.tensor import Tensor, tensor_of
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import items


def _sizes(name: str, sizes: tuple[Any, ...]) -> Any:
    if len(sizes) == 1 and items(sizes[0]) is not None:
        return sizes[0]
    if any(items(size) is not None for size in sizes):
        raise JitgraphError(f"{name}: sizes are numbers, or one tuple of them, not {sizes}")
    return sizes


@array_function
def rand(
    *sizes: Any,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1), of this shape: ``rand(2, 3)`` or ``rand((2, 3))``; float32 unless ``dtype`` is given."""
    return uniform(_sizes("rand", sizes), dtype=dtype, generator=generator, device=device)


@array_function
def randn(
    *sizes: Any,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal, of this shape: ``randn(2, 3)`` or ``randn((2, 3))``; float32 unless ``dtype`` is given."""
    return normal(_sizes("randn", sizes), dtype=dtype, generator=generator, device=device)


@array_function
def randperm(
    n: Any, *, generator: Generator | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """The numbers 0 to n - 1 in random order (int64)."""
    return permutation(n, generator=generator, device=device)


@array_function
def randint(
    low: Any,
    high: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers in [low, high): ``randint(low, high, size)``, or ``randint(high, size)`` from 0; int64 unless given."""
    if size is None and items(high) is not None:
        low, high, size = 0, low, high
    if size is None or high is None:
        raise JitgraphError("randint takes low, high and size, or high and size")
    return basic.randint(low, high, size, dtype=dtype, generator=generator, device=device)


def _like(x: TensorLike, dtype: Any, device: str | None) -> tuple[tuple[Any, ...], Any, str | None]:
    tensor = tensor_of(x)
    return tensor.value.shape, tensor.dtype if dtype is None else dtype, device or device_of(x)


@array_function
def rand_like(
    x: TensorLike,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1), of x's shape and device, and its dtype unless one is given; DTypeError for integers."""
    shape, kind, target_device = _like(x, dtype, device)
    return uniform(shape, dtype=kind, generator=generator, device=target_device)


@array_function
def randn_like(
    x: TensorLike,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal, of x's shape and device, and its dtype unless one is given; DTypeError for integers."""
    shape, kind, target_device = _like(x, dtype, device)
    return normal(shape, dtype=kind, generator=generator, device=target_device)


@array_function
def randint_like(
    x: TensorLike,
    low: int,
    high: int | None = None,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers in [low, high), or [0, low) without ``high``, of x's shape and device; its dtype unless one is given."""
    shape, kind, target_device = _like(x, dtype, device)
    first, last = (0, low) if high is None else (low, high)
    if dtypes.is_float(dtypes.canonical(kind)):
        return basic.randint(first, last, shape, generator=generator, device=target_device).astype(kind)  # type: ignore[no-any-return]
    return basic.randint(first, last, shape, dtype=kind, generator=generator, device=target_device)
