"""Reads lines of LLVM IR as LLVM itself prints them: types, operands, calls, functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from jitgraph.errors import UnsupportedOp

_OPENING, _CLOSING = "([{<", ")]}>"
_SCALARS: Final = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
_ARRAY: Final = re.compile(r"[\[<](\d+) x (.*)[\]>]")
_NAME: Final = re.compile(r'[%@](?:"[^"]*"|[\w.$-]+)')
_CALL: Final = re.compile(r"(?:%\S+ = )?(?:tail |musttail |notail )?call (.*?)@([\w.$]+)\(")
_DEFINE: Final = re.compile(r"(define|declare) (.*?)@([\w.$]+)\(")


def split(text: str) -> list[str]:
    """The parts between the commas that no bracket encloses."""
    parts, depth, begin = [], 0, 0
    for index, sign in enumerate(text):
        if sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[begin:index].strip())
            begin = index + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def enclosed(text: str, begin: int) -> str:
    """What stands between the bracket at ``begin`` and the one that closes it."""
    depth = 0
    for index in range(begin, len(text)):
        depth += (text[index] in _OPENING) - (text[index] in _CLOSING)
        if not depth:
            return text[begin + 1 : index]
    raise ValueError(f"no bracket closes {text!r}")


def type_at(text: str) -> str:
    """The type that ``text`` begins with."""
    if text[0] in _OPENING:
        return text[: len(enclosed(text, 0)) + 2]
    match = re.match(r"ptr addrspace\(\d+\)|[\w.%]+", text)
    if not match:
        raise ValueError(f"no type at the beginning of {text!r}")
    return match[0]


def operand_at(text: str) -> str:
    """The value that ``text`` begins with, constant expressions included."""
    if match := _NAME.match(text):
        return match[0]
    bracket = text.find("(")
    if bracket >= 0 and re.fullmatch(r"[a-z ]+", text[:bracket]):
        return text[: bracket + len(enclosed(text, bracket)) + 2]
    return text.split()[0]


def layout(kind: str) -> tuple[int, int]:
    """Bytes and alignment of a type in memory; UnsupportedOp for one that kernels do not load."""
    if kind in _SCALARS or kind.startswith("ptr"):
        size = _SCALARS[kind.split()[0]]
        return size, size
    if match := re.fullmatch(r"i(\d+)", kind):
        size = 1 << max(0, (int(match[1]) + 7) // 8 - 1).bit_length()
        return size, min(size, 16)
    if match := _ARRAY.fullmatch(kind):
        size, alignment = layout(match[2])
        total = int(match[1]) * size
        if kind[0] == "<":
            total = (int(match[1]) + 7) // 8 if match[2] == "i1" else 1 << max(0, total - 1).bit_length()
            return total, total
        return total, alignment
    if kind.startswith("{"):
        offset, most = 0, 1
        for field in split(kind[1:-1]):
            size, alignment = layout(field)
            offset, most = -(-offset // alignment) * alignment + size, max(most, alignment)
        return -(-offset // most) * most, most
    raise UnsupportedOp(f"the simulator does not know the size of the type {kind!r}")


class KernelParameter(NamedTuple):
    """A parameter of a function: what stands for its type in a call, and how it is laid out as an argument."""

    type: str
    text: str  # with the attributes that a call must repeat
    size: int
    alignment: int

    @staticmethod
    def parsed(text: str) -> KernelParameter:
        """From its text in a definition."""
        kind = type_at(text)
        if byval := re.search(r"byval\(", text):
            inside = enclosed(text, byval.end() - 1)
            size, alignment = layout(inside)
            align = re.search(r"\balign (\d+)", text)
            return KernelParameter(kind, f"{kind} byval({inside}) align {align[1] if align else alignment}", size, 64)
        return KernelParameter(kind, kind, *layout(kind))


class IrFunction(NamedTuple):
    """A function of a module: its first line, the lines of its body, and the names that it calls."""

    name: str
    head: str
    result: str
    parameters: tuple[KernelParameter, ...]
    body: tuple[str, ...]

    @property
    def is_kernel(self) -> bool:
        """Whether the host may launch it."""
        return "ptx_kernel" in self.head.split("@")[0]

    @property
    def called(self) -> frozenset[str]:
        """The functions that its calls name."""
        return frozenset(match[2] for line in self.body if (match := _CALL.match(line.strip())))


def called(line: str) -> tuple[str, str, list[str]] | None:
    """The words before the name, the name and the arguments of a call; None where ``line`` is none of a function."""
    match = _CALL.match(line)
    if not match:
        return None
    return match[1], match[2], split(enclosed(line, match.end() - 1))


def functions(text: str) -> Iterator[IrFunction]:
    """The functions of a module, declarations (without a body) included."""
    lines = iter(text.splitlines())
    for line in lines:
        match = _DEFINE.match(line)
        if not match:
            continue
        parameters = tuple(
            KernelParameter.parsed(part) for part in split(enclosed(line, match.end() - 1)) if part != "..."
        )
        body: list[str] = []
        if match[1] == "define":
            for inner in lines:
                if inner == "}":
                    break
                body.append(inner)
        yield IrFunction(match[3], line, match[2].strip(), parameters, tuple(body))


def called_name(line: str) -> str:
    """The name of the function that a line defines or declares."""
    match = _DEFINE.match(line)
    return match[3] if match else ""


def reached(name: str, functions: Mapping[str, IrFunction]) -> frozenset[str]:
    """A function and those that it calls, directly or not."""
    seen: set[str] = set()
    open_names = [name]
    while open_names:
        each = open_names.pop()
        if each not in seen and each in functions:
            seen.add(each)
            open_names += functions[each].called
    return frozenset(seen)
