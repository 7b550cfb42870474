"""``with jg.explain() as run:`` what a program compiled while the block ran: when, at which call, and why.

A run is told of compilations (``runtime/compile_events.py``) and reads the counts of calls that traced functions have
anyway, so that calls cost with it what they cost without. A thread reads the counts, and the memory of the process,
ten times a second.
"""

from __future__ import annotations

import inspect
import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from types import CodeType, FunctionType, TracebackType
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass
from jitgraph.runtime import loader, shared, system
from jitgraph.runtime.compile_events import WATCHERS
from jitgraph.tracing.call import backend
from jitgraph.tracing.call.function import ALIVE, MAX_SPECIALISATIONS, TracedFunction
from jitgraph.tracing.call.plan import CallPlan
from jitgraph.tracing.call.specialisation import Cause, Retrace, Specialisation
from jitgraph.tracing.guards.guard import Layout, Varies

# ----------------------------------------------------------------------
# What a run saw, as data.

Kind = Literal["call", "gradient", "op", "failure"]
Origin = Literal["compiled", "compiled before", "code on disk", "trace on disk", ""]
"""Where code came from: made now, made earlier in this process for an equal graph, or found in the cache on disk."""


class Compilation(NamedTuple):
    """One compilation, or one that failed.

    ``second`` is when it began, ``call`` the number of the function's call in the block, and ``calls_between`` how many
    calls were served since its last compilation. ``stages`` has milliseconds: of the recording, of the passes, of the
    lowering to kernels, of LLVM; ``temporaries`` is the workspace of a call in bytes. ``promoted`` says which sizes and
    numbers have names from now on; ``unguarded`` why the recording serves this one call alone.
    """

    kind: Kind
    second: float
    function: str
    call: int
    calls_between: int
    line: Location | None
    cause: Cause
    seconds: float
    origin: Origin
    stages: dict[str, float]
    promoted: tuple[str, ...] = ()
    temporaries: int = 0
    drops_another: bool = False
    unguarded: str = ""
    error: str = ""


class RunSample(NamedTuple):
    """What was read at a moment: bytes of the process in memory, bytes of free blocks that are retained for results and
    workspaces, and all calls so far."""

    second: float
    resident: int
    retained: int
    calls: int


class RunMark(NamedTuple):
    """A moment that the program named."""

    second: float
    name: str


@dataclass
class CauseTotal:
    """The compilations of a function for one kind of reason."""

    cause: Cause
    count: int = 0
    seconds: float = 0.0
    line: Location | None = None
    values: dict[str, None] = field(default_factory=dict)

    def add(self, cause: Cause, seconds: float, line: Location | None) -> None:
        """Count one more."""
        self.count += 1
        self.seconds += seconds
        self.line = line
        if cause.pinned_by:
            self.cause = cause
        if len(self.values) < _MOST_VALUES:
            self.values[cause.actual.removeprefix("is ").partition(", not ")[0]] = None


class WatchedFunction:
    """One function of the program in the block: all that was traced of it, by whatever number of ``jg.trace``."""

    def __init__(self, name: str, defined_at: Location | None) -> None:
        self.name = name
        self.defined_at = defined_at
        self.calls = self.native_calls = 0
        self.compilations = self.gradients = self.failures = self.eager_calls = self.dropped = self.single_use = 0
        self.seconds = 0.0
        self.traced = 0
        self.groups: dict[tuple[str, ...], CauseTotal] = {}
        self.promoted: dict[str, str] = {}
        """The sizes and numbers that have a name by now, by where they stand; "" for numbers."""
        self.unguarded: dict[str, None] = {}
        self.last_error = ""
        self.declined: dict[str, int] = {}
        self.calls_at_last = 0


_MOST_VALUES: Final = 6
_MOST_LISTED: Final = 1000  # compilations at the beginning, and as many at the end
_MOST_SAMPLES: Final = 512
_INTERVAL: Final = 0.1  # seconds


# ----------------------------------------------------------------------
# The run itself.


