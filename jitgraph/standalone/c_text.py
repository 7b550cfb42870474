"""Joins the parts of ``runtime/loader_c`` to one C file, which users compile into their programs.

``loader.c`` of that folder includes the parts in order. A part is a comment, then ``#pragma once``, then what it
includes: headers of the system, ``loader.h`` and earlier parts; then code. The file has the system's headers once, at
its top, and each part's comment and code under a line with its name. Names that two parts define alike are errors of
the compiler; macros, which it may let pass, are found here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from jitgraph.standalone.headings import heading

MAIN: Final = "loader.c"
HEADER: Final = "loader.h"


class CModule(NamedTuple):
    """A part, taken apart."""

    comment: str
    directives: list[str]  # what stands before the first include
    headers: list[str]  # of the system
    parts: list[str]  # what it includes of this folder
    code: str


def c_loader(folder: Path) -> str:
    """The text of ``loader.c`` from its parts in ``folder``; ValueError where they do not go together."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.c")}
    return join(sources.pop(MAIN), sources)


def join(main: str, sources: Mapping[str, str]) -> str:
    """``main`` with the sources of the parts in place of their includes; ValueError where they do not go together."""
    top = read_part(MAIN, main)
    order = [name for name in top.parts if name != HEADER]
    if sorted(order) != sorted(sources) or top.code:
        raise ValueError(f"{MAIN} includes each part once and has no code, but includes {order} of {sorted(sources)}")
    parts = {name: read_part(name, sources[name]) for name in order}
    for number, (name, part) in enumerate(parts.items()):
        if part.directives != ["#pragma once"]:
            raise ValueError(f"{name} does not begin with a comment and '#pragma once'")
        if later := [other for other in part.parts if other not in (HEADER, *order[:number])]:
            raise ValueError(f"{name} includes {later[0]}, which does not stand before it in {MAIN}")
    require_one_definition({name: part.code for name, part in parts.items()})
    headers = sorted({header for part in (top, *parts.values()) for header in part.headers})
    sections = [f"{heading('/*', name, ' */')}\n\n{part.comment}\n\n{part.code}" for name, part in parts.items()]
    head = "\n".join((*top.directives, f'#include "{HEADER}"', "", *(f"#include <{header}>" for header in headers)))
    return "\n\n".join((top.comment, head, *sections)) + "\n"


def read_part(name: str, source: str) -> CModule:
    """Take a part apart; ValueError where it is built in another way."""
    comment, end, rest = source.partition("*/\n")
    if not comment.startswith("/*") or not end:
        raise ValueError(f"{name} does not begin with a comment")
    lines = rest.splitlines()
    directives: list[str] = []
    headers: list[str] = []
    parts: list[str] = []
    while lines and (not lines[0] or lines[0].startswith(("#pragma", "#define _GNU_SOURCE", "#include"))):
        line = lines.pop(0)
        if line.startswith("#include"):
            (headers if "<" in line else parts).append(line.removeprefix("#include").strip().strip('<">'))
        elif line:
            directives.append(line)
    if below := [line for line in lines if line.lstrip().startswith("#") and "include" in line and '"' in line]:
        raise ValueError(f"{name} has {below[0]!r} below code; it has to stand at the top")
    return CModule(comment + "*/", directives, headers, parts, "\n".join(lines).strip("\n"))


def require_one_definition(codes: Mapping[str, str]) -> None:
    """ValueError where two parts define one macro."""
    owners: dict[str, str] = {}
    for name, code in codes.items():
        for line in code.splitlines():
            if line.startswith("#define "):
                macro = line.split()[1].partition("(")[0]
                if owners.setdefault(macro, name) != name:
                    raise ValueError(f"{owners[macro]} and {name} both define the macro {macro}")
