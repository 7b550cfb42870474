"""Tensor: a mutable handle on an immutable value, eager or traced.

``x += 1`` and ``x[i] = v`` give this handle a new value; no other tensor ever changes. Methods other than the operators
are attached by ``jitgraph.functions``: every function whose first argument is one tensor is a method too.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from jitgraph import dtypes, eager, foreign, lifting, ops
from jitgraph.autograd import tape
from jitgraph.dtypes import DType
from jitgraph.eager import EagerValue
from jitgraph.errors import DeviceError, DTypeError, JitgraphError, ShapeError, SharingError, TraceError
from jitgraph.ir import context
from jitgraph.lifting import TensorLike, elementwise
from jitgraph.migration_hints import TENSOR, advice
from jitgraph.runtime import dlpack, loader
from jitgraph.runtime.buffer import CPU, Buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

context.register_eager(eager.EagerEmitter())


class HandleStore(Protocol):
    """What a trace does for handles: reads and rebindings go to a shadow, which an exception drops."""

    def read(self, handle: Tensor) -> Any:
        """The handle's value inside the trace; lifts it to an input on first read."""

    def write(self, handle: Tensor, value: Any) -> None:
        """Rebind the handle inside the trace."""

    def read_grad(self, handle: Tensor) -> Tensor | None:
        """The handle's ``.grad`` inside the trace."""

    def write_grad(self, handle: Tensor, grad: Tensor | None) -> None:
        """Set the handle's ``.grad`` inside the trace."""

    def ask_gradient(self, handle: Tensor, flag: bool) -> None:
        """Let gradients flow to the handle inside the trace, or not."""

    def lift(self, array: NDArray[Any]) -> Any:
        """The value of a NumPy array used inside the trace."""

    def backward(self, loss: Tensor, gradient: Tensor | None, *, retain_graph: bool = False) -> None:
        """Record ``loss.backward(gradient)``."""

    def text_of(self, handle: Tensor, conversion: str, form: str = "") -> str:
        """The text of the handle by ``repr`` ("r"), ``str`` ("s") or ``format`` ("") inside the trace."""

    def concretise(self, handle: Tensor, what: str) -> NoReturn:
        """Refuse ``what`` (such as "bool()"), which needs the value of a traced tensor."""


class _Size(lifting.Count):
    """The number of elements; called, as ``x.size(0)``, it says what to write here."""

    def __call__(self, axis: int | None = None) -> NoReturn:
        form = "x.shape" if axis is None else f"x.shape[{axis}]"
        raise JitgraphError(f"x.size is the number of elements, as in NumPy, not a function\n  hint: write {form}")


DEVICES = ("cpu", "cuda", "gpu", "mps")


