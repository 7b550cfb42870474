"""What a number that is staged raises: checks of the graph with Python's errors, and refusals while recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final, NoReturn

from jitgraph import ops
from jitgraph.errors import ScriptError
from jitgraph.location import text_at, user_location
from jitgraph.runtime.loader import CHECK_KINDS

LEAVES_INT64: Final = "a Python int of this loop or branch leaves the range of int64"
WAY: Final = "loop over a Python range of at most 1024 steps, which is unrolled, or compute with tensors"


def require(holds: Any, kind: str, message: str) -> None:
    """A check of the graph that raises ``kind`` where ``holds``, a 0-d bool value, is false."""
    for attempt in _attempts.get():
        attempt.require_unhandled(kind)
    if message == LEAVES_INT64 and (text := text_at(user_location())):
        message = f"{message}: {text}"
    for condition in _conditions.get():
        holds = ops.logical_or(ops.logical_not(condition()), holds)
    ops.check(holds, kind=kind, message=message)


@contextmanager
def only_where(condition: Callable[[], Any] | None) -> Iterator[None]:
    """The checks that are recorded here hold only where a condition (a function of a 0-d bool value) does; None for
    everywhere."""
    if condition is None:
        yield
        return
    token = _conditions.set((*_conditions.get(), condition))
    try:
        yield
    finally:
        _conditions.reset(token)


_conditions: Final[ContextVar[tuple[Callable[[], Any], ...]]] = ContextVar("jitgraph_conditions", default=())


class Attempt:
    """The body of a ``try`` statement while it is recorded: no graph enters its handlers."""

    def __init__(self, kinds: Callable[[], Any], line: int) -> None:
        self._kinds = kinds
        self._line = line
        self._token: Token[tuple[Attempt, ...]] | None = None

    def __enter__(self) -> None:
        self._token = _attempts.set((*_attempts.get(), self))

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _attempts.reset(self._token)

    def require_unhandled(self, kind: str) -> None:
        """ScriptError where a handler takes the error of a check."""
        if issubclass(CHECK_KINDS[kind], self._kinds()):
            raise ScriptError(
                f"{kind} may be raised here when the graph runs, which the try statement at line {self._line} handles",
                hint="ask before (if k == 0: ...), or move the statement out of the try",
            )


_attempts: Final[ContextVar[tuple[Attempt, ...]]] = ContextVar("jitgraph_attempts", default=())


def refuse(what: str, hint: str = WAY) -> NoReturn:
    """ScriptError: ``what`` needs the number itself."""
    raise ScriptError(
        f"{what} needs a Python number that a loop or if on a tensor computes; it is known only when the graph runs",
        hint=hint,
    )


def unsupported(what: str, hint: str = WAY) -> ScriptError:
    """The error for an operation that no graph computes exactly."""
    return ScriptError(f"{what} of a number that is known only when the graph runs", hint=hint)
