"""How CPython comes to call a traced function by its words."""

from __future__ import annotations

from jitgraph.runtime import cpython_layout as cpython
from jitgraph.runtime import dispatch_records as layout
from jitgraph.tracing.native.memory import put_word
from jitgraph.tracing.native.start import is_supported


def take_words(kind: type) -> None:
    """Let CPython call objects of a class through the word ``vectorcall``, and find them as methods like functions."""
    if not is_supported():
        return
    flags = cpython.HAVE_VECTORCALL | cpython.METHOD_DESCRIPTOR
    put_word(id(kind) + cpython.TYPE_VECTORCALL_OFFSET, layout.FUNCTION["vectorcall"])
    put_word(id(kind) + cpython.TYPE_FLAGS, kind.__flags__ | flags)
