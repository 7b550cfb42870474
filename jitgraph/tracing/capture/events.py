"""Instruction events: a frame that is followed stops before each instruction, and handlers read its value stack."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Final, Literal, Protocol, TypeAlias

from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.own_code import PACKAGE
from jitgraph.records import NamedTuple
from jitgraph.runtime import forks
from jitgraph.runtime.cpython.frames import WORD, data_of, layout, object_at, slots_of

# ----------------------------------------------------------------------
# Every instruction of CPython 3.11 to 3.13 by what it does to Python state.
#
# ``move`` shuffles what lies on the stack, or makes something new of it. ``read`` looks something up, or asks objects
# what they hold. ``write`` changes something that others may see. ``call`` runs a callable. ``control`` says where to
# go on. An instruction that has no class here cannot be traced.

Class: TypeAlias = Literal["move", "read", "write", "call", "control"]

_MOVE: Final = """
    ASYNC_GEN_WRAP BUILD_LIST BUILD_SLICE BUILD_STRING BUILD_TUPLE CACHE COPY COPY_FREE_VARS DELETE_FAST END_FOR
    END_SEND EXTENDED_ARG GET_ANEXT KW_NAMES LIST_APPEND LIST_TO_TUPLE LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS
    LOAD_CLOSURE LOAD_CONST LOAD_FAST LOAD_FAST_AND_CLEAR LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_LOCALS
    MAKE_CELL MAKE_FUNCTION NOP POP_BLOCK POP_EXCEPT POP_TOP PRECALL PREP_RERAISE_STAR PUSH_EXC_INFO PUSH_NULL
    RESERVED RESUME SET_FUNCTION_ATTRIBUTE SETUP_ANNOTATIONS STORE_FAST STORE_FAST_LOAD_FAST
    STORE_FAST_MAYBE_NULL STORE_FAST_STORE_FAST SWAP CHECK_EG_MATCH CHECK_EXC_MATCH CALL_INTRINSIC_2
    BUILD_CONST_KEY_MAP
"""
_READ: Final = """
    BINARY_OP BINARY_SLICE BINARY_SUBSCR BUILD_MAP BUILD_SET COMPARE_OP CONTAINS_OP CONVERT_VALUE DICT_MERGE
    DICT_UPDATE FORMAT_SIMPLE FORMAT_VALUE FORMAT_WITH_SPEC FOR_ITER GET_AITER GET_AWAITABLE GET_ITER GET_LEN
    GET_YIELD_FROM_ITER IMPORT_FROM IMPORT_NAME IMPORT_STAR IS_OP LIST_EXTEND LOAD_ATTR LOAD_CLASSDEREF
    LOAD_DEREF LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_GLOBAL LOAD_METHOD LOAD_NAME
    LOAD_SUPER_ATTR LOAD_SUPER_METHOD LOAD_ZERO_SUPER_ATTR LOAD_ZERO_SUPER_METHOD MAP_ADD MATCH_CLASS MATCH_KEYS
    MATCH_MAPPING MATCH_SEQUENCE SET_ADD SET_UPDATE TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE
    UNPACK_EX UNPACK_SEQUENCE CALL_INTRINSIC_1 JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP POP_JUMP_IF_FALSE
    POP_JUMP_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE
    POP_JUMP_FORWARD_IF_TRUE
"""
_WRITE: Final = """
    DELETE_ATTR DELETE_DEREF DELETE_GLOBAL DELETE_NAME DELETE_SUBSCR STORE_ATTR STORE_DEREF STORE_GLOBAL
    STORE_NAME STORE_SLICE STORE_SUBSCR
"""
_CALL: Final = """
    BEFORE_ASYNC_WITH BEFORE_WITH CALL CALL_FUNCTION_EX CALL_KW PRINT_EXPR RAISE_VARARGS WITH_EXCEPT_START SEND
"""
_CONTROL: Final = """
    CLEANUP_THROW END_ASYNC_FOR ENTER_EXECUTOR EXIT_INIT_CHECK INTERPRETER_EXIT JUMP JUMP_BACKWARD
    JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD JUMP_NO_INTERRUPT POP_JUMP_BACKWARD_IF_NONE
    POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_IF_NONE
    POP_JUMP_IF_NOT_NONE RERAISE RETURN_CONST RETURN_GENERATOR RETURN_VALUE SETUP_CLEANUP SETUP_FINALLY
    SETUP_WITH YIELD_VALUE
