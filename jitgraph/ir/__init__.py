"""The intermediate representation: dims, types, ops, graphs, and their text, verifier and interpreter."""

from __future__ import annotations

from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.ir.verifier import verify

__all__ = ["interpret", "parse", "verify"]
