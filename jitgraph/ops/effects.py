"""Ops with effects: check raises, print writes, a token orders. And stacks, for residuals of unbounded loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, GraphError, ShapeError
from jitgraph.ir.op import Op, Sample, Trait
from jitgraph.ir.types import Shape, StackType, TensorType, TokenType, Type
from jitgraph.location import Location
from jitgraph.ops import rules
from jitgraph.ops.creation import full
from jitgraph.ops.numeric import Array
from jitgraph.ops.sampling import edges
from jitgraph.records import dataclass
from jitgraph.runtime import imports
from jitgraph.runtime.loader import CHECK_KINDS, LoadError, Print, PrintOperand


@dataclass(frozen=True, slots=True)
class Token:
    """The value of the token type in evaluation: it holds nothing."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The value of a stack type in evaluation: a linked list, so that push and pop leave the old stack as it is."""

    below: Stack | None = None
    top: Array | None = None


def _check_type(ok: Type, *number: Type, kind: str, message: str) -> tuple[Type, ...]:
    if ok != TensorType(dtypes.bool_, ()):
        raise DTypeError(f"check takes bool[], not {ok}")
    if number not in ((), (TensorType(dtypes.int64, ()),)):
        raise DTypeError(f"check takes an int64[] for the number in its message, not {', '.join(map(str, number))}")
    if kind not in CHECK_KINDS:
        raise GraphError(f"check: {kind!r} is not one of {', '.join(CHECK_KINDS)}")
    return ()


def _check(ok: Array, *number: Array, kind: str, message: str) -> tuple[()]:
    if not ok:
        raise CHECK_KINDS[kind](message.replace("{index}", str(int(number[0]))) if number else message)
    return ()


_SILENT: Final[frozenset[Trait]] = frozenset({"nondifferentiable"})

check: Op = Op(
    name="check",
    kind="effect",
    batch="check",
    infer=_check_type,
    evaluate=_check,
    lowering="check",
    effect="check",
    traits=_SILENT,
    samples=lambda dtype: (
        [Sample((np.array(True), *more), {"kind": "ValueError", "message": "never"}) for more in ((), (np.int64(3),))]
        if dtypes.is_bool(dtype)
        else ()
    ),
    doc="Raises the builtin exception named by kind with the message where the 0-d bool is false; no outputs. "
    "A 0-d int64 behind it is what {index} in the message stands for.",
)
token: Op = Op(
    name="token",
    kind="effect",
    infer=lambda: TokenType(),
    evaluate=Token,
    lowering="token",
    traits=_SILENT,
    samples=lambda dtype: [Sample(())] if dtypes.is_bool(dtype) else (),
    doc="The first token of an order of effects.",
)


def print_site(
    types: Sequence[TensorType],
    *,
    format: str,
    styles: tuple[str, ...] = (),
    end: str = "\n",
    stream: str = "stdout",
    flush: bool = False,
    location: Location | None = None,
) -> Print:
    """What a print of operands of these ``types`` with the op's attributes writes; GraphError where they do not fit."""
    if not all(isinstance(text, str) for text in (format, end, stream)) or not isinstance(styles, tuple):
        raise GraphError("print: format, end and stream are texts, styles a tuple of them")
    styles = styles or ("array",) * len(types)
    try:
        fields = list(imports.module("string").Formatter().parse(format))  # here: few graphs print
    except ValueError as error:
        raise GraphError(f"print: {format!r:.80} is no format: {error}") from None
    texts, braces = [""], []
    for text, name, form, conversion in fields:
        texts[-1] += text
        if name is not None:
            texts.append("")
            braces.append((name, form or "", conversion or ""))
    if len(braces) != len(types) or len(styles) != len(types) or any(name or "{" in form for name, form, _ in braces):
        raise GraphError(f"print: {format!r:.80} and the styles {styles!r:.80} are not for {len(types)} operands")
    texts[-1] += end
    site = Print(
        texts=tuple(texts),
        operands=tuple(
            PrintOperand(f"p{i}", type.dtype.name, sizes_text(type.shape), None, style, conversion, form)
            for i, (type, style, (_, form, conversion)) in enumerate(zip(types, styles, braces, strict=True))
        ),
        stream=stream,
        flush=bool(flush),
        location=str(location) if location else "",
    )
    try:
        site.verify("print")
    except LoadError as error:
        raise GraphError(str(error)) from None
    return site


def sizes_text(shape: Shape) -> tuple[int | str, ...]:
    """A shape as signatures have it: numbers, and texts of sizes with names."""
    return tuple(extent if isinstance(extent, int) else str(extent) for extent in shape)


