"""Lays relocatable objects (ELF64) out as one flat image: no absolute address, no import, nothing writable."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jitgraph.codegen.cpu.objects import library_object
from jitgraph.errors import CompileError, UnsupportedOp
from jitgraph.ir.target import Target
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.loader.image import MACHINE_AARCH64, MACHINE_X86_64

# ----------------------------------------------------------------------
# Reads ELF64 relocatable objects (little-endian, System V) as far as position-independent code needs it.
#
# Source of the layout: System V ABI, "Object Files"; AMD64 supplement, "Relocation". Every offset is checked, so that a
# damaged object gives CompileError and never a slice of the wrong bytes.


SHT_RELA: Final = 4
SHT_NOBITS: Final = 8
SHT_REL: Final = 9
_SHT_SYMTAB: Final = 2
SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4
SHF_TLS: Final = 0x400
_SHF_COMPRESSED: Final = 0x800

SHN_UNDEF: Final = 0
SHN_LORESERVE: Final = 0xFF00

STB_LOCAL: Final = 0
STB_WEAK: Final = 2

_FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")


@dataclass(frozen=True, slots=True)
class Section:
    """One section: ``data`` is empty for a section without bytes in the file, whose ``size`` still counts."""

    name: str
    kind: int
    flags: int
    size: int
    alignment: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name for a place: ``section`` is an index into the sections, or one of the SHN_ constants."""

    name: str
    binding: int
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """At ``offset`` of ``section`` stands what depends on ``symbol`` (an index) plus ``addend``."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class Object:
    """One relocatable object."""

    machine: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def parse(data: bytes) -> Object:
    """The object in ``data``; CompileError where it is not a sound ELF64 relocatable object."""
    fields = _unpack(_FILE_HEADER, data, 0, "file header")
    ident, kind, machine, sections_at, section_size, count, names_index = (
        fields[0], fields[1], fields[2], fields[6], fields[11], fields[12], fields[13]
    )  # fmt: skip
    if ident[:4] != b"\x7fELF" or ident[4] != 2 or ident[5] != 1:
        raise CompileError("an object file is not a little-endian ELF64 file")
    if kind != 1:
        raise CompileError(f"an object file has the ELF type {kind}, not relocatable (1)")
    if section_size != _SECTION.size or not 0 < count < SHN_LORESERVE or names_index >= count:
        raise CompileError(f"an object file has a malformed section table ({count} sections of {section_size} bytes)")
    raw = [_unpack(_SECTION, data, sections_at + i * _SECTION.size, f"section {i}") for i in range(count)]
    names = _body(data, raw[names_index])
    sections = tuple(_section(data, header, names) for header in raw)
    tables = [i for i, header in enumerate(raw) if header[1] == _SHT_SYMTAB]
    if len(tables) != 1:
        raise CompileError(f"an object file has {len(tables)} symbol tables, expected one")
    table = tables[0]
    if raw[table][6] >= count:
        raise CompileError("an object file's symbol table names a string section that does not exist")
    symbols = _symbols(sections, sections[table].data, _body(data, raw[raw[table][6]]))
    relocations: list[Relocation] = []
    for header, section in zip(raw, sections, strict=True):
        if section.kind == SHT_REL:
            raise CompileError(f"section {section.name!r} holds relocations without addends, unknown on x86-64")
        if section.kind == SHT_RELA:
            if header[6] != table or header[7] >= count:
                raise CompileError(f"relocation section {section.name!r} names sections that do not exist")
            relocations += _relocations(section, header[7], sections[header[7]], len(symbols))
    return Object(machine, sections, symbols, tuple(relocations))


def _unpack(form: struct.Struct, data: bytes, offset: int, what: str) -> tuple[Any, ...]:
    if not 0 <= offset <= len(data) - form.size:
        raise CompileError(f"an object file of {len(data)} bytes ends inside its {what} at {offset}")
    return form.unpack_from(data, offset)


def _body(data: bytes, header: tuple[Any, ...]) -> bytes:
    kind, offset, size = header[1], header[4], header[5]
    if kind in (0, SHT_NOBITS):
        return b""
    if offset + size > len(data):
        raise CompileError(f"an object file of {len(data)} bytes ends inside the section at {offset} of {size} bytes")
    return bytes(data[offset : offset + size])


def _text(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    if not 0 <= offset < len(strings) or end < 0:
        raise CompileError(f"an object file names a string at {offset}, outside its table of {len(strings)} bytes")
    return strings[offset:end].decode("utf-8", "replace")


def _section(data: bytes, header: tuple[Any, ...], names: bytes) -> Section:
    name_at, kind, flags, _, _, size, _, _, alignment, _ = header
    name = _text(names, name_at)
    if flags & _SHF_COMPRESSED:
        raise CompileError(f"section {name!r} is compressed")
    if alignment & (alignment - 1):
        raise CompileError(f"section {name!r} has the alignment {alignment}, not a power of two")
    return Section(name, kind, flags, size, max(alignment, 1), _body(data, header))


def _symbols(sections: tuple[Section, ...], table: bytes, strings: bytes) -> tuple[Symbol, ...]:
    if len(table) % _SYMBOL.size:
        raise CompileError(f"an object file's symbol table has {len(table)} bytes, no multiple of {_SYMBOL.size}")
    symbols: list[Symbol] = []
    for name_at, info, _, section, value, _ in _SYMBOL.iter_unpack(table):
        name = _text(strings, name_at)
        if section < SHN_LORESERVE and section >= len(sections):
            raise CompileError(f"symbol {name!r} lies in section {section}, which does not exist")
        if SHN_UNDEF < section < SHN_LORESERVE and value > sections[section].size:
            raise CompileError(
                f"symbol {name!r} lies at {value}, outside its section of {sections[section].size} bytes"
            )
        symbols.append(Symbol(name, info >> 4, section, value))
    return tuple(symbols)


def _relocations(section: Section, target: int, patched: Section, symbols: int) -> list[Relocation]:
    if len(section.data) % _RELA.size:
        raise CompileError(f"section {section.name!r} has {len(section.data)} bytes, no multiple of {_RELA.size}")
    relocations: list[Relocation] = []
    for offset, info, addend in _RELA.iter_unpack(section.data):
        symbol = info >> 32
        if symbol >= symbols:
            raise CompileError(f"a relocation of {patched.name!r} names symbol {symbol} of {symbols}")
        relocations.append(Relocation(target, offset, info & 0xFFFFFFFF, symbol, addend))
    return relocations


# ----------------------------------------------------------------------
# Lays relocatable objects out as one flat image: no absolute address, no import, nothing writable.
#
# The image is the header of ``runtime/loader/image.py``, the code, then the constants, every place reached relative to
# the instruction that wants it. So it runs wherever it is mapped, in this process or from a file.

LIBRARY_SYMBOLS: Final = frozenset(("memcpy", "memmove", "memset"))
"""The only undefined symbols that emitted code may have; the linker brings them along."""

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
    parsed = [parse(data) for data in objects]
    if _undefined(parsed) & LIBRARY_SYMBOLS:
        parsed.append(parse(library_object(Target.named("x86-64-v2"), "memory")))
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


def _check(part: Object) -> None:
    if part.machine == MACHINE_AARCH64:
        raise UnsupportedOp("linking AArch64 objects is not supported yet", hint="compile for an x86-64 target")
    if part.machine != MACHINE_X86_64:
        raise UnsupportedOp(f"linking objects of ELF machine {part.machine} is not supported")
    for section in part.sections:
        if section.flags & SHF_ALLOC and section.flags & (SHF_WRITE | SHF_TLS) and section.size:
            raise CompileError(
                f"emitted code has the writable section {section.name!r} of {section.size} bytes",
                hint="keep mutable data in the arena of the call; make globals constant, and free of addresses",
            )
        if section.flags & SHF_ALLOC and section.alignment > _MAX_ALIGNMENT:
            raise CompileError(f"section {section.name!r} asks for the alignment {section.alignment}")


def _loaded_sections(part: Object) -> Iterator[tuple[int, Section]]:
    for index, section in enumerate(part.sections):
        if section.flags & SHF_ALLOC and section.size and not section.name.startswith(_DROPPED):
            if section.kind == SHT_NOBITS:
                raise CompileError(f"section {section.name!r} has {section.size} bytes but no data")
            yield index, section


def _undefined(parsed: Sequence[Object]) -> set[str]:
    symbols = [symbol for part in parsed for symbol in part.symbols]
    defined = {s.name for s in symbols if s.section != SHN_UNDEF and s.binding != STB_LOCAL}
    return {s.name for s in symbols if s.section == SHN_UNDEF and s.name} - defined


def _lay_out(parsed: Sequence[Object]) -> _Layout:
    """Code first, in order; then constants, the most aligned first."""
    sections = [
        (number, index, section) for number, part in enumerate(parsed) for index, section in _loaded_sections(part)
    ]
    code = [item for item in sections if item[2].flags & SHF_EXECINSTR]
    constants = sorted(
        (item for item in sections if not item[2].flags & SHF_EXECINSTR), key=lambda item: -item[2].alignment
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
            if section.flags & SHF_ALLOC and not section.size:
                offsets[number, index] = position
    return _Layout(offsets, code_end, position)


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _globals(parsed: Sequence[Object], layout: _Layout) -> dict[str, int]:
    """Place of each global symbol; the first of several weak ones, or the strong one, counts."""
    table: dict[str, int] = {}
    strong: set[str] = set()
    for number, part in enumerate(parsed):
        for symbol in part.symbols:
            if symbol.binding == STB_LOCAL or symbol.section == SHN_UNDEF:
                continue
            weak = symbol.binding == STB_WEAK
            if symbol.name in strong and not weak:
                raise CompileError(f"the symbol {symbol.name!r} is defined twice")
            if symbol.name in table and weak:
                continue
            table[symbol.name] = _address(number, symbol, layout)
            if not weak:
                strong.add(symbol.name)
    return table


def _address(number: int, symbol: Symbol, layout: _Layout) -> int:
    if symbol.section >= SHN_LORESERVE:
        raise CompileError(f"the symbol {symbol.name!r} has an absolute or common place")
    if (number, symbol.section) not in layout.places:
        raise CompileError(f"the symbol {symbol.name!r} lies in a section that is not part of the image")
    return layout.places[number, symbol.section] + symbol.value


def _relocate(image: bytearray, number: int, part: Object, layout: _Layout, table: Mapping[str, int]) -> None:
    for item in part.relocations:
        if (number, item.section) not in layout.places:
            continue
        section = part.sections[item.section]
        width = 8 if item.kind == _R_PC64 else 4
        if not 0 <= item.offset <= section.size - width:
            raise CompileError(f"a relocation at {item.offset} lies outside {section.name!r} of {section.size} bytes")
        symbol = part.symbols[item.symbol]
        known = symbol.binding != STB_LOCAL and symbol.name in table
        offset = layout.places[number, item.section] + item.offset
        target = table[symbol.name] if known else _address(number, symbol, layout)
        _patch(image, item, offset, target + item.addend - offset, layout.places[number, item.section], symbol.name)


def _patch(image: bytearray, item: Relocation, offset: int, distance: int, start: int, name: str) -> None:
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
