"""Methods that write to a tensor, or give its handle another shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.eager.handle import of_its_own
from jitgraph.ir import context
from jitgraph.tensor import lifting
from jitgraph.torch import sharing
from jitgraph.torch.aten_ops import operands
from jitgraph.torch.functions import views
from jitgraph.torch.promotion import converted
from jitgraph.torch.tensors import Tensor, View
from jitgraph.torch.writing import in_history_of, overwritten


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """The elements of another tensor, broadcast and cast to this one's shape and dtype."""
    if self is src:
        return self
    kind, shape = self._static.type.dtype, tuple(self.shape)
    value = lifting.value_of(src)
    if dtypes.is_complex(value.dtype):
        value = converted(Tensor._of(value), kind).value
    if isinstance(src, jg.Tensor) and src._static.device != self._static.device:
        value = Tensor._of(value)._on(self._static.device).value
    if tuple(value.shape) != shape:
        try:
            value = lifting.broadcast_to(value, shape)
        except jg.ShapeError as error:
            raise RuntimeError(
                f"The size of tensor a {list(shape)} must match the size of tensor b {list(value.shape)}: {error}"
            ) from None
    value = lifting.cast(value, kind)
    own = of_its_own(value) if isinstance(src, jg.Tensor) and value is src._value else value
    self._rebind(in_history_of(self, own, overwrites=True))
    return self


def fill_(self: Tensor, value: Any) -> Tensor:
    """A number, or the element of a tensor of rank 0, everywhere."""
    kind, shape = self._static.type.dtype, tuple(self.shape)
    if operands.is_empty(self):
        return self
    if isinstance(value, jg.Tensor):
        if value.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
        if not isinstance(self, View):
            return copy_(self, value)
        filler = lifting.broadcast_to(lifting.cast(lifting.value_of(value), kind), shape)
        self._rebind(in_history_of(self, filler, overwrites=True), equal=True)
        return self
    if isinstance(value, complex) and not dtypes.is_complex(kind):
        raise RuntimeError("value cannot be converted to type float without overflow")
    if not dtypes.is_inexact(kind) and not dtypes.is_bool(kind) and isinstance(value, float):
        value = int(value)
    filled = in_history_of(self, jg.full(shape, value, dtype=kind, device=self._static.device).value)
    if isinstance(self, View):
        self._rebind(filled, equal=True)
    else:
        self._rebind(filled)
    return self


def zero_(self: Tensor) -> Tensor:
    """Zeros everywhere."""
    return fill_(self, 0)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """A number on the diagonal; ``wrap`` begins it anew below a tall matrix."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    rows, columns = self.shape[0], self.shape[1]
    if self.ndim == 2:
        count = rows if wrap else min(rows, columns)
        flat = jg.arange(count, dtype=jg.int64) * (columns + 1)
        flat = jg.arange(0, rows * columns, columns + 1, dtype=jg.int64) if wrap else flat
    else:
        step = sum(rows**axis for axis in range(self.ndim))
        flat = jg.arange(rows, dtype=jg.int64) * step
    numbers = jg.full(tuple(flat.shape), fill_value, dtype=self._static.type.dtype)
    written = jg.index_put(jg.reshape(self, (-1,)), (flat,), numbers)
    return overwritten(self, jg.reshape(written, tuple(self.shape)))


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Each element as a Python function gives it."""
    return _written(self, [callable(x) for x in _elements(self)])


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Each element as a Python function gives it for this one and that of another tensor."""
    pairs = zip(_elements(self), _elements(views.expand(tensor, self.shape)), strict=True)
    return _written(self, [callable(x, y) for x, y in pairs])


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Each element as a Python function gives it for this one and those of two tensors."""
    others = [_elements(views.expand(other, self.shape)) for other in (x, y)]
    return _written(self, [callable(*items) for items in zip(_elements(self), *others, strict=True)])


def _elements(x: Tensor) -> list[Any]:
    return views.reshape(x, (-1,)).tolist()


def _written(self: Tensor, numbers: list[Any]) -> Tensor:
    kind = self._static.type.dtype
    array = [kind.type(number) for number in numbers]
    flat = jg.asarray(array, dtype=kind) if array else jg.zeros((0,), dtype=kind)
    return overwritten(self, jg.reshape(flat, tuple(self.shape)))


# ----------------------------------------------------------------------
# Another shape for the same handle.


def _reshaping(name: str) -> Any:
    """``x.NAME_(...)``: the handle becomes what the view ``x.NAME(...)`` is."""
    view = getattr(views, name)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return become(self, view(self, *args, **kwargs))

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"``{name}`` in place: this tensor takes the shape of the view."
    return method


def become(self: Tensor, view: Any) -> Tensor:
    """Make a handle what a view of it is; gives the handle."""
    sharing.become(self, view)
    return self


squeeze_, unsqueeze_ = _reshaping("squeeze"), _reshaping("unsqueeze")
t_, transpose_ = _reshaping("t"), _reshaping("transpose")
swapaxes_, swapdims_ = transpose_, transpose_
as_strided_ = _reshaping("as_strided")


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Another shape: the first elements stay in row-major order, further ones are zeros."""
    shape = views.sizes_of(sizes)
    if tuple(self.shape) == tuple(shape):
        return self
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if not sharing.resized_in_storage(self, shape):
        flat = jg.reshape(self, (-1,))
        count, have = math.prod(shape), self.numel()
        if count > have:
            flat = jg.concat([flat, jg.zeros((count - have,), dtype=self._static.type.dtype)])
        self._resize_to(jg.reshape(flat[:count], tuple(shape)).value)
    return self


def set_(self: Tensor, source: Tensor | None = None) -> Tensor:
    """The elements of another tensor, which both share from then on; without one, none.

    RuntimeError for another dtype, for a leaf that requires a gradient, and for what is no tensor.
    """
    if source is None:
        source = Tensor._of(jg.zeros((0,), dtype=self._static.type.dtype).value)
    if not isinstance(source, Tensor):
        raise RuntimeError("set_() takes a tensor: a tensor's memory is not visible")
    if source._static.type.dtype != self._static.type.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype!r} to a tensor of type {self.dtype!r}")
    if self._requires_grad and context.current().grad_enabled:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    sharing.set_data(self, source)
    return self


def resize_as_(self: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    """As ``resize_`` to the shape of another tensor."""
    return resize_(self, tuple(the_template.shape))


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """A copy in another shape, as ``resize_`` makes it."""
    return resize_(views.clone(self), *sizes)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """A copy in the shape of another tensor, as ``resize_`` makes it."""
    return resize(self, tuple(tensor.shape))
