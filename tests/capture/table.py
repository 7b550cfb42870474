"""How often each rule, and each instruction of Python, was met in programs; no row may be empty."""

from __future__ import annotations

import dis
import sys
from collections import Counter
from collections.abc import Iterable
from types import CodeType

from capture.catalogue import KIND_OF, KINDS

UNREACHED = {
    **dict.fromkeys(
        ("CACHE", "EXTENDED_ARG_QUICK", "RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK"), "never in code"
    ),
    **dict.fromkeys(("LOAD_NAME_", "IMPORT_STAR", "PRINT_EXPR", "LOAD_LOCALS_"), "of modules alone"),
    **dict.fromkeys(("GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "BEFORE_ASYNC_WITH"), "of coroutines that wait"),
    **dict.fromkeys(("ASYNC_GEN_WRAP",), "of generators that wait"),
}


class Table:
    """Counts by rule and by instruction."""

    def __init__(self) -> None:
        self.rules: Counter[str] = Counter()
        self.instructions: Counter[str] = Counter()

    def add(self, rules: Iterable[str], codes: Iterable[CodeType]) -> None:
        """A program with these rules ran this code."""
        self.rules.update(rules)
        for code in codes:
            self.instructions.update(each.opname for each in dis.get_instructions(code))

    def missing(self) -> list[str]:
        """Rules and instructions that were not met."""
        met = [name for name in KIND_OF if not self.rules[name]]
        return met + [name for name in instructions() if not self.instructions[name]]

    def lines(self) -> list[str]:
        """The table as text."""
        found = [f"{'source kind':20} {'rules':>6} {'programs':>9}"]
        for kind, rules in KINDS.items():
            found.append(f"{kind:20} {len(rules):6} {sum(self.rules[rule.name] for rule in rules):9}")
        found += [f"  {self.rules[name]:6}  {KIND_OF[name]}: {name}" for name in KIND_OF]
        version = ".".join(map(str, sys.version_info[:2]))
        found.append(f"instructions of Python {version} in followed code")
        return found + [f"  {self.instructions[name]:6}  {name}" for name in instructions()]


def instructions() -> list[str]:
    """The instructions that code of functions can have on this Python."""
    pseudo = getattr(dis, "_all_opmap", dis.opmap).keys() - dis.opmap.keys()
    kept = [name for name in dis.opmap if name not in pseudo and not name.startswith(("INSTRUMENTED", "<"))]
    return [name for name in kept if name not in UNREACHED]
