"""What a staged ``for`` goes along: ranges, rows of tensors, and both by enumerate, zip and reversed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from jitgraph import dtypes, ops, tree
from jitgraph.errors import ScriptError, ShapeError
from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor, lifting, scalars, weak_ints
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.script.lists import STEPS, is_growing
from jitgraph.tracing.script.variables import is_staged
from jitgraph.tracing.symbolic.staged_integers import require
from jitgraph.tracing.symbolic.staged_number import StagedNumber, int_of

_STEP_OF_ZERO: Final = "range() arg 3 must not be zero"


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A sequence whose items a graph can compute: ``item(i, rows)`` is item ``i``, of a step number (an int or a weak
    0-d tensor) and row ``i`` of each tensor in ``rows``. ``length`` is an int, a symbolic size or a 0-d tensor.

    ``tensors`` are those along which it goes: where one of them is written meanwhile, ``fetch(i)`` is item ``i``."""

    length: Any
    rows: Any
    item: Callable[[Any, Any], Any]
    element: Callable[[int], Any] | None = None  # the item itself, where it is an element of a list or has some
    tensors: tuple[Tensor, ...] = ()
    fetch: Callable[[Any], Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        """The items one by one, where the length is or becomes known to Python."""
        if is_staged(self.length):
            raise ScriptError(
                "a range whose length depends on a tensor is used outside of a for statement",
                hint="write a for statement, or jg.arange over a known size",
            )
        return map(self.each, range(int(self.length)))

    def __reversed__(self) -> Iterator[Any]:
        return reversed_steps(self)  # type: ignore[return-value]

    def at(self, i: Any) -> Any:
        """Item ``i``."""
        if self.fetch is not None:
            return self.fetch(i)
        return self.item(i, tree.map_leaves(lambda rows: rows[i], self.rows))

    def each(self, i: int) -> Any:
        """Item ``i`` as Python has it, where elements of lists are the same objects each time."""
        return self.at(i) if self.element is None else self.element(i)

    def behind_first(self) -> Steps:
        """All items but the first; ``length`` is an int."""
        rows = tree.map_leaves(lambda rows: Tensor.__getitem__(rows, slice(1, None)), self.rows)
        element = None if self.element is None else lambda i: self.each(i + 1)
        return Steps(
            self.length - 1,
            rows,
            lambda i, row: self.item(i + 1, row),
            element,
            self.tensors,
            lambda i: self.at(i + 1),
        )

    def values_of(self, item: Any) -> list[tuple[Tensor, Any]]:
        """The tensors of an item whose values have to stay, with these."""
        leaves = [] if self.element is None else tree.flatten(item)[0]
        return [(leaf, leaf._value) for leaf in leaves if isinstance(leaf, Tensor)]

    def is_written(self, trace: Recorder) -> bool:
        """Whether a turn writes to a tensor along which this goes."""
        return any(trace.is_written(tensor._root) for tensor in self.tensors)

    def require_unwritten(self, snapshots: list[tuple[Tensor, Any]]) -> None:
        """ScriptError where the body wrote into an item that is an element of a list."""
        if any(leaf._value is not value for leaf, value in snapshots):
            raise ScriptError(
                "a loop on a tensor writes into the elements of the list that it goes along",
                location=Location.of_user(),
                hint="make new values, and collect them in another list",
            )


def steps_of(iterable: Any, threshold: int) -> Steps | None:
    """The steps of what a ``for`` goes along, or None where Python goes along it item by item."""
    if isinstance(iterable, Steps):
        return iterable
    if isinstance(iterable, Tensor):
        if iterable.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return Steps(iterable.shape[0], iterable, iterable._row, None, (iterable,), lambda i: iterable[i])
    if is_growing(iterable):
        return _elements_of(iterable, threshold)
    if isinstance(iterable, range) and len(iterable) > threshold:
        start, step = iterable.start, iterable.step
        return Steps(len(iterable), None, lambda i, _: _item(start, i, step, len(iterable)))
    return None


def _elements_of(values: Any, threshold: int) -> Steps | None:
    """The steps of a list that grew in a loop, where its elements are alike."""
    count = values.length
    if not values.has_rows or (type(count) is int and count <= threshold):
        return None
    all_rows = values.as_rows()
    if all_rows is None:
        return None
    values.note_whole()
    return Steps(count, all_rows.stacked, lambda i, rows: all_rows.item(rows), values.__getitem__)


def make_range(*args: Any) -> Any:
    """``range``; of tensors and symbolic sizes, its steps."""
    if not 1 <= len(args) <= 3 or not any(is_staged(a) or scalars.is_named_size(a) for a in args):
        return range(*args)
    for bound in args:
        if type(bound) is StagedNumber and bound.kind is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        if isinstance(bound, Tensor) and (bound.ndim or not dtypes.is_integer(bound.dtype)):
            raise ShapeError(f"range takes 0-d integer tensors, not {bound._static.type}", hint="x.astype(jg.int64)")
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    start, stop, step = map(_weak, (start, stop, args[2] if len(args) == 3 else 1))
    if type(step) is StagedNumber:
        require(step.truth(), "ValueError", _STEP_OF_ZERO)
    elif step == 0:
        raise ValueError(_STEP_OF_ZERO)
    length = stop - start if type(step) is int and step == 1 else _count(start, stop, step)
    if scalars.is_named_size(length) and (start != 0 or step != 1) and not length >= 0:
        length = 0
    return Steps(length, None, lambda i, _: _item(start, i, step, length))


def _count(start: Any, stop: Any, step: Any) -> Any:
    """How many items a range has, or a number that is not positive where it has none."""
    if type(step) is not StagedNumber:
        return -((start - stop) // step)
    divisor = ops.select(step.truth(), step.value, lifting.constant(1, dtypes.int64))  # a check has refused 0
    return -((start - stop) // StagedNumber(divisor))


def _item(start: Any, i: Any, step: Any, length: Any) -> Any:
    """``start + i * step``, which does not leave int64 where the bounds of the range do not."""
    if not any(map(is_staged, (start, i, step))):
        return start + i * step
    values = [int_of(part).value for part in (start, i, step)]
    item = StagedNumber(ops.add(values[0], ops.mul(values[1], values[2])))
    if all(type(part) is int for part in (start, step, length)):
        ends = start, start + (length - 1) * step
        weak_ints.note_ends(item.value, min(ends), max(ends))
    elif type(start) is int and type(step) is int:  # before the end of the range, which int64 holds
        least, greatest = weak_ints.LEAST + 1, weak_ints.GREATEST - 1
        weak_ints.note_ends(item.value, *((start, greatest) if step > 0 else (least, start)))
    return item


def _weak(bound: Any) -> Any:
    """A bound as a Python int."""
    if type(bound) is StagedNumber:
        return StagedNumber(bound.as_int().value)
    if not isinstance(bound, Tensor):
        return bound
    return StagedNumber(lifting.cast(bound.value, dtypes.int64))


def make_enumerate(iterable: Any, start: Any = 0) -> Any:
    """``enumerate``; of a tensor or steps, steps."""
    steps = steps_of(iterable, STEPS if is_growing(iterable) else 1 << 62)
    if steps is None:
        return enumerate(iterable, start)
    element = None if steps.element is None else lambda i: (start + i, steps.each(i))
    return Steps(
        steps.length,
        steps.rows,
        lambda i, rows: (start + i, steps.item(i, rows)),
        element,
        steps.tensors,
        lambda i: (start + i, steps.at(i)),
    )


def make_zip(*iterables: Any, strict: bool = False) -> Any:
    """``zip``; of tensors and steps alone, steps of the smallest length."""
    all_steps = [steps_of(iterable, STEPS if is_growing(iterable) else -1) for iterable in iterables]
    staged = any(isinstance(i, Tensor | Steps) or is_growing(i) for i in iterables)
    if not staged or any(steps is None for steps in all_steps):
        return zip(*iterables, strict=strict)
    parts = [steps for steps in all_steps if steps is not None]
    length = parts[0].length
    for number, steps in enumerate(parts[1:], 2):
        if strict:
            _require_same_length(length, steps.length, number)
        length = _shorter(length, steps.length)
    lists = any(steps.element is not None for steps in parts)
    element = (lambda i: tuple(steps.each(i) for steps in parts)) if lists else None
    fetch: Callable[[Any], Any] = lambda i: tuple(steps.at(i) for steps in parts)
    if is_staged(length):
        return Steps(length, None, lambda i, _: fetch(i), element)
    rows = tuple(tree.map_leaves(lambda t: Tensor.__getitem__(t, slice(length)), steps.rows) for steps in parts)
    item = lambda i, row: tuple(s.item(i, r) for s, r in zip(parts, row, strict=True))
    return Steps(length, rows, item, element, tuple(x for steps in parts for x in steps.tensors), fetch)


def _shorter(a: Any, b: Any) -> Any:
    if not is_staged(a) and not is_staged(b):
        return b if b < a else a
    return StagedNumber(ops.minimum(int_of(a).value, int_of(b).value))


def _require_same_length(first: Any, other: Any, number: int) -> None:
    message = f"zip() argument {number} is of another length than argument 1"
    same = first == other
    if type(same) is StagedNumber:
        require(same.value, "ValueError", message)
    elif not same:
        raise ValueError(message)


def make_reversed(iterable: Any) -> Any:
    """``reversed``; of a list that grew in a loop, steps."""
    steps = steps_of(iterable, STEPS) if is_growing(iterable) else None
    return reversed(iterable) if steps is None else reversed_steps(steps)


def reversed_steps(steps: Steps) -> Steps:
    """The same items from the last to the first."""
    last = steps.length - 1
    element = None if steps.element is None else lambda i: steps.each(last - i)
    if is_staged(last):
        return Steps(steps.length, None, lambda i, _: steps.at(last - i), element)
    rows = tree.map_leaves(lambda t: Tensor.__getitem__(t, slice(None, None, -1)), steps.rows)
    return Steps(
        steps.length,
        rows,
        lambda i, row: steps.item(last - i, row),
        element,
        steps.tensors,
        lambda i: steps.at(last - i),
    )
