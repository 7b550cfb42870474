"""Operands as PyTorch promotes them, and the forms that many operators share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.autograd.transforms import vjp
from jitgraph.dtypes import canonical
from jitgraph.eager.handle import stopped
from jitgraph.errors import UnsupportedOp
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor import functions as fn
from jitgraph.torch.layouts import storage_positions
from jitgraph.torch.promotion import converted as converted
from jitgraph.torch.promotion import promoted as promoted
from jitgraph.torch.promotion import to_inexact as to_inexact


def unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """The operator ``name(self)`` of a function of one tensor."""

    def operator(self: Any) -> Any:
        return function(self)

    return operator


def unary_float(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """As ``unary``, of a function whose results are floats: integers and bools count as the default float dtype."""

    def operator(self: Any) -> Any:
        return function(to_inexact(self))

    return operator


def binary(function: Callable[[Any, Any], Any], tensors: str = "either") -> Callable[..., Any]:
    """The operator ``name(self, other)`` of a function of two operands, promoted as in PyTorch.

    ``tensors`` says which of them has to be a tensor, and no number: "first", "both" or "either".
    """

    def operator(self: Any, other: Any) -> Any:
        require_tensors(function.__name__, tensors, self, other)
        return function(*promoted(self, other))

    return operator


def require_tensors(name: str, tensors: str, self: Any, other: Any) -> None:
    """TypeError where an operand that has to be a tensor, as ``binary`` says, is a number."""
    first, second = isinstance(self, Tensor), isinstance(other, Tensor)
    if {"first": first, "both": first and second, "either": first or second}[tensors]:
        return
    position, wrong = (2, other) if first else (1, self)
    raise TypeError(
        f"{name}(): argument {position} must be a tensor, not {type(wrong).__name__}\n  hint: torch.tensor(number)"
    )


def scaled(operand: Any, alpha: Any) -> Any:
    """``alpha * operand``, the operand itself for 1."""
    if isinstance(alpha, int | float) and alpha == 1:
        return operand
    if isinstance(operand, Tensor) and isinstance(alpha, int):
        alpha = wrapped(alpha, operand.dtype)
    return operand * alpha


def wrapped(number: Any, dtype: Any) -> Any:
    """A number in a dtype: negative ints as the unsigned numbers with their bits, floats without fractions for ints."""
    kind = canonical(dtype)
    if isinstance(number, float) and dtypes.kind_rank(kind) == 1:
        number = int(number)
    if isinstance(number, int) and number < 0 and kind.kind == "u":
        return number % (1 << 8 * kind.itemsize)
    return number


def cast(result: Any, dtype: Any) -> Any:
    """``result`` in ``dtype``, unchanged for None."""
    return result if dtype is None else converted(result, canonical(dtype))


def sum_dtype(self: Any, dtype: Any) -> Any:
    """The dtype of sums and products: that which is asked for, else int64 of integers and bools."""
    return dtypes.int64 if dtype is None and dtypes.kind_rank(self.dtype) < 2 else dtype


def is_bool(operand: Any) -> bool:
    """Whether an operand is a bool, or a tensor of them."""
    return isinstance(operand, bool) or (isinstance(operand, Tensor) and dtypes.is_bool(operand.dtype))


def is_complex(operand: Any) -> bool:
    """Whether an operand is a complex number, or a tensor of them."""
    return isinstance(operand, complex) or (isinstance(operand, Tensor) and dtypes.is_complex(operand.dtype))


def is_integral(operand: Any) -> bool:
    """Whether an operand is an integer or a bool, or a tensor of them."""
    if isinstance(operand, Tensor):
        return dtypes.kind_rank(operand.dtype) < 2
    return not isinstance(operand, float | complex)


def axes(dim: Any) -> Any:
    """PyTorch's ``dim`` of a reduction as an axis: None and an empty list are all axes."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return None
    return tuple(dim) if isinstance(dim, list | tuple) else dim


def with_an_axis(operator: Callable[..., Any]) -> Callable[..., Any]:
    """An operator along axes, for which a tensor of rank 0 has one: ``dim`` may be 0 or -1 as in PyTorch."""

    @functools.wraps(operator)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.ndim:
            return operator(self, *args, **kwargs)
        result = operator(fn.reshape(self, (1,)), *args, **kwargs)
        if isinstance(result, tuple):
            return tuple(fn.reshape(part, ()) for part in result)
        return fn.reshape(result, ())

    return call


def factors(self: Any, **numbers: Any) -> dict[str, Any]:
    """Numbers by which tensors of a dtype are scaled, as ints where it has no fractions."""
    integral = dtypes.kind_rank(self.dtype) < 2
    return {name: wrapped(x, self.dtype) if integral else x for name, x in numbers.items()}


