"""Lays relocatable objects out as one flat image: no absolute address, no import, nothing writable.

The image is the header of ``runtime/loader/image.py``, the code, then the constants, every place reached relative to
the instruction that wants it. So it runs wherever it is mapped, in this process or from a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from jitgraph.codegen.cpu import elf
from jitgraph.codegen.cpu.objects import library_object
from jitgraph.errors import CompileError, UnsupportedOp
from jitgraph.ir.target import Target
from jitgraph.records import dataclass
from jitgraph.runtime import loader

LIBRARY_SYMBOLS: Final = frozenset(("memcpy", "memmove", "memset"))
"""The only undefined symbols that emitted code may have; the linker brings them along."""

_MACHINE_AARCH64: Final = 183
_SECTION_ALIGNMENT: Final = 64
_MAX_ALIGNMENT: Final = 4096  # images are mapped at page boundaries
_DROPPED: Final = (".eh_frame", ".note.", ".comment", ".llvm")  # emitted code never unwinds

_R_PC32, _R_GOTPCREL, _R_PLT32, _R_PC64, _R_GOTPCRELX, _R_REX_GOTPCRELX = 2, 9, 4, 24, 41, 42
_ABSOLUTE: Final = {1: "R_X86_64_64", 10: "R_X86_64_32", 11: "R_X86_64_32S", 12: "R_X86_64_16", 14: "R_X86_64_8"}

_INT32 = struct.Struct("<i")
_INT64 = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where each kept section (object, index) begins in the image."""

    places: dict[tuple[int, int], int]
    code_end: int
    total: int


def link(objects: Sequence[bytes], exports: Mapping[str, str]) -> bytes:
    """The flat image of ELF64 ``objects``, its exports (``entry``, ``worker``, ...) found under the given symbols.

    CompileError for a writable section, an absolute address, an undefined or doubly defined symbol.
    """
    if unknown := set(exports) - set(loader.EXPORTS):
        raise CompileError(f"an image cannot export {sorted(unknown)}; it exports {', '.join(loader.EXPORTS)}")
    if "entry" not in exports:
        raise CompileError("an image must export an entry")
    parsed = [elf.parse(data) for data in objects]
    if _undefined(parsed) & LIBRARY_SYMBOLS:
        parsed.append(elf.parse(library_object(Target.named("x86-64-v2"), "memory")))
    for part in parsed:
        _check(part)
    if missing := _undefined(parsed):
        raise CompileError(
            f"emitted code calls {', '.join(sorted(missing))}, which no image defines",
            hint="lower the operation to plain LLVM IR: emitted code may call nothing outside itself",
        )
    layout = _lay_out(parsed)
    table = _globals(parsed, layout)
    image = bytearray(layout.total)
    for (number, index), offset in layout.places.items():
        data = parsed[number].sections[index].data
        image[offset : offset + len(data)] = data
    for number, part in enumerate(parsed):
        _relocate(image, number, part, layout, table)
    image[: loader.HEADER_BYTES] = _header(exports, layout, table).pack()
    return bytes(image)


def _check(part: elf.Object) -> None:
    if part.machine == _MACHINE_AARCH64:
        raise UnsupportedOp("linking AArch64 objects is not supported yet", hint="compile for an x86-64 target")
    if part.machine != elf.MACHINE_X86_64:
        raise UnsupportedOp(f"linking objects of ELF machine {part.machine} is not supported")
    for section in part.sections:
        if section.flags & elf.SHF_ALLOC and section.flags & (elf.SHF_WRITE | elf.SHF_TLS) and section.size:
            raise CompileError(
                f"emitted code has the writable section {section.name!r} of {section.size} bytes",
                hint="keep mutable data in the arena of the call; make globals constant, and free of addresses",
            )
        if section.flags & elf.SHF_ALLOC and section.alignment > _MAX_ALIGNMENT:
            raise CompileError(f"section {section.name!r} asks for the alignment {section.alignment}")


def _loaded_sections(part: elf.Object) -> Iterator[tuple[int, elf.Section]]:
    for index, section in enumerate(part.sections):
        if section.flags & elf.SHF_ALLOC and section.size and not section.name.startswith(_DROPPED):
            if section.kind == elf.SHT_NOBITS:
                raise CompileError(f"section {section.name!r} has {section.size} bytes but no data")
            yield index, section


def _undefined(parsed: Sequence[elf.Object]) -> set[str]:
    symbols = [symbol for part in parsed for symbol in part.symbols]
    defined = {s.name for s in symbols if s.section != elf.SHN_UNDEF and s.binding != elf.STB_LOCAL}
    return {s.name for s in symbols if s.section == elf.SHN_UNDEF and s.name} - defined


