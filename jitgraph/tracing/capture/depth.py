"""How deep the value stack is before each instruction, from the code alone."""

from __future__ import annotations

import dis
import sys
from collections.abc import Sequence
from types import CodeType
from typing import Any, Final

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
