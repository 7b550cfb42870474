"""Making tensors."""

from __future__ import annotations

import builtins
import math
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, foreign, ops
from jitgraph.dtypes import DType
from jitgraph.eager import placement
from jitgraph.eager.handle import api_of, of_its_own
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import DTypeError, JitgraphError, NumberError, ShapeError, SharingError
from jitgraph.ir import context
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ops import rules
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import lifting, scalars
from jitgraph.tensor.functions.method import array_function, method
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import listed
from jitgraph.tensor.tensor import Tensor, settled, wrap

_LARGE: Final = 2**62  # numbers that NumPy need not take for int64
_ON_CPU: Final = (np.ndarray, list, tuple)


def _device(device: str | None) -> str:
    """The full name of the device asked for; DeviceError where it is absent."""
    if device is None or device == CPU:
        return CPU
    return placement.canonical(device)


def _moved(x: Tensor, device: str) -> Tensor:
    """A fresh tensor on a device."""
    return x if device == CPU else x._on(device)


def shape_of(shape: Any) -> tuple[DimLike, ...]:
    """A shape from an int, a symbolic size or a sequence of them; ShapeError for negative sizes."""
    raw_sizes = shape if shape.__class__ is tuple else listed(shape)
    trace = context.current().trace
    sizes = tuple(
        [trace.to_dim(size) if trace is not None and scalars.is_varying(size) else _size(size) for size in raw_sizes]
    )
    for size in sizes:
        if isinstance(size, int) and size < 0:
            raise ShapeError(f"negative size {size} in shape {raw_sizes}")
    return sizes


def _size(size: Any) -> DimLike:
    if isinstance(size, Dim):
        return size
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise ShapeError(f"a size must be an integer, not {size!r}")
    return int(size.__index__())