"""
_BOOKKEEPING: Final = ("INSTRUMENTED_INSTRUCTION", "INSTRUMENTED_LINE")  # put in by tracers, before any instruction


def _classes() -> dict[str, Class]:
    by_name: dict[str, Class] = dict.fromkeys(_BOOKKEEPING, "control")
    listed: list[tuple[Class, str]] = [
        ("move", _MOVE), ("read", _READ), ("write", _WRITE), ("call", _CALL), ("control", _CONTROL),
    ]  # fmt: skip
    for kind, names in listed:
        for name in names.split():
            if name in by_name:
                raise AssertionError(f"{name} has two classes")
            by_name[name] = by_name[f"INSTRUMENTED_{name}"] = kind
    return by_name


CLASSES: Final = _classes()
"""The class of each instruction, by name."""


# ----------------------------------------------------------------------
# How deep the value stack is before each instruction, from the code alone.

ENDS: Final = frozenset(
    [
        *("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"),
        *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
    ]
)
"""Instructions that the next one in the code does not follow."""

_CALLS_TWICE: Final = "PRECALL" in dis.opmap
_GENERATOR_PUSHES: Final = sys.version_info < (3, 13)  # its stack effect leaves out what the resumed frame finds


def depths(code: CodeType, instructions: Sequence[dis.Instruction]) -> dict[int, int]:
    """For each offset that can be reached, the depth of the stack before the instruction there."""
    position = {instruction.offset: i for i, instruction in enumerate(instructions)}
    depth_at: dict[int, int] = {}
    pending = [(0, 0), *((e.target, e.depth + 1 + bool(e.lasti)) for e in _exception_table(code))]
    while pending:
        offset, depth = pending.pop()
        for instruction in instructions[position[offset] :]:
            if instruction.offset in depth_at:
                break
            depth_at[instruction.offset] = depth
            if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
                pending.append((instruction.argval, depth + _effect(instruction, jump=True)))
            if instruction.opname in ENDS:
                break
            depth += _effect(instruction, jump=False)
    return depth_at


def _effect(instruction: dis.Instruction, *, jump: bool) -> int:
    name, argument = instruction.opname, instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
    if _CALLS_TWICE and name in ("PRECALL", "CALL"):  # it takes nothing off the stack itself, but is said to
        return 0 if name == "PRECALL" else -1 - (argument or 0)
    effect = dis.stack_effect(instruction.opcode, argument, jump=jump)
    return effect + (_GENERATOR_PUSHES and name == "RETURN_GENERATOR")


def _exception_table(code: CodeType) -> Sequence[Any]:
    bytecode: Any = dis.Bytecode(code)
    return tuple(getattr(bytecode, "exception_entries", ()))


# ----------------------------------------------------------------------
# Callbacks before each instruction of the frames that a thread records.
#
# On Python 3.11 a frame has such events by itself. Later Pythons share what a trace function asks for among all
# threads: on CPython 3.12.1 a frame with ``f_trace_opcodes`` in a thread without a trace function crashes as soon as
# another thread has one, and on 3.13 a thread without one, passing through the same code, ends the events of those that
# have one. There the events are those of ``sys.monitoring``, under a number of this package's own.


class Watched:
    """The frames of one recording whose instructions have events, with the callback that gets the offset of each."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}
        self.listeners: dict[FrameType, Callable[[int], None]] = {}

    def follow(self, frame: FrameType, listener: Callable[[int], None]) -> None:
        """Let ``listener`` be told of the instructions of a frame from now on."""
        self.listeners[frame] = listener
        code = frame.f_code
        if id(code) not in self._codes:
            with _lock:
                _users[id(code)] = _users.get(id(code), 0) + 1
                self._codes[id(code)] = code
                _set_events(code)

    def leave(self, frame: FrameType) -> None:
        """The frame returns, or waits for the next value to be asked of it."""
        self.listeners.pop(frame, None)

    def end(self) -> None:
        """Let the code be as it was, unless another recording follows it. Events that stay cost time alone."""
        self.listeners.clear()
        with _lock:
            while self._codes:
                number, code = self._codes.popitem()
                _users[number] -= 1
                if not _users[number]:
                    del _users[number]
                    _set_events(code)


class _ThreadWatch(threading.local):
    """What a thread records."""

    watched: Watched | None = None


OWN: Final = _ThreadWatch()


def run_watched(
    on_call: Callable[[FrameType, str, Any], Any], function: Callable[..., Any], /, *args: Any, **keywords: Any
) -> Any:
    """What ``function`` returns, with ``on_call`` as the trace function and events for the frames that are followed.

    It is no context manager: a signal handler may raise before the first line of an ``__exit__`` in Python, and the
    trace function would stay. ``finally`` leaves no such gap before its first call.
    """
    watched, tracer, outer = Watched(), sys.gettrace(), OWN.watched
    try:
        OWN.watched = watched
        sys.settrace(on_call)
        return function(*args, **keywords)
    finally:
        OWN.watched = outer
        sys.settrace(tracer)
        watched.end()


_lock: Final = forks.lock()
_users: Final[dict[int, int]] = {}  # how many recordings follow the code with that id, which they keep alive

