"""Instruction events: a frame that is followed stops before each instruction, and handlers read its value stack.

Each code object has a sparse table: for the instructions that matter a handler, the depth of the stack and what the
instruction says. A handler reads the operands and tells a ``Sink``; it may give back a function that is called with
the frame's state after the instruction, or with ``FAILED`` where it raised.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.runtime.cpython.frames import WORD, data_of, layout, object_at, slots_of
from jitgraph.tracing.capture.depth import depths
from jitgraph.tracing.capture.followed import PACKAGE
from jitgraph.tracing.capture.instructions import CLASSES
from jitgraph.tracing.capture.monitoring import follow_instructions, leave_instructions

if TYPE_CHECKING:
    from jitgraph.tracing.capture.sink import Sink

NULL: Final[Any] = type("Null", (), {"__repr__": lambda self: "NULL"})()
"""What stands for an empty slot of the stack."""

Finish: TypeAlias = Callable[["Activation | None"], None]
FAILED: Final = None
Handler: TypeAlias = Callable[["Sink", "Activation", "InstructionSite"], "Finish | None"]
HANDLERS: Final[dict[str, Handler]] = {}
"""The handler of each instruction that has one; ``handlers.py`` fills it in."""

_STOPS_AT_PREFIX: Final = sys.version_info < (3, 12)  # alone; from 3.12 on at the instruction behind it, too


_ANSWERS_TO_C: Final = frozenset(
    ["__index__", "__len__", "__length_hint__", "__int__", "__float__", "__complex__", "__bool__", "__hash__"]
)  # methods of which Python takes no stand-in for a number


class InstructionSite(NamedTuple):
    """One instruction: ``value`` is what its argument means, ``names`` are those of a call's keywords."""

    name: str
    argument: int
    value: Any
    names: tuple[str, ...]
    line: int
    depth: int
    handler: Handler


class Table(NamedTuple):
    """What is known of a code object."""

    sites: dict[int, InstructionSite]
    depths: dict[int, int]
    slots: int
    in_package: bool


@lru_cache(maxsize=4096)
def table_of(code: CodeType) -> Table:
    """The instructions of ``code`` that have handlers, by the offset at which a frame stops before them."""
    instructions = list(dis.get_instructions(code))
    known = depths(code, instructions)
    sites: dict[int, InstructionSite] = {}
    names: tuple[str, ...] = ()
    line, prefix = code.co_firstlineno, None
    last: Any = None
    for instruction in instructions:
        name = instruction.opname
        if name not in CLASSES:
            raise TraceError(
                f"{code.co_name} has the instruction {name}, which tracing does not know",
                location=Location(code.co_filename, line),
            )
        if instruction.positions is not None and instruction.positions.lineno is not None:
            line = instruction.positions.lineno
        if name == "EXTENDED_ARG":
            prefix = instruction.offset if prefix is None else prefix
            continue
        offset = prefix if prefix is not None and _STOPS_AT_PREFIX else instruction.offset
        prefix = None
        if name == "KW_NAMES":
            names = code.co_consts[instruction.arg or 0]
        elif name == "CALL_KW":
            names = last  # the constant that was loaded for it
        last = instruction.argval
        if (handler := HANDLERS.get(name)) is not None and (depth := known.get(instruction.offset)) is not None:
            sites[offset] = InstructionSite(
                name, instruction.arg or 0, _meaning(instruction), names, line, depth, handler
            )
        if name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"):
            names = ()
    return Table(sites, known, slots_of(code), code.co_filename.startswith(PACKAGE))


def _meaning(instruction: dis.Instruction) -> Any:
    if instruction.opname == "BINARY_OP":
        return instruction.argrepr
    return instruction.argval


class Activation:
    """A frame that runs, and the tracer of its events."""

    __slots__ = ("_base", "_data", "_depths", "_finish", "_sites", "frame", "in_package", "sink", "stack")

    def __init__(self, frame: FrameType, sink: Sink) -> None:
        table = table_of(frame.f_code)
        self.frame = frame
        self.sink = sink
        self._sites, self._depths, self.in_package = table.sites, table.depths, table.in_package
        self._data = data_of(frame)
        self._base = self._data + layout().locals + table.slots * WORD
        self.stack = 0
        self._finish: Finish | None = None

    def word(self, address: int) -> Any:
        """The object whose address stands at ``address``; a sink may want another reading of it."""
        return object_at(address)

    def at(self, index: int) -> Any:
        """What lies ``index`` places below the top of the stack (-1: the top), or ``NULL``, also for what is no part
        of it: the words there may be no objects."""
        address = self.stack + index * WORD
        if address < self._base:
            return NULL
        try:
            return self.word(address)
        except ValueError:
            return NULL

    def same(self, observed: Any, known: Any) -> bool:
        """Whether what ``at`` gave is ``known``."""
        return observed is known

    @property
    def function(self) -> Any:
        """The function object that the frame runs."""
        return self.word(self._data + layout().function)

    def event(self, frame: FrameType, event: str, argument: Any) -> Any:
        """A local trace function; None lets it stay that."""
        if event == "opcode":
            offset = frame.f_lasti
            if self._finish is not None or offset in self._sites:
                self.instruction(offset)
        elif event == "exception" and (finish := self._finish) is not None:
            self._finish = None
            finish(FAILED)
        elif event == "return":
            leave_instructions(frame)
            if frame.f_code.co_name in _ANSWERS_TO_C:
                self.sink.answers(self, argument)

    def waiting(self) -> InstructionSite | None:
        """The instruction in which the frame waits for a call to come back, to be read as if it were about to run."""
        site = self._sites.get(self.frame.f_lasti)
        if site is not None:
            self.stack = self._base + site.depth * WORD
        return site

    def instruction(self, offset: int) -> None:
        """The frame is about to run the instruction at ``offset``."""
        if (finish := self._finish) is not None:
            self._finish = None
            self.stack = self._base + self._depths[offset] * WORD
            finish(self)
        if (site := self._sites.get(offset)) is not None:
            self.stack = self._base + site.depth * WORD
            self._finish = site.handler(self.sink, self, site)


def follow(frame: FrameType, activation: Activation) -> Any:
    """Let ``activation`` see each instruction of the frame; the local trace function."""
    frame.f_trace_lines = False
    frame.f_trace = activation.event
    follow_instructions(frame, activation.instruction)
    return activation.event
