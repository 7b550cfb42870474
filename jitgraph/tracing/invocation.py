"""One call of native code on eager values: where each result lies, and what of the state it overwrites.

What does not depend on the call is settled once: the plan of shapes, which results may take over which state
(``donation.py``), and the memory of small results. The arguments were checked (``call_code.py``), so the code is
entered without a second look at them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from jitgraph.eager.native import Recycled, output_value
from jitgraph.eager.value import EagerValue
from jitgraph.records import NamedTuple
from jitgraph.runtime import loader
from jitgraph.tracing.donation import InPlaceCall
from jitgraph.tracing.python_code import PythonCode

_MOST_BYTES: Final = 64 << 10  # of one result that is kept; above, allocating is no longer what counts
_MOST_KEPT: Final = 4 << 20  # of all results of one specialisation


class Alias(NamedTuple):
    """An output that may lie where an input lies, which is the value of the handle in a slot."""

    output: int
    input: int
    slot: int
    is_replaced: bool = False  # the handle gives way to another one, so that nobody else may hold it


class Invocation:
    """Calls ``entry`` on operands that fit it; safe from several threads, and from inside a call."""

    def __init__(self, entry: loader.Entry, aliases: Sequence[Alias] = (), recycle: bool = False) -> None:
        """``recycle``: small results that were dropped give their memory to later ones."""
        self._entry = entry
        self._plan: loader.ShapePlan | None = None
        signature = entry.signature
        if not signature.dims:
            self._plan = entry.plan(tuple(_fixed(spec.shape) for spec in signature.parameters))
        self._inputs = [alias.input for alias in aliases]
        self._outputs = [alias.output for alias in aliases]
        self._replaced = [number for number, alias in enumerate(aliases) if alias.is_replaced]
        self._targets = _picker([alias.slot for alias in aliases])
        self._calls: list[InPlaceCall] = []
        recycled: frozenset[int] = frozenset()
        if recycle and self._plan is not None:
            recycled = _recyclable({n: o[2] for n, o in enumerate(self._plan.outputs) if n not in self._outputs})
        self._takes = [_taking(number, number in recycled) for number in range(len(signature.outputs))]
        self._enter, self._assemble = entry_code(entry, self._takes, self._outputs)

    def __call__(self, handles: Sequence[Any], operands: list[EagerValue]) -> list[EagerValue]:
        """The values of the outputs. State is overwritten in place where nothing else refers to it."""
        plan = self._plan
        if plan is None:
            plan = self._entry.plan(tuple([value.array.shape for value in operands]))
        if self._inputs:
            return self._in_place(plan, self._targets(handles), operands)
        results = self._assemble(plan, ())
        self._enter(plan, operands, results)
        return results

    def _in_place(self, plan: loader.ShapePlan, handles: Sequence[Any], operands: list[EagerValue]) -> list[EagerValue]:
        try:
            call = self._calls.pop()
        except IndexError:
            call = InPlaceCall(len(handles))
        with call.lock:
            try:
                alone = call.begin(handles, operands, self._inputs)
                taken = call.held
                if self._replaced:
                    alone = call.leave(handles, self._replaced, alone)
                if alone is not None:
                    taken = [
                        value if mine else self._takes[number](plan)
                        for value, mine, number in zip(taken, alone, self._outputs, strict=True)
                    ]
                results = self._assemble(plan, taken)
                self._enter(plan, operands, results)
                for value in taken:
                    if value.record is not None:  # how the old contents were made
                        value.record, value.output = None, 0
            finally:
                if call.end(handles):
                    self._calls.append(call)
        return results


class EntryCode(NamedTuple):
    """Two loops that each call of native code takes, written out."""

    enter: Callable[[loader.ShapePlan, Sequence[EagerValue], Sequence[EagerValue]], None]
    assemble: Callable[[loader.ShapePlan, Sequence[EagerValue]], list[EagerValue]]


def entry_code(
    entry: loader.Entry, takes: Sequence[Callable[[loader.ShapePlan], EagerValue]], taken_over: Sequence[int]
) -> EntryCode:
    """``enter`` gives the addresses of operands and results to the code. ``assemble`` makes the results: those numbered
    in ``taken_over`` come from the state, the others from ``takes``."""
    inputs = [f"i{n}" for n in range(len(entry.signature.parameters))]
    result_names = [f"o{n}" for n in range(len(takes))]
    addresses = ", ".join(f"{name}.address" for name in (*inputs, *result_names))
    result_exprs = [f"t[{taken_over.index(n)}]" if n in taken_over else f"take{n}(plan)" for n in range(len(takes))]
    code = PythonCode({"call": entry.call, "pack": entry.pack, **{f"take{n}": take for n, take in enumerate(takes)}})
    code.define(
        "enter(plan, operands, results)",
        [
            f"[{', '.join(inputs)}] = operands",
            f"[{', '.join(result_names)}] = results",
            f"call(plan, pack({addresses}))",
        ],
    )
    code.define("assemble(plan, t)", [f"return [{', '.join(result_exprs)}]"])
    names = code.compiled()
    return EntryCode(names["enter"], names["assemble"])


def _recyclable(sizes: Mapping[int, int]) -> frozenset[int]:
    """The small ones of outputs with so many bytes, within a limit for all of them."""
    left = _MOST_KEPT
    recyclable = set()
    for number, size in sizes.items():
        if size <= _MOST_BYTES and Recycled.DEPTH * size <= left:
            left -= Recycled.DEPTH * size
            recyclable.add(number)
    return frozenset(recyclable)


def _taking(number: int, recycles: bool) -> Callable[[loader.ShapePlan], EagerValue]:
    """What gives the value that an output is written to."""
    fresh = partial(output_value, number)
    return Recycled(fresh).take if recycles else fresh


def _fixed(shape: Sequence[int | str]) -> tuple[int, ...]:
    return tuple(size for size in shape if isinstance(size, int))


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What gives the items of these numbers."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda items: [items[number] for number in numbers]
