"""ATen's operators as archives call them: by name alone, on tensors and on Python's values.

``lookup("aten::add")`` gives one function for all overloads of a name: which one a call means, its operands say.
Tensors go to ``jitgraph.torch.aten_ops``, where each operator stands once; numbers, texts, lists and dicts to Python's
operators (``python_ops.py``). Here is what an archive adds: dtypes as numbers, forms that write in place, ``out``,
operators of ``prim``, and the meaning that a name had in older versions.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.eager import placement
from jitgraph.ir import context
from jitgraph.tensor import Tensor, lifting
from jitgraph.tensor.functions.manipulation import concat, stack
from jitgraph.torch import aten_ops
from jitgraph.torch.torchscript import aliasing, python_ops, quantised, values
from jitgraph.torch.writing import overwritten, written_to
from jitgraph.tracing.script import staging
from jitgraph.tracing.script.lists import is_growing
from jitgraph.tracing.symbolic.staged_number import StagedNumber

# ----------------------------------------------------------------------
# Dtypes, which TorchScript has as numbers.

DTYPES: Final[Mapping[int, Any]] = {
    0: dtypes.uint8, 1: dtypes.int8, 2: dtypes.int16, 3: dtypes.int32, 4: dtypes.int64, 5: dtypes.float16,
    6: dtypes.float32, 7: dtypes.float64, 9: dtypes.complex64, 10: dtypes.complex128, 11: dtypes.bool_,
    15: dtypes.bfloat16, 27: dtypes.uint16, 28: dtypes.uint32, 29: dtypes.uint64,
}  # fmt: skip
"""The dtypes by PyTorch's number of a ``ScalarType``."""

_CODES: Final = {dtype: code for code, dtype in DTYPES.items()}


def dtype_of(code: Any) -> Any:
    """The dtype of a number, itself where it is none; DTypeError for numbers of dtypes that are not here."""
    if type(code) is not int:
        return code
    dtype = DTYPES.get(code)
    if dtype is None:
        raise jg.errors.DTypeError(f"a TorchScript archive asks for the dtype number {code}, which is not known here")
    return dtype


def code_of(dtype: Any) -> int:
    """The number of a dtype."""
    return dtype if type(dtype) is int else _CODES[dtypes.canonical(dtype)]


# ----------------------------------------------------------------------
# Which function a call means.


def holds_tensor(value: Any) -> bool:
    """Whether a value is a tensor, or a list or tuple with one in it."""
    if isinstance(value, Tensor):
        return True
    return isinstance(value, list | tuple) and any(map(holds_tensor, value))


class Dialect(NamedTuple):
    """What an archive's operators are like: the version of the operator set, whether its code writes in place, and
    whether it has quantised tensors."""

    version: int = 1 << 30
    writes: bool = False
    quantised: bool = False


@functools.cache
def lookup(name: str, dialect: Dialect) -> Callable[..., Any] | None:
    """The function of ``aten::name``, ``prim::name`` or ``quantized::name``; None where there is none.

    Which of its overloads a call means, it tells by the operands. By ``version`` some names mean what they meant then.
    """
    space, _, base = name.rpartition("::")
    found = _function(space, base, dialect)
    if dialect.quantised and space == "aten":
        return quantised.on_quantised(base, found)
    return found


def _function(space: str, base: str, dialect: Dialect) -> Callable[..., Any] | None:
    if space == "prim":
        return _PRIM.get(base) or python_ops.PRIM.get(base) or lookup(f"aten::{base}", dialect)
    if space == "quantized":
        return quantised.OPERATORS.get(base)
    if space != "aten":
        return None
    if (always := python_ops.ALWAYS.get(base)) is not None:
        return always
    of_tensors = _of_tensors(base, dialect)
    of_python = python_ops.OPERATORS.get(base)
    if of_python is None:
        return of_tensors
    if of_tensors is None:
        return of_python
    return _by_operands(of_python, of_tensors, base in python_ops.OF_CONTAINERS)


def _by_operands(of_python: Callable[..., Any], of_tensors: Callable[..., Any], for_lists: bool) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        if isinstance(first, Tensor):
            return of_tensors(*args, **kwargs)
        if for_lists and isinstance(first, list):
            return of_python(*args, **kwargs)
        if any(map(holds_tensor, args)) or any(map(holds_tensor, kwargs.values())):
            return of_tensors(*args, **kwargs)
        return of_python(*args, **kwargs)

    return call


