"""Functions that make tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.dtypes import canonical as jg_dtype
from jitgraph.ir.dims import Dim
from jitgraph.tensor import lifting
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.aten_ops import operands
from jitgraph.torch.functions.views import sizes_of
from jitgraph.torch.metadata import target
from jitgraph.torch.promotion import cast
from jitgraph.torch.scalar_types import get_default_dtype
from jitgraph.torch.tensors import Tensor


def dtype_or_default(dtype: Any) -> Any:
    """The dtype that is asked for, or the default one."""
    return (get_default_dtype() if dtype is None else dtype).dtype


def named_sizes(sizes: tuple[Any, ...], size: Any) -> tuple[Any, ...]:
    """Sizes that are written one by one, as one sequence, or as ``size=``."""
    return sizes_of(sizes) if size is None else tuple(size)


def number_of(x: Any) -> Any:
    """The number of a tensor with one element; numbers as they are."""
    return x.item() if isinstance(x, jg.Tensor) else x


def _inferred(data: Any, dtype: Any) -> Any:
    """The dtype of Python's numbers in lists, where it is not jitgraph's own."""
    if dtype is not None:
        return jg_dtype(dtype)
    if isinstance(data, np.ndarray | np.generic) or get_default_dtype().dtype == jg.float32:
        return None
    kind = jg.asarray(data).dtype
    if kind == jg.float32:
        return get_default_dtype().dtype
    return get_default_dtype().to_complex().dtype if kind == jg.complex64 else None


def _array(data: Any, dtype: Any, device: Any) -> Any:
    """Numbers, nested lists, also of tensors, or an array as a new tensor."""
    if isinstance(data, list | tuple) and _has_tensor(data):
        data = _numbers(data)
    elif isinstance(data, list | tuple) and data and isinstance(data[0], np.ndarray):
        data = np.asarray(data)
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(data, list | tuple) and not data and dtype is None:
        return jg.zeros((0,), dtype=get_default_dtype().dtype, device=target(device))
    try:
        result = jg.asarray(data, dtype=_inferred(data, dtype), device=target(device))
    except jg.JitgraphError as error:
        if isinstance(data, list | tuple):
            raise ValueError(str(error)) from error
        raise
    return jg.clone(result) if result is data else result


def _has_tensor(data: Any) -> bool:
    return any(_has_tensor(x) if isinstance(x, list | tuple) else isinstance(x, jg.Tensor) for x in data)


def _numbers(data: Any) -> Any:
    if isinstance(data, jg.Tensor):
        return data.tolist()
    return [_numbers(item) for item in data] if isinstance(data, list | tuple) else data


@torch_function
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Any:
    """A new tensor of numbers, nested lists, an array or a tensor, whose elements are copied."""
    if isinstance(data, jg.Tensor):
        result = _of_tensor(data, dtype, device)
    else:
        result = _array(data, dtype, device)
    return result.requires_grad_() if requires_grad else result


def _of_tensor(data: jg.Tensor, dtype: Any, device: Any) -> Any:
    """The elements of a tensor without history, in a dtype and on a device, its own for None."""
    x = Tensor._of(data.value).detach()
    kind = data._static.type.dtype if dtype is None else jg_dtype(dtype)
    result = Tensor._of(lifting.cast(x.value, kind))
    return result if device is None else result.to(device=device)


@torch_function
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of ``data``; the tensor itself where it has the dtype and lies on the device; arrays are copied."""
    if isinstance(data, jg.Tensor):
        return Tensor.to(data, dtype=dtype, device=device)  # type: ignore[arg-type]
    return _array(data, dtype, device)


@torch_function
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of ``obj``, itself where nothing changes and ``copy`` is not True.

    ValueError for ``copy=False`` of what is no such tensor: the elements of arrays are copied.
    """
    if copy is False and not (isinstance(obj, jg.Tensor) and Tensor.to(obj, dtype=dtype, device=device) is obj):  # type: ignore[arg-type]
        raise ValueError("asarray(copy=False): a tensor shares no memory with arrays and buffers; leave copy out")
    if isinstance(obj, jg.Tensor):
        result = Tensor.to(obj, dtype=dtype, device=device, copy=bool(copy))  # type: ignore[arg-type]
        result = result if requires_grad or not result.requires_grad else result.detach()
    else:
        result = _array(obj, dtype, device)
    return result.requires_grad_() if requires_grad else result


@torch_function
def from_numpy(ndarray: Any) -> Any:
    """A tensor of an array's elements, which are copied: writes to one are not seen in the other."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return jg.asarray(ndarray, copy=True)


