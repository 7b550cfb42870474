"""Printing inside a trace: ``jg.debug.print``, and ``print`` itself, write at each call what a traced tensor then is.

A text is made while the function is recorded. Where a value in it is known only when the graph runs, a mark stands for
it, and the marks become the operands of one ``print`` op. The op threads a token from the print before it: a handle
whose value is that token (``Recorder.order``) is read and rebound like any tensor, so that loops carry it and branches
give it back.
"""

from __future__ import annotations

import builtins
import functools
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import TraceError
from jitgraph.ir import context
from jitgraph.ir.graph import Attr
from jitgraph.records import NamedTuple
from jitgraph.runtime import forks, imports
from jitgraph.tensor import Tensor, scalars
from jitgraph.tracing.record.recorder import TRACED, Recorder, text_too_early

_MARK: Final = "\ue000([0-9]+)\ue001"
_silent: ContextVar[bool] = ContextVar("jitgraph_silent", default=False)
_lock: Final = forks.lock()
_depth = 0


class _Field(NamedTuple):
    """What a mark stands for."""

    value: Any
    style: str
    conversion: str
    form: str


class PrintText:
    """The text of one print while it is made."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._fields: list[_Field] = []

    def mark(self, value: Any, conversion: str, form: str) -> str:
        """What stands in the text for a tensor, a number or a size that is known when the graph runs."""
        if "{" in form or "}" in form:
            raise TraceError(f"the format {form!r} has braces in it, which a compiled print cannot hold")
        operand, style = self._operand(value)
        if form and not conversion:
            format(operand.dtype.type(1).item(), form)  # raises now where it would at each call
        self._fields.append(_Field(operand, style, "r" if conversion else "", form))
        return f"\ue000{len(self._fields) - 1}\ue001"

    def _operand(self, value: Any) -> tuple[Any, str]:
        if scalars.is_computed(value):
            return value.value, "number"
        if not isinstance(value, Tensor):
            dtype = dtypes.float64 if isinstance(value, float) else dtypes.int64
            return value.value_in(dtype), "number"
        style = "number" if value._weak and value.ndim == 0 else "leaf" if value.requires_grad else "tensor"
        return self._recorder.read(value), style

    def insert(self, text: TextForPrint) -> str:
        """A text that was made before, with its marks renumbered."""
        first = len(self._fields)
        self._fields += text.fields
        return re.sub(_MARK, lambda mark: f"\ue000{int(mark[1]) + first}\ue001", text.text)

    @property
    def fields(self) -> tuple[_Field, ...]:
        """What the marks stand for."""
        return tuple(self._fields)

    def record(self, text: str, *, end: str, stream: str, flush: bool) -> None:
        """Record a print of ``text`` with the values in the places of their marks."""
        pieces = re.split(_MARK, text)
        literals, numbers = pieces[::2], [int(number) for number in pieces[1::2]]
        if sorted(numbers) != list(range(len(self._fields))) or any(TRACED in literal for literal in literals):
            raise text_too_early()
        fields = [self._fields[number] for number in numbers]
        format = _escaped(literals[0])
        for field, literal in zip(fields, literals[1:], strict=True):
            conversion, form = field.conversion and f"!{field.conversion}", field.form and f":{field.form}"
            format += f"{{{conversion}{form}}}{_escaped(literal)}"
        styles = tuple(field.style for field in fields)
        attrs: dict[str, Attr] = {"format": format, "styles": styles, "end": end, "stream": stream, "flush": flush}
        order = self._recorder.order()
        operands = [self._recorder.read(order), *(field.value for field in fields)]
        (after,) = self._recorder.emit(ops.print_, operands, attrs, ())
        self._recorder.write(order, after)

    @property
    def is_plain(self) -> bool:
        """Whether no mark was made."""
        return not self._fields


class TextForPrint:
    """A text with marks, made while the arguments of a print were evaluated: it is one in that print alone."""

    __slots__ = ("fields", "text")

    def __init__(self, text: str, fields: tuple[_Field, ...]) -> None:
        self.text = text
        self.fields = fields

    def __str__(self) -> str:
        trace = context.current().trace
        if trace is None or trace.text is None:
            raise text_too_early()
        inserted: str = trace.text.insert(self)
        return inserted


def text_for_print(trace: Recorder, make: Callable[[], str]) -> str | TextForPrint:
    """The text that ``make`` gives, to be passed to a print: what the graph computes leaves marks in it."""
    with _text(trace) as text:
        made = make()
    return made if text.is_plain else TextForPrint(made, text.fields)


def is_printer(function: Any) -> bool:
    """Whether a function is ``print`` or ``jg.debug.print``, whose texts are made by the compiled code."""
    return function is BUILTIN_PRINT or function is traced_print or getattr(function, "_prints_when_run", False)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@contextmanager
def _text(trace: Recorder) -> Iterator[PrintText]:
    """Tensors that are turned into text in the block leave marks."""
    before, trace.text = trace.text, PrintText(trace)
    try:
        yield trace.text
    finally:
        trace.text = before


def debug_print(format: Any, /, *args: Any, **kwargs: Any) -> None:
    """What ``jg.debug.print`` does."""
    if not isinstance(format, str | TextForPrint):
        raise TypeError(
            f'jg.debug.print takes a format first, not a {type(format).__name__}; write jg.debug.print("x = {{}}", x)'
        )
    formatter = imports.module("jitgraph.tracing.record.print_format").Formatter()  # ``print`` does without
    _show(lambda: formatter.vformat(str(format), args, kwargs), "\n", None, False)


def _print(*values: Any, sep: Any = None, end: Any = None, file: Any = None, flush: Any = False) -> None:
    for name, text in (("sep", sep), ("end", end)):
        if not isinstance(text, str | None):
            raise TypeError(f"{name} must be None or a string, not {type(text).__name__}")
    between, last = " " if sep is None else sep, "\n" if end is None else end
    _show(lambda: between.join(map(str, values)), last, file, bool(flush))


def _show(make: Callable[[], str], end: str, file: Any, flush: bool) -> None:
    trace = context.current().trace
    if _silent.get():
        return
    if trace is None:
        BUILTIN_PRINT(make(), end=end, file=file, flush=flush)
        return
    with _text(trace) as text:
        rendered = make()
    stdout, stderr = trace.streams
    file = sys.stdout if file is None else file
    if file is stdout or file is stderr:  # where the function itself turned them elsewhere, that is another file
        stream = "stderr" if file is stderr and file is not stdout else "stdout"
        text.record(rendered, end=end, stream=stream, flush=flush)
    elif text.is_plain and TRACED not in rendered:
        BUILTIN_PRINT(rendered, end=end, file=file, flush=flush)
    else:
        raise TraceError(
            f"print of a traced tensor to a {type(file).__name__}: a compiled function prints to standard output or "
            "standard error",
            hint="file=sys.stderr, or return the tensor and print it outside",
        )


BUILTIN_PRINT: Final = builtins.print
traced_print: Final = functools.wraps(BUILTIN_PRINT)(_print)
"""What stands for ``print`` while a function is recorded: outside of the trace it is ``print`` itself."""


@contextmanager
def intercepting() -> Iterator[None]:
    """``print`` of the user's code, which looks the name up among the builtins, is ``traced_print`` in the block."""
    global _depth
    with _lock:
        _depth += 1
        if builtins.print is BUILTIN_PRINT:
            builtins.print = traced_print
    with forks.unfinished(_leave):
        try:
            yield
        finally:
            _leave()


def _leave() -> None:
    global _depth
    with _lock:
        _depth -= 1
        if not _depth and builtins.print is traced_print:
            builtins.print = BUILTIN_PRINT


@contextmanager
def quietly() -> Iterator[None]:
    """What the block prints by ``print`` or ``jg.debug.print`` is not written."""
    token = _silent.set(True)
    try:
        with intercepting():
            yield
    finally:
        _silent.reset(token)