@array_function
def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of ``obj``: a tensor, an array of any library (DLPack, ``__array__``), a number, or lists of them.

    copy: True always copies; None copies what somebody could write to; False borrows the memory, to which then nobody
    may write, or raises SharingError; of a tensor it is that tensor itself. Python floats give float32, ints int64.
    What lies on a GPU stays there unless ``device`` is given. DeviceError for devices that are absent, and for arrays
    on others than GPUs of CUDA.
    """
    target_device = None if device is None else _device(device)
    target = None if dtype is None else dtypes.canonical(dtype)
    if scalars.is_varying(obj):  # an int that varies from call to call, or a size that is a name
        obj = wrap(lifting.value_of(obj, target))
    if isinstance(obj, list | tuple) and lifting.holds_tensors(obj):
        if copy is False:
            raise SharingError("copy=False: a list of tensors has no memory of its own", hint="leave copy out")
        obj = wrap(lifting.nested(obj, target))
    if isinstance(obj, Tensor):
        if copy is False and not requires_grad and _is_such(obj, target, target_device):
            return obj
        result = _of_tensor_on(obj, target, copy, target_device)
    elif not isinstance(obj, _ON_CPU) and foreign.is_on_cuda(obj) and placement.has_gpu():
        result = _of_tensor_on(wrap(placement.exchange().imported(obj, copy)), target, None, target_device)
    elif target_device is not None and target_device != CPU:
        if copy is False:
            raise SharingError(f"copy=False: this array is on the CPU, not on {target_device}", hint="leave copy out")
        result = wrap(lifting.value_of(_array_of(obj, target)))._on(target_device)
    elif copy is False:
        result = wrap(EagerValue(_borrowed(obj, target), access="borrowed"))
    else:
        array = _array_of(obj, target)
        if context.current().trace is not None:
            result = wrap(lifting.value_of(array))
        else:
            result = wrap(EagerValue(np.array(foreign.native(array)) if copy else lifting.own(array)))
    return result.requires_grad_() if requires_grad else result


def _is_such(x: Tensor, target: DType | None, device: str | None) -> bool:
    """Whether x is a tensor of the dtype and on the device that are asked for."""
    alike = target is None or target == x.dtype  # float64 equals None, as NumPy has it
    return settled(x) is x and alike and device in (None, x.device)


def _of_tensor_on(x: Tensor, target: DType | None, copy: bool | None, device: str | None) -> Tensor:
    """The same on a device, its own unless one is given; SharingError where that takes a copy that is not allowed."""
    if device is None or device == x.device:
        return wrap(_of_tensor(x, target, copy))
    if copy is False:
        raise SharingError(f"copy=False: the tensor is on {x.device}, not on {device}", hint="leave copy out")
    return x.to(device, dtype=target)


def _of_tensor(x: Tensor, target: DType | None, copy: bool | None) -> Any:
    """The value of x in ``target``, in memory of its own where ``copy``. A trace does not show memory."""
    if copy is False and target is not None and target != x.dtype:
        raise SharingError(f"copy=False: a tensor of {x.dtype.name} is no {target}", hint="leave copy out")
    value = settled(x).value if target is None else lifting.cast(x.value, target)
    if copy and isinstance(value, EagerValue):
        return EagerValue(np.array(value.array), value.record, value.output)
    if copy and isinstance(value, DeviceValue):
        return placement.copied(value, value.device).recorded(value.record)
    return value


def _borrowed(obj: Any, target: DType | None) -> np.ndarray[Any, Any]:
    """The array over the memory of ``obj``; SharingError where native code cannot read it as it is."""
    if isinstance(obj, np.ndarray):
        foreign.require_plain(obj, "the array")
        array = obj
    elif foreign.is_array(obj):
        array = foreign.array_of(obj, borrow=True)
    else:
        what = f"a {type(obj).__name__} cannot be borrowed, as it is no array"
        raise SharingError(f"copy=False: {what}", hint="leave copy out")
    native = array.dtype.newbyteorder("=")
    dtypes.canonical(native)
    reasons = {
        f"its elements are {native.name}, not {target}": target is not None and target != native,
        "its bytes are in the other order": not array.dtype.isnative,
        "its elements are not aligned": not array.flags.aligned,
    }
    for reason, holds in reasons.items():
        if holds:
            raise SharingError(f"copy=False: this array cannot be borrowed, as {reason}", hint="leave copy out")
    return array


def _array_of(obj: Any, target: DType | None) -> np.ndarray[Any, Any]:
    if isinstance(obj, np.ndarray):
        foreign.require_plain(obj, "the array")
        array = obj
    elif scalars.is_scalar(obj) or isinstance(obj, list | tuple):
        return _array_of_numbers(obj, target)
    elif foreign.is_array(obj):
        array = foreign.array_of(obj)
    else:
        array = np.asanyarray(obj)
        foreign.require_plain(array, f"what {type(obj).__name__} gives")
    if array.dtype == object:
        raise JitgraphError(
            f"asarray cannot take {type(obj).__name__}\n  hint: arrays, numbers and nested lists of them"
        )
    dtypes.canonical(array.dtype)
    return array if target is None or array.dtype == target else _cast(array, target)


def _array_of_numbers(obj: Any, target: DType | None) -> np.ndarray[Any, Any]:
    """Python numbers, also in nested lists: floats count as float32, complex numbers as complex64.

    An integer must fit the dtype asked for.
    """
    kinds = scalars.leaf_types(obj)
    scalars.require_plain_in(obj, kinds)
    try:
        if kinds <= {int, bool} and int in kinds:
            return scalars.array_of_ints(obj, target)
        array = scalars.array_of_mixed(obj) if kinds <= scalars.SCALARS and int in kinds else np.asarray(obj)
    except NumberError:
        raise
    except ValueError:
        raise JitgraphError("asarray: the nested lists are not all of one length") from None
    dtypes.canonical(array.dtype)
    if target is None:
        weak = kinds <= scalars.SCALARS
        if weak and array.dtype == np.complex128:
            return array.astype(np.complex64)
        return array.astype(np.float32) if weak and array.dtype == np.float64 else array
    return _cast(array, target)


def _cast(array: np.ndarray[Any, Any], target: DType) -> np.ndarray[Any, Any]:
    """As ``x.astype`` casts: floats truncate and saturate to integers, and complex numbers stay complex."""
    if array.dtype.kind == "c" and not dtypes.is_complex(target):
        raise DTypeError(
            f"{array.dtype.name} numbers in {target.name} would drop the imaginary part",
            hint="np.real(x), or np.abs(x)",
        )
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.asarray(ops.cast.evaluate(native, dtype=target))  # type: ignore[misc]


def _one_shape(name: str, shape: Any, more: tuple[Any, ...]) -> Any:
    """``shape``; JitgraphError where sizes came one by one, or a dtype by position."""
    if not more:
        return shape
    sizes = all(isinstance(size, int) for size in (shape, *more))
    form = f"jg.{name}({(shape, *more)})" if sizes else f"jg.{name}(shape, dtype=dtype)"
    raise JitgraphError(f"{name} takes one shape\n  hint: {form}")


def _filled(shape: Any, scalar: float | int | bool, dtype: Any, device: str | None) -> Tensor:
    target = dtypes.default_of(scalar) if dtype is None else dtypes.canonical(dtype)
    if device is None or device == CPU:
        return wrap(lifting.constant(scalar, target, shape_of(shape)))
    target_device, sizes = _device(device), shape_of(shape)
    if target_device != CPU and context.current().trace is None and scalar == 0:
        return wrap(placement.zeros(sizes, target, target_device))  # type: ignore[arg-type]  # no names outside of traces
    return _moved(wrap(lifting.constant(scalar, target, sizes)), target_device)


@array_function
def zeros(shape: Any, *more: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Zeros, float32 unless ``dtype`` is given."""
    return _filled(_one_shape("zeros", shape, more), 0.0 if dtype is None else 0, dtype, device)


