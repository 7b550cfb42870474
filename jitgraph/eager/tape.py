"""Values of eager tensors, the tape of the ops that made them, and the reverse sweep over it."""

from __future__ import annotations

import heapq
import itertools
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from jitgraph import ops
from jitgraph.errors import AnomalyError, JitgraphError
from jitgraph.ir import context
from jitgraph.ir.types import TensorType
from jitgraph.location import Location, Place, located, user_location
from jitgraph.runtime import imports, loader
from jitgraph.runtime.buffer import Access, Array, Buffer

versions: Any = imports.late(__name__, "jitgraph.eager.versions")  # few programs write what a gradient reads

# ----------------------------------------------------------------------
# The tape: records of eager ops, and the reverse sweep over them.
#
# A record holds its inputs and its outputs as values without a record, never those that lead to it, so values and
# records form no cycle and a tape dies with the last value that needs it.

BEFORE, AFTER, ACCUMULATED = -1, -2, -3
"""What hooks stand for instead of an output (``Hooks``)."""


class Hooks:
    """The functions that cotangents pass at a record or at a leaf's handle, which refers to them.

    An entry is a key, the output that it watches, and the function. ``BEFORE`` instead of an output is of a function
    that gets and gives the cotangents of all outputs, ``AFTER`` of one that gets those of the inputs, too, and gives
    them, ``ACCUMULATED`` of one that gets the leaf whose ``.grad`` has changed. ``number`` is another one after each
    change: a trace contains the hooks of the leaves whose gradients it computes.
    """

    __slots__ = ("__weakref__", "entries", "number")

    def __init__(self) -> None:
        self.entries: tuple[tuple[int, int, Callable[..., Any]], ...] = ()
        self.number = 0


ENDINGS: list[Callable[[], None]] = []
"""What is called, once, when the sweep that goes on now has come to its end."""

ORDER = itertools.count()
"""What the records of this process count their places in time by."""
LAST_WRITE: Final = [-1]
"""When a tensor that something refers to was last written in place (``versions.py``): newer records read what is."""


def state_of_hooks(leaf: Any) -> int | None:
    """What tells the hooks that a leaf has now from those that it had; None for none."""
    hooks: Hooks | None = leaf._hooks
    return None if hooks is None else hooks.number