def _print_type(before: Type, *tensors: Type, **attrs: Any) -> TokenType:
    if not isinstance(before, TokenType):
        raise DTypeError(f"print takes a token first, not {before}")
    types = [rules.require_tensor("print", tensor) for tensor in tensors]
    for type in types:
        rules.require_dtype("print in compiled code", type, rules.ALL)
    print_site(types, **attrs)
    return TokenType()


def _print(before: Token, *arrays: Array, **attrs: Any) -> Token:
    print_site([TensorType(x.dtype, x.shape) for x in arrays], **attrs).write(arrays)
    return before


print_: Op = Op(
    name="print",
    kind="effect",
    infer=_print_type,
    evaluate=_print,
    lowering="print",
    effect="ordered",
    traits=_SILENT,
    samples=lambda dtype: [
        Sample((Token(), edges(dtype)[:2]), {"format": "{}"}),
        Sample((Token(),), {"format": "line"}),
    ],
    doc="Writes format, with a {}, {!r} or {:form} for each tensor, then end to stream; styles say how tensors look.",
)


def _stack_new_type(*, shape: Shape, dtype: DType) -> StackType:
    return StackType(TensorType(dtype, rules.require_shape("stack_new", shape)))


def _require_stack(op: str, stack: Type) -> StackType:
    if not isinstance(stack, StackType):
        raise DTypeError(f"{op} takes a stack, not {stack}")
    return stack


def _stack_push_type(stack: Type, value: Type) -> StackType:
    type, element = _require_stack("stack_push", stack), rules.require_tensor("stack_push", value)
    if element.dtype != type.element.dtype or element.ndim != type.element.ndim:
        raise ShapeError(f"stack_push: {element} does not fit {type}")
    rules.same_dims(f"stack_push of {element} to {type}", type.element.shape, element.shape)
    return type


def _stack_pop_type(stack: Type) -> tuple[Type, ...]:
    type = _require_stack("stack_pop", stack)
    return type, type.element


def _stack_pop(stack: Stack) -> tuple[Stack, Array]:
    if stack.below is None or stack.top is None:
        raise RuntimeError("stack_pop of an empty stack")
    return stack.below, stack.top


def zeros(type: Type) -> Any:
    """The zero of a type: a tensor of zeros, or an empty stack."""
    if isinstance(type, StackType):
        return stack_new(shape=type.element.shape, dtype=type.element.dtype)
    assert isinstance(type, TensorType), type
    zero = 0.0 if dtypes.is_float(type.dtype) else False if dtypes.is_bool(type.dtype) else 0
    return full(shape=type.shape, value=zero, dtype=type.dtype)


def _stack_pop_vjp(ct: Any, out: Any, stack: Any) -> tuple[Any]:
    """A stack without a cotangent is empty from here on (loops alone walk stacks, to the end); so is its cotangent."""
    return (stack_push(*(zeros(of.type) if part is None else part for part, of in zip(ct, out, strict=True))),)


def _samples_of(depth: int, push: bool) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        stack, value = Stack(), edges(dtype)[:2]
        for _ in range(depth):
            stack = Stack(stack, value)
        return [Sample((stack, value) if push else (stack,), differentiable=False)]

    return samples


stack_new: Op = Op(
    name="stack_new",
    kind="other",
    infer=_stack_new_type,
    evaluate=lambda *, shape, dtype: Stack(),
    lowering="stack_new",
    traits=frozenset({"nondifferentiable", "cheap", "planewise"}),
    samples=lambda dtype: [Sample((), {"shape": (2, 3), "dtype": dtype})],
    doc="An empty stack of tensors of this shape and dtype.",
)
stack_push: Op = Op(
    name="stack_push",
    kind="other",
    infer=_stack_push_type,
    evaluate=lambda stack, value: Stack(stack, value),
    vjp=lambda ct, out, stack, value: stack_pop(ct),
    lowering="stack_push",
    traits=frozenset({"planewise"}),
    samples=_samples_of(1, True),
    doc="The stack with one more tensor.",
)
stack_pop: Op = Op(
    name="stack_pop",
    kind="other",
    infer=_stack_pop_type,
    evaluate=_stack_pop,
    vjp=_stack_pop_vjp,
    lowering="stack_pop",
    traits=frozenset({"planewise"}),
    samples=_samples_of(2, False),
    doc="The stack without its last tensor, and that tensor. Popping an empty stack is an error of the graph.",
)
