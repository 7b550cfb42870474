"""Scalar ops on literals, evaluated as they are written: what needs no instruction costs LLVM no time.

Literals are those of ``operand.py``: a number, or ``splat (type number)`` for all lanes alike. Integers and bools
alone are folded, and the bits of floats; the arithmetic of floats is left to the machine, whose rounding it is.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jitgraph.codegen.llvm.operand import LlvmScalar

_BINARY: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def element_of(type: str) -> str:
    """The LLVM type of one lane."""
    return type[1:-1].split()[2] if type[0] == "<" else type


def number_of(x: LlvmScalar) -> str | None:
    """The literal that every lane holds, as text; None where there is none."""
    name = x.name
    if name.startswith("splat ("):
        return name[:-1].rpartition(" ")[2]
    return None if name[0] in "%<@zp" else name  # values, mixed vectors, globals, zeroinitializer, poison


def integer_of(x: LlvmScalar) -> int | None:
    """The integer that every lane holds; None where it is not a literal one."""
    text = number_of(x)
    if text is None or not (text.isdecimal() or (text[0] == "-" and text[1:].isdecimal())):
        return None
    return int(text)


def truth_of(x: LlvmScalar) -> bool | None:
    """The bool that every lane holds; None where it is not a literal one."""
    text = number_of(x)
    return text == "true" if text in ("true", "false") else None


def is_ordinary(x: LlvmScalar) -> bool:
    """Whether ``x`` is a literal float32 or float64 that is not NaN."""
    text = number_of(x)
    if text is None or element_of(x.type) not in ("float", "double") or not text.startswith("0x"):
        return False
    return int(text, 16) & 0x7FFFFFFFFFFFFFFF <= 0x7FF0000000000000


def like(text: str, x: LlvmScalar) -> LlvmScalar:
    """A literal with the type and lanes of ``x``."""
    return x._replace(name=text if x.lanes == 1 else f"splat ({element_of(x.type)} {text})")


def binary(instruction: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar | None:
    """``instruction x, y`` of two integer literals, wrapped; None where it takes an instruction."""
    function = _BINARY.get(instruction)
    if function is None:
        return None
    a, b = integer_of(x), integer_of(y)
    if a is None or b is None:
        return None
    bits = int(element_of(x.type)[1:])
    wrapped = function(a, b) & ((1 << bits) - 1)
    return like(str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped), x)


def compare(relation: str, x: LlvmScalar, y: LlvmScalar) -> bool | None:
    """``icmp relation x, y`` of two integer literals; None where it takes an instruction."""
    a, b = integer_of(x), integer_of(y)
    if a is None or b is None:
        return None
    mask = (1 << int(element_of(x.type)[1:])) - 1
    if relation[0] == "u":
        return _COMPARE[relation[1:]](a & mask, b & mask)
    sign = (mask + 1) >> 1  # a literal may be written without its sign
    a, b = (a & mask) ^ sign, (b & mask) ^ sign
    return _COMPARE[relation[1:] if relation[0] == "s" else relation](a, b)


def negated(x: LlvmScalar) -> LlvmScalar | None:
    """A literal float32 or float64 with the other sign; None for anything else."""
    text = number_of(x)
    if text is None or not text.startswith("0x") or text.startswith("0xH"):
        return None
    return like(f"0x{int(text, 16) ^ (1 << 63):016X}", x)


def float_bits(x: LlvmScalar, element: str) -> str | None:
    """The bits of a literal float32 or float64 as a literal integer of type ``element``; None for anything else."""
    text = number_of(x)
    if text is None or not text.startswith("0x") or (element_of(x.type), element) not in _FLOAT_BITS:
        return None
    bits = int(text, 16)  # float32, too, is written by the bits of the float64 that it is
    if element == "i64":
        return str(bits - (1 << 64) if bits >> 63 else bits)
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    if number != number:
        return None  # whose payload the conversion might change
    (narrow,) = struct.unpack("<i", struct.pack("<f", number))
    return str(narrow)


_FLOAT_BITS: Final = {("float", "i32"), ("double", "i64")}