class Record:
    """One step of the tape. ``order`` grows with time, so every record is newer than those it depends on.

    ``notes`` are what others know of it, by their own keys, or None.
    """

    __slots__ = ("__weakref__", "_place", "hooks", "inputs", "notes", "order", "outputs")

    name: str = "record"
    replays = False  # whether backward differentiates ops of the user's one by one
    is_step = False  # whether this ends a function that is one step of PyTorch's tape
    hooks: Hooks | None
    inputs: tuple[Any, ...] | None
    notes: dict[str, Any] | None
    _place: Place | Location

    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """``outputs`` are values without a record, or of other kinds than tensors."""
        self.order = next(ORDER)
        self.hooks = None
        self.inputs = inputs
        self.notes = None
        self.outputs = outputs
        self._place = user_location()

    def note(self, key: str, value: Any) -> None:
        """Note something about the record."""
        self.notes = {**(self.notes or {}), key: value}

    @property
    def location(self) -> Location | None:
        """The user's line."""
        return self._place if isinstance(self._place, Location) else located(self._place)

    def stand_at(self, location: Location) -> None:
        """Take ``location`` for the user's line: an op that runs again belongs where it was recorded."""
        self._place = location

    def __repr__(self) -> str:
        return f"<{self.name} at {self.location}>"

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        """Cotangents of the inputs (None where none flows) from those of the outputs (None where none came)."""
        raise NotImplementedError

    def saved_operands(self) -> Any:
        """What of this PyTorch would save for the gradient (``saved_operands.py``); None for nothing."""
        return None

    def again(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for other inputs, of a record whose gradient is that of one op."""
        raise NotImplementedError

    def live_inputs(self) -> tuple[Any, ...]:
        if self.inputs is None:
            raise JitgraphError(
                f"backward through {self!r} a second time; its values are gone\n"
                "  hint: pass retain_graph=True to the first backward() or grad()"
            )
        return self.inputs

    def covers(self, record: Record) -> bool:
        """Whether this ends the function of whose ops a record is one: what PyTorch saves, this knows."""
        return False

    def release(self) -> None:
        """Drop what backward needs."""
        self.inputs = None
        self.outputs = ()


class LeafRecord(Record):
    """Where gradients end: a handle with ``requires_grad``."""

    __slots__ = ("handle",)
    name = "leaf"

    def __init__(self, handle: Any) -> None:
        super().__init__((), ())
        self.handle = weakref.ref(handle)
        self.hooks = handle._hooks  # which the gradient passes still when the handle is gone

    def release(self) -> None:
        """A leaf keeps nothing and may be reached again."""


class Unfinished:
    """A cotangent on its way to a record that is no value yet."""

    __slots__ = ()

    def value(self) -> EagerValue:
        """What it is, once everything has been added."""
        raise NotImplementedError

    def added_to(self, known: Any) -> Any:
        """The sum of a cotangent that came before, which may be unfinished, too, and this."""
        raise NotImplementedError


def finished(cotangent: Any) -> Any:
    """A cotangent as a value."""
    return cotangent.value() if isinstance(cotangent, Unfinished) else cotangent


def _sum(known: Any, cotangent: Any) -> Any:
    return cotangent.added_to(known) if isinstance(cotangent, Unfinished) else ops.add(finished(known), cotangent)


def sweep(
    outputs: Sequence[EagerValue],
    cotangents: Sequence[Any],
    *,
    targets: Sequence[EagerValue] | None,
    create_graph: bool,
    retain_graph: bool,
) -> dict[Any, Any]:
    """Reverse sweep: cotangents by leaf record, or by ``(record, output)`` for each of ``targets`` where given.

    Records are visited newest first; a record is visited once, after every record that used it.
    """
    target_keys = None if targets is None else {(value.record, value.output) for value in targets}
    pending: dict[Record, dict[int, Any]] = {}
    heap: list[tuple[int, Record]] = []
    gradients: dict[Any, Any] = {}
    # a record older than every target neither is one nor leads to one
    oldest = -1 if targets is None else min((v.record.order for v in targets if v.record is not None), default=-1)

    def accumulate(values: Sequence[Any], incoming: Sequence[Any]) -> None:
        for value, cotangent in zip(values, incoming, strict=True):
            record = value.record
            if record is None or cotangent is None or record.order < oldest:
                continue
            slots = pending.get(record)
            if slots is None:
                pending[record] = {value.output: cotangent}
                heapq.heappush(heap, (-record.order, record))
            else:
                known = slots.get(value.output)
                slots[value.output] = cotangent if known is None else _sum(known, cotangent)

    with context.using(grad_enabled=create_graph, sweeping=True, autocast=None):
        accumulate(outputs, cotangents if create_graph else [cotangent.recorded(None) for cotangent in cotangents])
        visited: list[Record] = []
        unnoted = False  # whether a compiled call wrote to a leaf
        while heap:
            record = heapq.heappop(heap)[1]
            slots = {number: finished(cotangent) for number, cotangent in pending.pop(record).items()}
            is_leaf = record.__class__ is LeafRecord
            handle = record.handle() if is_leaf else None  # type: ignore[attr-defined]
            hooks = record.hooks if handle is None else handle._hooks
            if hooks is not None:
                for _, output, hook in hooks.entries:
                    if output == BEFORE:
                        slots = hook(slots)
                    elif output in slots:
                        slots[output] = hook(slots[output])
            if target_keys is None:
                if is_leaf:
                    gradients[record] = slots[0]
            else:
                for number, cotangent in slots.items():
                    if (record, number) in target_keys:
                        gradients[record, number] = cotangent
            if is_leaf or record.order == oldest:
                unnoted = unnoted or (handle is not None and _is_written(handle, record))
                continue
            if record.order < LAST_WRITE[0]:
                versions.check(record, visited)
            try:
                inputs, received = record.live_inputs(), [*map(slots.get, range(len(record.outputs)))]
                sent = record.backward(received)
                for _, output, after in () if record.hooks is None else record.hooks.entries:
                    if output == AFTER:
                        sent = after([finished(cotangent) for cotangent in sent], received)
                accumulate(inputs, sent)
            except AnomalyError as error:
                _name(error, record)
                raise
            visited.append(record)
        if unnoted:
            for record in visited:
                versions.check(record, visited)
        if not (create_graph or retain_graph):
            for record in visited:
                record.release()
    while ENDINGS and not context.current().sweeping:
        ENDINGS.pop()()
    return gradients


def _is_written(handle: Any, record: Record) -> bool:
    return handle._api == "torch" and handle._value.record is not record


def _name(error: AnomalyError, record: Record) -> None:
    """Say in whose gradient ``error`` arose; ops that ran one by one inside of a record's gradient are nearer."""
    if not error.in_forward and (error.differentiated is None or not record.replays):
        where = record.location
        error.differentiated = record.name if where is None else f"{record.name} at {where}"


def gradients(
    outputs: Sequence[Any], cotangents: Sequence[Any], variables: Sequence[Any], *, create_graph: bool
) -> list[Any]:
    """Gradients with respect to ``variables`` of outputs with their cotangents, either of which may be None.

    None where none flows. What the sweep passes is kept for another one.
    """
    pairs = [
        (value, cotangent)
        for value, cotangent in zip(outputs, cotangents, strict=True)
        if value is not None and cotangent is not None and value.record is not None
    ]
    grads = sweep(
        [value for value, _ in pairs],
        [cotangent for _, cotangent in pairs],
        targets=variables,
        create_graph=create_graph,
        retain_graph=True,
    )
    return [grads.get((variable.record, variable.output)) for variable in variables]


# ----------------------------------------------------------------------
# The value of an eager tensor: memory that is never written to, and the tape's record of how it was made.

_new: Final = object.__new__


@lru_cache(maxsize=4096)
def native_type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> TensorType:
    """The one object for a type without named sizes, so that types compare by identity."""
    return TensorType(dtype, shape)


class EagerValue(Buffer):
    """A computed tensor value: a buffer that is never written to, and the tape's record of how it was made.

    ``record`` is None where no gradient flows; ``output`` tells which of the record's outputs this is. ``native`` is
    what ``eager/native.py`` found out about the array, or None; where it is set, so is ``address``. ``base`` is the
    value of whose memory this is all or a part, or None for memory of its own.
    """

    __slots__ = ("__weakref__", "_type", "base", "native", "output", "record")

    def __init__(self, array: Array, record: Record | None = None, output: int = 0, access: Access = "own") -> None:
        self._array = array
        self.access = access
        self.record = record
        self.output = output
        self.base: EagerValue | None = None
        self.native: TensorType | None = None
        self._type: TensorType | None = None

    def part_of(self, record: Record | None, output: int) -> EagerValue:
        """A value of this memory, to which nothing else refers yet, as an output of a record that holds this value, or
        of none."""
        alias: EagerValue = _new(EagerValue)
        alias._array = self._array
        alias.access = self.access
        alias.record = record
        alias.output = output
        alias.base = self
        alias.address = self.address
        alias.native = self.native
        alias._type = self._type if self._type is not None else self.native
        return alias

    def _made_array(self) -> Array:
        if self.base is None:
            return super()._made_array()
        array, (shape, _) = self.base.array, self._layout()
        begin = loader.address_of(array)  # which the base need not have noted
        if self.address != begin or array.shape != shape:  # elements of it that lie side by side
            first = (self.address - begin) // array.itemsize
            array = array.reshape(-1)[first : first + prod(shape)].reshape(shape)
        self._array = array
        return array

    def _layout(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        assert self._type is not None
        return self._type.shape, self._type.dtype  # type: ignore[return-value]  # no size of a value has a name

    @property
    def type(self) -> TensorType:
        type = self._type
        if type is None:
            array = self.array
            type = self._type = native_type(array.dtype, array.shape)
        return type

    @property
    def shape(self) -> tuple[int, ...]:
        array = self._array
        return array.shape if array is not None else self._layout()[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        array = self._array
        return array.dtype if array is not None else self._layout()[1]

    @property
    def requires_grad(self) -> bool:
        return self.record is not None

    def export(self) -> None:
        """Note that a caller may see the memory from now on, so that what is known of it may change."""
        super().export()
        self.native = None

    def recorded(self, record: Record | None) -> EagerValue:
        """The same memory as a value with another record."""
        return EagerValue(self.array, record, 0, self.access)