class Tensor:
    """A tensor on the CPU. Made by ``jg.asarray`` and the functions of ``jg``, not by calling this class."""

    __slots__ = ("__dict__", "__weakref__", "_grad", "_indexed", "_requires_grad", "_value", "_weak")
    __array_priority__ = 1000
    __array_ufunc__: Any  # ``functions/numpy_calls.py``: np_array * x is a Tensor
    __array_function__: Any
    __hash__ = object.__hash__

    def __init__(self, *_: object) -> None:
        raise JitgraphError("Tensor(...) is not how a tensor is made\n  hint: write jg.asarray(data)")

    @classmethod
    def _of(cls, value: Any, requires_grad: bool = False) -> Tensor:
        handle = object.__new__(cls)
        handle._bind(value, requires_grad)
        return handle

    def _bind(self, value: Any, requires_grad: bool = False) -> None:
        self._value = value
        self._requires_grad = requires_grad
        self._grad: Tensor | None = None
        self._indexed = False
        self._weak = False

    def __getattr__(self, name: str) -> Any:
        """Methods are attached by ``jitgraph.functions``; for names that others use, what to write here."""
        hint = advice(name, TENSOR)
        if not hint and name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name[:-1]):
            hint = f"\n  hint: write x[...] = x.{name[:-1]}(...)"
        raise AttributeError(f"a Tensor has no attribute {name!r}{hint}")

    # --- value and handle --------------------------------------------------------------------------------------

    @property
    def value(self) -> Any:
        """The value to which ops are applied: eager, or of the current trace."""
        trace = context.current().trace
        if trace is not None:
            return trace.read(self)
        value = self._value
        if not isinstance(value, EagerValue):
            return value.outside(self)
        if self._requires_grad and value.record is None:
            value = self._value = value.recorded(tape.LeafRecord(self))
        return value

    def _rebind(self, value: Any) -> None:
        """Give this handle a new value; a leaf that requires a gradient may be rebound under ``no_grad`` only."""
        current = context.current()
        if current.grad_enabled:
            if self._requires_grad:
                what = "a leaf that requires a gradient is written in place"
                raise JitgraphError(f"{what}\n  hint: wrap the write in `with jg.no_grad():`")
        elif value.requires_grad:
            value = _stopped(value)
        self._weak = False
        if current.trace is not None:
            current.trace.write(self, value)
        else:
            self._value = value

    def _concrete(self, what: str) -> NDArray[Any]:
        """The array behind an eager tensor; inside a trace an error that names ``what``."""
        trace = context.current().trace
        if trace is not None:
            trace.concretise(self, what)
        value = self.value
        assert isinstance(value, EagerValue)
        return value.array

    # --- description -------------------------------------------------------------------------------------------

    @property
    def _static(self) -> Any:
        """The value as far as its type is concerned; reading a type does not make a leaf."""
        return self._value if context.current().trace is None else self.value

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes, ints or, inside a trace with named sizes, symbolic ones."""
        trace = context.current().trace
        shape: tuple[Any, ...] = self._static.type.shape
        return shape if trace is None or all(type(size) is int for size in shape) else trace.user_shape(shape)

    @shape.setter
    def shape(self, shape: Any) -> NoReturn:
        raise JitgraphError("x.shape cannot be set\n  hint: x = x.reshape(shape)")

    @property
    def dtype(self) -> DType:
        """The type of an element, equal to NumPy's dtype of that name."""
        return self._static.type.dtype  # type: ignore[no-any-return]

    @dtype.setter
    def dtype(self, dtype: Any) -> NoReturn:
        raise JitgraphError("x.dtype cannot be set\n  hint: x = x.astype(dtype)")

    @property
    def device(self) -> str:
        """Where the value lies: "cpu"; in a trace, where it will lie."""
        value = self._value
        return value.device if isinstance(value, Buffer) else CPU

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._static.type.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        total: Any = 1
        for size in self.shape:
            total = total * size
        return _Size(total) if type(total) is int else total

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes to step along each axis of the row-major value; how it lies in memory is not to be seen."""
        steps, step = [], self.dtype.itemsize
        for size in reversed(self.shape):
            steps.append(step)
            step *= size
        return tuple(reversed(steps))

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def T(self) -> Tensor:  # noqa: N802 - NumPy's name
        """The transpose of a matrix; ShapeError for other ranks."""
        if self.ndim != 2:
            raise ShapeError(f".T is for matrices; this tensor has rank {self.ndim}", hint="jg.permute_dims or x.mT")
        return self.mT

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the Array API's name
        """The last two axes swapped."""
        if self.ndim < 2:
            raise ShapeError(f".mT needs at least two axes; this tensor has rank {self.ndim}")
        order = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
        return lifting.wrap(ops.transpose(self.value, permutation=order))

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        value, trace = self._value, context.current().trace
        if trace is not None:
            return str(trace.text_of(self, "r"))
        if not isinstance(value, EagerValue):
            return f"<traced Tensor {value.type}>"
        return loader.tensor_text(value.array, self.dtype.name, self.requires_grad)

    def __str__(self) -> str:
        trace = context.current().trace
        return repr(self) if trace is None else str(trace.text_of(self, "s"))

    # --- gradients ---------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this tensor; set it of floats alone, else DTypeError."""
        return self._requires_grad or self._static.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, flag: bool = True) -> Tensor:
        """Ask for gradients with respect to this handle (floats only); returns it."""
        if flag and not dtypes.is_float(self.dtype):
            raise DTypeError(f"only floats have gradients, not {self.dtype.name}", hint="x.astype(jg.float32)")
        if not flag and not self._requires_grad and self._static.requires_grad:
            raise JitgraphError("requires_grad can be cleared on a leaf only\n  hint: x.detach()")
        trace = context.current().trace
        if trace is not None:
            trace.ask_gradient(self, flag)
            return self
        if not self._static.requires_grad or not flag:
            self._requires_grad = flag
        if not flag and isinstance(self._value, EagerValue):
            self._value = self._value.recorded(None)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether ``.grad`` is kept here: a tensor that requires a gradient by itself, or none at all."""
        return self._requires_grad or not self._static.requires_grad

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by ``backward()``, or None."""
        trace = context.current().trace
        return self._grad if trace is None else trace.read_grad(self)

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        if grad is not None and not isinstance(grad, Tensor):
            raise JitgraphError(f".grad is a tensor or None, not {type(grad).__name__}\n  hint: jg.asarray(...)")
        if grad is not None and (tuple(grad.shape) != tuple(self.shape) or grad.dtype != self.dtype):
            raise ShapeError(f"grad is {grad._static.type}, the tensor {self._static.type}")
        trace = context.current().trace
        if trace is not None:
            trace.write_grad(self, grad)
        else:
            self._grad = grad

    @property
    def grad_fn(self) -> Any:
        """The tape's record of the op that made this tensor, or None for a leaf."""
        record = self._value.record if isinstance(self._value, EagerValue) else None
        return None if isinstance(record, tape.LeafRecord) else record

    @property
    def data(self) -> NoReturn:
        """Not here, where a value is not shared by handles: the error says what to write."""
        raise AttributeError("data")  # __getattr__ goes on

    @data.setter
    def data(self, value: Any) -> NoReturn:
        raise JitgraphError(f"x.data cannot be set\n  hint: {TENSOR['data']}")

    def detach(self) -> Tensor:
        """A new handle on the same value through which no gradient flows."""
        return lifting.wrap(_stopped(self.value))

    def backward(
        self, gradient: TensorLike | None = None, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Accumulate the gradient of this tensor, a scalar unless ``gradient`` is given, into the leaves' ``.grad``."""
        from jitgraph.autograd import backward

        backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph)

    # --- leaving jitgraph --------------------------------------------------------------------------------------

    def numpy(self) -> NDArray[Any]:
        """A read-only view of the value; SharingError where it requires a gradient, as in PyTorch."""
        return self._view("numpy()", "x.detach().numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        view = self._view("np.asarray", "np.asarray(x.detach())")
        if dtype is not None and view.dtype != dtype:
            if copy is False:
                raise ValueError(f"{view.dtype} cannot be seen as {dtype} without a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __dlpack__(
        self, stream: Any = None, *, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """A DLPack capsule: the memory of the value, read-only, for callers of version 1; for older ones a copy.

        SharingError where the tensor requires a gradient, and for what a tensor on the CPU cannot do.
        """
        view = self._view("DLPack", "x.detach()")
        return dlpack.exported(view, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU_DEVICE

    def _view(self, what: str, way_out: str) -> NDArray[Any]:
        self._concrete(what)
        if self.requires_grad:
            raise SharingError(f"{what} of a tensor that requires a gradient", hint=way_out)
        value: Buffer = self._value
        return value.shown()

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return sys.modules["jitgraph"]

    def item(self) -> Any:
        """The one element as a Python number; ShapeError for more or fewer, TraceError in a trace."""
        array = self._concrete("item()")
        if array.size != 1:
            raise ShapeError(f"item() needs one element; the shape is {array.shape}", hint="x.tolist() or x[i].item()")
        return float(array.reshape(())) if dtypes.is_float(array.dtype) else array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers, one number of a tensor of rank 0; TraceError in a trace."""
        array = self._concrete("tolist()")
        return array.astype(np.float64).tolist() if array.dtype == dtypes.bfloat16 else array.tolist()

    def __bool__(self) -> bool:
        return bool(self._one("bool()"))

    def __float__(self) -> float:
        return float(self._one("float()"))

    def __int__(self) -> int:
        return int(self._one("int()"))

    def __index__(self) -> int:
        if not dtypes.is_integer(self.dtype):
            raise TypeError(f"only an integer tensor is an index, not {self.dtype.name}")
        return int(self._one("use as an index"))

    def _one(self, what: str) -> Any:
        array = self._concrete(what)
        if array.size != 1:
            raise ShapeError(f"{what} needs one element; the shape is {array.shape}", hint="jg.any or jg.all reduce")
        return array.reshape(())

    def __format__(self, spec: str) -> str:
        if spec and self.ndim:
            raise TypeError(f"the format {spec!r} of a tensor of rank {self.ndim}; str(x), or one of its elements")
        trace = context.current().trace
        if trace is not None:
            return str(trace.text_of(self, "", spec))
        return format(self.item(), spec) if spec else str(self)

    def __round__(self, digits: int | None = None) -> Tensor:
        if digits is not None:
            raise TypeError("round of a Tensor to digits; write round(x * 10**n) / 10**n")
        return self.round()  # type: ignore[no-any-return]

    def __copy__(self) -> Tensor:
        return lifting.wrap(self.value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A handle of its own on the same value, with its own ``.grad``; only of a leaf, as in PyTorch."""
        if not self.is_leaf:
            raise JitgraphError("deepcopy of a tensor that an op made on the tape\n  hint: x.detach(), or x.clone()")
        copied = type(self)._of(_stopped(self.value), self._requires_grad)
        memo[id(self)] = copied
        gradient = self.grad
        copied.grad = None if gradient is None else lifting.wrap(_stopped(gradient.value))
        vars(copied).update(deepcopy(vars(self), memo))
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For pickle: the value, ``.grad`` and attributes of a leaf; the tape is not kept."""
        array = self._concrete("pickling")
        if not self.is_leaf:
            raise JitgraphError("pickling of a tensor that an op made on the tape\n  hint: x.detach()")
        return _unpickled, (type(self),), (array, self._requires_grad, self._grad, vars(self))

    def __setstate__(self, state: tuple[Any, bool, Tensor | None, dict[str, Any]]) -> None:
        array, requires_grad, self._grad, attributes = state
        self._value = EagerValue(array)
        self._requires_grad = requires_grad
        vars(self).update(attributes)

    def to(self, *targets: Any, dtype: Any = None, device: str | None = None) -> Tensor:
        """This tensor in another dtype, or on device "cpu"; DeviceError for devices that are absent."""
        result = self
        for target in (*targets, dtype, device):
            if isinstance(target, str) and target.partition(":")[0] in DEVICES:
                if target != "cpu":
                    raise DeviceError(f"device {target!r} is not available", hint='this build computes on "cpu"')
            elif target is not None:
                result = result.astype(target.dtype if isinstance(target, Tensor) else target)
        return result

    def cuda(self) -> Tensor:
        """DeviceError: this build has no GPU."""
        return self.to("cuda")

    def cpu(self) -> Tensor:
        """This tensor, which is on the CPU."""
        return self.to("cpu")

    # --- operators ---------------------------------------------------------------------------------------------

    def __add__(self, other: TensorLike) -> Tensor:
        return _operate(ops.add, self, other)

    def __radd__(self, other: TensorLike) -> Tensor:
        return _operate(ops.add, other, self)

    def __sub__(self, other: TensorLike) -> Tensor:
        return _operate(ops.sub, self, other)

    def __rsub__(self, other: TensorLike) -> Tensor:
        return _operate(ops.sub, other, self)

    def __mul__(self, other: TensorLike) -> Tensor:
        return _operate(ops.mul, self, other)

    def __rmul__(self, other: TensorLike) -> Tensor:
        return _operate(ops.mul, other, self)

    def __truediv__(self, other: TensorLike) -> Tensor:
        return _operate(ops.div, self, other, floating=True)

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return _operate(ops.div, other, self, floating=True)

    def __floordiv__(self, other: TensorLike) -> Tensor:
        return _operate(ops.floor_divide, self, other)

    def __rfloordiv__(self, other: TensorLike) -> Tensor:
        return _operate(ops.floor_divide, other, self)

    def __mod__(self, other: TensorLike) -> Tensor:
        return _operate(ops.remainder, self, other)

    def __rmod__(self, other: TensorLike) -> Tensor:
        return _operate(ops.remainder, other, self)

    def __pow__(self, other: TensorLike) -> Tensor:
        return _method("pow", self, other)

    def __rpow__(self, other: TensorLike) -> Tensor:
        return _method("pow", other, self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return _method("matmul", self, other)

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return _method("matmul", other, self)

    def __and__(self, other: TensorLike) -> Tensor:
        return _operate(ops.bitwise_and, self, other)

    __rand__ = __and__

    def __or__(self, other: TensorLike) -> Tensor:
        return _operate(ops.bitwise_or, self, other)

    __ror__ = __or__

    def __xor__(self, other: TensorLike) -> Tensor:
        return _operate(ops.bitwise_xor, self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: TensorLike) -> Tensor:
        return _operate(ops.shift_left, self, other)

    def __rlshift__(self, other: TensorLike) -> Tensor:
        return _operate(ops.shift_left, other, self)

    def __rshift__(self, other: TensorLike) -> Tensor:
        return _operate(ops.shift_right, self, other)

    def __rrshift__(self, other: TensorLike) -> Tensor:
        return _operate(ops.shift_right, other, self)

    def __invert__(self) -> Tensor:
        return elementwise(ops.bitwise_not, self)

    def __neg__(self) -> Tensor:
        return elementwise(ops.neg, self)

    def __pos__(self) -> Tensor:
        return lifting.wrap(self.value)

    def __abs__(self) -> Tensor:
        return elementwise(ops.abs, self)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return _compared(ops.eq, self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return _compared(ops.ne, self, other)

    def __lt__(self, other: TensorLike) -> Tensor:
        return _compared(ops.lt, self, other)

    def __le__(self, other: TensorLike) -> Tensor:
        return _compared(ops.le, self, other)

    def __gt__(self, other: TensorLike) -> Tensor:
        return _compared(ops.gt, self, other)

    def __ge__(self, other: TensorLike) -> Tensor:
        return _compared(ops.ge, self, other)

    def __getitem__(self, index: Any) -> Tensor:
        from jitgraph import indexing

        result = indexing.get(self, index)
        result._indexed = True
        return result

    def __setitem__(self, index: Any, value: TensorLike) -> None:
        from jitgraph import indexing

        if self._indexed and sys.getrefcount(self) <= _UNNAMED:
            raise JitgraphError(
                "x[i][j] = v writes to an unnamed result of indexing, which nobody sees\n  hint: write x[i, j] = v"
            )
        self._rebind(indexing.put(self, index, value))


_TENSORS = (Tensor, np.ndarray, np.generic)


def _is_operand(x: object) -> bool:
    """Whether an operator takes x: a tensor, array or number. DTypeError for a complex number."""
    if isinstance(x, complex):
        dtypes.canonical(np.dtype(type(x)))
    return isinstance(x, _TENSORS) or lifting.is_scalar(x) or foreign.is_array(x)


def _operate(op: Any, x: Any, y: Any, *, floating: bool = False) -> Tensor:
    """A binary operator; NotImplemented where an operand is no tensor, array or number."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)) and not (_is_operand(x) and _is_operand(y)):
        return NotImplemented  # type: ignore[no-any-return]
    return elementwise(op, x, y, floating=floating)


def _compared(op: Any, x: Tensor, y: Any) -> Tensor:
    """A comparison; NotImplemented as for ``_operate``."""
    dtype = x._static.type.dtype
    if isinstance(y, Tensor):
        plain = y._static.type.dtype is dtype and not (x._weak or y._weak)
    else:
        least, greatest = dtypes.LIMITS.get(dtype, (0, 0))
        plain = type(y) is float or (type(y) is int and (least <= y <= greatest or dtypes.is_float(dtype)))
    if plain:
        return elementwise(op, x, y)
    if not _is_operand(y):
        return NotImplemented  # type: ignore[no-any-return]
    from jitgraph.comparing import compare

    return compare(op, x, y)


def _method(name: str, x: Any, y: Any) -> Tensor:
    """A binary operator that is an array function, by the method that this function became."""
    found: Tensor = getattr(Tensor, name)(x, y) if _is_operand(x) and _is_operand(y) else NotImplemented
    return found


def _unpickled(kind: type[Tensor]) -> Tensor:
    """A handle whose state is about to be set."""
    return kind._of(None)


def _stopped(value: Any) -> Any:
    """The value through which no gradient flows."""
    if isinstance(value, EagerValue):
        return value.recorded(None)
    return ops.stop_gradient(value) if value.requires_grad else value


def _in_place(name: str) -> Any:
    operator = getattr(Tensor, f"__{name}__")

    def apply(self: Tensor, other: TensorLike) -> Tensor:
        result = operator(self, other)
        if result is NotImplemented:
            return result  # type: ignore[no-any-return]
        if self._weak:
            return result  # type: ignore[no-any-return]  # it stands for a Python number, never changed in place
        value = result.value
        if value.type.shape != self._static.type.shape:
            raise ShapeError(f"in-place {name} would change the shape from {self.shape} to {result.shape}")
        if value.type.dtype != self.dtype:
            if _kind(value.type.dtype) > _kind(self.dtype):
                raise DTypeError(
                    f"in-place {name} would turn {self.dtype.name} into {value.type.dtype.name}",
                    hint="write x = x ... instead, or cast the other operand with .astype(...)",
                )
            value = ops.cast(value, dtype=self.dtype)
        self._rebind(value)
        return self

    apply.__name__ = f"__i{name}__"
    apply.__doc__ = f"Rebind this handle to ``self {name} other``; shape and dtype stay."
    return apply


def _kind(dtype: DType) -> int:
    return 2 if dtypes.is_float(dtype) else 0 if dtypes.is_bool(dtype) else 1


_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
for _name in _IN_PLACE:
    setattr(Tensor, f"__i{_name}__", _in_place(_name))


def _measure_unnamed() -> int:
    """The reference count that ``__setitem__`` sees on a handle that no name holds, on this interpreter."""

    class Probe:
        count = 0

        def __setitem__(self, index: int, value: int) -> None:
            Probe.count = sys.getrefcount(self)

    class Maker:
        def __getitem__(self, index: int) -> Probe:
            result = Probe()  # bound to a name first, as in Tensor.__getitem__
            return result  # noqa: RET504

    Maker()[0][0] = 0
    return Probe.count


_UNNAMED = _measure_unnamed()
lifting.register_handle(Tensor)
__all__ = ["DEVICES", "HandleStore", "Tensor", "TraceError"]


class _Module(types.ModuleType):
    """This module; called, as ``jg.tensor(data)``, it says what to write here."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> NoReturn:
        raise JitgraphError("jg.tensor is a module, not how a tensor is made\n  hint: write jg.asarray(data)")


sys.modules[__name__].__class__ = _Module