@torch_function
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A tensor of the bytes of a buffer, which are copied; ValueError where they do not suffice."""
    view = memoryview(buffer)
    kind = jg_dtype(dtype)
    left = view.nbytes - offset
    if not view.nbytes:
        raise ValueError(f"both buffer length ({view.nbytes}) and count ({count}) must not be 0")
    if not 0 <= offset < view.nbytes:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length minus 1")
    if count < 0 and left % kind.itemsize:
        raise ValueError(f"buffer length ({left} bytes) after offset must be a multiple of element size")
    if count * kind.itemsize > left:
        raise ValueError(f"requested buffer length ({count} * {kind.itemsize} bytes) is greater than {left} bytes")
    array = np.frombuffer(buffer, np.uint8, offset=offset, count=left if count < 0 else count * kind.itemsize)
    result = jg.asarray(array.view(kind), copy=True)
    return result.requires_grad_() if requires_grad else result


@torch_function
def from_file(
    filename: Any, shared: bool | None = None, size: int = 0, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor of the first elements of a file of raw numbers, which are copied: it is not written to."""
    if shared:
        raise RuntimeError("from_file with shared=True: writes to a tensor do not reach the file")
    return _on(jg.asarray(np.fromfile(filename, dtype_or_default(dtype), size), copy=True), device)


@torch_function
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor of another library's array, by DLPack."""
    return jg.from_dlpack(ext_tensor)


def to_dlpack(input: Any) -> Any:
    """A capsule of DLPack, from which other libraries make an array."""
    return input.__dlpack__()


def kind_and_device(like: Any, dtype: Any, device: Any) -> tuple[Any, Any]:
    """The dtype and the device that are asked for, those of a tensor where none is."""
    own = like._static
    return own.type.dtype if dtype is None else jg_dtype(dtype), own.device if device is None else target(device)


def _filled(name: str, make: Callable[..., Any]) -> Any:
    """A function that makes a tensor of one number."""

    def function(
        *sizes: Any,
        size: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = None,
    ) -> Any:
        return make(
            named_sizes(sizes, size), dtype=dtype_or_default(dtype), device=target(device), requires_grad=requires_grad
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor of {'zeros' if name == 'empty' else name}, of this shape."
    return with_out(function)


zeros = _filled("zeros", jg.zeros)
ones = _filled("ones", jg.ones)
empty = _filled("empty", jg.zeros)


@torch_function
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Zeros of a shape; strides are those of row-major order."""
    return jg.zeros(tuple(size), dtype=dtype_or_default(dtype), device=target(device), requires_grad=requires_grad)


@torch_function
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Zeros of a shape, whatever order of its axes in memory is asked for: it is the row-major one."""
    if len(size) != len(physical_layout):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    for position, axis in enumerate(physical_layout):
        if not 0 <= axis < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {axis} at index "
                f"{position}).  NB: negative dims not currently supported"
            )
    if len(set(physical_layout)) < len(size):
        raise RuntimeError("Duplicate dim not allowed")
    return empty_strided(size, None, dtype=dtype, device=device, requires_grad=requires_grad)


@with_out
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A number everywhere; the dtype is that of the number."""
    if dtype is None and isinstance(fill_value, float | complex):
        default = get_default_dtype()
        dtype = default.to_complex() if isinstance(fill_value, complex) else default
    sizes = (size,) if isinstance(size, int) else tuple(size)
    kind = None if dtype is None else jg_dtype(dtype)
    number = fill_value if kind is None else operands.wrapped(fill_value, kind)
    return jg.full(sizes, number, dtype=kind, device=target(device), requires_grad=requires_grad)


def _like(name: str, make: Callable[..., Any]) -> Any:
    """A function that makes a tensor of one number like another tensor."""

    def function(
        input: Any,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = None,
    ) -> Any:
        result = make(input, dtype=None if dtype is None else jg_dtype(dtype))
        result = result if device is None else Tensor._of(result.value).to(device=device)
        return result.requires_grad_() if requires_grad else result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor of {'zeros' if name == 'empty_like' else name[:-5]}, of the shape of another."
    return with_out(function)


zeros_like = _like("zeros_like", jg.zeros_like)
ones_like = _like("ones_like", jg.ones_like)
empty_like = _like("empty_like", jg.zeros_like)


@with_out
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Any:
    """A number everywhere, in the shape and dtype of another tensor."""
    kind, where = kind_and_device(input, dtype, device)
    number = operands.wrapped(fill_value, kind)
    return jg.full(tuple(input.shape), number, dtype=kind, device=where, requires_grad=requires_grad)


@torch_function
def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """A number as a tensor of rank 0."""
    kind = dtype_or_default(dtype)
    return jg.full((), operands.wrapped(s, kind), dtype=kind, device=target(device), requires_grad=requires_grad)


def _in_progression(numbers: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    start, end, step = numbers
    if not (step > 0 or step < 0):
        raise RuntimeError("step must be nonzero")
    if not all(math.isfinite(bound) for bound in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0) != (end >= start) and end != start:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    return jg.arange(start, end, step, dtype=dtype, device=target(device), requires_grad=requires_grad)


@with_out
def arange(
    *bounds: Any,
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """start, start + step, ... below ``end``; int64 where all are ints, else of the default dtype."""
    if len(bounds) == 1 and end is None:
        end = bounds[0]
    elif bounds:
        start, end, step = (*bounds, *(end, step)[len(bounds) - 1 :])
    numbers = [x if isinstance(x, Dim) else number_of(x) for x in (start, end, step)]
    if dtype is not None:
        kind = jg_dtype(dtype)
    else:
        kind = get_default_dtype().dtype if any(isinstance(x, float) for x in numbers) else jg.int64
    if any(isinstance(x, Dim | jg.Tensor) for x in numbers):
        return jg.arange(
            numbers[0], numbers[1], numbers[2], dtype=kind, device=target(device), requires_grad=requires_grad
        )
    if not dtypes.is_inexact(kind):
        result = _in_progression([int(x) for x in numbers], jg.int64, device, False)
        return result if kind == jg.int64 else jg.astype(result, kind)
    return _in_progression(numbers, kind, device, requires_grad)


@with_out
def range(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """start, start + step, ... up to ``end``, which is among them."""
    start, end = (0, start) if end is None else (start, end)
    first, last, by = number_of(start), number_of(end), number_of(step)
    count = math.floor((last - first) / by) + 1
    whole = _in_progression((0, builtins.max(count, 0), 1), jg.float64, device, False)
    return jg.astype(first + whole * by, dtype_or_default(dtype)).requires_grad_(requires_grad)


def _bound(x: Any, dtype: Any) -> Any:
    """An end of a range, an int where the dtype has no fractions."""
    number = number_of(x)
    return number if dtype is None or dtypes.is_inexact(jg_dtype(dtype)) else int(number)


@with_out
def linspace(
    start: Any,
    end: Any,
    steps: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """``steps`` numbers from ``start`` to ``end`` with equal distances, both ends among them."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return jg.linspace(
        _bound(start, dtype), _bound(end, dtype), steps, dtype=dtype_or_default(dtype), device=target(device),
        requires_grad=requires_grad,
    )  # fmt: skip


