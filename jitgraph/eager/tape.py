"""The tape: records of eager ops, and the reverse sweep over them.

A record holds its inputs and its outputs as values without a record, never those that lead to it, so values and records
form no cycle and a tape dies with the last value that needs it.
"""

from __future__ import annotations

import heapq
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jitgraph import ops
from jitgraph.errors import AnomalyError, JitgraphError
from jitgraph.ir import context
from jitgraph.location import Location, Place, located, user_location

if TYPE_CHECKING:
    from jitgraph.eager.value import EagerValue

HOOKS: dict[int, list[tuple[int, Callable[[Any], Any]]]] = {}
"""Which functions cotangents pass, by the id of the record or the leaf's handle: each with the output it watches."""

ORDER = itertools.count()
"""What the records of this process count their places in time by."""


class Record:
    """One step of the tape. ``order`` grows with time, so every record is newer than those it depends on."""

    __slots__ = ("__weakref__", "_place", "inputs", "order", "outputs")

    name: str = "record"
    replays = False  # whether backward differentiates ops of the user's one by one
    inputs: tuple[Any, ...] | None
    _place: Place | Location

    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """``outputs`` are values without a record, or of other kinds than tensors."""
        self.order = next(ORDER)
        self.inputs = inputs
        self.outputs = outputs
        self._place = user_location()

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

    def live_inputs(self) -> tuple[Any, ...]:
        if self.inputs is None:
            raise JitgraphError(
                f"backward through {self!r} a second time; its values are gone\n"
                "  hint: pass retain_graph=True to the first backward() or grad()"
            )
        return self.inputs

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
        while heap:
            record = heapq.heappop(heap)[1]
            slots = {number: finished(cotangent) for number, cotangent in pending.pop(record).items()}
            is_leaf = record.__class__ is LeafRecord
            if HOOKS:
                for output, hook in tuple(HOOKS.get(id(record.handle() if is_leaf else record), ())):  # type: ignore[attr-defined]
                    if output in slots:
                        slots[output] = hook(slots[output])
            if target_keys is None:
                if is_leaf:
                    gradients[record] = slots[0]
            else:
                for number, cotangent in slots.items():
                    if (record, number) in target_keys:
                        gradients[record, number] = cotangent
            if is_leaf or record.order == oldest:
                continue
            try:
                accumulate(record.live_inputs(), record.backward([*map(slots.get, range(len(record.outputs)))]))
            except AnomalyError as error:
                _name(error, record)
                raise
            visited.append(record)
        if not (create_graph or retain_graph):
            for record in visited:
                record.release()
    return gradients


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