def _of_tensors(base: str, dialect: Dialect) -> Callable[..., Any] | None:
    """The function of an operator on tensors."""
    if dialect.writes and (view := aliasing.viewing(base)) is not None:
        return _with_dtypes(view)
    own = _OWN.get(base)
    if own is not None:
        return own
    functional = aten_ops.in_place(base)
    if functional is not None and (function := _computed(functional, dialect)) is not None:
        return _in_place(function)
    found = _computed(base, dialect)
    return found if found is None or not dialect.writes else aliasing.owning(base, found)


def _computed(base: str, dialect: Dialect) -> Callable[..., Any] | None:
    """The function of an operator that makes a new tensor."""
    older = _OLDER.get(base)
    if older is not None and dialect.version <= older[0]:
        return older[1]
    if (joined := _JOINED.get(base)) is not None:
        return _with_out(joined)
    choose = _OVERLOADS.get(base)
    if choose is None:
        found = aten_ops.lookup(base)
        return None if found is None else _with_out(_with_dtypes(found))

    def call(*args: Any, **kwargs: Any) -> Any:
        return _variant(base, choose(args, kwargs))(*args, **kwargs)

    return _with_out(call)


@functools.cache
def _variant(base: str, overload: str) -> Callable[..., Any]:
    table = aten_ops.table()
    function = table.get(f"{base}_{overload}" if overload else base) or table.get(base)
    assert function is not None, (base, overload)
    return _with_dtypes(function)