if sys.version_info >= (3, 12):
    _numbers: Final[list[int]] = []  # the one by which Python knows this package's events

    def follow_instructions(frame: FrameType, listener: Callable[[int], None]) -> None:
        """Let ``listener`` be told the offset of each instruction of the frame before it runs."""
        if OWN.watched is not None:
            OWN.watched.follow(frame, listener)

    def leave_instructions(frame: FrameType) -> None:
        """The frame returns, or waits for the next value to be asked of it."""
        if OWN.watched is not None:
            OWN.watched.leave(frame)

    def _set_events(code: CodeType) -> None:
        events = sys.monitoring.events
        sys.monitoring.set_local_events(_number(), code, events.INSTRUCTION if id(code) in _users else events.NO_EVENTS)

    def _number() -> int:
        if not _numbers:
            free = [number for number in (3, 4, 5, 2, 1, 0) if sys.monitoring.get_tool(number) is None]
            if not free:
                raise TraceError(
                    "sys.monitoring has no number left for the events of a recording",
                    hint="end one of the debuggers, profilers and coverage tools that run",
                )
            sys.monitoring.use_tool_id(free[0], "jitgraph")
            sys.monitoring.register_callback(free[0], sys.monitoring.events.INSTRUCTION, _on_instruction)
            _numbers.append(free[0])
        return _numbers[0]

    def _on_instruction(code: CodeType, offset: int) -> Any:
        watched = OWN.watched
        if watched is not None and (listener := watched.listeners.get(sys._getframe(1))) is not None:
            listener(offset)

else:

    def follow_instructions(frame: FrameType, listener: Callable[[int], None]) -> None:
        """Let the frame have events before its instructions, for its trace function."""
        frame.f_trace_opcodes = True

    def leave_instructions(frame: FrameType) -> None:
        """The frame returns: nothing is kept of it."""

    def _set_events(code: CodeType) -> None:
        pass


# ----------------------------------------------------------------------
# Instruction events: a frame that is followed stops before each instruction, and handlers read its value stack.
#
# Each code object has a sparse table: for the instructions that matter a handler, the depth of the stack and what the
# instruction says. A handler reads the operands and tells a ``Sink``; it may give back a function that is called with
# the frame's state after the instruction, or with ``FAILED`` where it raised.

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


# ----------------------------------------------------------------------
# What the handlers of instructions tell: a protocol. ``Capture`` takes it in; tests and probes write it down.


class Sink(Protocol):
    """Each method is called before the instruction runs, with the very objects that it is about to use.

    What a method gives back is called after the instruction, with the frame's state then.
    """

    def global_(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        """The name ``site.value`` is looked up in ``mapping`` where that is not None, then among globals, builtins."""

    def cell(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        """The variable ``site.value`` is looked up in ``mapping`` where that is not None, then in its cell."""

    def attribute(self, view: Activation, site: InstructionSite, owner: Any, name: str) -> Finish | None:
        """``owner.name``."""

    def inherited(self, view: Activation, site: InstructionSite, kind: Any, owner: Any, name: str) -> Finish | None:
        """``super(kind, owner).name``."""

    def item(self, view: Activation, site: InstructionSite, owner: Any, key: Any) -> Finish | None:
        """``owner[key]``."""

    def iterate(self, view: Activation, site: InstructionSite, owner: Any) -> None:
        """The elements of ``owner`` are about to be taken."""

    def advance(self, view: Activation, site: InstructionSite, iterator: Any) -> None:
        """The next element of an iterator is about to be taken."""

    def answers(self, view: Activation, value: Any) -> None:
        """A method such as ``__index__`` gives ``value``, which Python itself may be waiting for."""

    def operate(self, view: Activation, site: InstructionSite, operation: str, operands: Sequence[Any]) -> None:
        """An operator, ``len``, ``bool``, ``hash``, ``format``, ``with`` and the like, of these operands."""

    def called(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Sequence[Any], names: Sequence[str]
    ) -> Finish | None:
        """``function`` is called; the last ``arguments`` are given by ``names``."""

    def call_unpacked(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Any, keywords: Any
    ) -> Finish | None:
        """``function(*arguments, **keywords)``; ``keywords`` may be None."""

    def raised(self, view: Activation, site: InstructionSite, error: Any) -> None:
        """``raise error``, an exception or its class."""

    def store_attribute(self, view: Activation, site: InstructionSite, owner: Any, name: str) -> None:
        """``owner.name`` is about to be set or deleted."""

    def store_item(self, view: Activation, site: InstructionSite, owner: Any, key: Any) -> None:
        """``owner[key]`` is about to be set or deleted."""

    def store_global(self, view: Activation, site: InstructionSite, mapping: Any) -> None:
        """The name ``site.value`` is about to be set or deleted in ``mapping``."""

    def store_cell(self, view: Activation, site: InstructionSite) -> None:
        """The variable ``site.value`` of a cell is about to be set or deleted."""

    def function_created(self, view: Activation, value: Any) -> None:
        """A function was just made."""

    def match_class(
        self, view: Activation, site: InstructionSite, subject: Any, kind: Any, names: Sequence[str]
    ) -> Finish | None:
        """``case kind(...)``, with ``names`` by keyword and ``site.argument`` patterns by position."""

    def match_keys(self, view: Activation, site: InstructionSite, subject: Any, keys: Any) -> None:
        """``case {...}`` with these keys."""

    def imported(self, view: Activation, site: InstructionSite, module: Any) -> None:
        """An import statement has found ``module``."""

    def all_names(self, view: Activation, site: InstructionSite, module: Any) -> None:
        """``from module import *``."""
