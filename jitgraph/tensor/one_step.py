"""Functions that are one step of PyTorch's tape and several ops here: what the step saves, and where it has a kink.

``@one_step`` lets a function end in a record that moves nothing. It knows which operands and results PyTorch saves, so
that a write to one of them is an error (``eager/versions.py``), and the ops before it are not asked for theirs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from jitgraph import ops
from jitgraph.eager import tape
from jitgraph.eager.handle import COMPUTED, ValueHandle
from jitgraph.eager.records import KinkRecord
from jitgraph.eager.saved_operands import Saved
from jitgraph.eager.tape import Record
from jitgraph.ir import context
from jitgraph.tensor.saved_by_functions import KINKED, SAVED

P = ParamSpec("P")
R = TypeVar("R")


class StepPlan(NamedTuple):
    """What a step takes where a set of operands requires gradients: the operands by name, the numbers of those among
    them that are saved, the numbers of the results that are, and the number of the operand with a kink."""

    names: tuple[str, ...]
    saved_operands: tuple[int, ...]
    saved_results: tuple[int, ...]
    kink: int | None


class SavedRule(NamedTuple):
    """What each operand, where it requires a gradient, lets be saved: names of operands and numbers of results.

    ``plans`` has what follows from that for the operands, and which of them require gradients, of the calls so far.
    """

    by_operand: Mapping[str, tuple[frozenset[str], frozenset[int]]]
    is_kinked: bool
    plans: dict[tuple[tuple[str, ...], tuple[bool, ...]], StepPlan]

    @staticmethod
    def of(name: str) -> SavedRule:
        """The rule of a function in the table."""
        by_operand = {}
        for entry in SAVED[name].split():
            operand, _, saved = entry.partition(">")
            words = frozenset(saved.split(",")) if saved else frozenset()
            numbers = frozenset(filter(str.isdigit, words))
            by_operand[operand] = words - numbers, frozenset(map(int, numbers))
        return SavedRule(by_operand, name in KINKED or name.removesuffix(" *") in KINKED, {})

    def plan(self, operands: Mapping[str, Any]) -> StepPlan:
        """What a step with these operands takes."""
        key = tuple(operands), tuple([value.record is not None for value in operands.values()])
        plan = self.plans.get(key)
        if plan is None:
            wrt = [operand for operand, value in operands.items() if value.record is not None]
            saved, results = self.saved(wrt)
            kink = next(iter(operands)) if self.is_kinked else None
            names = tuple([operand for operand in operands if operand in saved or operand == kink])
            numbers = tuple([number for number, operand in enumerate(names) if operand in saved])
            at = names.index(kink) if kink is not None and kink in wrt else None
            plan = self.plans[key] = StepPlan(names, numbers, tuple(results), at)
        return plan

    def saved(self, wrt: Sequence[str]) -> tuple[frozenset[str], frozenset[int]]:
        """What is saved for the gradients of these operands."""
        parts = [self.by_operand[name] for name in wrt if name in self.by_operand]
        operands: frozenset[str] = frozenset()
        results: frozenset[int] = frozenset()
        return operands.union(*[names for names, _ in parts]), results.union(*[numbers for _, numbers in parts])


class StepRecord(Record):
    """The end of a function: its results as they are, behind the operands that it saves."""

    is_step = True

    def __init__(
        self, name: str, rule: SavedRule, operands: Mapping[str, Any], results: Sequence[Any], begin: int
    ) -> None:
        """``begin`` stands before the orders of the function's own records."""
        plan = rule.plan(operands)
        super().__init__(
            (*[operands[operand] for operand in plan.names], *results),
            tuple([value.recorded(None) for value in results]),
        )
        self.name = name
        self._saved_operands, self._saved_results = plan.saved_operands, plan.saved_results
        self._count = len(plan.names)
        self._kink = plan.kink
        self._begin = begin

    def covers(self, record: Record) -> bool:
        """Whether a record is of one of the ops of this function."""
        return self._begin < record.order < self.order and record._place == self._place

    def saved_operands(self) -> Saved:
        inputs = self.live_inputs()
        results = [number for number in self._saved_results if number < len(self.outputs)]
        constant = [number for number in results if inputs[self._count + number].record is None]  # of integers
        return Saved(
            (*self._saved_operands, *[self._count + number for number in constant]),
            tuple([number for number in results if number not in constant]),
            is_readable=False,
            reads_results=False,
        )

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs = self.live_inputs()
        if self._kink is not None and context.current().grad_enabled:
            cotangents = [None if ct is None else _with_kink(ct, inputs[self._kink]) for ct in cotangents]
        return (*[None] * self._count, *cotangents)


def _with_kink(cotangent: Any, operand: Any) -> Any:
    """A cotangent that depends on an operand with the gradient zero."""
    record = _StepKink((cotangent, operand), (cotangent.recorded(None),))
    return record.outputs[0].part_of(record, 0)


class _StepKink(KinkRecord):
    """As of an op, of an operand that may have another shape than the result."""

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        operand = self.live_inputs()[1]
        return cotangents[0], ops.full(shape=operand.shape, value=0.0, dtype=operand.dtype)


def one_step(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """A function of the table whose eager calls on PyTorch's tensors are one step of the tape."""
    public = name or function.__name__
    parameters = tuple(inspect.signature(function).parameters)
    rules = {key: SavedRule.of(key) for key in SAVED if key.partition(" ")[0] == public}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        current = context.current()
        if current.trace is not None or not current.grad_enabled:
            return function(*args, **kwargs)
        arguments = {**dict(zip(parameters, args, strict=False)), **kwargs}
        operands = _operands(arguments)
        if operands is None:
            return function(*args, **kwargs)
        begin = next(tape.ORDER)
        result = function(*args, **kwargs)
        rule = rules.get(f"{public} {_form(arguments, result)}") or rules.get(public)
        return result if rule is None else _ended(public, rule, operands, result, begin)

    return call


def _form(arguments: Mapping[str, Any], result: Any) -> Any:
    """Which form of a function a call is, as the table names them."""
    if isinstance(result, tuple | list):
        return "*"
    size = arguments.get("output_size")
    if size is not None and all(extent == 1 for extent in (size if isinstance(size, tuple | list) else (size,))):
        return "1"
    return arguments.get("mode")


def _operands(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The values of tensors among arguments by the names of the parameters.

    None where no gradient goes to PyTorch's tensors.
    """
    operands = {}
    for name, x in arguments.items():
        if isinstance(x, ValueHandle):
            if x._api != "torch" or not isinstance(x.value, COMPUTED):
                return None
            operands[name] = x.value
    return operands if any(value.record is not None for value in operands.values()) else None


def _ended(name: str, rule: SavedRule, operands: Mapping[str, Any], result: R, begin: int) -> R:
    """The result of a call as that of its last record."""
    items = list(result) if isinstance(result, tuple | list) else [result]
    tensors = [item for item in items if isinstance(item, ValueHandle)]
    values = [item._value for item in tensors]
    if any(item._root is not item for item in tensors) or not all(isinstance(value, COMPUTED) for value in values):
        return result  # a view
    if not any(value.record is not None and value.record.order > begin for value in values):
        return result  # an operand, or a constant
    record = StepRecord(name, rule, operands, values, begin)
    for number, (item, value) in enumerate(zip(tensors, values, strict=True)):
        if value.record is not None:
            item._value = record.outputs[number].part_of(record, number)
    return result
