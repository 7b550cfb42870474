"""What a number that is staged raises: checks of the graph with Python's errors, and refusals while recording."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from jitgraph import ops
from jitgraph.errors import ScriptError

LEAVES_INT64: Final = "a Python int of this loop or branch leaves the range of int64"
WAY: Final = "loop over a Python range of at most 1024 steps, which is unrolled, or compute with tensors"


def require(holds: Any, kind: str, message: str) -> None:
    """A check of the graph that raises ``kind`` where ``holds``, a 0-d bool value, is false."""
    ops.check(holds, kind=kind, message=message)


def refuse(what: str, hint: str = WAY) -> NoReturn:
    """ScriptError: ``what`` needs the number itself."""
    raise ScriptError(
        f"{what} needs a Python number that a loop or if on a tensor computes; it is known only when the graph runs",
        hint=hint,
    )


def unsupported(what: str, hint: str = WAY) -> ScriptError:
    """The error for an operation that no graph computes exactly."""
    return ScriptError(f"{what} of a number that is known only when the graph runs", hint=hint)
