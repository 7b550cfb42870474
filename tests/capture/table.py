"""How often each rule, and each instruction of Python, was met in programs; no row may be empty."""

from __future__ import annotations

import dis
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable
from types import CodeType

from tests.capture.catalogue import KIND_OF, KINDS

UNREACHED = {
    "never in code as it is compiled": ("CACHE", "RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR"),
    "of modules alone": ("IMPORT_STAR", "PRINT_EXPR"),
    "of coroutines and generators that wait": (
        *("GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "BEFORE_ASYNC_WITH", "ASYNC_GEN_WRAP"),
    ),
    "of type parameters, which Python 3.11 lacks": ("LOAD_FROM_DICT_OR_GLOBALS",),
}

outcomes: Counter[str] = Counter()  # of the random programs that this run of the tests has tried


def note(*actual: str) -> None:
    """A program came out so."""
    outcomes.update(actual)


def dump() -> dict[str, int]:
    """The counts of this process, as plain data."""
    return dict(outcomes)


def summary() -> list[str]:
    """How random programs came out, and what they hold by kind of source and by instruction."""
    groups: dict[str, list[str]] = {}
    for name, count in sorted(outcomes.items()):
        group, _, rest = name.partition(": ")
        groups.setdefault(group, []).append(f"{rest} {count}")
    return [line for group, actual in groups.items() for line in textwrap.wrap(f"{group}: {', '.join(actual)}", 118)]


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

    def by_kind(self) -> list[str]:
        """The counts of ``note`` for this table: each row once, as often as it was met."""
        kinds = Counter({kind: sum(self.rules[rule.name] for rule in rules) for kind, rules in KINDS.items()})
        results = [f"source kinds: {kind}" for kind in kinds.elements()]
        version = ".".join(map(str, sys.version_info[:2]))
        return results + [f"instructions of Python {version}: {name}" for name in self.instructions.elements()]

    def lines(self) -> list[str]:
        """The table as text."""
        results = [f"{'source kind':20} {'rules':>6} {'programs':>9}"]
        for kind, rules in KINDS.items():
            results.append(f"{kind:20} {len(rules):6} {sum(self.rules[rule.name] for rule in rules):9}")
        results += [f"  {self.rules[name]:6}  {KIND_OF[name]}: {name}" for name in KIND_OF]
        version = ".".join(map(str, sys.version_info[:2]))
        results.append(f"instructions of Python {version} in followed code")
        return results + [f"  {self.instructions[name]:6}  {name}" for name in instructions()]


def instructions() -> list[str]:
    """The instructions that code of functions can have on this Python."""
    unreached = {name for names in UNREACHED.values() for name in names}
    real = [name for name, code in dis.opmap.items() if code < 256 and not name.startswith("INSTRUMENTED")]
    return [name for name in real if name not in unreached]
