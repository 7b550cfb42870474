"""How CPython comes to call objects with the words of a function natively."""

from __future__ import annotations

from jitgraph.eager.dispatch.memory import put_word
from jitgraph.eager.dispatch.start import is_supported
from jitgraph.runtime import cpython_layout as cpython
from jitgraph.runtime import dispatch_records as layout


def take_words(kind: type) -> None:
    """Let CPython call objects of a class through the word ``vectorcall``; those that bind, as methods like functions.

    While the word is 0, ``__call__`` is called.
    """
    if not is_supported():
        return
    flags = cpython.HAVE_VECTORCALL | (cpython.METHOD_DESCRIPTOR if hasattr(kind, "__get__") else 0)
    put_word(id(kind) + cpython.TYPE_VECTORCALL_OFFSET, layout.FUNCTION["vectorcall"])
    put_word(id(kind) + cpython.TYPE_FLAGS, kind.__flags__ | flags)