def _with_dtypes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes dtypes as numbers, too."""
    names = [*inspect.signature(function).parameters]
    if "dtype" not in names:
        return function
    position = names.index("dtype")

    def call(*args: Any, **kwargs: Any) -> Any:
        if position < len(args):
            if type(args[position]) is int:
                args = (*args[:position], dtype_of(args[position]), *args[position + 1 :])
        elif type(kwargs.get("dtype")) is int:
            kwargs["dtype"] = dtype_of(kwargs["dtype"])
        return function(*args, **kwargs)

    return call


def _with_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes ``out``, to which its result is written."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if "out" not in kwargs:
            return function(*args, **kwargs)
        return written_to(kwargs.pop("out"), function(*args, **kwargs))

    return call


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes its result to its first argument, and gives that."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return overwritten(self, function(self, *args, **kwargs))

    return call


def overwrite(target: Any, result: Any) -> Any:
    """``target`` with the elements of ``result``, cast to its dtype; RuntimeError where the shapes differ."""
    value = lifting.value_of(result)
    own = target._static.type
    if tuple(value.type.shape) != tuple(own.shape):
        raise RuntimeError(f"output with shape {[*own.shape]} doesn't match the broadcast shape {[*value.type.shape]}")
    target._rebind(lifting.cast(value, own.dtype))
    return target


# ----------------------------------------------------------------------
# Overloads that the operands tell.

_Args = Any
_Choice = Callable[[Any, Any], str]


def _by_second(of_tensor: str, of_other: str, alone: str = "default") -> _Choice:
    def choose(args: _Args, kwargs: _Args) -> str:
        if len(args) == 1 and "dim" not in kwargs:
            return alone
        return of_tensor if len(args) > 1 and isinstance(args[1], Tensor) else of_other

    return choose


def _by_list(of_list: str, of_other: str) -> _Choice:
    return lambda args, kwargs: of_list if len(args) > 1 and isinstance(args[1], list | tuple) else of_other


def _by_count(*overloads: str) -> _Choice:
    """The overload of one argument, of two, of three ..."""
    return lambda args, kwargs: overloads[min(len(args), len(overloads)) - 1]


def _of_variance(args: _Args, kwargs: _Args) -> str:
    if "correction" in kwargs:
        return ""
    return "default" if (len(args) == 1 and "dim" not in kwargs) or (len(args) > 1 and type(args[1]) is bool) else "dim"


def _of_scatter(args: _Args, kwargs: _Args) -> str:
    value = "" if isinstance(args[3], Tensor) else "value"
    return "_".join(filter(None, (value, "reduce" if "reduce" in kwargs or len(args) > 4 else "")))


def _of_recurrence(args: _Args, kwargs: _Args) -> str:
    return "input" if type(args[3]) is bool else "data"


def _of_repeat(args: _Args, kwargs: _Args) -> str:
    if len(args) == 1:
        return "Tensor"
    return "self_Tensor" if isinstance(args[1], Tensor) else "self_int"


def _of_draws(args: _Args, kwargs: _Args) -> str:
    kinds = ["Tensor" if isinstance(arg, Tensor) else "float" for arg in args[:2]]
    return "_".join(kinds if len(kinds) == 2 else (*kinds, "float"))


def _is_vector_form(args: _Args) -> bool:
    """Whether a resize has its factors as one list, or its size is left out for it."""
    return args[1] is None or isinstance(args[-1], list) or (len(args) < 5 and args[-1] is None)


_OVERLOADS: Final[Mapping[str, _Choice]] = {
    "max": _by_second("other", "dim"), "min": _by_second("other", "dim"), "median": _by_second("dim", "dim"),
    "nanmedian": _by_second("dim", "dim"), "var": _of_variance, "std": _of_variance, "var_mean": _of_variance,
    "std_mean": _of_variance, "prod": _by_second("", ""), "squeeze": _by_second("", ""),
    "norm": lambda args, kwargs: "Scalar" if len(args) <= 2 and not kwargs
    else "ScalarOpt_dtype" if len(args) == 2 and [*kwargs] == ["dtype"] else "",
    "split": _by_list("sizes", ""), "tensor_split": _by_list("indices", "sections"), "view": _by_list("", "dtype"),
    "arange": _by_count("", "start", "start_step"), "eye": _by_count("", "m"),
    "hann_window": _by_count("", "periodic"), "hamming_window": _by_count("", "periodic"),
    "blackman_window": _by_count("", "periodic"), "bartlett_window": _by_count("", "periodic"),
    "where": _by_count("default", "", ""), "scatter": _of_scatter,
    "scatter_reduce": lambda args, kwargs: "two", "lstm": _of_recurrence, "gru": _of_recurrence,
    "rnn_tanh": _of_recurrence, "rnn_relu": _of_recurrence, "repeat_interleave": _of_repeat,
    "sort": lambda args, kwargs: "stable" if "stable" in kwargs else "",
    "argsort": lambda args, kwargs: "stable" if "stable" in kwargs else "",
    "index": lambda args, kwargs: "Tensor", "normal": _of_draws, "einsum": lambda args, kwargs: "default",
    "bernoulli": lambda args, kwargs: "" if len(args) == 1 else "Tensor" if isinstance(args[1], Tensor) else "p",
    "stft": lambda args, kwargs: "center" if len(args) > 9 or (len(args) > 6 and isinstance(args[6], str)) else "",
    **{name: lambda args, kwargs: "vec" if len(args) > 1 and _is_vector_form(args) else "" for name in (
        *(f"upsample_{mode}" for mode in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "bicubic2d",
        "trilinear3d")), "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
        "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")},
    "embedding_bag": lambda args, kwargs: "" if len(args) > 8 else "default",
    "trapezoid": _by_second("x", "dx", "dx"), "cumulative_trapezoid": _by_second("x", "dx", "dx"),
    "isin": lambda args, kwargs: "" if all(isinstance(arg, Tensor) for arg in args[:2])
    else "Tensor_Scalar" if isinstance(args[0], Tensor) else "Scalar_Tensor",
}  # fmt: skip


# ----------------------------------------------------------------------
# Operators that archives alone have.


def _size(self: Any, dim: Any = None) -> Any:
    """The sizes of a tensor as a list, or one of them."""
    shape = self.shape
    return [*shape] if dim is None else shape[dim]


def _dim(self: Any) -> int:
    return len(self.shape)


def _numel(self: Any) -> Any:
    count: Any = 1
    for size in self.shape:
        count = count * size
    return count


def _item(self: Any) -> Any:
    kind = bool if dtypes.is_bool(self.dtype) else float if dtypes.is_float(self.dtype) else int
    if dtypes.is_complex(self.dtype):
        return self.item()
    return values.BUILTINS[kind.__name__](self)


def _tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """``torch.tensor``: a new tensor of numbers, in the default dtype where they are floats."""
    made = _stacked(data)
    if dtype is not None:
        made = jg.astype(made, dtype_of(dtype))
    return made.requires_grad_() if requires_grad else made


def _stacked(data: Any) -> Any:
    if isinstance(data, Tensor):
        return jg.asarray(data, copy=True)
    if type(data) is StagedNumber:
        tensor = data.as_tensor()
        return jg.astype(tensor, dtypes.float32) if dtypes.is_float(tensor.dtype) else tensor
    if isinstance(data, list | tuple):
        items = [*data]
        if any(map(_is_staged, items)):
            return jg.stack([_stacked(item) for item in items])
        return jg.asarray(items) if items else jg.zeros(0)
    return jg.asarray(data)


def _is_staged(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return any(map(_is_staged, data))
    return type(data) is StagedNumber or isinstance(data, Tensor)


def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    value = lifting.value_of(src)
    shape = tuple(self.shape)
    if tuple(value.type.shape) != shape:
        value = jg.broadcast_to(src, shape).value
    return overwrite(self, jg.Tensor._of(value))


def _fill(self: Any, value: Any) -> Any:
    return overwrite(
        self, jg.full_like(self, value) if not isinstance(value, Tensor) else jg.broadcast_to(value, tuple(self.shape))
    )


def _zero(self: Any) -> Any:
    return overwrite(self, jg.zeros_like(self))


def _index_put(self: Any, indices: Any, elements: Any, accumulate: bool = False) -> Any:
    return overwrite(self, aten_ops.table()["index_put"](self, indices, elements, accumulate))


def _is_grad_enabled() -> bool:
    return context.current().grad_enabled


def _to_device(text: Any, index: Any = None) -> str:
    name = str(text) if index is None else f"{text}:{index}"
    return placement.canonical(name) if name.partition(":")[0] in ("cpu", "cuda") else name


def _to(self: Any, *args: Any, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
    """``to`` in all its forms: of a dtype, a device, both, or another tensor; the tensor itself where it is so."""
    first = args[0] if args else None
    if isinstance(first, Tensor):
        dtype, device = first.dtype, first.device
    elif isinstance(first, str):
        device = first
        dtype = args[1] if len(args) > 1 and type(args[1]) is int else None
    elif type(first) is int:
        dtype = first
    if len(args) > 5:  # before some of the arguments had to be named: dtype, layout, device, ...
        device = args[2]
    result = self
    if dtype is not None and self.dtype != dtype_of(dtype):
        result = jg.astype(self, dtype_of(dtype))
    if device is not None and _to_device(device) != _to_device(self.device):
        result = result.to(_to_device(device))
    return result


def _broadcast_shapes(*shapes: Any) -> Any:
    return [*jg.broadcast_shapes(*map(tuple, shapes))]


def _device_kind(device: Any) -> str:
    return str(device).partition(":")[0]


def _of_list(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """An operator on a list of tensors, of which a loop of a graph may have made more than Python knows."""

    def call(tensors: Any, dim: int = 0) -> Any:
        if is_growing(tensors):
            return staging.callee(function)(tensors, dim)
        return aten_ops.table()[name](tensors, dim)

    return call


_JOINED: Final[Mapping[str, Callable[..., Any]]] = {
    "stack": _of_list(stack, "stack"),
    **{name: _of_list(concat, "cat") for name in ("cat", "concat", "concatenate")},
}


def _cast_to(self: Any, *rest: Any) -> Any:
    return self


_OWN: Final[Mapping[str, Callable[..., Any]]] = {
    "size": _size,
    "sym_size": _size,
    "dim": _dim,
    "numel": _numel,
    "stride": lambda self: [*self.strides],
    "is_contiguous": lambda self, memory_format=None: True,
    "is_floating_point": lambda self: bool(dtypes.is_float(self.dtype)),
    "is_complex": lambda self: bool(dtypes.is_complex(self.dtype)),
    "element_size": lambda self: self.dtype.itemsize,
    "get_device": lambda self: -1,
    "device": _to_device,
    "result_type": lambda a, b: code_of(jg.result_type(a, b)),
    "can_cast": lambda a, b: bool(jg.can_cast(dtype_of(a), dtype_of(b))),
    "broadcast_shapes": _broadcast_shapes,
    "item": _item,
    "is_nonzero": _item,
    "tolist": lambda self: self.tolist(),
    "Int": _item,
    "Float": _item,
    "Bool": _item,
    "IntImplicit": _item,
    "FloatImplicit": _item,
    "ScalarImplicit": _item,
    "tensor": _tensor,
    "as_tensor": _tensor,
    "copy_": _copy,
    "fill_": _fill,
    "zero_": _zero,
    "index_put_": _index_put,
    "set_": overwrite,
    "to": _to,
    "cpu": lambda self: self.cpu(),
    "cuda": lambda self: self.cuda(),
    "requires_grad_": lambda self, flag=True: self.requires_grad_(flag),
    "is_grad_enabled": _is_grad_enabled,
    "is_autocast_enabled": lambda *device: False,
    "get_autocast_dtype": lambda device: 6,
    "autocast_to_reduced_precision": _cast_to,
    "autocast_to_full_precision": _cast_to,
    "is_scripting": lambda: True,
    "is_tracing": lambda: False,
    "manual_seed": jg.random.seed,
}


def _is_on(kind: str) -> Callable[[Any], bool]:
    return lambda x: _device_kind(x.device) == kind


def _never(x: Any) -> bool:
    return False


_PRIM: Final[Mapping[str, Callable[..., Any]]] = {
    "dtype": lambda x: code_of(x.dtype),
    "device": lambda x: str(x.device),
    "layout": lambda x: 0,
    "shape": _size,
    "ndim": _dim,
    "itemsize": lambda x: x.dtype.itemsize,
    "requires_grad": lambda x: bool(x.requires_grad),
    "is_leaf": lambda x: x.grad_fn is None,
    "data": lambda x: x.detach(),
    "grad": lambda x: x.grad,
    "type": _device_kind,
    "index": lambda device: int(device.partition(":")[2]) if ":" in device else None,
    "is_cuda": _is_on("cuda"),
    "is_cpu": _is_on("cpu"),
    **{
        f"is_{kind}": _never
        for kind in ("sparse", "sparse_csr", "mkldnn", "mps", "meta", "xla", "xpu", "ipu", "hpu", "maia", "vulkan")
    },
    "name": lambda x: None,
    "real": jg.real,
    "imag": jg.imag,
    "T": lambda x: jg.permute_dims(x, tuple(reversed(range(x.ndim)))),
    "mT": jg.matrix_transpose,
}


# ----------------------------------------------------------------------
# What names meant in older versions of the operator set.


def _div_of_version_3(self: Any, other: Any, *, out: Any = None, **kwargs: Any) -> Any:
    """Before version 4 the quotient of integers was cut to an integer, unless it was written to a tensor of floats."""
    floats = [
        dtypes.is_inexact(x.dtype) if isinstance(x, Tensor) else isinstance(x, float | complex)
        for x in (self, other, out)
    ]
    if not kwargs and not any(floats):
        kwargs["rounding_mode"] = "trunc"
    return _written(out, _with_dtypes(aten_ops.table()["div"])(self, other, **kwargs))


def _full_of_version_4(size: Any, fill_value: Any, *, out: Any = None, **kwargs: Any) -> Any:
    """Before version 5 a tensor full of an integer or bool was one of floats."""
    if kwargs.get("dtype") is None:
        kwargs["dtype"] = dtypes.float32 if out is None else out.dtype
    return _written(out, _with_dtypes(aten_ops.table()["full"])(size, fill_value, **kwargs))


def _linspace_of_version_7(start: Any, end: Any, steps: Any = None, *, out: Any = None, **kwargs: Any) -> Any:
    """Before version 8 the number of steps could be left out."""
    steps = 100 if steps is None else steps
    return _written(out, _with_dtypes(aten_ops.table()["linspace"])(start, end, steps, **kwargs))


def _written(out: Any, result: Any) -> Any:
    return result if out is None else written_to(out, result)


_OLDER: Final[Mapping[str, tuple[int, Callable[..., Any]]]] = {
    "div": (3, _div_of_version_3), "full": (4, _full_of_version_4), "linspace": (7, _linspace_of_version_7),
}  # fmt: skip
