"""Tensor: a mutable handle on an immutable value, eager or traced, with the operators.

``x += 1`` and ``x[i] = v`` give this handle a new value; no other tensor ever changes. What it is built on stands in
``reading.py`` and ``eager/handle.py``. ``functions/`` attaches the other methods: every function of one tensor is one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.eager.dispatch.start import make_handles_of
from jitgraph.eager.handle import NATIVE_CLASSES, api_of, class_of_tensors, stopped
from jitgraph.errors import DeviceError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.op import Op
from jitgraph.runtime import imports, stubs
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import lifting
from jitgraph.tensor.direct_calls import direct_call, index_call
from jitgraph.tensor.in_place import in_place
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.reading import ReadableHandle

if TYPE_CHECKING:
    from jitgraph.tensor import direct, gradients, indexing
else:
    direct = imports.late(__name__, "jitgraph.tensor.direct")
    gradients = imports.late(__name__, "jitgraph.tensor.gradients")
    indexing = imports.late(__name__, "jitgraph.tensor.indexing")


class Tensor(ReadableHandle):
    """A tensor on the CPU or a GPU. Made by ``jg.asarray`` and the functions of ``jg``, not by calling this class."""

    __slots__ = ()
    __array_priority__ = 1000
    __array_ufunc__ = imports.function("jitgraph.tensor.numpy_calls", "array_ufunc")  # np_array * x is a Tensor
    __array_function__ = imports.function("jitgraph.tensor.numpy_calls", "array_function")
    __hash__ = object.__hash__
    _grad: Tensor | None

    def __init__(self, *_: object) -> None:
        raise JitgraphError("Tensor(...) is not how a tensor is made\n  hint: write jg.asarray(data)")

    def __getattr__(self, name: str) -> Any:
        """Methods are attached by ``jitgraph.tensor.functions``; for names that others use, what to write here."""
        from jitgraph.migration_hints import absent, advice, replacement  # here, as only errors need them

        written = name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name[:-1])
        if written and replacement("x", name) is None:
            hint = f"\n  hint: write x[...] = x.{name[:-1]}(...)"
        else:
            hint = advice("x", name)
        if not hint and name in stubs.of("jitgraph.tensor.functions").homes:
            hint = f"\n  hint: write jg.{name}(x, ...)"
        raise absent(f"a Tensor has no attribute {name!r}", hint)

    # --- gradients -----------------------------------------------------------------------------------------------

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by ``backward()``, or None."""
        trace = context.current().trace
        return self._grad if trace is None else trace.read_grad(self)

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        if grad is not None and not isinstance(grad, Tensor):
            raise JitgraphError(f".grad is a tensor or None, not {type(grad).__name__}\n  hint: jg.asarray(...)")
        if grad is not None and grad.device != self.device:
            raise DeviceError(f"grad is on {grad.device}, the tensor on {self.device}", hint="grad.to(x.device)")
        if grad is not None and (tuple(grad.shape) != tuple(self.shape) or grad.dtype != self.dtype):
            raise ShapeError(f"grad is {grad._static.type}, the tensor {self._static.type}")
        trace = context.current().trace
        if trace is not None:
            trace.write_grad(self, grad)
        else:
            self._grad = grad

    def register_hook(self, hook: Any) -> Any:
        """Call ``hook(gradient)`` when this tensor's gradient is known; a tensor that it returns takes its place.

        Hooks run in the order of their registration, at each backward, in traces as part of the code. Returns a handle
        with ``remove()``. In a trace the hook of a result is registered before the result is used, else TraceError.
        """
        return imports.module("jitgraph.tensor.gradient_hooks").registered(self, hook)

    def detach(self) -> Tensor:
        """A new handle on the same value through which no gradient flows."""
        return wrap(stopped(self.value))

    def backward(
        self, gradient: TensorLike | None = None, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Accumulate the gradient of this tensor, a scalar unless ``gradient`` is given, into the leaves' ``.grad``."""
        if not self.requires_grad:
            what = "backward() of a tensor that depends on nothing with requires_grad=True"
            raise JitgraphError(f"{what}\n  hint: x.requires_grad_() before; detach() and jg.no_grad() stop gradients")
        trace = context.current().trace
        if trace is not None:
            cotangent = None if gradient is None else wrap(lifting.value_of(gradient))
            trace.backward(self, cotangent, retain_graph=retain_graph or create_graph)
            return
        leaf_grads = gradients.leaf_gradients(self, gradient, retain_graph=retain_graph, create_graph=create_graph)
        for leaf, value in leaf_grads:
            fresh: Any = class_of_tensors(leaf._api)._of(value)
            with context.using(grad_enabled=create_graph):
                leaf._grad = fresh if leaf._grad is None else gradients.accumulated(leaf._grad, fresh)
                gradients.notify(leaf)

    # --- copies --------------------------------------------------------------------------------------------------

    def __copy__(self) -> Tensor:
        return wrap_as(self.value, self)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A handle of its own on the same value, with its own ``.grad``; only of a leaf, as in PyTorch."""
        if not self.is_leaf:
            raise JitgraphError("deepcopy of a tensor that an op made on the tape\n  hint: x.detach(), or x.clone()")
        copied = type(self)._of(stopped(self.value), self._requires_grad)
        memo[id(self)] = copied
        gradient = self.grad
        copied.grad = None if gradient is None else wrap_as(stopped(gradient.value), gradient)
        vars(copied).update(deepcopy(vars(self), memo))
        return copied

    def to(
        self, *targets: Any, dtype: Any = None, device: str | int | None = None, non_blocking: bool = False
    ) -> Tensor:
        """This tensor in another dtype, on another device ("cpu", "cuda", "cuda:1", 1), or in both of another tensor.

        It is the tensor itself where nothing changes. Gradients flow back to the first device. DeviceError for devices
        that are absent. ``non_blocking`` is PyTorch's: copies to a GPU never wait, and those from it always do.
        """
        where, kind = device, dtype
        for target in targets:
            if isinstance(target, Tensor):
                where, kind = target.device, target.dtype
            elif placement.is_name(target):
                where = target
            elif target is not None:
                kind = target
        target_device = self.device if where is None else placement.canonical(where)
        if target_device == self.device:
            return self if kind is None else self.astype(kind)
        if kind is None or target_device == CPU:
            moved = self._on(target_device)
            return moved if kind is None else moved.astype(kind)
        return wrap(lifting.cast(self.value, dtypes.canonical(kind)))._on(target_device)

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """This tensor on another device, as the Array API writes it; what follows waits for it on every stream."""
        return self.to(device=device)

    def cuda(self, device: str | int | None = None) -> Tensor:
        """This tensor on the current GPU, or the one given by name or number; DeviceError where there is none."""
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def cpu(self) -> Tensor:
        """This tensor on the CPU."""
        return self if self.device == CPU else self._on(CPU)

    def _on(self, device: str) -> Tensor:
        """This tensor on another device."""
        trace = context.current().trace
        if trace is not None:
            trace.require_device(device)
            return self
        return wrap(placement.moved(self.value, device))

    # --- operators -----------------------------------------------------------------------------------------------

    def __add__(self, other: TensorLike) -> Tensor:
        return _add(self, other)  # type: ignore[no-any-return]

    def __radd__(self, other: TensorLike) -> Tensor:
        return _add(other, self)  # type: ignore[no-any-return]

    def __sub__(self, other: TensorLike) -> Tensor:
        return _sub(self, other)  # type: ignore[no-any-return]

    def __rsub__(self, other: TensorLike) -> Tensor:
        return _sub(other, self)  # type: ignore[no-any-return]

    def __mul__(self, other: TensorLike) -> Tensor:
        return _mul(self, other)  # type: ignore[no-any-return]

    def __rmul__(self, other: TensorLike) -> Tensor:
        return _mul(other, self)  # type: ignore[no-any-return]

    def __truediv__(self, other: TensorLike) -> Tensor:
        return _truediv(self, other)  # type: ignore[no-any-return]

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return _truediv(other, self)  # type: ignore[no-any-return]

    def __floordiv__(self, other: TensorLike) -> Tensor:
        return _floordiv(self, other)  # type: ignore[no-any-return]

    def __rfloordiv__(self, other: TensorLike) -> Tensor:
        return _floordiv(other, self)  # type: ignore[no-any-return]

    def __mod__(self, other: TensorLike) -> Tensor:
        return _mod(self, other)  # type: ignore[no-any-return]

    def __rmod__(self, other: TensorLike) -> Tensor:
        return _mod(other, self)  # type: ignore[no-any-return]

    def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        return self.__rfloordiv__(other), self.__rmod__(other)

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

    def __rand__(self, other: TensorLike) -> Tensor:
        return _operate(ops.bitwise_and, other, self)

    def __or__(self, other: TensorLike) -> Tensor:
        return _operate(ops.bitwise_or, self, other)

    def __ror__(self, other: TensorLike) -> Tensor:
        return _operate(ops.bitwise_or, other, self)

    def __xor__(self, other: TensorLike) -> Tensor:
        return _operate(ops.bitwise_xor, self, other)

    def __rxor__(self, other: TensorLike) -> Tensor:
        return _operate(ops.bitwise_xor, other, self)

    def __lshift__(self, other: TensorLike) -> Tensor:
        return _operate(ops.shift_left, self, other)

    def __rlshift__(self, other: TensorLike) -> Tensor:
        return _operate(ops.shift_left, other, self)

    def __rshift__(self, other: TensorLike) -> Tensor:
        return _operate(ops.shift_right, self, other)

    def __rrshift__(self, other: TensorLike) -> Tensor:
        return _operate(ops.shift_right, other, self)

    def __invert__(self) -> Tensor:
        return _invert(self)  # type: ignore[no-any-return]

    def __neg__(self) -> Tensor:
        return _neg(self)  # type: ignore[no-any-return]

    def __pos__(self) -> Tensor:
        return wrap(self.value)

    def __abs__(self) -> Tensor:
        return _abs(self)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return _eq(self, other)  # type: ignore[no-any-return]

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return _ne(self, other)  # type: ignore[no-any-return]

    def __lt__(self, other: TensorLike) -> Tensor:
        return _lt(self, other)  # type: ignore[no-any-return]

    def __le__(self, other: TensorLike) -> Tensor:
        return _le(self, other)  # type: ignore[no-any-return]

    def __gt__(self, other: TensorLike) -> Tensor:
        return _gt(self, other)  # type: ignore[no-any-return]

    def __ge__(self, other: TensorLike) -> Tensor:
        return _ge(self, other)  # type: ignore[no-any-return]

    def __round__(self, digits: int | None = None) -> Tensor:
        return self.round() if digits is None else self.round(digits)  # type: ignore[no-any-return]

    # --- axes and elements ---------------------------------------------------------------------------------------

    @property
    def T(self) -> Tensor:  # noqa: N802 - NumPy's name
        """The transpose of a matrix; ShapeError for other ranks."""
        if self.ndim != 2:
            raise ShapeError(f".T is for matrices; this tensor has rank {self.ndim}", hint="jg.permute_dims or x.mT")
        return self.transpose(-2, -1)  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the Array API's name
        """The last two axes swapped."""
        if self.ndim < 2:
            raise ShapeError(f".mT needs at least two axes; this tensor has rank {self.ndim}")
        return self.transpose(-2, -1)  # type: ignore[no-any-return]

    @property
    def H(self) -> Tensor:  # noqa: N802 - NumPy's name
        """The last two axes swapped, and conjugated."""
        return self.mT.conj()  # type: ignore[no-any-return]

    @property
    def real(self) -> Tensor:
        """The real part, which is the tensor itself where it is real."""
        return _part(self, "real")

    @property
    def imag(self) -> Tensor:
        """The imaginary part, zeros where the tensor is real."""
        return _part(self, "imag")

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))

    def _row(self, i: Any, row: Tensor) -> Tensor:
        """Element ``i`` of the first axis, whose elements ``row`` has, as going along the tensor gives it."""
        return row

    def __getitem__(self, index: Any) -> Tensor:
        return _getitem(self, index)  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: TensorLike) -> None:
        if self._indexed is True and sys.getrefcount(self) <= _UNNAMED:
            raise JitgraphError(
                "x[i][j] = v writes to an unnamed result of indexing, which nobody sees\n  hint: write x[i, j] = v"
            )
        self._rebind(indexing.put(self.value, index, value))


NATIVE_CLASSES["", False] = Tensor
make_handles_of(Tensor)


def wrap(value: Any) -> Tensor:
    """A new tensor on ``value``."""
    return Tensor._of(value)


def wrap_as(value: Any, *examples: Any) -> Any:
    """A new tensor on ``value`` that stands for one of the examples: of PyTorch's API where one of them is."""
    return class_of_tensors(api_of(*examples))._of(value)


def tensor_of(x: TensorLike) -> Tensor:
    """``x`` itself where it is a tensor, else a new tensor of it."""
    return x if isinstance(x, Tensor) else wrap(lifting.value_of(x))


def settled(x: Any) -> Any:
    """``x``; for a Python number inside a trace, the tensor that it makes elsewhere: float32 where it is a float.

    For functions that make tensors of numbers. Arithmetic on numbers alone stays in float64, as Python's own does.
    """
    if isinstance(x, Tensor) and x._weak:
        return wrap(lifting.cast(x.value, dtypes.default_of(lifting.scalar_like(x.dtype))))
    return x


def elementwise(op: Op, *xs: TensorLike, floating: bool = False) -> Tensor:
    """Apply an elementwise op to promoted, broadcast operands; ``floating`` lifts integers and bools to float32.

    Of operands that all stand for Python numbers the result does, too: it is then double, as Python's own would be.
    """
    direct_value = direct.binary(op, *xs) if len(xs) == 2 else direct.unary(op, *xs) if len(xs) == 1 else None
    if direct_value is not None:
        return wrap(direct_value)
    target = None
    traced = context.current().trace is not None
    if traced and any(isinstance(x, Tensor) and hasattr(x._value, "trailing") for x in xs):
        return wrap(imports.module("jitgraph.tensor.traced_indexing").applied(op, xs, floating=floating))
    weak = traced and lifting.stand_for_numbers(xs)
    if floating and not dtypes.is_inexact(lifting.common_dtype(*xs)):
        target = dtypes.float64 if weak else dtypes.float32
    values = lifting.operands(*xs, dtype=target)
    result = wrap(lifting.form_of(op, values[0])(*values))
    if weak:
        result._weak = True
    return result


def compare(op: Op, x: TensorLike, y: TensorLike) -> Tensor:
    """``op`` (eq, ne, lt, le, gt or ge) of two operands; integers of any two dtypes are compared exactly."""
    from jitgraph.tensor import comparing  # here, as few programs compare integers of two dtypes

    result = wrap(comparing.compare(op, x, y))
    result._weak = context.current().trace is not None and lifting.stand_for_numbers((x, y))
    return result


def _operate(op: Any, x: Any, y: Any, *, floating: bool = False) -> Tensor:
    """A binary operator; NotImplemented where an operand is no tensor, array or number."""
    direct_value = direct.binary(op, x, y)
    if direct_value is not None:
        return wrap(direct_value)
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)) and not (lifting.is_operand(x) and lifting.is_operand(y)):
        return NotImplemented  # type: ignore[no-any-return]
    return elementwise(op, x, y, floating=floating)


