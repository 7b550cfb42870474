"""Reads ELF64 relocatable objects (little-endian, System V) as far as position-independent code needs it.

Source of the layout: System V ABI, "Object Files"; AMD64 supplement, "Relocation". Every offset is checked, so that a
damaged object gives CompileError and never a slice of the wrong bytes.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from jitgraph.errors import CompileError
from jitgraph.records import dataclass

MACHINE_X86_64: Final = 62

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