@with_out
def logspace(
    start: Any,
    end: Any,
    steps: Any,
    base: float = 10.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """``base`` to the powers that ``linspace`` makes."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    result = jg.logspace(_bound(start, dtype), _bound(end, dtype), steps, base, dtype=dtype_or_default(dtype))
    return _on(result, device).requires_grad_(requires_grad)


def _on(x: Any, device: Any) -> Any:
    where = target(device)
    return x if where is None else Tensor._of(x.value).to(device=where)


@with_out
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Ones on the diagonal of a matrix of zeros."""
    for size in (n, n if m is None else m):
        if size < 0:
            raise RuntimeError(f"n must be greater or equal to 0, got {size}")
    return jg.eye(n, m, dtype=dtype_or_default(dtype), device=target(device), requires_grad=requires_grad)


def _triangle(name: str, make: Callable[..., Any]) -> Any:
    def function(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: bool = False, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        kind = jg.int64 if dtype is None else jg_dtype(dtype)
        return _on(jg.astype(make(row, col, offset), kind), device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The rows and columns of the {'lower' if name[2] == 'i' else 'upper'} triangle of a matrix."
    return torch_function(function)


tril_indices = _triangle("tril_indices", jg.tril_indices)
triu_indices = _triangle("triu_indices", jg.triu_indices)


def _window(name: str, make: Callable[..., Any], *shape: str) -> Any:
    """A window function: the words are the names of further numbers that give its form."""

    def function(
        window_length: int, periodic: bool = True, *numbers: Any, dtype: Any = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **named: Any,
    ) -> Any:  # fmt: skip
        unknown = named.keys() - set(shape[len(numbers) :])
        if unknown or len(numbers) > len(shape):
            raise TypeError(f"{name}() got unexpected arguments {sorted(unknown) or numbers}")
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
        result = make(window_length, periodic, *numbers, **named, dtype=dtype_or_default(dtype))
        return _on(result, device).requires_grad_(requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name.split('_')[0].title()} window."
    return torch_function(function)


hann_window = _window("hann_window", jg.hann_window)
hamming_window = _window("hamming_window", jg.hamming_window, "alpha", "beta")
blackman_window = _window("blackman_window", jg.blackman_window)
bartlett_window = _window("bartlett_window", jg.bartlett_window)
kaiser_window = _window("kaiser_window", jg.kaiser_window, "beta")


@with_out
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803 - PyTorch's name
    """The powers of numbers as the columns of a matrix, the highest first unless ``increasing``."""
    result = jg.linalg.vander(x, N)
    return result if increasing else jg.flip(result, -1)


@with_out
def fill(input: Any, value: Any) -> Any:
    """A number, or the element of a tensor of rank 0, everywhere, in the shape and dtype of a tensor."""
    if isinstance(value, jg.Tensor):
        return jg.broadcast_to(cast(value, input._static.type.dtype), tuple(input.shape))
    return operands.replaced(input, full_like(input, value))
