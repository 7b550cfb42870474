"""Functions of tensors that are one op each: calls of kinds that came back go past Python, on the tape as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jitgraph import ops
from jitgraph.dtypes import is_float
from jitgraph.eager.dispatch.function import NativeFunction
from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.dispatch.start import handles_class, native_runtime
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.launch import FEW
from jitgraph.eager.rules import EagerRule
from jitgraph.eager.value import EagerValue
from jitgraph.ir import context
from jitgraph.ir.context import Context
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op

Lower = Callable[..., tuple[Op, Attrs] | None]
"""From the values of the operands to the op that a function applies to them; None where it does anything else."""


def direct_call(python: Callable[..., Any], count: int, lower: Lower) -> NativeFunction:
    """``python`` of so many tensors, which also takes anything else and gives what ``lower`` says for values."""
    return _DirectCall(python, count, lower).native


def pointwise_call(python: Callable[..., Any], op: str, count: int) -> NativeFunction:
    """The same of the elementwise op of this name, of floats of one type."""

    def lower(*values: EagerValue) -> tuple[Op, Attrs] | None:
        first = values[0].type
        alike = is_float(first.dtype) and all(value.type is first for value in values)
        return (getattr(ops, op), {}) if alike else None

    return direct_call(python, count, lower)


class DirectCalls(dict[Any, NativeFunction]):
    """One function for each attribute, made on first demand."""

    def __init__(self, make: Callable[[Any], NativeFunction]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, attribute: Any) -> NativeFunction:
        if len(self) >= _MOST_ATTRIBUTES:
            self.clear()
        made = self[attribute] = self._make(attribute)
        return made


_MOST_ATTRIBUTES: Final = 64
_MOST_WAIT: Final = 256  # calls by Python before a table is tried again


class _DirectCall:
    """A function with its tables: which calls Python served, and when a table is due."""

    def __init__(self, python: Callable[..., Any], count: int, lower: Lower) -> None:
        self._python = python
        self._count = count
        self._lower = lower
        self._served = 0
        self._next = FEW
        self._written = 0
        self.native = NativeFunction(self._by_python, count)

    def _by_python(self, *xs: Any) -> Any:
        result = self._python(*xs)
        self._served += 1
        if self._served >= self._next and len(xs) == self._count:
            self._look(xs)
        return result

    def _look(self, xs: Sequence[Any]) -> None:
        """Write a table for calls like this one, where that can be; while the dispatcher is made, later calls ask."""
        now = context.current()
        if now.emitter is not EAGER or now.trace is not None or now.anomaly or now.sweeping or now.autocast is not None:
            return
        self._next = self._served + min(self._served, _MOST_WAIT)
        try:
            runtime = native_runtime()
            if runtime is None:
                self._next = self._served + FEW
                return
            if not all(isinstance(x, ValueHandle) and runtime.knows(type(x)) for x in xs):
                return
            values = [x.value for x in xs]
            if not all(isinstance(value, EagerValue) for value in values):
                return  # on a GPU
            required = [value.record is not None for value in values]
            key = (id(now), *[id(value.type) for value in values], *required)
            table = None if self.native.has(key) else self._table(values, required, now)
        except Unsupported:
            return
        if table is not None:
            self._written += 1
            self._next = self._served + FEW * self._written
            self.native.add(key, table, runtime)

    def _table(self, values: Sequence[EagerValue], required: Sequence[bool], now: Context) -> Any:
        lowered = self._lower(*values)
        if lowered is None:
            return None
        op, attrs = lowered
        rule = EAGER.kernel_rule(op, values, attrs)
        if rule is None or rule.launch is None or rule.launch.checks or len(rule.launch.results) != 1:
            return None
        taped = now.grad_enabled and rule.differentiable and any(required)
        if taped and not is_float(rule.launch.results[0].dtype):
            return None
        return rule.launch.table(values, now, required, _recording(rule, attrs, handles_class()._of) if taped else None)


def _recording(rule: EagerRule, attrs: Mapping[str, Any], make: Callable[[EagerValue], Any]) -> Callable[..., Any]:
    """What puts a call on the tape and makes its tensor."""

    def finish(handles: tuple[Any, ...], operands: Any, outputs: list[EagerValue]) -> Any:
        value = outputs[0]
        record = rule.record(tuple([handle.value for handle in handles]), attrs, (value,))
        return make(value.part_of(record, 0))

    return finish
