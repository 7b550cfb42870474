"""The intermediate representation: dims, types, ops, graphs, and their text, verifier and interpreter.

Ops are defined a layer higher and are handed down to ``ir/op.py`` when ``jitgraph.ops`` loads, so ``parse`` knows
them by name and this layer imports nothing above it. Names load their modules when
first used: eager calls need the types and ops alone.
"""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
