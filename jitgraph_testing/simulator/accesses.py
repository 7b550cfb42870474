"""Puts a look at the memory before each load, store and atomic operation of a line of LLVM IR."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jitgraph_testing.simulator import intrinsics, ir_text
from jitgraph_testing.simulator.native import native
from jitgraph_testing.simulator.native_text import ATOMIC, PATIENT, READ, VOLATILE, WRITE
from jitgraph_testing.simulator.state import memory

SITE_WORDS: Final = 6
"""Of a site: the bounds of the piece of memory that it touched last, size, alignment - 1, kind, number."""

_ALIGN: Final = re.compile(r", align (\d+)")
_POINTER: Final = re.compile(r"ptr(?: addrspace\((\d+)\))? ")
_BYTES_MOVED: Final = re.compile(r"llvm\.(memcpy|memmove|memset)\..*")
_ARGUMENT: Final = re.compile(  # a pointer argument: its type, attributes, its value
    r"(ptr(?: addrspace\(\d+\))?) (?:(?!inttoptr|getelementptr|addrspacecast|null)[a-z_]+(?:\([^)]*\)| \d+)? )*(.*)"
)


_DIVISIONS: Final = frozenset(("udiv", "sdiv", "urem", "srem"))
_DIVISION: Final = re.compile(r"\S+ = [us](?:div|rem) (?:exact )?i(8|16|32|64) (\S+), (\S+)")


class AccessSite(NamedTuple):
    """An instruction that touches memory or waits: its text, its function, bytes and what it does."""

    line: str
    function: str
    size: int
    kind: int
    space: int  # 1: global, 3: shared, 0: generic, which is any


def checks(
    line: str, function: str, sites: list[AccessSite], bounds: NDArray[np.int64], *, checked: bool, noted: bool
) -> list[str]:
    """The lines to put before ``line``; the sites that it makes are added to ``sites`` and ``bounds``."""
    stripped = line.strip()
    words = stripped.split(" ", 3)
    operation = words[2] if len(words) > 2 and words[1] == "=" else words[0]
    if operation in ("call", "tail", "musttail", "notail"):
        return _before_call(stripped, function, sites, bounds, checked)
    if operation in _DIVISIONS and checked:
        return _before_division(stripped, operation, function, sites)
    if operation not in _PARTS or not checked:
        return []
    kind, pointer, size = _PARTS[operation](stripped)
    match = _POINTER.match(pointer)
    if not match:
        raise ValueError(f"no pointer in {line!r}")
    operand = ir_text.operand_at(pointer[match.end() :])
    space = int(match[1] or 0)
    aligned = _ALIGN.search(stripped)
    row = len(sites)
    bounds[row] = (0, 0, size, (int(aligned[1]) if aligned else 1) - 1, kind, row)
    sites.append(AccessSite(stripped, function, size, kind, space))
    look = native().addresses["check_noted" if noted or kind & PATIENT else "check"]
    record = bounds.ctypes.data + 8 * SITE_WORDS * row
    return [f"  call void inttoptr (i64 {look} to ptr)({match[0]}{operand}, i64 {record}) ; sim.check"]


def _manner(text: str) -> int:
    head = text.split(",", 1)[0].split()
    return (ATOMIC if "atomic" in head else 0) | (VOLATILE if "volatile" in head else 0)


def _load(text: str) -> tuple[int, str, int]:
    body = re.sub(r"^.*? = load (?:atomic )?(?:volatile )?", "", text)
    kind = ir_text.type_at(body)
    return READ | _manner(text), ir_text.split(body)[1], ir_text.layout(kind)[0]


def _store(text: str) -> tuple[int, str, int]:
    body = re.sub(r"^store (?:atomic )?(?:volatile )?", "", text)
    kind = ir_text.type_at(body)
    return WRITE | _manner(text), ir_text.split(body)[1], ir_text.layout(kind)[0]


def _update(text: str) -> tuple[int, str, int]:
    body = re.sub(r"^.*? = (?:atomicrmw (?:volatile )?\w+|cmpxchg (?:weak )?(?:volatile )?) ?", "", text)
    pointer, value = ir_text.split(body)[:2]
    return READ | WRITE | ATOMIC, pointer, ir_text.layout(ir_text.type_at(value))[0]


_PARTS: Final = {"load": _load, "store": _store, "atomicrmw": _update, "cmpxchg": _update}


def _before_division(text: str, operation: str, function: str, sites: list[AccessSite]) -> list[str]:
    """A look at the operands of a scalar division; the processor stops the process at those that it cannot divide."""
    match = _DIVISION.match(text)
    if not match or (match[3].isdigit() and int(match[3])):
        return []
    bits, site = int(match[1]), len(sites)
    sites.append(AccessSite(text, function, 0, 0, 0))
    signed = operation[0] == "s"
    wide, convert = [], "sext" if signed else "zext"
    out = []
    for i, operand in enumerate((match[2], match[3])):
        wide.append(f"%sim.divide.{site}.{i}")
        change = f"{convert} i{bits} {operand} to i64" if bits < 64 else f"add i64 {operand}, 0"
        out.append(f"  {wide[-1]} = {change} ; sim.check")
    least = -(1 << (bits - 1)) if signed else 0
    args = f"i64 {wide[0]}, i64 {wide[1]}, i64 {least}, i64 {site}"
    return [*out, f"  call void inttoptr (i64 {native().addresses['divide']} to ptr)({args}) ; sim.check"]


def _before_call(
    text: str, function: str, sites: list[AccessSite], bounds: NDArray[np.int64], checked: bool
) -> list[str]:
    """Where the call stands, for intrinsics that wait, copy or stop; a look at what a copy of many bytes touches."""
    call = ir_text.called(text)
    if call is None:
        return []
    _, name, arguments = call
    out: list[str] = []
    if name == "llvm.trap" or (name.startswith("llvm.nvvm.") and intrinsics.is_located(name)):
        here = memory().of_launch("site")
        out.append(f"  store i64 {len(sites)}, ptr inttoptr (i64 {here} to ptr) ; sim.check")
        sites.append(AccessSite(text, function, 0, 0, 3))
    elif _BYTES_MOVED.fullmatch(name) and checked:
        length, look = arguments[2].split()[-1], native().addresses["check_many"]
        for argument, kind in zip(arguments, (WRITE,) if "memset" in name else (WRITE, READ), strict=False):
            if parts := _ARGUMENT.fullmatch(argument):
                args = f"{parts[1]} {parts[2]}, i64 {length}, i64 {kind}, i64 {len(sites)}"
                out.append(f"  call void inttoptr (i64 {look} to ptr)({args}) ; sim.check")
        sites.append(AccessSite(text, function, 0, WRITE, 0))
    return out
