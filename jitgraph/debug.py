"""Printing values: ``jg.debug.print`` prints from compiled code, in loops and branches too."""

from __future__ import annotations

from typing import Any

from jitgraph.tracing.record.printing import debug_print

__all__ = ["print"]


def print(format: str, /, *args: Any, **kwargs: Any) -> None:
    """Print ``format.format(*args, **kwargs)`` and a newline, now or, inside ``@jg.trace`` or ``@jg.script``, each time
    that the compiled code gets there.

    Prints come in the order of the program. A tensor looks as it does eagerly; one of rank 0 takes a format such as
    ``{:.3f}``. TypeError for an argument that the format does not mention, or mentions and is not given; ValueError for
    a format that ``str.format`` does not take.
    """
    debug_print(format, *args, **kwargs)


print._prints_when_run = True  # type: ignore[attr-defined]
