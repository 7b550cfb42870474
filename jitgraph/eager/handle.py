"""ValueHandle: what holds a value, eager or of a trace, and whether gradients are asked for; it computes nothing.

A tensor is a handle (``tensor/tensor.py``). What makes operands of whatever users pass asks for this class alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, Protocol, Self

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue, Hooks, LeafRecord
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.runtime import imports
from jitgraph.runtime.cpython.native_fields import attributes_of, class_with_native_fields, use_dict_slot

if TYPE_CHECKING:
    from numpy.typing import NDArray


COMPUTED: Final = (EagerValue, DeviceValue)
"""The values of tensors outside of traces."""

Api = Literal["", "torch"]
"""Whose methods a tensor has: jitgraph's own, or PyTorch's."""

NATIVE_CLASSES: Final[dict[tuple[Api, bool], type[ValueHandle]]] = {}
"""The classes of handles that native code reads, each by its API and whether it is that of parameters; they register
themselves."""


class HandleStore(Protocol):
    """What is asked of the trace of the current context, which is all that other packages know of traces.

    Reads and rebindings of handles go to a shadow, which an exception drops.
    """

    ends: dict[Any, tuple[int, int]]
    """Between which ends int64 values lie that stand for Python ints, where that is known."""

    producers: dict[Any, Any]
    """The node that made each value of the graph."""

    gradients: Any
    """What records gradients in the trace."""

    takes_tape: bool
    """Whether eager values come in with what they depend on, so that gradients go on to the tape."""

    @property
    def outermost(self) -> Any:
        """The recorder of the whole trace."""

    def outwards(self) -> Any:
        """This trace's recorder, and those around it."""

    def number_of(self, size: Any) -> Any:
        """A size that has a name, as a Python number that the trace records."""

    def read(self, handle: ValueHandle) -> Any:
        """The handle's value inside the trace; lifts it to an input on first read."""

    def write(self, handle: ValueHandle, value: Any) -> None:
        """Rebind the handle inside the trace."""

    def read_grad(self, handle: ValueHandle) -> Any:
        """The handle's ``.grad`` inside the trace."""

    def write_grad(self, handle: ValueHandle, grad: Any) -> None:
        """Set the handle's ``.grad`` inside the trace."""

    def ask_gradient(self, handle: ValueHandle, flag: bool) -> None:
        """Let gradients flow to the handle inside the trace, or not."""

    def lift(self, array: NDArray[Any]) -> Any:
        """The value of a NumPy array used inside the trace."""

    def backward(self, loss: ValueHandle, gradient: ValueHandle | None, *, retain_graph: bool = False) -> None:
        """Record ``loss.backward(gradient)``."""

    def grad(
        self,
        outputs: Sequence[ValueHandle],
        grad_outputs: Sequence[ValueHandle | None],
        inputs: Sequence[ValueHandle],
        *,
        create_graph: bool = False,
        retain_graph: bool = False,
        allow_unused: bool = False,
    ) -> list[Any]:
        """Record gradients of the sum of ``outputs``, weighted by ``grad_outputs``, with respect to ``inputs``."""

    def user_shape(self, shape: Sequence[DimLike]) -> tuple[Any, ...]:
        """A shape as the user sees it: a named size is a number that varies."""

    def to_dim(self, size: Any) -> DimLike:
        """The size that an int or such a number means."""

    def own(self, value: Any) -> Any:
        """A value as one of the trace."""

    def watch_gradient(self, handle: ValueHandle, hook: Any) -> Any:
        """Let the gradient of the handle pass a function of a tensor; gives the function that takes it away."""

    def is_own(self, handle: ValueHandle) -> bool:
        """Whether the handle was made in the trace."""

    def state_of(self, handle: ValueHandle) -> Any:
        """The shadow of a handle from outside: its ``value`` there, the ``initial`` one, whether it was ``written``."""

    def size_value(self, size: Any) -> Any:
        """The int64 value of a size, known or named."""

    def require_recording(self, why: str, location: Any) -> None:
        """Let other processes record the function themselves, in place of taking this recording from the disk."""

    def require_device(self, device: str) -> None:
        """Let the graph of the trace run on a device; DeviceError where it is to run on another one."""

    def text_of(self, handle: ValueHandle, conversion: str, form: str = "") -> str:
        """The text of the handle by ``repr`` ("r"), ``str`` ("s") or ``format`` ("") inside the trace."""

    def concretise(self, handle: ValueHandle, what: str) -> NoReturn:
        """Refuse ``what`` (such as "bool()"), which needs the value of a traced tensor."""


if TYPE_CHECKING:

    class _HandleFields:
        pass
else:
    _HandleFields = class_with_native_fields("HandleWords", "")


