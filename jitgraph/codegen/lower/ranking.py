"""Elements of given ranks, by the digits of their keys, the highest first: a radix selection, which is stable.

The counts of a digit say which value of it the element has; only elements with that value are candidates for the next
digit. They are copied in their order, so that of those which are equal to the end the one of the rank that is left is
the one that a stable sort would have there. The first digit costs a walk of the row and a copy, others little.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.ordered_keys import key_dtype, ordered_key
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.statements import ScalarOps, Storage
from jitgraph.codegen.lower.values import Evaluator, Index
from jitgraph.dtypes import bool_, int64
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType

_SHORT_ROW: Final = 1 << 14
_BITS: Final = 8, 11  # of a digit, in short rows and in others: counts are cleared and walked for each


def lower_ranked_positions(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """One kernel, a row in each iteration; candidates lie in temporaries as large as the operand."""
    if is_empty(node.output.tensor):
        return
    x, ranks = node.inputs
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    work = [builder.temporary(TensorType(dtype, x.shape)) for dtype in (key_dtype(x.dtype), int64)]
    outer, count = x.shape[:-1], node.output.shape[-1]
    around, last = (outer[:-1], outer[-1]) if outer else ((), 1)
    with (
        recorder.loops(["parallel"] * len(around), around) as before,
        recorder.loop("parallel", last, always=True) as number,  # to which the counts belong
    ):
        row = (*before, number) if outer else ()
        search = _RowSearch(recorder, values, node, row, work)
        with recorder.loop("serial", count, always=True) as which:
            place = search.position(values.at(ranks, (which,)))  # one out of range is that of an end
            for _, storage in group.outputs:
                recorder.store(storage, offset((*row, which), node.output.shape), place)
    builder.launch(recorder, node.op.name)


class _RowSearch:
    """One row while the element of a rank is looked for."""

    def __init__(
        self, recorder: KernelRecorder, values: Evaluator, node: Node, row: Index, work: list[Storage]
    ) -> None:
        self.x = node.inputs[0]
        self.recorder, self.values, self.row = recorder, values, row
        self.keys, self.origins = work
        self.size = self.x.shape[-1]
        self.dtype = key_dtype(self.x.dtype)
        self.ops, self.numbers, self.logic = (ScalarOps(recorder, each) for each in (self.dtype, int64, bool_))
        total = 8 * self.dtype.itemsize
        bits = min(_BITS[not isinstance(self.size, int) or self.size >= _SHORT_ROW], total)
        tops = range(total, 0, -bits)
        self.digits = [(max(top - bits, 0), min(bits, top)) for top in tops]  # by shift and width
        self.counts = recorder.local(int64, 1 << bits)

    def position(self, rank: Var) -> Var:
        """Where the element of a rank is."""
        recorder = self.recorder
        left: DimLike = self.size
        last = recorder.index_value(self.size - 1)
        rank = self.numbers.min(self.numbers.max(rank, self.numbers.const(0)), last)
        for number, (shift, width) in enumerate(self.digits):
            rank, left = self._among(number == 0, left, rank, shift, width)
        at = recorder.as_index(rank, self.size)
        return recorder.load(self.origins, self._at(at), again=True)

    def _among(self, first: bool, left: DimLike, rank: Var, shift: int, width: int) -> tuple[Var, DimLike]:
        """The rank among the candidates that have its value of a digit, and how many these are."""
        recorder, numbers, values = self.recorder, self.numbers, 1 << width
        with recorder.loop("vector", values) as value:
            recorder.store_local(self.counts, value, numbers.const(0))
        with recorder.loop("serial", left, always=True) as i:
            digit = recorder.as_index(self._digit(self._key(first, i), shift, values), values)
            more = numbers.add(recorder.load_local(self.counts, digit), numbers.const(1))
            recorder.store_local(self.counts, digit, more)

        def look(value: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            total, chosen, before = carried
            following = numbers.add(total, recorder.load_local(self.counts, value))
            inside = self.logic.and_(numbers.cmp("le", total, rank), numbers.cmp("lt", rank, following))
            here = recorder.index_value(value)
            return following, numbers.select(inside, here, chosen), numbers.select(inside, total, before)

        zero = numbers.const(0)
        _, chosen, before = recorder.serial(values, (zero, zero, zero), look)

        def copy(i: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            key = self._key(first, i)
            origin = recorder.index_value(i) if first else recorder.load(self.origins, self._at(i), again=True)
            at = self._at(recorder.as_index(carried[0], self.size))  # no later than i
            recorder.store(self.keys, at, key)
            recorder.store(self.origins, at, origin)
            same = numbers.cmp("eq", self._digit(key, shift, values), chosen)
            return (numbers.add(carried[0], numbers.cast(same, int64)),)

        (count,) = recorder.serial(left, (zero,), copy)
        return numbers.sub(rank, before), recorder.as_index(count, self.size + 1)

    def _key(self, first: bool, i: DimLike) -> Var:
        """The key of a candidate, whose digits are those of a number without a sign."""
        if not first:
            return self.recorder.load(self.keys, self._at(i), again=True)
        key = ordered_key(self.recorder, self.values.at(self.x, (*self.row, i)), False)
        if self.dtype.kind == "u":
            return key
        return self.ops.xor(key, self.ops.const(int(np.iinfo(self.dtype).min)))

    def _digit(self, key: Var, shift: int, values: int) -> Var:
        wide: Any = self.numbers.cast(self.ops.shr(key, self.ops.const(shift)), int64)
        return self.numbers.and_(wide, self.numbers.const(values - 1))

    def _at(self, i: DimLike) -> DimLike:
        return offset((*self.row, i), self.x.shape)
