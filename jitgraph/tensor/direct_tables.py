"""Tables of calls of tensors and numbers that are one op: what their arguments are, and what the tape keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jitgraph.dtypes import DType, is_float
from jitgraph.eager.dispatch.launches import Argument, ConstantArgument, NumberArgument
from jitgraph.eager.dispatch.start import handles_class
from jitgraph.eager.dispatch.table import NativeTable
from jitgraph.eager.dispatch.view_tables import ViewTable
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.launch import Direct, Given
from jitgraph.eager.records import OpRecord
from jitgraph.eager.rules import EagerRule
from jitgraph.eager.tape import Record
from jitgraph.eager.value import EagerValue
from jitgraph.errors import NumberError
from jitgraph.ir.context import Context
from jitgraph.runtime import dispatch_records as layout
from jitgraph.tensor import lifting


def kinds(args: Given, direct: Direct) -> list[Any]:
    """What tables tell arguments apart by."""
    positions = direct.operand_positions(args)
    return [
        (id(x.type), x.record is not None)
        if isinstance(x, EagerValue)
        else (x.__class__, "" if position in positions else repr(x))
        for position, x in enumerate(args)
    ]


def table_of(args: Given, direct: Direct, now: Context) -> NativeTable | None:
    """A table for such arguments under this context; None where the op runs no kernel, or not a plain one."""
    if direct.op.kind == "movement" and "view" in direct.op.traits:
        return _part_of(args[0], direct, now)
    positions = direct.operand_positions(args)
    numbers = [position for position in positions if not isinstance(args[position], EagerValue)]
    if numbers and (direct.dtype is None or direct.dtype.name not in layout.NUMBER_DTYPES):
        return None
    try:
        values = [
            lifting.number_value(args[position], direct.dtype) if position in numbers else args[position]
            for position in positions
        ]
    except NumberError:
        return None  # Python serves what the dtype has no room for, such as a comparison with 2**70
    rule = EAGER.kernel_rule(direct.op, values, direct.attrs)
    if rule is None or rule.launch is None or rule.launch.checks or len(rule.launch.results) != 1:
        return None
    required = [isinstance(x, EagerValue) and x.record is not None for x in args]
    finish = None
    if now.grad_enabled and rule.differentiable and any(required):
        if not is_float(rule.launch.results[0].dtype):
            return None
        finish = _recording(rule, direct, positions, required, numbers)
    arguments = [_argument(x, direct.dtype if position in positions else None) for position, x in enumerate(args)]
    return rule.launch.table(values, now, required, finish, arguments=arguments)


def _part_of(value: EagerValue, direct: Direct, now: Context) -> NativeTable:
    """A table for what an op makes a view of."""
    op, attrs, finish = direct.op, direct.attrs, None
    assert op.evaluate is not None
    required = value.record is not None
    if now.grad_enabled and required:
        finish = recording_part(lambda arguments, made: OpRecord(op, (arguments[0].value,), attrs, (made,)))
    return ViewTable(value.array, partial(op.evaluate, **attrs), now, required=required, finish=finish)


def recording_part(
    record: Callable[[tuple[Any, ...], EagerValue], Record], *, indexed: bool = False
) -> Callable[..., Any]:
    """What puts the part of a tensor on the tape, by ``record(arguments, part)``, and makes its tensor."""
    make = handles_class()._of

    def finish(arguments: tuple[Any, ...], operands: Any, outputs: list[EagerValue]) -> Any:
        handle = make(outputs[0].part_of(record(arguments, outputs[0]), 0))
        handle._indexed = indexed
        return handle

    return finish


def _argument(x: Any, dtype: DType | None) -> Argument:
    """What a table asks of an argument, which is taken in ``dtype`` if it is a number, or else held."""
    if isinstance(x, EagerValue):
        return x.type
    return ConstantArgument(x) if dtype is None else NumberArgument(x.__class__, dtype)


def _recording(
    rule: EagerRule, direct: Direct, positions: Sequence[int], required: Sequence[bool], numbers: Sequence[int]
) -> Callable[..., Any]:
    """What puts a call on the tape and makes its tensor."""
    attrs, dtype, make = direct.attrs, direct.dtype, handles_class()._of
    leaves = [(number, position) for number, position in enumerate(positions) if required[position]]
    weak = [(number, position) for number, position in enumerate(positions) if position in numbers]

    def finish(arguments: tuple[Any, ...], operands: tuple[Any, ...], outputs: list[EagerValue]) -> Any:
        inputs, value = [*operands], outputs[0]
        for number, position in leaves:  # which get their records here
            inputs[number] = arguments[position].value
        for number, position in weak:
            inputs[number] = lifting.number_value(arguments[position], dtype)
        return make(value.part_of(rule.record(tuple(inputs), attrs, (value,)), 0))

    return finish