def _lay_out(parsed: Sequence[elf.Object]) -> _Layout:
    """Code first, in order; then constants, the most aligned first."""
    sections = [
        (number, index, section) for number, part in enumerate(parsed) for index, section in _loaded_sections(part)
    ]
    code = [item for item in sections if item[2].flags & elf.SHF_EXECINSTR]
    constants = sorted(
        (item for item in sections if not item[2].flags & elf.SHF_EXECINSTR), key=lambda item: -item[2].alignment
    )
    offsets: dict[tuple[int, int], int] = {}
    position = loader.HEADER_BYTES
    for number, index, section in code:
        position = _aligned(position, max(section.alignment, _SECTION_ALIGNMENT))
        offsets[number, index] = position
        position += section.size
    code_end = position
    position = _aligned(position, _SECTION_ALIGNMENT)
    for number, index, section in constants:
        position = _aligned(position, section.alignment)
        offsets[number, index] = position
        position += section.size
    for number, part in enumerate(parsed):  # a constant without elements has an address, at which nothing is read
        for index, section in enumerate(part.sections):
            if section.flags & elf.SHF_ALLOC and not section.size:
                offsets[number, index] = position
    return _Layout(offsets, code_end, position)


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _globals(parsed: Sequence[elf.Object], layout: _Layout) -> dict[str, int]:
    """Place of each global symbol; the first of several weak ones, or the strong one, counts."""
    table: dict[str, int] = {}
    strong: set[str] = set()
    for number, part in enumerate(parsed):
        for symbol in part.symbols:
            if symbol.binding == elf.STB_LOCAL or symbol.section == elf.SHN_UNDEF:
                continue
            weak = symbol.binding == elf.STB_WEAK
            if symbol.name in strong and not weak:
                raise CompileError(f"the symbol {symbol.name!r} is defined twice")
            if symbol.name in table and weak:
                continue
            table[symbol.name] = _address(number, symbol, layout)
            if not weak:
                strong.add(symbol.name)
    return table


def _address(number: int, symbol: elf.Symbol, layout: _Layout) -> int:
    if symbol.section >= elf.SHN_LORESERVE:
        raise CompileError(f"the symbol {symbol.name!r} has an absolute or common place")
    if (number, symbol.section) not in layout.places:
        raise CompileError(f"the symbol {symbol.name!r} lies in a section that is not part of the image")
    return layout.places[number, symbol.section] + symbol.value


def _relocate(image: bytearray, number: int, part: elf.Object, layout: _Layout, table: Mapping[str, int]) -> None:
    for item in part.relocations:
        if (number, item.section) not in layout.places:
            continue
        section = part.sections[item.section]
        width = 8 if item.kind == _R_PC64 else 4
        if not 0 <= item.offset <= section.size - width:
            raise CompileError(f"a relocation at {item.offset} lies outside {section.name!r} of {section.size} bytes")
        symbol = part.symbols[item.symbol]
        known = symbol.binding != elf.STB_LOCAL and symbol.name in table
        offset = layout.places[number, item.section] + item.offset
        target = table[symbol.name] if known else _address(number, symbol, layout)
        _patch(image, item, offset, target + item.addend - offset, layout.places[number, item.section], symbol.name)


def _patch(image: bytearray, item: elf.Relocation, offset: int, distance: int, start: int, name: str) -> None:
    """Write ``distance`` (symbol + addend - offset) at ``offset`` as the relocation's kind asks for."""
    if item.kind == _R_PC64:
        _INT64.pack_into(image, offset, distance)
        return
    if item.kind in _ABSOLUTE:
        raise CompileError(
            f"emitted code holds the absolute address of {name!r} ({_ABSOLUTE[item.kind]})",
            hint="an image has no fixed place: compile position independent, keep no pointers in constants",
        )
    if item.kind in (_R_GOTPCREL, _R_GOTPCRELX, _R_REX_GOTPCRELX):
        _relax(image, offset, start, name)
    elif item.kind not in (_R_PC32, _R_PLT32):
        raise CompileError(f"the relocation type {item.kind} of {name!r} is not supported")
    if not -(2**31) <= distance < 2**31:
        raise CompileError(f"{name!r} is {distance} bytes away, more than 32 bits hold")
    _INT32.pack_into(image, offset, distance)


def _relax(image: bytearray, offset: int, start: int, name: str) -> None:
    """Turn an access through the global offset table, which images lack, into a direct one (AMD64 ABI, B.2)."""
    opcode = bytes(image[offset - 2 : offset]) if offset - 2 >= start else b""
    if opcode[:1] == b"\x8b":  # mov symbol@GOTPCREL(%rip), %reg -> lea symbol(%rip), %reg
        image[offset - 2] = 0x8D
    elif opcode == b"\xff\x15":  # call *symbol@GOTPCREL(%rip) -> addr32 call symbol
        image[offset - 2 : offset] = b"\x67\xe8"
    elif opcode == b"\xff\x25":  # jmp *symbol@GOTPCREL(%rip) -> a prefix without effect, jmp symbol
        image[offset - 2 : offset] = b"\x2e\xe9"
    else:
        raise CompileError(
            f"the access to {name!r} by the global offset table cannot be made direct",
            hint="declare the symbol dso_local or hidden",
        )


def _header(exports: Mapping[str, str], layout: _Layout, table: Mapping[str, int]) -> loader.ImageHeader:
    for export, symbol in exports.items():
        if symbol not in table:
            raise CompileError(f"the image exports {export!r} as {symbol!r}, which no object defines")
        if not loader.HEADER_BYTES <= table[symbol] < layout.code_end:
            raise CompileError(f"the image exports {export!r} as {symbol!r}, which is not code")
    offsets = {name: table[exports[name]] if name in exports else 0 for name in loader.EXPORTS}
    return loader.ImageHeader(loader.ABI_VERSION, loader.MACHINE_X86_64, layout.total, layout.code_end, **offsets)
