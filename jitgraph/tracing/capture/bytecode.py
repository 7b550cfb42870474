"""Which names, attributes and items a code object reads and writes, and at which instruction.

An abstract run over the instructions in order keeps, for what lies on the stack, the expression that put it there
where that is a chain of names, constants, attributes, items and calls. Where control flow meets, nothing is known, and
an instruction this module does not know forgets the whole stack: an access is then of unknown owner, never of a wrong
one. Serves CPython 3.11 to 3.14, whose instructions differ in spelling alone.
"""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from jitgraph.records import dataclass

Expression: TypeAlias = "Name | Const | Attr | Index | Result | None"
Scope: TypeAlias = Literal["local", "global", "free"]


class Name(NamedTuple):
    """A variable: of the frame, of a cell shared with an enclosing function, or of the module."""

    scope: Scope
    name: str

    def __str__(self) -> str:
        return self.name


class Const(NamedTuple):
    """A constant of the code."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


class Attr(NamedTuple):
    """``owner.name``; ``name`` is an expression in ``getattr(owner, name)``."""

    owner: Any
    name: Any

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}" if isinstance(self.name, str) else f"getattr({self.owner}, {self.name})"


class Index(NamedTuple):
    """``owner[key]``."""

    owner: Any
    key: Any

    def __str__(self) -> str:
        return f"{self.owner}[{self.key}]"


class Result(NamedTuple):
    """What the last call of a function gave; ``arguments`` where they were given by position."""

    function: Any
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}()"


class Call(NamedTuple):
    """A call of ``function``; an argument that is not known is None."""

    function: Any
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


class Match(NamedTuple):
    """``case kind(...)`` with ``patterns`` patterns by position, for ``subject``."""

    subject: Any
    kind: Any
    patterns: int


class Globals(NamedTuple):
    """What ``globals()`` gives."""

    def __str__(self) -> str:
        return "globals()"


class Import(NamedTuple):
    """What ``import name`` inside the function gives, ``level`` packages up; ``top`` for its first package."""

    name: str
    level: int
    top: bool

    def __str__(self) -> str:
        return self.name


class _Null(NamedTuple):
    """The empty slot beside a callable on the stack."""


@dataclass(slots=True)
class Access:
    """One read, write or deletion of ``target`` (a Name, Attr or Index); its owner is None where it is unknown.

    "call" says that the Call ``target`` is about to be made, "match" that a Match is about to be tried.

    "make" says that the result of a call, ``target.owner``, is about to be bound to the local variable ``target.name``.

    ``whole`` is set where the value itself is used, and not only something inside it. ``method`` marks the lookup of a
    method to be called at once, ``called`` any function to be.
    """

    kind: Literal["read", "write", "delete", "make", "call", "match"]
    target: Any
    line: int
    whole: bool = True
    method: bool = False
    called: bool = False


STAGING: Final = "__jg__"  # the variable of rewritten functions that holds the staging functions
_STAGING: Final = Name("local", STAGING)
_FORGET: Final = object()
_IGNORED: Final = frozenset(
    [
        "RESUME",
        "NOP",
        "PRECALL",
        "KW_NAMES",
        "CACHE",
        "EXTENDED_ARG",
        "COPY_FREE_VARS",
        "MAKE_CELL",
        "NOT_TAKEN",
        "SETUP_ANNOTATIONS",
        "TO_BOOL",
    ]
)
_ENDS: Final = frozenset(
    [
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
    ]
)
_PUSH_UNKNOWN: Final = frozenset(
    ["LOAD_BUILD_CLASS", "LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT", "LOAD_LOCALS", "LOAD_CLOSURE"]
)
_SETATTR: Final = (Name("global", "setattr"), Attr(Name("global", "object"), "__setattr__"))
_DELATTR: Final = (Name("global", "delattr"), Attr(Name("global", "object"), "__delattr__"))
_BINARY: Final = frozenset(["COMPARE_OP", "CONTAINS_OP"])
_UNARY: Final = frozenset(
    ["UNARY_NOT", "UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE", "FORMAT_SIMPLE", "CONVERT_VALUE", "GET_ITER"]
)
_BUILD: Final = frozenset(["BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE"])
_APPEND: Final = frozenset(["LIST_APPEND", "SET_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE"])


@lru_cache(maxsize=4096)
def accesses(code: CodeType) -> dict[int, tuple[Access, ...]]:
    """For each instruction offset at which ``code`` accesses something, what it accesses there."""
    walker = _Walker(code)
    for instruction in dis.get_instructions(code):
        walker.step(instruction)
    return {offset: tuple(found) for offset, found in walker.found.items()}


class _Walker:
    def __init__(self, code: CodeType) -> None:
        self.stack: list[Any] = []
        self.found: dict[int, list[Access]] = {}
        self.reads: dict[int, Access] = {}  # by id of the expression, while it is on the stack
        self.line = code.co_firstlineno
        self.free = frozenset(code.co_freevars)
        self.handlers = frozenset(_handler_offsets(code))
        self.offsets = [0]  # of the instruction and of the EXTENDED_ARGs before it, where a tracer may stop instead
        self.extended = False
        self.falls = True  # whether the instruction before can be followed by this one
        self.incoming: dict[int, list[list[Any]]] = {}  # by offset: stacks with which known jumps arrive
        self.unsafe = _unsafe_targets(code)

    def step(self, instruction: dis.Instruction) -> None:
        if instruction.offset in self.handlers or instruction.offset in self.unsafe:
            self.stack.clear()
        elif instruction.is_jump_target:
            self.join(self.incoming.pop(instruction.offset, []))
        if instruction.positions is not None and instruction.positions.lineno is not None:
            self.line = instruction.positions.lineno
        self.offsets = [*self.offsets, instruction.offset] if self.extended else [instruction.offset]
        name = instruction.opname
        self.extended = name == "EXTENDED_ARG"
        if name in _IGNORED:
            return
        handler = _HANDLERS.get(name)
        if handler is not None:
            handler(self, instruction)
        elif name in _PUSH_UNKNOWN:
            self.stack.append(None)
        elif name == "IS_OP":
            right, left = self.pop(), self.pop()
            self.add(Access("call", Call(Const(operator.is_), (left, right)), self.line))
            self.stack.append(None)
        elif name in _BINARY:
            self.consume(2)
            self.stack.append(None)
        elif name in _UNARY:
            self.consume(1)
            self.stack.append(None)
        elif name in _BUILD:
            self.consume(instruction.arg or 0)
            self.stack.append(None)
        elif name in _APPEND:
            self.consume(1)
        else:
            self.stack.clear()
        if name == "JUMP_FORWARD":
            self.jump(instruction)
        self.falls = name not in _ENDS
        if not self.falls:
            self.stack.clear()

    def jump(self, instruction: dis.Instruction) -> None:
        self.incoming.setdefault(instruction.argval, []).append(list(self.stack))

    def join(self, stacks: list[list[Any]]) -> None:
        """What is on top of the stack, whichever way led here."""
        if self.falls:
            stacks = [*stacks, self.stack]
        depth = min(map(len, stacks), default=0)
        tops = [stack[len(stack) - depth :] for stack in stacks]
        self.stack = [
            column[0] if all(item == column[0] for item in column) else None for column in zip(*tops, strict=True)
        ]

    # --- the stack --------------------------------------------------------------------------------------------------

    def pop(self) -> Any:
        return self.stack.pop() if self.stack else None

    def consume(self, count: int) -> None:
        """Take values off the stack that are used as a whole."""
        for _ in range(count):
            self.pop()

    def owner(self) -> Any:
        """Take an owner off the stack: its own value is not used beyond what is now looked up in it."""
        expression = self.pop()
        access = self.reads.get(id(expression)) if expression is not None else None
        if access is not None and access.target is expression:
            access.whole = False
        return expression

    def push_read(self, target: Any, *, method: bool = False) -> None:
        access = Access("read", target, self.line, method=method)
        self.add(access)
        self.reads[id(target)] = access
        self.stack.append(target)

    def note(self, kind: Literal["write", "delete"], target: Any) -> None:
        self.add(Access(kind, target, self.line))

    def add(self, access: Access) -> None:
        for offset in self.offsets:
            self.found.setdefault(offset, []).append(access)

    # --- instructions -----------------------------------------------------------------------------------------------

    def load_local(self, instruction: dis.Instruction) -> None:
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        for name in names:
            self.stack.append(Name("local", name))

    def load_cell(self, instruction: dis.Instruction) -> None:
        if instruction.argval == STAGING:
            self.stack.append(_STAGING)
            return
        if instruction.argval in self.free:
            self.push_read(Name("free", instruction.argval))
        else:
            self.stack.append(Name("local", instruction.argval))

    def load_global(self, instruction: dis.Instruction) -> None:
        if instruction.opname == "LOAD_GLOBAL" and (instruction.arg or 0) & 1:
            self.stack.append(_Null())
        self.push_read(Name("global", instruction.argval))

    def load_const(self, instruction: dis.Instruction) -> None:
        self.stack.append(Const(instruction.argval))

    def import_name(self, instruction: dis.Instruction) -> None:
        names, level = self.pop(), self.pop()
        known = isinstance(names, Const) and isinstance(level, Const)
        self.stack.append(Import(instruction.argval, level.value, not names.value) if known else None)

    def import_from(self, instruction: dis.Instruction) -> None:
        if self.stack and self.stack[-1] is not None:
            self.push_read(Attr(self.stack[-1], instruction.argval))
        else:
            self.stack.append(None)

    def push_null(self, instruction: dis.Instruction) -> None:
        self.stack.append(_Null())

    def load_attribute(self, instruction: dis.Instruction) -> None:
        method = instruction.opname == "LOAD_METHOD" or "NULL|self" in instruction.argrepr
        self.push_read(Attr(self.owner(), instruction.argval), method=method)
        if method:
            self.stack.append(_Null())

    def load_super(self, instruction: dis.Instruction) -> None:
        self.consume(3)
        self.stack.append(None)
        if (instruction.arg or 0) & 1:
            self.stack.append(_Null())

    def subscript(self, instruction: dis.Instruction) -> None:
        key = self.pop()
        if key is None:
            self.pop()
            self.stack.append(None)
        else:
            self.push_read(Index(self.owner(), key))

    def binary(self, instruction: dis.Instruction) -> None:
        if instruction.argrepr == "[]":
            self.subscript(instruction)
        else:
            self.consume(2)
            self.stack.append(None)

    def slice(self, instruction: dis.Instruction) -> None:
        self.consume(3)
        self.stack.append(None)

    def store_attribute(self, instruction: dis.Instruction) -> None:
        self.note("write", Attr(self.owner(), instruction.argval))
        self.consume(1)

    def delete_attribute(self, instruction: dis.Instruction) -> None:
        self.note("delete", Attr(self.owner(), instruction.argval))

    def store_subscript(self, instruction: dis.Instruction) -> None:
        key = self.pop()
        self.note("write", Index(self.owner(), key))
        self.consume(1)

    def delete_subscript(self, instruction: dis.Instruction) -> None:
        key = self.pop()
        self.note("delete", Index(self.owner(), key))

    def store_global(self, instruction: dis.Instruction) -> None:
        self.note("write", Name("global", instruction.argval))
        self.consume(1)

    def store_cell(self, instruction: dis.Instruction) -> None:
        if instruction.argval in self.free:
            self.note("write", Name("free", instruction.argval))
            self.consume(1)
        else:
            self.store_local(instruction)

    def store_local(self, instruction: dis.Instruction) -> None:
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        for name in names:
            value = self.pop()
            if isinstance(value, Result):
                self.add(Access("make", Attr(value, name), self.line))

    def store_load_local(self, instruction: dis.Instruction) -> None:
        self.consume(1)
        self.stack.append(Name("local", instruction.argval[1]))

    def pop_top(self, instruction: dis.Instruction) -> None:
        self.pop()

    def copy(self, instruction: dis.Instruction) -> None:
        depth = instruction.arg or 1
        self.stack.append(self.stack[-depth] if depth <= len(self.stack) else None)

    def swap(self, instruction: dis.Instruction) -> None:
        depth = instruction.arg or 1
        if depth <= len(self.stack):
            self.stack[-1], self.stack[-depth] = self.stack[-depth], self.stack[-1]
        else:
            self.stack.clear()

    def call(self, instruction: dis.Instruction) -> None:
        if instruction.opname == "CALL_KW":
            self.pop()
        count = instruction.arg or 0
        arguments = [self.pop() for _ in range(count)][::-1]
        pair = [self.pop(), self.pop()]
        callables = [item for item in pair if item is not None and not isinstance(item, _Null)]
        function = callables[0] if len(callables) == 1 else None
        if function == Attr(_STAGING, "callee"):  # what a script calls: the call that follows is of this function
            self.stack.append(arguments[0])
            if (access := self.reads.get(id(arguments[0]))) is not None and isinstance(arguments[0], Attr):
                access.method = True
            return
        if self.known_call(function, arguments):
            return
        if function == Name("global", "getattr") and len(arguments) in (2, 3) and None not in arguments[:2]:
            self.push_read(Attr(arguments[0], arguments[1]))
        elif function == Name("global", "hasattr") and len(arguments) == 2 and None not in arguments:
            self.add(Access("read", Attr(arguments[0], arguments[1]), self.line, whole=False))
            self.stack.append(None)
        elif function == Name("global", "vars") and len(arguments) == 1 and arguments[0] is not None:
            self.push_read(Attr(arguments[0], "__dict__"))
        else:
            if function is not None:
                self.add(Access("call", Call(function, tuple(arguments)), self.line))
                if (access := self.reads.get(id(function))) is not None:
                    access.called = True
            self.stack.append(Result(function, tuple(arguments)) if function is not None else None)

    def known_call(self, function: Any, arguments: list[Any]) -> bool:
        """Whether it is the call of a built-in function that reads no value, or writes one."""
        if function == Name("global", "globals") and not arguments:
            self.stack.append(Globals())
            return True
        if function in _SETATTR and len(arguments) == 3 and isinstance(arguments[1], Const):
            self.note("write", Attr(arguments[0], arguments[1].value))
        elif function in _DELATTR and len(arguments) == 2 and isinstance(arguments[1], Const):
            self.note("delete", Attr(arguments[0], arguments[1].value))
        else:
            return False
        self.stack.append(None)
        return True

    def match_class(self, instruction: dis.Instruction) -> None:
        names, kind, subject = self.pop(), self.pop(), self.pop()
        if isinstance(names, Const):
            for name in names.value:
                self.add(Access("read", Attr(subject, name), self.line))
        if instruction.arg:
            self.add(Access("match", Match(subject, kind, instruction.arg), self.line))
        self.stack.append(None)

    def conditional(self, instruction: dis.Instruction) -> None:
        self.consume(1)
        if instruction.argval > instruction.offset:
            self.jump(instruction)

    def make_function(self, instruction: dis.Instruction) -> None:
        flags = instruction.arg or 0
        self.consume(1 + (bin(flags).count("1") if instruction.opname == "MAKE_FUNCTION" else 1))
        self.stack.append(None)

    def build_map(self, instruction: dis.Instruction) -> None:
        self.consume(2 * (instruction.arg or 0))
        self.stack.append(None)

    def build_constant_map(self, instruction: dis.Instruction) -> None:
        self.consume(1 + (instruction.arg or 0))
        self.stack.append(None)

    def format_value(self, instruction: dis.Instruction) -> None:
        self.consume(2 if (instruction.arg or 0) & 4 else 1)
        self.stack.append(None)

    def unpack(self, instruction: dis.Instruction) -> None:
        self.consume(1)
        self.stack.extend([None] * (instruction.arg or 0))


_Handler: TypeAlias = Callable[[_Walker, dis.Instruction], None]
_HANDLERS: Final[dict[str, _Handler]] = {
    **dict.fromkeys(
        (
            "LOAD_FAST",
            "LOAD_FAST_CHECK",
            "LOAD_FAST_BORROW",
            "LOAD_FAST_AND_CLEAR",
            "LOAD_FAST_LOAD_FAST",
            "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        ),
        _Walker.load_local,
    ),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF"), _Walker.load_cell),
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME"), _Walker.load_global),
    **dict.fromkeys(("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CONST_IMMORTAL"), _Walker.load_const),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD"), _Walker.load_attribute),
    **dict.fromkeys(("CALL", "CALL_KW"), _Walker.call),
    **dict.fromkeys(("STORE_FAST", "STORE_FAST_STORE_FAST"), _Walker.store_local),
    **dict.fromkeys(
        (
            "POP_JUMP_IF_TRUE",
            "POP_JUMP_IF_FALSE",
            "POP_JUMP_IF_NONE",
            "POP_JUMP_IF_NOT_NONE",
            "POP_JUMP_FORWARD_IF_TRUE",
            "POP_JUMP_FORWARD_IF_FALSE",
            "POP_JUMP_FORWARD_IF_NONE",
            "POP_JUMP_FORWARD_IF_NOT_NONE",
            "POP_JUMP_BACKWARD_IF_TRUE",
            "POP_JUMP_BACKWARD_IF_FALSE",
            "POP_JUMP_BACKWARD_IF_NONE",
            "POP_JUMP_BACKWARD_IF_NOT_NONE",
        ),
        _Walker.conditional,
    ),
    **dict.fromkeys(("UNPACK_SEQUENCE",), _Walker.unpack),
    **dict.fromkeys(("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"), _Walker.make_function),
    **dict.fromkeys(("BINARY_SLICE",), _Walker.slice),
    "PUSH_NULL": _Walker.push_null,
    "IMPORT_NAME": _Walker.import_name,
    "IMPORT_FROM": _Walker.import_from,
    "LOAD_SUPER_ATTR": _Walker.load_super,
    "BINARY_SUBSCR": _Walker.subscript,
    "BINARY_OP": _Walker.binary,
    "STORE_ATTR": _Walker.store_attribute,
    "DELETE_ATTR": _Walker.delete_attribute,
    "STORE_SUBSCR": _Walker.store_subscript,
    "DELETE_SUBSCR": _Walker.delete_subscript,
    "STORE_GLOBAL": _Walker.store_global,
    "STORE_NAME": _Walker.store_global,
    "STORE_DEREF": _Walker.store_cell,
    "STORE_FAST_LOAD_FAST": _Walker.store_load_local,
    "POP_TOP": _Walker.pop_top,
    "COPY": _Walker.copy,
    "SWAP": _Walker.swap,
    "MATCH_CLASS": _Walker.match_class,
    "BUILD_MAP": _Walker.build_map,
    "BUILD_CONST_KEY_MAP": _Walker.build_constant_map,
    "FORMAT_VALUE": _Walker.format_value,
}


def _unsafe_targets(code: CodeType) -> frozenset[int]:
    """Where jumps arrive of which the stack is not known here: backward ones, and those that also push or pop."""
    jumps = [i for i in dis.get_instructions(code) if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs]
    known = ("POP_JUMP_", "JUMP_FORWARD")
    return frozenset(i.argval for i in jumps if i.argval <= i.offset or not i.opname.startswith(known))


def _handler_offsets(code: CodeType) -> list[int]:
    """The offsets at which exception handlers start."""
    bytecode: Any = dis.Bytecode(code)
    return [entry.target for entry in getattr(bytecode, "exception_entries", ())]
