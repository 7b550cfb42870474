"""The first elements of rows: the least keys of blocks, a bound from these, and a list of the best from few blocks.

As many elements as blocks are not greater than their blocks' least keys. So with k blocks whose least keys come first,
what comes after the last of these keys is not among the first k elements; most blocks have nothing else, which the
pass that finds their least keys, in lanes, has shown.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any, Final

import numpy as np

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Local, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.ordered_keys import key_dtype, ordered_key
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.codegen.lower.values import Evaluator, Index
from jitgraph.dtypes import bool_, int64
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node

_LANES: Final = 16
_LEAST_BLOCK: Final = 32
_MOST_BLOCK: Final = 1024


def lower_first_positions(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """One kernel, a row in each iteration."""
    if is_empty(node.output.tensor):
        return
    recorder = KernelRecorder()
    outer = node.output.shape[:-1]
    around, last = (outer[:-1], outer[-1]) if outer else ((), 1)
    with (
        recorder.loops(["parallel"] * len(around), around) as before,
        recorder.loop("parallel", last, always=True) as number,  # to which the memory of a row belongs
    ):
        row = (*before, number) if outer else ()
        places = _Row(recorder, builder.evaluator(recorder, group), node, row).first_positions()
        for _, storage in group.outputs:
            for i in range(places.size):
                at = offset((*row, i), node.output.shape)
                recorder.store(storage, at, recorder.load_local(places, i))
    builder.launch(recorder, node.op.name)


class _Row:
    """One row while it is looked through. What comes first has the least key."""

    def __init__(self, recorder: KernelRecorder, values: Evaluator, node: Node, row: Index) -> None:
        (self.x,) = node.inputs
        attrs: Any = node.attrs
        size: Any = self.x.shape[-1]
        self.recorder, self.values, self.row = recorder, values, row
        self.count: int = attrs["count"]
        self.descending: bool = attrs["largest"]
        self.size: int = size
        dtype = key_dtype(self.x.dtype)
        self.ops, self.numbers, self.logic = (ScalarOps(recorder, each) for each in (dtype, int64, bool_))
        self.most = self.ops.const(int(np.iinfo(dtype).max))
        block = isqrt(self.size // self.count) // _LANES * _LANES
        self.block = min(max(block, _LEAST_BLOCK), _MOST_BLOCK)

    def first_positions(self) -> Local:
        """The places of the first elements in order."""
        recorder, blocks = self.recorder, self.size // self.block
        keys, places = self._list(), recorder.local(int64, self.count)
        for i in range(self.count):
            recorder.store_local(places, i, self.numbers.const(self.size))

        bound = self.most

        def look(begin: DimLike, length: int) -> None:
            with recorder.loop("serial", length) as i:
                self._enter(keys, places, self._key(begin + i), recorder.index_value(begin + i), bound)

        if blocks:
            least, bound = self._least_keys(blocks)
            with recorder.loop("serial", blocks, always=True) as number:
                may_have = self.ops.cmp("le", recorder.load_local(least, number), bound)
                self._when(may_have, lambda: look(number * self.block, self.block))
        if self.size % self.block:
            look(blocks * self.block, self.size % self.block)
        return places

    def _least_keys(self, blocks: int) -> tuple[Local, Var]:
        """The least key of each block, and the greatest key that an element among the first can have."""
        recorder = self.recorder
        least, first = recorder.local(self.most.dtype, blocks), self._list()
        with recorder.loop("serial", blocks, always=True) as number:
            (key,) = recorder.reduce(
                self.block,
                (self.most,),
                lambda i: (self._key(number * self.block + i),),
                lambda s, left, right: (s.min(left[0], right[0]),),
                _LANES,
            )
            recorder.store_local(least, number, key)
            is_first = self.ops.cmp("lt", key, recorder.load_local(first, self.count - 1))
            self._when(is_first, lambda: self._insert(first, key))
        return least, recorder.load_local(first, self.count - 1)

    def _list(self) -> Local:
        keys = self.recorder.local(self.most.dtype, self.count)
        for i in range(self.count):
            self.recorder.store_local(keys, i, self.most)
        return keys

    def _insert(self, keys: Local, key: Var) -> None:
        def step(number: DimLike, moving: tuple[Var, ...]) -> tuple[Var, ...]:
            listed = self.recorder.load_local(keys, number)
            self.recorder.store_local(keys, number, self.ops.min(moving[0], listed))
            return (self.ops.max(moving[0], listed),)

        self.recorder.serial(self.count, (key,), step)

    def _enter(self, keys: Local, places: Local, key: Var, place: Var, bound: Var) -> None:
        """Put an element into the list if it comes before the last of it, and its key is not above the bound.

        In a list that is not full, an element comes before what is no element, whose place is behind all.
        """
        recorder, ops, numbers, logic = self.recorder, self.ops, self.numbers, self.logic

        def comes_before(key: Var, place: Var, other: Var, other_place: Var) -> Var:
            same = logic.and_(ops.cmp("eq", key, other), numbers.cmp("lt", place, other_place))
            return logic.or_(ops.cmp("lt", key, other), same)

        def step(number: DimLike, moving: tuple[Var, ...]) -> tuple[Var, ...]:
            key, place = moving
            other, other_place = recorder.load_local(keys, number), recorder.load_local(places, number)
            goes_first = comes_before(key, place, other, other_place)
            recorder.store_local(keys, number, ops.select(goes_first, key, other))
            recorder.store_local(places, number, numbers.select(goes_first, place, other_place))
            return ops.select(goes_first, other, key), numbers.select(goes_first, other_place, place)

        last = recorder.load_local(keys, self.count - 1), recorder.load_local(places, self.count - 1)

        def enter() -> None:
            recorder.serial(self.count, (key, place), step)

        self._when(logic.and_(ops.cmp("le", key, bound), comes_before(key, place, *last)), enter)

    def _key(self, place: DimLike) -> Var:
        return ordered_key(self.recorder, self.values.at(self.x, (*self.row, place)), self.descending)

    def _when(self, condition: Var, body: Callable[[], None]) -> None:
        turns = self.recorder.as_index(self.numbers.cast(condition, int64), 2)
        with self.recorder.loop("serial", turns, span=1):  # so that it counts as one turn
            body()
