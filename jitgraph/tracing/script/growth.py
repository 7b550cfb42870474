"""What the turns of a staged loop append to lists: stacked outputs of the loop, which then are rows of the lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from jitgraph import ops
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor, wrap
from jitgraph.tracing.control.write_log import Tail
from jitgraph.tracing.script.branches import set_entry
from jitgraph.tracing.script.lists import ElementRows, joined_rows, known_tensors, single_rows
from jitgraph.tracing.staged.number import StagedNumber
from jitgraph.tree import TreeDef


class _Column(NamedTuple):
    """One part that each turn appends: an element, or ``length`` elements as rows."""

    length: Any
    structure: TreeDef
    leaves: Sequence[Any]
    weak: Sequence[bool | None]

    @staticmethod
    def of(part: Any) -> _Column:
        if type(part) is ElementRows:
            return _Column(part.length, part.structure, part.leaves, part.weak)
        return _Column(None, *single_rows(part))

    def rows(self, turns: Any, remaining: Iterator[Any], ended: Mapping[int, Tensor]) -> ElementRows:
        """What all turns appended, made of the stacked tensors; ``ended`` are tensors that the last turn appended."""
        leaves = [leaf if weak is None else next(remaining) for leaf, weak in zip(self.leaves, self.weak, strict=True)]
        count = turns
        if self.length is not None:
            count = turns * self.length
            leaves = [leaf if weak is None else _flat(leaf) for leaf, weak in zip(leaves, self.weak, strict=True)]
        element_rows = ElementRows(count, self.structure, leaves, self.weak, context.current().trace)
        last = {i: ended[id(leaf)] for i, leaf in enumerate(self.leaves) if id(leaf) in ended}
        if last and self.has_last(turns):
            element_rows.adopt(turns - 1, last)
        return element_rows

    def has_last(self, turns: Any) -> bool:
        """Whether the element that the last turn appends is known, so that it is the tensor that the turn left."""
        return self.length is None and type(turns) is int


def _flat(x: Tensor) -> Tensor:
    """The first two axes as one."""
    shape = x.value.type.shape
    return wrap(ops.reshape(x.value, shape=(shape[0] * shape[1], *shape[2:])))


class Growth:
    """The lists that one turn lets grow, with what it appends to each."""

    def __init__(self) -> None:
        self._columns: dict[Tail, list[_Column]] = {}
        self._appended: dict[Tail, list[Tensor]] = {}

    def add(self, entry: Tail, parts: Sequence[Any]) -> None:
        """Each turn appends ``parts`` to a list."""
        self._appended[entry] = [tensor for part in parts for tensor in known_tensors(part)]
        joined = joined_rows(parts) if len(parts) > 1 else None
        self._columns[entry] = [_Column.of(part) for part in (parts if joined is None else [joined])]

    @property
    def tensors(self) -> list[Tensor]:
        """What the loop has to stack."""
        return [
            leaf.as_tensor() if type(leaf) is StagedNumber else leaf
            for columns in self._columns.values()
            for column in columns
            for leaf, weak in zip(column.leaves, column.weak, strict=True)
            if weak is not None
        ]

    def appended(self) -> dict[int, Tail]:
        """The tensors that a turn appends, by their ids, and the list of each."""
        return {id(leaf): entry for entry, leaves in self._appended.items() for leaf in leaves}

    def unknown(self, turns: Any) -> dict[int, Tail]:
        """Those among them of which not even that of the last turn is known as an element of the list."""
        return {
            id(leaf): entry
            for entry, leaves in self._appended.items()
            for leaf in leaves
            if not any(
                column.has_last(turns) and any(leaf is x for x in column.leaves) for column in self._columns[entry]
            )
        }

    def extend_lists(self, turns: Any, stacked: Sequence[Tensor], ended: Mapping[int, Tensor]) -> None:
        """Let the lists hold what ``turns`` turns appended, of which these are the stacked tensors.

        ``ended`` says which tensor a variable is after the loop, by the id of that which the recorded turn left in it.
        """
        remaining = iter(stacked)
        for entry, columns in self._columns.items():
            runs = [column.rows(turns, remaining, ended) for column in columns]
            if len(runs) == 1:
                parts: list[Any] = runs
            elif type(turns) is int and all(type(run.length) is int for run in runs):
                parts = [*_in_turns(turns, runs)]
            else:
                raise ScriptError(
                    "each turn of a loop over a named size appends elements of different types to a list",
                    location=entry.location,
                    hint="append them to a list of their own, or as one tuple",
                )
            set_entry(entry, tuple(parts))


def _in_turns(turns: int, runs: Sequence[ElementRows]) -> Iterator[Any]:
    """The elements of several parts in the order in which the turns append them."""
    elements = [map(run.element, range(run.length)) for run in runs]
    for _ in range(turns):
        for run, of_run in zip(runs, elements, strict=True):
            yield from islice(of_run, run.length // turns)
