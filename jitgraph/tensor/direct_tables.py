"""Tables of calls of tensors and numbers that are one op: what their arguments are, and what the tape keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jitgraph.dtypes import is_float
from jitgraph.eager.dispatch.launches import Argument, ConstantArgument, NumberArgument, ViewTable
from jitgraph.eager.dispatch.table import NativeTable
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import Api, class_of_tensors
from jitgraph.eager.records import OpRecord
from jitgraph.eager.rules import ByKernel
from jitgraph.eager.tape import EagerValue, Record
from jitgraph.errors import NumberError
from jitgraph.ir.context import Context
from jitgraph.tensor import lifting
from jitgraph.tensor.call_recording import OpCall


def table_of(args: Sequence[Any], call: OpCall, now: Context, api: Api) -> NativeTable | None:
    """A table for such arguments under this context; None where the op runs no kernel, or not a plain one."""
    if call.op.kind == "movement" and "view" in call.op.traits:
        return _part_of(args[0], call, now, api) if len(args) == 1 else None  # its table looks at no numbers
    positions = [p for p, argument in enumerate(call.arguments) if not isinstance(argument, ConstantArgument)]
    try:
        values = [_operand(args[p], call.arguments[p]) for p in positions]
    except NumberError:
        return None  # Python serves what the dtype has no room for, such as a comparison with 2**70
    kernel = EAGER.kernel(call.op, values, call.attrs)
    if kernel is None or kernel.launch.checks or len(kernel.launch.results) != 1:
        return None
    required = [isinstance(x, EagerValue) and x.record is not None for x in args]
    finish = None
    if now.grad_enabled and call.carries_gradient:
        if not is_float(kernel.launch.results[0].dtype):
            return None
        finish = _recording(kernel, call, positions, required, api)
    return kernel.launch.table(values, now, required, finish, api, arguments=call.arguments)


def _operand(x: Any, argument: Argument) -> EagerValue:
    """The operand that an argument is."""
    return lifting.number_value(x, argument.dtype) if isinstance(argument, NumberArgument) else x


def _part_of(value: EagerValue, call: OpCall, now: Context, api: Api) -> NativeTable:
    """A table for what an op makes a view of."""
    op, attrs, finish = call.op, call.attrs, None
    assert op.evaluate is not None
    required = value.record is not None
    if now.grad_enabled and required:
        finish = recording_part(lambda arguments, made: OpRecord(op, (arguments[0].value,), attrs, (made,)), api=api)
    return ViewTable(value.array, partial(op.evaluate, **attrs), now, required=required, finish=finish, api=api)


def recording_part(
    record: Callable[[tuple[Any, ...], EagerValue], Record], *, indexed: bool = False, api: Api = ""
) -> Callable[..., Any]:
    """What puts the part of a tensor on the tape, by ``record(arguments, part)``, and makes its tensor."""
    make = class_of_tensors(api)._of

    def finish(arguments: tuple[Any, ...], operands: Any, outputs: list[EagerValue]) -> Any:
        handle = make(outputs[0].part_of(record(arguments, outputs[0]), 0))
        handle._indexed = indexed
        return handle

    return finish


def _recording(
    kernel: ByKernel, call: OpCall, positions: Sequence[int], required: Sequence[bool], api: Api
) -> Callable[..., Any]:
    """What puts a call on the tape and makes its tensor."""
    attrs, make = call.attrs, class_of_tensors(api)._of
    leaves = [(number, position) for number, position in enumerate(positions) if required[position]]
    weak = [
        (number, position, argument.dtype)
        for number, position in enumerate(positions)
        if isinstance(argument := call.arguments[position], NumberArgument)
    ]

    def finish(arguments: tuple[Any, ...], operands: tuple[Any, ...], outputs: list[EagerValue]) -> Any:
        inputs, value = [*operands[: len(positions)]], outputs[0]  # behind them are the kernel's numbers
        for number, position in leaves:  # which get their records here
            inputs[number] = arguments[position].value
        for number, position, dtype in weak:
            inputs[number] = lifting.number_value(arguments[position], dtype)
        return make(value.part_of(kernel.record(tuple(inputs), attrs, (value,)), 0))

    return finish
