"""The one ambient variable: an immutable Context that says how calls are applied just now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from jitgraph.errors import JitgraphError
from jitgraph.ir.constraints import Constraints
from jitgraph.records import dataclass

if TYPE_CHECKING:
    from jitgraph.ir.graph import Attrs, Graph
    from jitgraph.ir.op import Op


class Emitter(Protocol):
    """Applies ops to values: at once (eager), into a trace, or into the graph that a pass builds."""

    def emit(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """Apply ``op`` and return its outputs, one value each."""
        ...


class _NoEmitter:
    """The emitter before the eager one has been imported: it raises."""

    def emit(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """JitgraphError."""
        raise JitgraphError(
            f"nobody is here to apply {op.name}\n"
            "  hint: import jitgraph.tensor, or give an emitter: with context.using(emitter=GraphBuilder()): ..."
        )


@dataclass(frozen=True, slots=True)
class Context:
    """The state of the surroundings: who applies ops, what is assumed of sizes, gradient and anomaly modes.

    ``autocast`` is the 16-bit dtype in which products run (``eager/emitter.py``), ``device`` and ``random`` are the
    default device's name and the handle of the random state where a program set its own. ``sweeping``: a tape is being
    walked backward just now. ``profile`` is told what runs (``profiler/``). ``default_dtype`` is that of Python's
    floats in PyTorch's API, where a program has set one.
    """

    emitter: Emitter = _NoEmitter()
    constraints: Constraints | None = None
    trace: Any = None
    grad_enabled: bool = True
    anomaly: bool = False
    autocast: Any = None
    device: str | None = None
    random: Any = None
    sweeping: bool = False
    profile: Any = None
    default_dtype: Any = None

    @property
    def fingerprint(self) -> tuple[Any, ...]:
        """What of the context changes the code that a trace gives: part of every specialisation key."""
        random = id(self.random) if self.random else None
        return (self.grad_enabled, self.anomaly, self.autocast, self.device, random, self.default_dtype)


OUTERMOST: Final = [Context()]
"""The context of every thread and task outside of ``using``; native code compares what stands here."""

_current: Final[ContextVar[Context]] = ContextVar("jitgraph_context")
VARIABLE: Final = _current
"""Where the context stands, for native code that compares it."""


def begin(context: Context) -> None:
    """Make ``context`` the one of every thread and task outside of ``using``.

    Ops stand far below what applies them at once, which says so here where it is defined: ``eager/emitter.py``.
    """
    OUTERMOST[0] = context


_by_default_dtype: Final[dict[Any, Context]] = {}


def set_everywhere(*, default_dtype: Any) -> None:
    """Change the field that no block changes, here and outside of ``using``; blocks that are open here end with it.

    With a default dtype that was in force before the context is the one of then, which calls know.
    """
    _by_default_dtype[OUTERMOST[0].default_dtype] = OUTERMOST[0]
    begin(_by_default_dtype.get(default_dtype) or replace(OUTERMOST[0], default_dtype=default_dtype))
    _renew()


def _renew() -> None:
    """Let a context inside of ``using`` have the field that was changed everywhere."""
    inside = _current.get(None)
    if inside is not None and inside.default_dtype is not OUTERMOST[0].default_dtype:
        _current.set(_settled(replace(inside, default_dtype=OUTERMOST[0].default_dtype)))


def _settled(context: Context) -> Context:
    """The context of those who have set none, where all fields are as there: calls of every thread know that one."""
    outermost = OUTERMOST[0]
    same = all(getattr(context, name) is getattr(outermost, name) for name in Context.__slots__)
    return outermost if same else context


def current() -> Context:
    """The context of the running thread or task."""
    return _current.get(OUTERMOST[0])


def unprofiled(context: Context) -> Context:
    """The context that would stand here if nobody had asked for a profile."""
    if context.profile is None:
        return context
    around: Context = context.profile.around
    changes = {
        name: value
        for name in Context.__slots__
        if name != "profile" and (value := getattr(context, name)) is not getattr(around, name)
    }
    return _changed(around, changes) if changes else around


def is_outermost(context: Context) -> bool:
    """Whether this is the context of those who have set none."""
    return context is OUTERMOST[0]


_MODES: Final = frozenset({"grad_enabled", "anomaly", "autocast"})
_MOST_DERIVED: Final = 64
_derived: Final[dict[tuple[Any, ...], tuple[Context, Context]]] = {}


def _changed(context: Context, changes: Mapping[str, Any]) -> Context:
    """``context`` with these fields; outside of traces and profiles one object for each change of modes, so that calls
    know it."""
    if context.trace is not None or context.profile is not None or not _MODES.issuperset(changes):
        return replace(context, **changes)
    key = (id(context), *changes.items())
    known = _derived.get(key)
    if known is None:
        if len(_derived) >= _MOST_DERIVED:
            _derived.clear()
        changed = _settled(replace(context, **changes))
        known = _derived[key] = (context, changed)  # the first is kept, and so is its id
    return known[1]


class _Changed:
    """A block under a changed context; written out, since every op that is recorded enters one."""

    __slots__ = ("_changes", "_token")

    def __init__(self, changes: Mapping[str, Any]) -> None:
        self._changes = changes

    def __enter__(self) -> Context:
        context = _current.get(OUTERMOST[0])
        if any(getattr(context, name) is not value for name, value in self._changes.items()):
            context = _changed(context, self._changes)
        self._token = _current.set(context)
        return context

    def __exit__(self, *failure: object) -> None:
        _current.reset(self._token)
        _renew()


def using(**changes: Any) -> _Changed:
    """Run a block under a context with some fields replaced: ``with using(emitter=builder): ...``."""
    return _Changed(changes)


def outside(**changes: Any) -> _Changed:
    """Run a block as outside of traces, where ops are applied at once, under the modes in force and ``changes``."""
    return _Changed({"emitter": OUTERMOST[0].emitter, "trace": None, "constraints": None, **changes})


def emitter() -> Emitter:
    """The emitter in force."""
    return _current.get(OUTERMOST[0]).emitter


def constraints() -> Constraints:
    """What may be assumed of sizes just now; outside traces and passes nothing is, and nothing needs to be."""
    known = _current.get(OUTERMOST[0]).constraints
    return _NOTHING if known is None else known


_NOTHING: Final = Constraints(frozen=True)