def truths(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of truth values as an operator on any numbers: complex ones count as true where they are not 0."""

    def truth(x: Any) -> Any:
        return fn.not_equal(x, 0) if isinstance(x, Tensor) and dtypes.is_complex(x.dtype) else x

    if function is fn.logical_not:
        return unary(lambda x: function(truth(x)))

    def operator(self: Any, other: Any) -> Any:
        require_tensors(function.__name__, "both", self, other)
        return function(truth(self), truth(other))

    return operator


def by_kind(real: Callable[..., Any], complex: Callable[..., Any]) -> Callable[[Any], Any]:
    """The operator of one tensor that is another formula for complex numbers; integers count as floats."""

    def operator(self: Any) -> Any:
        x = to_inexact(self)
        return complex(x) if dtypes.is_complex(x.dtype) else real(x)

    return operator


def with_bools(operator: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that adds or multiplies, which takes bools as 0 and 1, and gives of bools whether it is not 0."""

    @functools.wraps(operator)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_bool(self):
            return operator(self, *args, **kwargs)
        number = lambda x: fn.astype(x, dtypes.int64) if is_bool(x) and isinstance(x, Tensor) else x
        words = {name: number(value) for name, value in kwargs.items()}
        result = operator(number(self), *map(number, args), **words)
        first, *rest = result if isinstance(result, tuple) else (result,)
        truth = fn.not_equal(first, 0)
        return (truth, *rest) if rest else truth

    return call


def vectors(*tensors: Any) -> list[Any]:
    """Tensors, those of rank 0 as vectors of one element."""
    return [x if x.ndim else fn.reshape(x, (1,)) for x in tensors]


def at_positions(self: Any, positions: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The elements at ``positions`` along ``dim``, and the positions; without that axis unless ``keepdim``."""
    values = fn.take_along_axis(self, positions, dim)
    return (values, positions) if keepdim else (fn.squeeze(values, dim), fn.squeeze(positions, dim))


def is_minus_one(size: Any) -> bool:
    """Whether a size of ``expand`` stands for the tensor's own."""
    return isinstance(size, int) and size == -1


def is_empty(tensor: Any) -> bool:
    """Whether a tensor is known to have no elements."""
    return any(isinstance(size, int) and size == 0 for size in tensor.shape)


def along(self: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """The index of a tensor that is ``index`` along an axis, and all of the others."""
    before = dim % int(self.ndim)
    return (slice(None),) * before + (index,)


_END: Final = (1 << 63) - 1  # what ATen's slices have where Python's have None


def bounds(start: Any, end: Any, step: Any) -> slice:
    """ATen's slice as Python's."""
    open_end = end is None or (type(end) is int and end == _END)
    return slice(start, None if open_end else end, step)


REDUCTION_NAMES: Final = {"add": "sum", "multiply": "prod"}
"""``scatter``'s words for how values meet, as those of ``scatter_reduce``."""


def index_dtype(out_int32: bool) -> Any:
    """The dtype of positions."""
    return dtypes.int32 if out_int32 else dtypes.int64


def subscript(indices: Any) -> tuple[Any, ...]:
    """ATen's list of index tensors, None for a whole axis, as an index of Python's."""
    return tuple(slice(None) if index is None else index for index in indices)


def full_indices(self: Any, indices: Any) -> tuple[Any, ...]:
    """Index tensors for every axis of ``self`` that together say what ATen's list with None for whole axes says."""
    given: list[Any] = []
    for index in indices:
        given += fn.nonzero(index) if is_bool(index) else [index]
    given += [None] * (self.ndim - len(given))
    if all(index is not None for index in given):
        return tuple(given)
    places = [axis for axis, index in enumerate(given) if index is not None]
    tensors = dict(zip(places, fn.broadcast_arrays(*(given[axis] for axis in places)), strict=True))
    count = tensors[places[0]].ndim
    adjacent = places == list(range(places[0], places[-1] + 1))
    first = places[0] if adjacent else 0  # before which so many whole axes stand in the result
    whole = [axis for axis in range(self.ndim) if axis not in tensors]
    rank = count + len(whole)
    full = []
    for axis in range(self.ndim):
        if axis in tensors:
            shape = (1,) * first + tuple(tensors[axis].shape) + (1,) * (rank - first - count)
            full.append(fn.reshape(tensors[axis], shape))
        else:
            order = whole.index(axis)
            position = order if order < first else order + count
            full.append(fn.reshape(fn.arange(self.shape[axis]), (1,) * position + (-1,) + (1,) * (rank - position - 1)))
    together: list[Any] = fn.broadcast_arrays(*full)
    return tuple(together)


def symmetric(self: Any, triangle: str) -> Any:
    """The Hermitian matrices of which ``self`` has the lower ("L") or upper ("U") triangle.

    The gradient of ``self`` is that of the Hermitian matrix, as in PyTorch: it is not of one triangle alone.
    """
    own = constant(self)
    part = fn.tril(own, -1) if triangle == "L" else fn.triu(own, 1)
    whole = fn.add(fn.add(part, fn.tril(fn.triu(own))), fn.conj(fn.matrix_transpose(part)))
    return with_gradient_of(self, whole)


def with_gradient_of(x: Any, value: Any) -> Any:
    """A constant of the shape of x, whose derivative with respect to x is 1."""
    return fn.add(value, fn.where(fn.isfinite(constant(x)), fn.subtract(x, constant(x)), 0))


def replaced(x: Any, value: Any) -> Any:
    """A constant of the shape and dtype of x, whose derivative with respect to x is 0."""
    return fn.where(fn.full((), False), x, value) if x.requires_grad else value


def constant(x: Any) -> Any:
    """The tensor as a constant: without a gradient."""
    return wrap(stopped(x.value))


def in_dtype(value: Any, dtype: Any) -> Any:
    """A tensor or a number as a tensor of the dtype."""
    return fn.astype(value, dtype) if isinstance(value, Tensor) else fn.full((), value, dtype=dtype)


def require_elements(name: str, self: Any, dim: Any) -> None:
    """IndexError where an axis of no elements is reduced by a function that has no value of none."""
    for axis in () if dim is None else dim if isinstance(dim, list | tuple) else (dim,):
        if self.ndim and isinstance(self.shape[axis], int) and self.shape[axis] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


def require_dtype(name: str, x: Any, source: Any) -> None:
    """RuntimeError where what is to be written to a tensor has another dtype."""
    if x._static.type.dtype != source._static.type.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")


def number(value: Any) -> Any:
    """A 0-d tensor as its number, which some functions take alone; JitgraphError in traces."""
    return value.item() if isinstance(value, Tensor) else value


def refuse(name: str, what: str) -> Any:
    """UnsupportedOp for an argument of an operator that has no meaning here."""
    raise UnsupportedOp(f"aten::{name} with {what} is not supported")


def pulled_back(forward: Callable[..., Any], primals: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
    """The derivative of a function of tensors, applied backwards: a cotangent for each of them."""
    _, pull = vjp(forward, *primals)
    cotangents: tuple[Any, ...] = pull(cotangent)
    return cotangents


def spectral_factor(sizes: Any, normalization: int) -> float:
    """What ATen's number of a normalisation multiplies a transform by: 1, 1 / sqrt(n) or 1 / n."""
    return float(1.0 / math.prod(sizes) ** (0, 0.5, 1)[normalization])


def strided(self: Any, size: Any, stride: Any, offset: Any) -> Any:
    """Elements of a tensor that lies in rows one after another, at ``offset`` plus multiples of the strides."""
    return fn.take(fn.ravel(self), storage_positions(size, stride, offset))


def count_of(sizes: Any) -> Any:
    """The number of elements of a shape."""
    return math.prod(sizes)


def with_axes(self: Any, axes: Any) -> Any:
    """The tensor with new axes of size 1 at these positions, one after another."""
    for axis in axes:
        self = fn.expand_dims(self, axis)
    return self


def without(sizes: Any, axis: int) -> tuple[Any, ...]:
    """A shape without one of its axes."""
    return (*sizes[:axis], *sizes[axis + 1 :])


def degree(n: Any) -> Any:
    """The degree of a polynomial, which may be a float whose fraction is cut off."""
    if isinstance(n, Tensor):
        return n if is_integral(n) else fn.astype(n, dtypes.int64)
    return int(n)


def complex_sinc(x: Any) -> Any:
    """sin(pi x) / (pi x) of complex numbers, 1 at 0."""
    angle = fn.multiply(x, math.pi)
    return fn.where(fn.equal(x, 0), 1, fn.divide(fn.sin(angle), fn.where(fn.equal(x, 0), 1, angle)))


def extremum(function: Callable[..., Any], of_bools: Callable[..., Any]) -> Callable[..., Any]:
    """The operator that gives the greater or the less of two operands, which are bools or numbers."""

    def operator(self: Any, other: Any) -> Any:
        require_tensors(function.__name__, "both", self, other)
        first, second = promoted(self, other)
        return (of_bools if is_bool(first) and is_bool(second) else function)(first, second)

    return operator


def truth(self: Any, result: Any) -> Any:
    """Truth values, which are uint8 for uint8 as they were before PyTorch had bools."""
    return fn.astype(result, dtypes.uint8) if self.dtype == dtypes.uint8 else result