class RunReport:
    """What was compiled in a block, in all threads, and what calls and memory did meanwhile.

    ``str()`` of it is a report of text, ``html()`` a page with a timeline that stands alone, ``json()`` all of it as
    data. They can be asked for while the block runs, too. ``mark`` names a moment, such as the end of an epoch.
    JitgraphError where it is entered twice, TraceError inside of a traced function.
    """

    def __init__(self) -> None:
        self.compilations: list[Compilation] = []
        self._last: deque[Compilation] = deque(maxlen=_MOST_LISTED)
        self.marks: list[RunMark] = []
        self.samples: list[RunSample] = []
        self.omitted = 0
        """How many compilations are counted and not listed."""
        self.error = ""
        """The exception that ended the block."""
        self._begin = self._end = 0.0
        self._by_code: dict[Any, WatchedFunction] = {}
        self._before: WeakKeyDictionary[TracedFunction, tuple[int, int]] = WeakKeyDictionary()
        self._seen: WeakKeyDictionary[TracedFunction, WatchedFunction] = WeakKeyDictionary()
        self._done: dict[WatchedFunction, tuple[int, int]] = {}
        self._ops = WatchedFunction("eager ops", None)
        self._interval = _INTERVAL
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample_often, name="jitgraph-explain", daemon=True)

    def __enter__(self) -> RunReport:
        if self._begin:
            raise JitgraphError("a report is of one block\n  hint: make another: with jg.explain() as run: ...")
        if context.current().trace is not None:
            raise TraceError(
                "a run cannot be watched from inside of a traced function",
                location=Location.of_user(),
                hint="write with jg.explain() around the code that calls the function",
            )
        for function in list(ALIVE):
            self._before[function] = _counts(function)
        self._begin = time.perf_counter()
        self._sample()
        WATCHERS.append(self)
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        WATCHERS.remove(self)
        self._ended.set()
        self._sampler.join()
        if error is not None:
            self.error = f"{type(error).__name__}: {error}".splitlines()[0]
        self._sample()
        self._count_calls()
        self._end = time.perf_counter()
        self._seen.clear()
        self._before.clear()

    def mark(self, name: str) -> None:
        """Name this moment; the report and the timeline show it."""
        self.marks.append(RunMark(self._now(), str(name)))
        self._sample()

    # --- what is told -----------------------------------------------------------------------------------------------

    def specialised(
        self,
        function: TracedFunction,
        specialisation: Specialisation,
        retrace: Retrace,
        begin: float,
        *,
        was_stored: bool,
    ) -> None:
        """A traced function has code for one more kind of call."""
        plan, runnable = specialisation.plan, specialisation.forward
        stages = {"recording": retrace.trace_ms, **_stages(runnable, retrace.compile_ms)}
        origin: Origin = "trace on disk" if was_stored else _origin(runnable, stages)
        drops = not plan.unguarded and len(function._specialisations) >= MAX_SPECIALISATIONS
        seconds = 1e-3 * (retrace.trace_ms + retrace.compile_ms)
        with self._alone():
            summary = self._summary(function)
            promoted = dict(_promoted(plan, function.plans))
            summary.compilations += 1
            summary.dropped += drops
            summary.promoted |= promoted
            if plan.unguarded:
                summary.single_use += 1
                summary.unguarded[plan.unguarded[0]] = None
            self._note(
                summary,
                function,
                Compilation(
                    "call",
                    begin - self._begin,
                    summary.name,
                    *self._calls_at(summary, function),
                    retrace.location,
                    retrace.cause,
                    seconds,
                    origin,
                    stages,
                    tuple(promoted),
                    backend.workspace_bytes(runnable, dict(plan.sizes)) if plan.device == "cpu" else 0,
                    drops,
                    plan.unguarded[0] if plan.unguarded else "",
                ),
            )

    def failed(self, function: TracedFunction, location: Location | None, begin: float, error: BaseException) -> None:
        """A traced function could not be recorded or compiled."""
        seconds, text = time.perf_counter() - begin, f"{type(error).__name__}: {error}"
        cause = Cause(text.splitlines()[0], "first call")
        with self._alone():
            summary = self._summary(function)
            summary.failures += 1
            summary.last_error = cause.text
            calls = self._calls_at(summary, function)
            at = begin - self._begin
            event = Compilation("failure", at, summary.name, *calls, location, cause, seconds, "", {}, error=text)
            self._note(summary, None, event)

    def gradient_compiled(self, specialisation: Specialisation, runnable: Any, begin: float) -> None:
        """The backward code of a specialisation was compiled, or found in the cache, just now."""
        seconds = time.perf_counter() - begin
        stages = _stages(runnable, 1e3 * seconds)
        name, line = specialisation.plan.name, Location.of_user()
        cause = Cause("the first gradient through a call", "first call")
        with self._alone():
            summary = self._of_code(specialisation.function, name)
            summary.gradients += 1
            at, origin = begin - self._begin, _origin(runnable, stages)
            event = Compilation("gradient", at, summary.name, 0, 0, line, cause, seconds, origin, stages)
            self._note(summary, None, event)

    def op_compiled(self, name: str, begin: float) -> None:
        """The code of an eager op was compiled, or found in the cache, just now."""
        seconds, line = time.perf_counter() - begin, Location.of_user()
        cause = Cause(f"the first {name} of these dtypes and this rank outside of traces", "first call")
        with self._alone():
            self._ops.compilations += 1
            at = begin - self._begin
            self._note(self._ops, None, Compilation("op", at, name, 0, 0, line, cause, seconds, "", {}))

    def ran_eagerly(self, function: TracedFunction) -> None:
        """A call of a traced function ran as plain Python."""
        with self._alone():
            self._summary(function).eager_calls += 1

    def _note(self, summary: WatchedFunction, function: TracedFunction | None, event: Compilation) -> None:
        summary.seconds += event.seconds
        if function is not None:
            cause = event.cause
            key = (cause.kind, cause.source, cause.predicate)
            group = summary.groups.get(key)
            if group is None:
                group = summary.groups[key] = CauseTotal(cause)
            group.add(cause, event.seconds, event.line)
            summary.calls_at_last = event.call
        if len(self.compilations) < _MOST_LISTED:
            self.compilations.append(event)
        else:
            self.omitted += len(self._last) == _MOST_LISTED
            self._last.append(event)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time; no finaliser that the collector finds runs meanwhile, which might want other locks."""
        with shared.PAUSED.inside(), self._lock:
            yield

    # --- functions and their counts ---------------------------------------------------------------------------------

    def _summary(self, function: TracedFunction) -> WatchedFunction:
        summary = self._seen.get(function)
        if summary is None:
            summary = self._seen[function] = self._of_code(function.__wrapped__, function.__name__)
            summary.traced += 1
        return summary

    def _of_code(self, function: Any, name: str) -> WatchedFunction:
        """The summary of all functions of the same code: one that is traced anew in a loop is one function."""
        code = _code_of(function)
        summary = self._by_code.get(code)
        if summary is None:
            line = Location(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else None
            summary = self._by_code[code] = WatchedFunction(name, line)
        return summary

    def _calls_of(self, function: TracedFunction) -> tuple[int, int]:
        """The calls in the block, and those of them that went past Python."""
        (calls, native), (before, native_before) = _counts(function), self._before.get(function, (0, 0))
        if calls < before:  # its counts were cleared in the block
            before = native_before = 0
        return calls - before, native - native_before

    def _calls_at(self, summary: WatchedFunction, function: TracedFunction) -> tuple[int, int]:
        """The number of the call that compiles just now, and how many calls were served since the last that did."""
        number = self._calls_of(function)[0] + 1
        return number, max(0, number - 1 - summary.calls_at_last)

    def _count_calls(self) -> int:
        """Bring the counts of all functions up to date; gives the number of all calls."""
        if not self._begin:
            return 0
        functions = list(ALIVE)  # which outlive the block below, where no finaliser may run
        with self._alone():
            counts: dict[int, tuple[WatchedFunction, int, int, dict[str, int]]] = {}
            for function in functions:
                calls, native = self._calls_of(function)
                if not calls and function not in self._seen:
                    continue
                summary = self._summary(function)
                _, all_calls, all_native, reasons = counts.get(id(summary), (summary, 0, 0, {}))
                for reason, count in _declined(function).items():
                    reasons[reason] = reasons.get(reason, 0) + count
                counts[id(summary)] = summary, all_calls + calls, all_native + native, reasons
            for summary, calls, native, reasons in counts.values():
                summary.calls, summary.native_calls = (
                    max(calls, summary.compilations),
                    max(native, summary.native_calls),
                )
                summary.declined = reasons
            return sum(summary.calls for summary in self._by_code.values())

    @property
    def functions(self) -> list[WatchedFunction]:
        """The traced functions that were called in the block, those that took longest to compile first."""
        if not self._end:
            self._count_calls()
        called = [each for each in self._by_code.values() if each.calls or each.seconds or each.eager_calls]
        return sorted(called, key=lambda each: (-each.seconds, -each.calls, each.name))

    @property
    def ops(self) -> WatchedFunction:
        """The eager ops whose code was made or found in the block."""
        return self._ops

    @property
    def events(self) -> list[Compilation]:
        """The compilations in their order: the first and the last thousand."""
        return [*self.compilations, *self._last]

    # --- samples ----------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.perf_counter() - self._begin

    def _sample_often(self) -> None:
        while not self._ended.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        sample = RunSample(self._now(), system.resident_bytes(), loader.allocator.cached_bytes(), self._count_calls())
        with self._alone():
            self.samples.append(sample)
            if len(self.samples) > _MOST_SAMPLES:
                del self.samples[1:-1:2]
                self._interval *= 2

    # --- what is shown ----------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """How long the block took, or has taken so far."""
        return self._end - self._begin if self._end else (self._now() if self._begin else 0.0)

    @property
    def advice(self) -> list[str]:
        """What would compile less, the most costly first."""
        from jitgraph.tracing.report.run_advice import advice

        return list(advice(self))

    def __str__(self) -> str:
        from jitgraph.tracing.report.run_text import text

        return text(self)

    __repr__ = __str__

    def html(self) -> str:
        """One page without links: a timeline of compilations, calls and memory, the reasons, and the advice."""
        from jitgraph.tracing.report.run_html import page

        return page(self)

    def _repr_html_(self) -> str:
        from jitgraph.tracing.report.run_html import fragment

        return fragment(self)

    def json(self) -> str:
        """All of it as JSON: seconds from the beginning of the block, bytes, lines as ``file:line``."""
        return json.dumps(
            {
                "seconds": self.seconds,
                "error": self.error,
                "functions": [_function_as_data(each) for each in self.functions],
                "eager_ops": {"compilations": self._ops.compilations, "seconds": self._ops.seconds},
                "compilations": [_event_as_data(each) for each in self.events],
                "compilations_omitted": self.omitted,
                "marks": [mark._asdict() for mark in self.marks],
                "samples": [sample._asdict() for sample in self.samples],
                "advice": self.advice,
            },
            indent=1,
        )


def _function_as_data(summary: WatchedFunction) -> dict[str, Any]:
    names = ("calls", "native_calls", "compilations", "gradients", "failures", "eager_calls", "dropped", "single_use")
    return {
        "name": summary.name,
        "defined_at": None if summary.defined_at is None else str(summary.defined_at),
        **{name: getattr(summary, name) for name in names},
        "seconds": summary.seconds,
        "traced_objects": summary.traced,
        "promoted": list(summary.promoted),
        "python_calls_because": summary.declined,
    }


def _event_as_data(event: Compilation) -> dict[str, Any]:
    cause = {
        name: None if value is None else str(value) for name, value in event.cause._asdict().items() if name != "text"
    }
    plain = event._asdict() | {
        "line": None if event.line is None else str(event.line),
        "promoted": list(event.promoted),
    }
    return plain | {"cause": cause, "reason": event.cause.text}


# ----------------------------------------------------------------------
# What is read of functions, plans and code.


def _counts(function: TracedFunction) -> tuple[int, int]:
    """All calls of a function so far, and those that went past Python."""
    info = function.cache_info()
    return info.hits + info.misses, function.native.hits


def _declined(function: TracedFunction) -> dict[str, int]:
    """Why calls of a function do not go past Python, with how often that was found."""
    refused = function.native.refused
    return dict(function.native.reasons) if refused is None else {refused: 1}


def _code_of(function: Any) -> Any:
    """What tells whether two functions are written at the same lines: their code, or the class of what is called."""
    while True:
        if isinstance(function, TracedFunction):
            function = function.__wrapped__
        elif hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
            if hasattr(function, "__wrapped__"):
                return function
        elif hasattr(function, "__func__"):
            function = function.__func__
        elif isinstance(function, FunctionType):
            return function.__code__
        else:
            called = getattr(function, "func", None)  # of a partial
            if called is None:
                return type(function)
            function = called


_STAGES: Final = {
    "passes": "passes",
    "fuse": "passes",
    "select": "lowering",
    "memory": "lowering",
    "emit": "lowering",
    "llvm": "LLVM",
}


def _stages(runnable: Any, milliseconds: float) -> dict[str, float]:
    """The milliseconds of a compilation by stage; of code that was found there are none but the whole."""
    if getattr(runnable, "is_found", True):
        return {"cache": milliseconds}
    stages = getattr(runnable, "stages", None)
    named: dict[str, float] = {}
    for name, took in () if stages is None else stages.milliseconds.items():
        named[_STAGES.get(name, name)] = named.get(_STAGES.get(name, name), 0.0) + took
    if sum(named.values()) > milliseconds:  # they were taken earlier, for an equal graph
        return {"cache": milliseconds}
    return {**named, "other": milliseconds - sum(named.values())}


def _origin(runnable: Any, stages: dict[str, float]) -> Origin:
    if "cache" not in stages:
        return "compiled"
    return "code on disk" if getattr(runnable, "is_found", False) else "compiled before"


def _promoted(plan: CallPlan, before: Sequence[CallPlan]) -> Iterator[tuple[str, str]]:
    """The sizes and numbers that have a name in ``plan`` and a value in every plan before it, with that name."""
    if not before:
        return
    known: dict[Any, list[Any]] = {}
    for earlier in before:
        for guard in earlier.guards:
            known.setdefault(guard.source, []).append(guard.predicate)
    for guard in plan.guards:
        predicate, others = guard.predicate, known.get(guard.source, [])
        if guard.source is None or not others:
            continue
        if isinstance(predicate, Varies) and not any(isinstance(other, Varies) for other in others):
            yield guard.source.text, ""
        elif isinstance(predicate, Layout):
            layouts = [
                other.shape
                for other in others
                if isinstance(other, Layout) and len(other.shape) == len(predicate.shape)
            ]
            for axis, size in enumerate(predicate.shape):
                if layouts and not isinstance(size, int) and all(isinstance(shape[axis], int) for shape in layouts):
                    yield f"{guard.source.text}.shape[{axis}]", str(size)