@array_function
def ones(shape: Any, *more: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Ones, float32 unless ``dtype`` is given."""
    return _filled(_one_shape("ones", shape, more), 1.0 if dtype is None else 1, dtype, device)


@array_function
def full(
    shape: Any, fill_value: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """``fill_value`` everywhere, in its default dtype unless ``dtype`` is given."""
    if not scalars.is_scalar(fill_value):
        value = lifting.value_of(settled(fill_value) if dtype is None else fill_value)
        value = value if dtype is None else lifting.cast(value, dtypes.canonical(dtype))
        return _moved(wrap(lifting.broadcast_to(value, shape_of(shape))), _device(device))
    return _filled(shape, fill_value, dtype, device)


empty = zeros


def _like(x: Tensor, scalar: float | int, dtype: Any, device: str | None) -> Tensor:
    value = lifting.value_of(x)
    target = value.type.dtype if dtype is None else dtypes.canonical(dtype)
    if device is None and not isinstance(value, DeviceValue):
        return wrap(lifting.constant(scalar, target, value.type.shape))
    return _filled(value.type.shape, scalar, target, device or value.device)


@array_function
def zeros_like(x: Tensor, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape, dtype and device of x."""
    return _like(x, 0, dtype, device)


@array_function
def ones_like(x: Tensor, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape, dtype and device of x."""
    return _like(x, 1, dtype, device)


@array_function
def full_like(
    x: Tensor, fill_value: float | int, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """``fill_value`` in the shape, dtype and device of x."""
    if lifting.is_weak(fill_value) and not scalars.is_scalar(fill_value):
        value = lifting.value_of(x)
        return full(value.type.shape, fill_value, dtype=value.type.dtype if dtype is None else dtype)
    return _like(x, fill_value, dtype, device)


empty_like = zeros_like


@array_function
def arange(
    start: Any,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below ``stop``; int64 for ints, else float32. Sizes may be symbolic for step 1."""
    target_device = _device(device)
    if stop is None:
        start, stop = 0, start
    trace = context.current().trace
    if trace is not None and not builtins.all(map(_is_plain_number, (start, stop, step))):
        if start != 0 or step != 1:
            raise JitgraphError("arange over a symbolic size starts at 0 with step 1\n  hint: arange(n) * step + start")
        target = dtypes.int64 if dtype is None else dtypes.canonical(dtype)
        size = trace.to_dim(stop)
        if dtypes.is_integer(target) and target.itemsize < 8:
            rules.at_least(f"arange({size}) in {target.name}", dtypes.LIMITS[target][1] + 1, size)
        return _moved(wrap(ops.iota(shape=(size,), axis=0, dtype=target)), target_device)
    start, stop, step = (x.item() if isinstance(x, Tensor | np.generic) else x for x in (start, stop, step))
    if not builtins.all(isinstance(x, int | float) for x in (start, stop, step)):
        raise JitgraphError("arange takes numbers\n  hint: jg.arange(start, stop, step)")
    if step == 0:
        raise JitgraphError("arange: step is 0")
    integral = builtins.all(isinstance(x, int) for x in (start, stop, step))
    count = builtins.max(0, -((start - stop) // step) if integral else math.ceil((stop - start) / step))
    target = (dtypes.int64 if integral else dtypes.float32) if dtype is None else dtypes.canonical(dtype)
    if integral and count and dtypes.is_integer(target):
        for end in (start, start + (count - 1) * step):
            scalars.require_representable(end, target)
    wide = dtypes.int64 if integral else dtypes.float64
    if trace is None and target_device == CPU and not (integral and builtins.max(abs(start), abs(step)) > _LARGE):
        values = np.arange(count, dtype=wide) * step + start
        return wrap(EagerValue(values if target == wide else _cast(values, target)))
    steps = wrap(ops.iota(shape=(count,), axis=0, dtype=wide))
    return _moved((steps * step + start).astype(target), target_device)


def _is_plain_number(x: Any) -> bool:
    return isinstance(x, int | float) and not scalars.is_named_size(x)


@array_function
def linspace(
    start: complex,
    stop: complex,
    num: int,
    *,
    dtype: Any = None,
    endpoint: bool = True,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``num`` evenly spaced numbers from ``start`` to ``stop`` (included unless ``endpoint`` is False).

    float32, or complex64 where one of both is complex.
    """
    array = np.linspace(start, stop, num, endpoint=endpoint)
    target = dtypes.canonical(dtype or (dtypes.complex64 if array.dtype.kind == "c" else dtypes.float32))
    if dtypes.is_integer(target):
        for end in array[[0, -1]] if num else ():
            scalars.require_representable(int(end), target)
    return asarray(_cast(array, target), device=device)


@array_function
def eye(
    n_rows: int,
    n_cols: int | None = None,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    target = dtypes.float32 if dtype is None else dtypes.canonical(dtype)
    shape = shape_of((n_rows, n_rows if n_cols is None else n_cols))
    rows = wrap(ops.iota(shape=shape, axis=0, dtype=dtypes.int64))
    columns = wrap(ops.iota(shape=shape, axis=1, dtype=dtypes.int64))
    return _moved((rows + _clamped(k) == columns).astype(target), _device(device))


def _clamped(k: int) -> int:
    """The number of a diagonal, held where its sum with a row fits int64: there are no elements so far out."""
    return max(-(2**62), min(k, 2**62)) if k.__class__ is int else k


@method
def tril(x: TensorLike, k: int = 0) -> Tensor:
    """x on and below the k-th diagonal of the last two axes, zero above."""
    return _triangle(x, k, lower=True)


@method
def triu(x: TensorLike, k: int = 0) -> Tensor:
    """x on and above the k-th diagonal of the last two axes, zero below."""
    return _triangle(x, k, lower=False)


def _triangle(x: TensorLike, k: int, *, lower: bool) -> Tensor:
    value = lifting.value_of(x)
    if value.type.ndim < 2:
        raise ShapeError(f"a triangle needs at least two axes; the shape is {value.type.shape}")
    shape, last = value.type.shape, value.type.ndim - 1
    rows, columns = (wrap(lifting.positions_along(shape, axis, value)) for axis in (last - 1, last))
    mask = (columns <= rows + _clamped(k)) if lower else (columns >= rows + _clamped(k))
    zero = lifting.repeated(0, value.type.dtype, shape)
    return wrap(ops.select(mask.value, value, zero))


@method
def clone(x: Tensor) -> Tensor:
    """A new handle on the same value; gradients flow through it."""
    value = lifting.value_of(x)
    return wrap(of_its_own(value) if api_of(x) else value)
