"""The intermediate representation: dims, types, ops, graphs, and their text, verifier and interpreter.

Ops are made a floor higher and hand themselves down to ``ir/table.py`` when ``jitgraph.ops`` loads, so ``parse`` knows
them by name and this floor imports nothing above it.
"""

from __future__ import annotations

from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.ir.verifier import verify

__all__ = ["interpret", "parse", "verify"]