def _operator(op: str, *, floating: bool = False) -> Any:
    """The binary operator of this op."""
    run = lambda x, y: _operate(getattr(ops, op), x, y, floating=floating)
    return direct_call(run, 2)


def _comparison(op: str) -> Any:
    """The comparison of this op."""
    return direct_call(lambda x, y: _compared(getattr(ops, op), x, y), 2)


_add, _sub, _mul, _truediv = (*map(_operator, ("add", "sub", "mul")), _operator("div", floating=True))
_floordiv, _mod = map(_operator, ("floor_divide", "remainder"))
_eq, _ne, _lt, _le, _gt, _ge = map(_comparison, ("eq", "ne", "lt", "le", "gt", "ge"))


def _indexed(x: Tensor, index: Any) -> Tensor:
    direct_value = indexing.of_eager(x, index)
    result = wrap(indexing.get(x.value, index) if direct_value is None else direct_value)
    result._indexed = True
    return result


_getitem = index_call(_indexed)


def _operator_of_one(op: str) -> Any:
    """The unary operator of this op."""
    return direct_call(lambda x: elementwise(getattr(ops, op), x), 1)


_neg, _abs, _invert = map(_operator_of_one, ("neg", "abs", "bitwise_not"))


def _compared(op: Any, x: Tensor, y: Any) -> Tensor:
    """A comparison; NotImplemented as for ``_operate``."""
    direct_value = direct.binary(op, x, y)
    if direct_value is not None:
        return wrap(direct_value)
    dtype = x._static.type.dtype
    if isinstance(y, Tensor):
        plain = y._static.type.dtype is dtype and not (x._weak or y._weak)
    else:
        least, greatest = dtypes.LIMITS.get(dtype, (0, 0))
        plain = type(y) is float or (type(y) is int and (least <= y <= greatest or dtypes.is_inexact(dtype)))
    if plain:
        return elementwise(op, x, y)
    if not lifting.is_operand(y):
        return NotImplemented  # type: ignore[no-any-return]
    return compare(op, x, y)


def _method(name: str, x: Any, y: Any) -> Tensor:
    """A binary operator that is an array function, by the method that this function became."""
    result: Tensor = getattr(Tensor, name)(x, y) if lifting.is_operand(x) and lifting.is_operand(y) else NotImplemented
    return result


def _part(x: Tensor, name: str) -> Tensor:
    part: Tensor = getattr(imports.module("jitgraph.tensor.functions"), name)(x)
    return part


_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
for _name in _IN_PLACE:
    setattr(Tensor, f"__i{_name}__", in_place(getattr(Tensor, f"__{_name}__")))


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
