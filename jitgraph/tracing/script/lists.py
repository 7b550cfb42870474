"""Lists that grow in staged loops: what each turn appends is stacked by the loop, and stands in the list as rows.

A list that a script makes is a ``GrowingList``: a list whose storage may hold ``ElementRows``, a run of elements that
are the rows of tensors. It reads as the list that Python would have; an element is sliced from its tensors when it is
asked for, so that a loop of n turns records one op, and ``jg.stack`` of the result records no more.

A loop's body is recorded once, so what it reads of a list that it lets grow has to mean the same in each turn: the new
elements of this turn, elements that were there before the loop, by their position, and the last ones by ``out[-1]``,
which the loop carries. The list notes what is read, and the loop refuses the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Any, Final, SupportsIndex, TypeGuard

from jitgraph import ops, tree
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.tensor import Tensor, lifting, wrap, wrap_as
from jitgraph.tensor.functions.manipulation import concat, moveaxis, stack
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.region import WriteLog
from jitgraph.tracing.record.values import GrownElement, SameWhere, TracedValue, note_choice
from jitgraph.tracing.script.aliasing import OPAQUE, objects_in, require_single
from jitgraph.tracing.script.branches import created_here, innermost_write_log, recorders
from jitgraph.tracing.script.variables import Kind, handle, is_staged, kind_of
from jitgraph.tracing.symbolic.staged_number import StagedNumber
from jitgraph.tree import TreeDef

_STORED: Final = object()
STEPS: Final = 8  # so many elements, at most, are gone through one by one


class ElementRows:
    """A run of elements: element i is ``structure`` with row i of each tensor in ``leaves``.

    ``weak`` says of each leaf whether its rows stand for Python numbers; None for one that is the same in each element.
    ``length`` is an int or a symbolic size.
    """

    __slots__ = ("_elements", "_home", "leaves", "length", "structure", "weak")

    def __init__(
        self, length: Any, structure: TreeDef, leaves: Sequence[Any], weak: Sequence[bool | None], home: Recorder
    ) -> None:
        self.length = length
        self.structure = structure
        self.leaves = tuple(leaves)
        self.weak = tuple(weak)
        self._home = home
        self._elements: dict[int, tuple[Any, list[tuple[Tensor, Any]]]] = {}

    def element(self, i: int) -> Any:
        """Element ``i``, from the end where that is negative; the same object each time."""
        if type(self.length) is int and i < 0:
            i += self.length
        known = self._elements.get(i)
        if known is None:
            home = self._home
            with context.using(emitter=home, trace=home, constraints=home.constraints):
                known = self._elements[i] = self._sliced(i)
        return known[0]

    def known_elements(self) -> list[Any]:
        """The elements that are objects by now."""
        return [element for element, _ in self._elements.values()]

    def adopt(self, i: int, leaves: Mapping[int, Tensor]) -> None:
        """Let tensors that a variable holds, too, be leaves of element ``i``."""
        self._elements[i] = self._sliced(i, leaves)

    def _sliced(
        self, i: int, known: Mapping[int, Tensor] = MappingProxyType({})
    ) -> tuple[Any, list[tuple[Tensor, Any]]]:
        leaves = [
            known[n] if n in known else leaf if weak is None else _row(leaf, i, weak=weak)
            for n, (leaf, weak) in enumerate(zip(self.leaves, self.weak, strict=True))
        ]
        values = [(leaf, leaf._value) for leaf, weak in zip(leaves, self.weak, strict=True) if weak is not None]
        return self.structure.unflatten(leaves), values

    @property
    def is_as_stacked(self) -> bool:
        """Whether no element was rebound since it was sliced, so that the tensors still are what the list holds."""
        trace = context.current().trace
        for _, values in self._elements.values():
            for leaf, value in values:
                if leaf._value is not value:
                    return False
                for recorder in trace.outwards():
                    if (state := recorder.states.get(id(leaf))) is not None and state.written:
                        return False
        return all(
            weak is not None or not isinstance(leaf, Tensor) for leaf, weak in zip(self.leaves, self.weak, strict=True)
        )

    def item(self, rows: Sequence[Any]) -> Any:
        """An element made of one row of each tensor, as ``stacked`` lists them."""
        remaining = iter(rows)
        inherit = context.current().trace.stand_ins.inherit
        leaves = [
            leaf if weak is None else inherit(handle(next(remaining).value, Kind(None, (), weak, leaf._api)), leaf)
            for leaf, weak in zip(self.leaves, self.weak, strict=True)
        ]
        return self.structure.unflatten(leaves)

    @property
    def stacked(self) -> list[Tensor]:
        """The tensors of which the elements are rows."""
        return [leaf for leaf, weak in zip(self.leaves, self.weak, strict=True) if weak is not None]


def _row(rows: Tensor, i: int, *, weak: bool) -> Any:
    """Row ``i`` of stacked elements, as an element of its own."""
    row = handle(Tensor.__getitem__(rows, i).value, Kind(rows._static.type.dtype, (), weak, rows._api))
    return context.current().trace.stand_ins.inherit(row, rows)


class _Length:
    """A length as part of a structure: symbolic ones are compared without a question to the trace."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Length) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> Any:
        return self.value if type(self.value) is int else self.value.dim


