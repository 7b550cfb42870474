"""Cutting an emitted module into units that LLVM assembles apart: the code that loops, and the code that runs once.

Most of what LLVM's optimising code generator costs goes to the number of functions and to their length, whatever they
do. Code without loops or vectors (the entry, what hands a range to threads) runs once a launch: it is assembled
without optimisation, in a seventh of the time. The rest falls into units of about ``UNIT_LINES`` lines, for threads to
share. The cut follows from the module alone, so an image does not depend on the machine it is made on.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.codegen.llvm.machine import Unit

UNIT_LINES: Final = 500
ENTRY: Final = "jg_entry"  # loops over scalars where kernels are inlined into it


def units(module: LlvmModule) -> list[Unit]:
    """The units of a module that ``entry.emit_module`` gave; linked together they are what it is.

    Functions to be inlined are copied into the units that call them; others become hidden symbols, defined in one.
    """
    functions = {function.name: function for function in module.functions}
    constants = module.constants
    inlined = {name for name, function in functions.items() if function.inlined}
    hot = [
        name
        for name, function in functions.items()
        if name not in inlined and (function.hot or not inlined.isdisjoint(function.uses))
    ]
    cold = [name for name in functions if name not in inlined and name not in hot]

    def unit(roots: list[str], is_hot: bool) -> Unit:
        inside = dict.fromkeys(roots)
        pending = list(roots)
        used: set[str] = set()
        while pending:
            callees = functions[pending.pop()].uses.keys()
            used |= callees
            copied = [name for name in sorted(callees & inlined) if name not in inside]
            inside.update(dict.fromkeys(copied))
            pending += copied
        parts = module.heading
        parts += [text for name, text in constants.items() if name in used]
        parts += [functions[name].declaration for name in sorted(used) if name in functions and name not in inside]
        parts += [functions[name].text(hidden=name not in inlined) for name in inside]
        loops = ENTRY if ENTRY in inside and not inlined.isdisjoint(functions[ENTRY].uses) else ""
        return Unit("\n\n".join(parts) + "\n", is_hot, loops)

    groups: list[list[str]] = []
    lines = UNIT_LINES
    for name in hot:
        if lines >= UNIT_LINES:
            groups.append([])
            lines = 0
        groups[-1].append(name)
        lines += functions[name].lines + sum(functions[inner].lines for inner in functions[name].uses.keys() & inlined)
    return [*(unit(group, True) for group in groups), *([unit(cold, False)] if cold else [])]
