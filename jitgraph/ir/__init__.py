"""The intermediate representation: dims, types, ops, graphs, and their text, verifier and interpreter.

Ops are defined a layer higher and are handed down to ``ir/table.py`` when ``jitgraph.ops`` loads, so ``parse`` knows
them by name and this layer imports nothing above it. The names here load their modules when first used: eager calls
need the types and ops alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.ir.interpreter import interpret
    from jitgraph.ir.parser import parse
    from jitgraph.ir.verifier import verify

__all__ = ["interpret", "parse", "verify"]

_MODULES: Final = {"interpret": "interpreter", "parse": "parser", "verify": "verifier"}

__dir__ = imports.listing(__name__)
if not TYPE_CHECKING:  # type checkers shall miss what is not there
    __getattr__ = imports.attributes(__name__, _MODULES)
