"""Cutting an emitted module into units that LLVM assembles apart: the code that loops, and the code that runs once.

Most of what LLVM's optimising code generator costs goes to the number of functions and to their length, whatever they
do. Code without loops or vectors (the entry, what hands a range to threads) runs once a launch: it is assembled
without optimisation, in a seventh of the time. The rest falls into units of about ``UNIT_LINES`` lines, for threads to
share. The cut follows from the text alone, so an image does not depend on the machine it is made on.
"""

from __future__ import annotations

import re
from typing import Final

from jitgraph.codegen.llvm.machine import Unit

UNIT_LINES: Final = 500

_FUNCTION: Final = re.compile(r"^define .*?^}$", re.MULTILINE | re.DOTALL)
_CONSTANT: Final = re.compile(r"^@(\w+) = private .*$", re.MULTILINE)
_NAME: Final = re.compile(r"@([\w.]+)")
_LOOPS: Final = re.compile(r" phi |<\d+ x ")


def units(llvm_ir: str) -> list[Unit]:
    """The units of a module that ``entry.emit_module`` gave; linked together they are what it is.

    Functions to be inlined are copied into the units that call them; others become hidden symbols, defined in one.
    """
    functions = {_name(text): text for text in _FUNCTION.findall(llvm_ir)}
    constants = {match[1]: match[0] for match in _CONSTANT.finditer(llvm_ir)}
    rest = re.sub(r"\n\n+", "\n\n", _CONSTANT.sub("", _FUNCTION.sub("", llvm_ir)))
    inlined = {name for name, text in functions.items() if "alwaysinline" in _head(text)}
    calls = {name: set(_NAME.findall(text)) - {name} for name, text in functions.items()}
    hot = [
        name
        for name, text in functions.items()
        if name not in inlined and (_LOOPS.search(text) or not inlined.isdisjoint(calls[name]))
    ]
    cold = [name for name in functions if name not in inlined and name not in hot]

    def unit(roots: list[str], is_hot: bool) -> Unit:
        inside = dict.fromkeys(roots)
        pending = list(roots)
        used: set[str] = set()
        while pending:
            found = calls[pending.pop()]
            used |= found
            copied = [name for name in sorted(found & inlined) if name not in inside]
            inside.update(dict.fromkeys(copied))
            pending += copied
        parts = [rest.strip()]
        parts += [text for name, text in constants.items() if name in used]
        parts += [_declared(functions[name]) for name in sorted(used) if name in functions and name not in inside]
        parts += [functions[name] if name in inlined else _hidden(functions[name]) for name in inside]
        return Unit("\n\n".join(parts) + "\n", is_hot)

    groups: list[list[str]] = []
    lines = UNIT_LINES
    for name in hot:
        if lines >= UNIT_LINES:
            groups.append([])
            lines = 0
        groups[-1].append(name)
        lines += functions[name].count("\n") + sum(functions[inner].count("\n") for inner in calls[name] & inlined)
    return [*(unit(group, True) for group in groups), *([unit(cold, False)] if cold else [])]


def _head(function: str) -> str:
    return function[: function.index("\n")]


def _name(function: str) -> str:
    found = _NAME.search(function)
    assert found is not None, function
    return found[1]


def _hidden(function: str) -> str:
    return function.replace("define internal ", "define hidden ", 1)


def _declared(function: str) -> str:
    head = _head(function).removesuffix(" {")
    return "declare hidden " + head.removeprefix("define ").removeprefix("internal ").strip()
