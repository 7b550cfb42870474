"""What a staged ``for`` goes along: ranges, rows of tensors, and both by enumerate, zip and reversed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from jitgraph import dtypes, ops, tree
from jitgraph.errors import ScriptError, ShapeError, trying
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor, elementwise, lifting, scalars, weak_ints, wrap
from jitgraph.tracing.record.recorder import ConcretisationError

_STEP_OF_ZERO: Final = "range() arg 3 must not be zero"


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A sequence whose items a graph can compute: ``item(i, rows)`` is item ``i``, of a step number (an int or a weak
    0-d tensor) and row ``i`` of each tensor in ``rows``. ``length`` is an int, a symbolic size or a 0-d tensor."""

    length: Any
    rows: Any
    item: Callable[[Any, Any], Any]

    def __iter__(self) -> Iterator[Any]:
        """The items one by one, where the length is or becomes known to Python."""
        try:
            with trying():
                count = int(self.length)
        except ConcretisationError as error:
            raise ScriptError(
                "a range whose length depends on a tensor is used outside of a for statement",
                location=error.location,
                hint="write a for statement, or jg.arange over a known size",
            ) from None
        return (self.at(i) for i in range(count))

    def __reversed__(self) -> Iterator[Any]:
        return reversed_steps(self)  # type: ignore[return-value]

    def at(self, i: Any) -> Any:
        """Item ``i``."""
        return self.item(i, tree.map_leaves(lambda rows: rows[i], self.rows))


def steps_of(iterable: Any, threshold: int) -> Steps | None:
    """The steps of what a ``for`` goes along, or None where Python goes along it item by item."""
    if isinstance(iterable, Steps):
        return iterable
    if isinstance(iterable, Tensor):
        if iterable.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return Steps(iterable.shape[0], iterable, lambda i, row: row)
    if isinstance(iterable, range) and len(iterable) > threshold:
        start, step = iterable.start, iterable.step
        return Steps(len(iterable), None, lambda i, _: _item(start, i, step, len(iterable)))
    return None


def make_range(*args: Any) -> Any:
    """``range``; of tensors and symbolic sizes, its steps."""
    if not 1 <= len(args) <= 3 or not any(isinstance(a, Tensor) or scalars.is_named_size(a) for a in args):
        return range(*args)
    for bound in args:
        if isinstance(bound, Tensor) and (bound.ndim or not dtypes.is_integer(bound.dtype)):
            raise ShapeError(f"range takes 0-d integer tensors, not {bound._static.type}", hint="x.astype(jg.int64)")
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    start, stop, step = map(_weak, (start, stop, args[2] if len(args) == 3 else 1))
    if isinstance(step, Tensor):
        ops.check((step != 0).value, kind="ValueError", message=_STEP_OF_ZERO)
    elif step == 0:
        raise ValueError(_STEP_OF_ZERO)
    length = stop - start if isinstance(step, int) and step == 1 else -((start - stop) // step)
    if scalars.is_named_size(length) and (start != 0 or step != 1) and not length >= 0:
        length = 0
    return Steps(length, None, lambda i, _: _item(start, i, step, length))


def _item(start: Any, i: Any, step: Any, length: Any) -> Any:
    """``start + i * step``, which does not leave int64 where the bounds of the range do not."""
    if not any(isinstance(part, Tensor) for part in (start, i, step)):
        return start + i * step
    values = [lifting.value_of(part, dtypes.int64) for part in (start, i, step)]
    made = wrap(ops.add(values[0], ops.mul(values[1], values[2])))
    made._weak = True
    if all(type(part) is int for part in (start, step, length)):
        ends = start, start + (length - 1) * step
        weak_ints.note_ends(made.value, min(ends), max(ends))
    return made


def _weak(bound: Any) -> Any:
    """A bound as what stands for a Python int."""
    if not isinstance(bound, Tensor):
        return bound
    made = wrap(lifting.cast(bound.value, dtypes.int64))
    made._weak = True
    return made


def make_enumerate(iterable: Any, start: Any = 0) -> Any:
    """``enumerate``; of a tensor or steps, steps."""
    steps = steps_of(iterable, 1 << 62)
    if steps is None:
        return enumerate(iterable, start)
    return Steps(steps.length, steps.rows, lambda i, rows: (start + i, steps.item(i, rows)))


def make_zip(*iterables: Any, strict: bool = False) -> Any:
    """``zip``; of tensors and steps alone, steps of the smallest length."""
    found = [steps_of(iterable, -1) for iterable in iterables]
    if not any(isinstance(i, Tensor | Steps) for i in iterables) or any(steps is None for steps in found):
        return zip(*iterables, strict=strict)
    parts = [steps for steps in found if steps is not None]
    length = parts[0].length
    for number, steps in enumerate(parts[1:], 2):
        if strict:
            _require_same_length(length, steps.length, number)
        length = _shorter(length, steps.length)
    if isinstance(length, Tensor):
        return Steps(length, None, lambda i, _: tuple(steps.at(i) for steps in parts))
    rows = tuple(tree.map_leaves(lambda t: t[:length], steps.rows) for steps in parts)
    return Steps(length, rows, lambda i, row: tuple(s.item(i, r) for s, r in zip(parts, row, strict=True)))


def _shorter(a: Any, b: Any) -> Any:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return b if b < a else a
    return elementwise(ops.minimum, a, b)


def _require_same_length(first: Any, other: Any, number: int) -> None:
    message = f"zip() argument {number} is of another length than argument 1"
    same = first == other
    if isinstance(same, Tensor):
        ops.check(same.value, kind="ValueError", message=message)
    elif not same:
        raise ValueError(message)


def reversed_steps(steps: Steps) -> Steps:
    """The same items from the last to the first."""
    last = steps.length - 1
    if isinstance(last, Tensor):
        return Steps(steps.length, None, lambda i, _: steps.at(last - i))
    return Steps(
        steps.length, tree.map_leaves(lambda t: t[::-1], steps.rows), lambda i, rows: steps.item(last - i, rows)
    )