class ValueHandle(_HandleFields):
    """A place for a value that can be given another: inside a trace the trace keeps both apart."""

    __slots__ = ("__weakref__", "_grad", "_hooks", "_indexed", "_requires_grad", "_value", "_weak")

    _is_parameter: ClassVar[bool] = False

    @property
    def _root(self) -> ValueHandle:
        """The tensor whose elements these are: of a view another one."""
        return self

    _is_from_outside: ClassVar[bool] = False
    """Whether this is a view that was not made in a trace, though its value may be of one."""

    _api: ClassVar[Api] = ""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The attributes that a program has given this handle."""
        return attributes_of(self)

    @classmethod
    def _of(cls, value: Any, requires_grad: bool = False) -> Self:
        handle = object.__new__(cls)
        handle._bind(value, requires_grad)
        return handle

    def _bind(self, value: Any, requires_grad: bool = False) -> None:
        self._value = value
        self._requires_grad = requires_grad
        self._grad: Any = None
        self._hooks: Hooks | None = None  # of a leaf (``tensor/gradient_hooks.py``)
        self._indexed: Any = False
        self._weak = False

    # --- the value -----------------------------------------------------------------------------------------------

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
            value = self._value = value.recorded(LeafRecord(self))
        return value

    def _rebind(self, value: Any) -> None:
        """Give this handle a new value; a leaf that requires a gradient may be rebound under ``no_grad`` only."""
        current = context.current()
        if current.grad_enabled:
            if self._requires_grad:
                what = "a leaf that requires a gradient is written in place"
                raise JitgraphError(f"{what}\n  hint: wrap the write in `with jg.no_grad():`")
        elif value.requires_grad:
            value = stopped(value)
        self._weak = False
        if current.trace is not None:
            current.trace.write(self, value)
        else:
            self._value = value

    def _concrete(self, what: str) -> NDArray[Any]:
        """The array behind an eager tensor, a copy if it lies on a GPU; in a trace an error that names ``what``."""
        trace = context.current().trace
        if trace is not None:
            trace.concretise(self, what)
        value = self.value
        if value.__class__ is DeviceValue:
            return value.fetched()
        assert isinstance(value, EagerValue)
        return value.array

    @property
    def _static(self) -> Any:
        """The value as far as its type is concerned; reading a type does not make a leaf."""
        if context.current().trace is None or hasattr(self._value, "trailing"):  # a selection, whose size is not known
            return self._value
        return self.value

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
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._static.type.shape)

    # --- whether gradients are asked for ---------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this tensor; set it of floats alone, else DTypeError."""
        return self._requires_grad or self._static.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, flag: bool = True) -> Self:
        """Ask for gradients with respect to this handle (floats only); returns it."""
        flag = bool(flag)  # native code knows the objects True and False
        if flag and not dtypes.is_inexact(self.dtype):
            raise DTypeError(f"only floats have gradients, not {self.dtype.name}", hint="x.astype(jg.float32)")
        if not flag and not self._requires_grad and self._static.requires_grad:
            raise JitgraphError("requires_grad can be cleared on a leaf only\n  hint: x.detach()")
        trace = context.current().trace
        if trace is not None:
            trace.ask_gradient(self, flag)
            return self
        if not self._static.requires_grad or not flag:
            self._requires_grad = flag
        if not flag and isinstance(self._value, COMPUTED):
            self._value = self._value.recorded(None)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether ``.grad`` is kept here: a tensor that requires a gradient by itself, or none at all."""
        return self._requires_grad or not self._static.requires_grad

    @property
    def grad_fn(self) -> Any:
        """The tape's record of the op that made this tensor, or None for a leaf."""
        record = self._value.record if isinstance(self._value, COMPUTED) else None
        return None if isinstance(record, LeafRecord) else record


use_dict_slot(ValueHandle, 0)


def class_of_tensors(api: Api) -> type[ValueHandle]:
    """The class of the tensors that a call makes, by the API that they have."""
    if (api, False) not in NATIVE_CLASSES:
        imports.provided(f"tensors of {api or 'jitgraph'}")  # its module registers the class
    return NATIVE_CLASSES[api, False]


def api_of(*xs: Any) -> Api:
    """Whose methods a tensor has that stands for one of these: PyTorch's where one of them has those."""
    return next((x._api for x in xs if isinstance(x, ValueHandle) and x._api), "")


def stopped(value: Any) -> Any:
    """The value through which no gradient flows."""
    if isinstance(value, COMPUTED):
        return value.recorded(None)
    return ops.stop_gradient(value) if value.requires_grad else value


def of_its_own(value: Any) -> Any:
    """The same elements as a value that no other tensor has, so that a write to either is none to the other; of a trace
    the same value, of which the trace knows that."""
    if isinstance(value, COMPUTED):
        if value.record is None:
            return value.part_of(None, 0)
        with context.using(grad_enabled=True):
            return ops.reshape(value, shape=value.shape)  # which has a record of its own
    trace = getattr(value, "trace", None)
    if trace is not None:
        trace.gradients.writes.share(value)
    return value