def _rows_separately(rows: ElementRows) -> tree.Flattened:
    steps = tuple(map(tree.Item, range(len(rows.leaves))))
    return tree.Flattened(steps, rows.leaves, (_Length(rows.length), rows.structure, rows.weak))


def _rows_together(kind: type, steps: Any, leaves: Sequence[Any], data: Any) -> ElementRows:
    length, structure, weak = data
    return ElementRows(length.value, structure, leaves, weak, context.current().trace)


tree.register(ElementRows, _rows_separately, _rows_together)
OPAQUE.add(ElementRows)


class GrowingList(list[Any]):
    """A list that a script made. Its storage holds elements, and ``ElementRows`` that stand for many."""

    __slots__ = ("__weakref__", "has_rows")

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        super().__init__(elements)
        self.has_rows = False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return list

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return list, (self._read(),)

    # --- storage ----------------------------------------------------------------------------------------------------

    @property
    def segments(self) -> list[Any]:
        """What the storage holds."""
        return [*list.__iter__(self)]

    @property
    def length(self) -> Any:
        """The number of elements: an int, or a symbolic size."""
        return length_of(self.segments) if self.has_rows else list.__len__(self)

    def put_segments(self, start: int, parts: Sequence[Any]) -> None:
        """Let the storage hold ``segments`` from ``start`` on."""
        self.has_rows = self.has_rows or any(type(part) is ElementRows for part in parts)
        list.__setitem__(self, slice(start, None), parts)

    def split_last(self, count: int) -> None:
        """Let the last ``count`` elements stand in the storage one by one."""
        if self.has_rows and any(type(part) is ElementRows for part in self.segments[-count:]):
            parts = self.segments
            tail: list[Any] = []
            while len(tail) < count:
                part = parts.pop()
                tail = [*elements_of([part]), *tail] if type(part) is ElementRows else [part, *tail]
            list.__setitem__(self, slice(None), [*parts, *tail])

    def _expand(self) -> None:
        """Let all elements stand in the storage one by one."""
        if self.has_rows:
            list.__setitem__(self, slice(None), elements_of(self.segments))
            self.has_rows = False

    # --- what is read -----------------------------------------------------------------------------------------------

    def _journals(self) -> Iterator[WriteLog]:
        """The journals of the staged bodies around, up to that which made the list."""
        for recorder in recorders():
            if (journal := recorder.journal) is not None:
                if journal.has_created(self):
                    return
                yield journal

    def note_whole(self) -> None:
        """All elements, or their number, are read."""
        for journal in self._journals():
            journal.reads[id(self)] = inf

    def _read(self) -> list[Any]:
        """All elements."""
        self.note_whole()
        return elements_of(self.segments) if self.has_rows else self.segments

    def _note(self, index: int) -> Any:
        """Element ``index`` is read; gives it where a loop carries another one in that position, else ``_STORED``."""
        now: Any = None
        known: Any = _STORED
        for journal in self._journals():
            now = self.length if now is None else now
            before = journal.before(self)
            first = now if before is None else length_of(before)
            window = journal.windows.get(id(self), 0)
            if index >= 0:
                if not (type(first) is int and index < first):
                    journal.reads[id(self)] = inf
                elif index >= first - window:
                    known = elements_of(before)[index]
                continue
            grown = list.__len__(self) if type(now) is not int or type(first) is not int else now - first
            if type(now) is not int:
                grown = 0
            if -index <= grown:
                break
            if type(now) is int and -index > now:
                journal.reads[id(self)] = inf
            elif -index > grown + window:
                journal.reads[id(self)] = max(journal.reads.get(id(self), 0), -index - grown)
            else:
                break
        return known

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            if is_staged(index):
                return self._gathered(index.as_tensor() if type(index) is StagedNumber else index)
            return self._read()[index]
        if (known := self._note(index)) is not _STORED:
            return known
        if not self.has_rows:
            return list.__getitem__(self, index)
        parts = self.segments
        if index < 0:
            distance = -index
            for part in reversed(parts):
                if type(part) is not ElementRows:
                    if distance == 1:
                        return part
                    distance -= 1
                elif type(part.length) is not int or distance <= part.length:
                    return part.element(-distance)
                else:
                    distance -= part.length
        else:
            for part in parts:
                if type(part) is not ElementRows:
                    if index == 0:
                        return part
                    index -= 1
                elif type(part.length) is not int or index < part.length:
                    return part.element(index)
                else:
                    index -= part.length
        raise IndexError("list index out of range")

    def _gathered(self, index: Tensor) -> Any:
        """The element at a staged position."""
        all_rows = self.as_rows() if self.has_rows else None
        if all_rows is None:
            return self._read()[index]
        self.note_whole()
        element = all_rows.item([leaf[index] for leaf in all_rows.stacked])
        mark = GrownElement(Location.of_user())
        for part in objects_in(element):
            if part is not None:
                note_choice(context.current().trace, part, [SameWhere(mark, True)])
        return element

    def as_rows(self) -> ElementRows | None:
        """All elements as one run, where they have one structure and their tensors one type each; else None."""
        parts = self.segments
        if not parts or any(type(part) is ElementRows and not part.is_as_stacked for part in parts):
            return None
        return joined_rows(parts)

    def __len__(self) -> int:
        self.note_whole()
        length = self.length
        if type(length) is not int:
            raise _of_symbolic_length("its length is asked as a Python int", "len(out) in a script, or jg.stack(out)")
        return length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())

    def __reversed__(self) -> Iterator[Any]:
        return iter(self._read()[::-1])

    def __contains__(self, value: Any) -> bool:
        return value in self._read()

    def __repr__(self) -> str:
        return repr(self._read())

    def __eq__(self, other: Any) -> Any:
        return self._read() == _plain(other)

    def __ne__(self, other: Any) -> Any:
        return self._read() != _plain(other)

    def __lt__(self, other: Any) -> Any:
        return self._read() < _plain(other)

    def __le__(self, other: Any) -> Any:
        return self._read() <= _plain(other)

    def __gt__(self, other: Any) -> Any:
        return self._read() > _plain(other)

    def __ge__(self, other: Any) -> Any:
        return self._read() >= _plain(other)

    __hash__ = None

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, list):
            return NotImplemented
        return self._joined(self.segments, other.segments if is_growing(other) else [*other])

    def __radd__(self, other: Any) -> Any:
        return self._joined([*other], self.segments) if isinstance(other, list) else NotImplemented

    def _joined(self, first: list[Any], second: list[Any]) -> GrowingList:
        self.note_whole()
        joined = GrowingList()
        joined.put_segments(0, [*first, *second])
        return growing_here(joined)

    def __mul__(self, count: Any) -> Any:
        return self._read() * count

    __rmul__ = __mul__

    def copy(self) -> GrowingList:
        return self._joined(self.segments, [])

    def count(self, value: Any) -> int:
        return self._read().count(value)

    def index(self, *args: Any) -> int:
        return self._read().index(*args)

    # --- what is changed --------------------------------------------------------------------------------------------

    def _change(self) -> None:
        journal = innermost_write_log()
        if journal is not None:
            journal.change(self, None)

    def append(self, value: Any) -> None:
        require_single(self)
        self._change()
        list.append(self, value)

    def extend(self, values: Iterable[Any]) -> None:
        parts = values.segments if is_growing(values) and values is not self else [*values]
        if is_growing(values):
            values.note_whole()
        require_single(self)
        self._change()
        self.put_segments(list.__len__(self), parts)

    def __iadd__(self, values: Iterable[Any]) -> Any:  # type: ignore[misc]
        self.extend(values)
        return self

    def __imul__(self, count: Any) -> Any:
        return self._changed(list.__imul__, count)

    def _changed(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._expand()
        if method is not list.__setitem__:
            require_single(self)
        self._change()
        return method(self, *args, **kwargs)

    def insert(self, index: SupportsIndex, value: Any) -> None:
        at_end = not self.has_rows and type(index) is int and index >= list.__len__(self)
        if not at_end:
            self._read()
        self._changed(list.insert, index, value)

    def pop(self, index: SupportsIndex = -1) -> Any:
        self._note(index) if type(index) is int else self._read()
        if self.has_rows and index == -1 and self.segments and type(self.segments[-1]) is not ElementRows:
            require_single(self)
            self._change()
            return list.pop(self)
        return self._changed(list.pop, index)

    def remove(self, value: Any) -> None:
        self._read()
        self._changed(list.remove, value)

    def clear(self) -> None:
        require_single(self)
        self._change()
        self.put_segments(0, [])

    def sort(self, **options: Any) -> None:
        self._read()
        self._changed(list.sort, **options)

    def reverse(self) -> None:
        self._read()
        self._changed(list.reverse)

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(index) is not int:
            self._read()
        self._changed(list.__setitem__, index, value)

    def __delitem__(self, index: Any) -> None:
        self._read()
        self._changed(list.__delitem__, index)


def _list_of_segments(value: GrowingList) -> tree.Flattened:
    """As a list; where its length is symbolic, of its parts."""
    parts = value.segments
    if type(length_of(parts)) is int:
        elements = value._read()
        return tree.Flattened(tuple(map(tree.Item, range(len(elements)))), tuple(elements))
    return tree.Flattened(tuple(map(tree.Item, range(len(parts)))), tuple(parts), _of_parts)


def _of_parts(parts: Sequence[Any]) -> GrowingList:
    growing = GrowingList()
    growing.put_segments(0, parts)
    return growing


tree.register_list(GrowingList, _list_of_segments)


def is_growing(value: Any) -> TypeGuard[GrowingList]:
    """Whether a value is a list that a script made."""
    return type(value) is GrowingList


def growing(value: Any) -> Any:
    """``value``, which the expression before made, as a list that may grow in staged loops."""
    if context.current().trace is None or type(value) is not list:
        return value
    return growing_here(GrowingList(value))


def growing_here(value: GrowingList) -> GrowingList:
    growing: GrowingList = created_here(value)
    return growing


def _plain(value: Any) -> Any:
    return value._read() if is_growing(value) else value


def length_of(parts: Sequence[Any]) -> Any:
    """How many elements parts of a storage stand for."""
    total: Any = 0
    singles = 0
    for part in parts:
        if type(part) is ElementRows:
            total = part.length + total
        else:
            singles += 1
    return total + singles


def elements_of(parts: Sequence[Any]) -> list[Any]:
    """The elements for which parts of a storage stand; ScriptError where there are symbolically many."""
    elements: list[Any] = []
    for part in parts:
        if type(part) is not ElementRows:
            elements.append(part)
        elif type(part.length) is int:
            elements += map(part.element, range(part.length))
        else:
            raise _of_symbolic_length("it is used element by element", "jg.stack(out), a for loop over it, or out[-1]")
    return elements


def last_of(parts: Sequence[Any], count: int) -> tuple[Any, ...] | None:
    """The last elements for which parts of a storage stand; None where there are fewer."""
    last: list[Any] = []
    for part in reversed(parts):
        if type(part) is not ElementRows:
            last.append(part)
        else:
            limit = part.length if type(part.length) is int else count
            last += [part.element(-i) for i in range(1, min(limit, count - len(last)) + 1)]
        if len(last) >= count:
            return tuple(reversed(last[:count]))
    return None


def _of_symbolic_length(what: str, fix: str) -> ScriptError:
    return ScriptError(
        f"a list that grew in a loop over a named size has no length that Python knows, and {what}",
        location=Location.of_user(),
        hint=f"use {fix}",
    )


def single_rows(part: Any) -> tuple[TreeDef, list[Any], list[bool | None]]:
    """The structure of an element, its leaves, and what ``ElementRows.weak`` says of each."""
    leaves, structure = tree.flatten(part)
    trace = context.current().trace
    return structure, leaves, [type(leaf) is StagedNumber if _is_of(leaf, trace) else None for leaf in leaves]


def _is_of(leaf: Any, trace: Recorder) -> bool:
    """Whether a leaf is a tensor that the body made: one from outside is the same tensor in each element."""
    return is_staged(leaf) and isinstance(leaf._value, TracedValue) and leaf._value.trace is trace


def known_tensors(part: Any) -> Iterator[Tensor]:
    """The tensors in an element, or in those of a run that have been read or that variables hold, too."""
    elements = part.known_elements() if type(part) is ElementRows else [part]
    return (leaf for element in elements for leaf in tree.flatten(element)[0] if isinstance(leaf, Tensor))


def joined_rows(parts: Sequence[Any]) -> ElementRows | None:
    """Parts of a storage as one run; None where their elements differ in structure or type."""
    if len(parts) == 1 and type(parts[0]) is ElementRows:
        return parts[0]
    trace = context.current().trace
    kinds: list[Any] = []
    columns: list[tuple[Any, list[Any]]] = []
    for part in parts:
        if type(part) is ElementRows:
            structure, leaves, weak = part.structure, list(part.leaves), list(part.weak)
            types = [
                (None, leaf)
                if w is None
                else Kind(leaf._static.type.dtype, tuple(leaf._static.type.shape[1:]), w, "" if w else leaf._api)
                for leaf, w in zip(leaves, weak, strict=True)
            ]
        else:
            leaves, structure = tree.flatten(part)
            types = [kind_of(leaf) or (None, leaf) for leaf in leaves]
        kinds.append((structure, types))
        columns.append((part.length if type(part) is ElementRows else None, leaves))
    structure, first = kinds[0]
    if any(other != structure or not _alike(types, first) for other, types in kinds):
        return None
    if any(not isinstance(kind, Kind) for kind in first):
        return None
    joined: list[Tensor] = []
    for number, kind in enumerate(first):
        pieces: list[Tensor] = []
        singles: list[Any] = []
        for length, leaves in columns:
            if length is None:
                singles.append(lifting.value_of(leaves[number], kind.dtype))
                continue
            if singles:
                pieces.append(stack([wrap(value) for value in singles]))
                singles = []
            pieces.append(leaves[number])
        if singles:
            pieces.append(stack([wrap(value) for value in singles]))
        whole = concat(pieces) if len(pieces) > 1 else pieces[0]
        joined.append(handle(whole.value, kind._replace(weak=False)))
        for _, leaves in columns:
            if isinstance(leaves[number], Tensor):
                trace.stand_ins.add(joined[-1], trace.stand_ins.roots_of(trace, leaves[number]), trace)
    return ElementRows(length_of(parts), structure, joined, [kind.weak for kind in first], trace)


def _alike(types: Sequence[Any], first: Sequence[Any]) -> bool:
    return all(
        a == b if isinstance(a, Kind) and isinstance(b, Kind) else False for a, b in zip(types, first, strict=True)
    )


def require_known_lengths(result: Any) -> None:
    """ScriptError where what a function returns holds a list of symbolically many elements."""
    if is_growing(result):
        elements_of(result.segments)
    elif (container := tree.container_of(result)) is not None:
        for child in container.take_apart(result).children:
            require_known_lengths(child)


# --- what takes lists -----------------------------------------------------------------------------------------------


def _tensor_of(values: Any) -> Tensor | None:
    """The elements of a list stacked along a new first axis, without slicing them; None where that is not known."""
    if not is_growing(values) or not values.has_rows:
        return None
    parts = values.segments
    if any(type(part) is ElementRows and (part.structure is not tree.LEAF or not part.is_as_stacked) for part in parts):
        return None
    values.note_whole()
    examples = [_example(part) if type(part) is ElementRows else part for part in parts]
    if not all(kind_of(example) for example in examples):
        return None
    dtype = lifting.common_dtype(*examples)
    pieces: list[Tensor] = []
    singles: list[Tensor] = []
    for part in parts:
        if type(part) is ElementRows:
            if singles:
                pieces.append(stack(singles))
                singles = []
            pieces.append(wrap_as(lifting.cast(part.leaves[0].value, dtype), part.leaves[0]))
        else:
            singles.append(wrap(lifting.cast(lifting.value_of(part, dtype), dtype)))
    if singles:
        pieces.append(stack(singles))
    if any(piece._static.type.shape[1:] != pieces[0]._static.type.shape[1:] for piece in pieces):
        return None
    return pieces[0] if len(pieces) == 1 else concat(pieces)


def _example(rows: ElementRows) -> Any:
    """What has the dtype of an element, for promotion."""
    (leaf,), (weak,) = rows.leaves, rows.weak
    return lifting.scalar_like(leaf.dtype) if weak else leaf


def stacked(xs: Any, axis: int = 0) -> Any:
    """``jg.stack``."""
    tensor = _tensor_of(xs)
    if tensor is None:
        return stack(xs, axis)
    return tensor if axis == 0 else _moved(tensor, 0, axis)


def concatenated(xs: Any, axis: int | None = 0) -> Any:
    """``jg.concat``."""
    tensor = _tensor_of(xs)
    if tensor is None or tensor.ndim < 2:
        return concat(xs, axis)
    if axis is None:
        return tensor.reshape(-1)
    axis = axis + tensor.ndim - 1 if axis < 0 else axis
    if not 0 <= axis < tensor.ndim - 1:
        return concat(xs, axis)
    moved = _moved(tensor, 0, axis)
    shape = moved.value.type.shape
    return wrap(ops.reshape(moved.value, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])))


def _moved(x: Tensor, source: int, destination: int) -> Tensor:
    moved: Tensor = moveaxis(x, source, destination)
    return moved


def length(values: Any) -> Any:
    """``len``."""
    if not is_growing(values):
        return len(values)
    count = values.length
    if type(count) is int:
        return len(values)
    values.note_whole()
    return count
