"""The report on a run as text of at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from jitgraph.tracing.report.quantities import bytes_text, duration

if TYPE_CHECKING:
    from jitgraph.tracing.report.run import Compilation, RunReport, WatchedFunction

_MOST: Final = 20  # lines of one list
_WIDTH: Final = 100
_FEW: Final = 50  # calls, of which the first ones go by way of Python
STAGES: Final = ("recording", "passes", "lowering", "LLVM", "cache", "other")
"""The stages of a compilation, in order; ``other``: code is loaded, modules are imported, gradients are derived."""


def text(run: RunReport) -> str:
    """The whole report."""
    return "\n".join(line for long in _lines(run) for line in _wrapped(long))


def _wrapped(line: str) -> list[str]:
    """A line as several, each but the first indented by four columns more."""
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) <= _WIDTH:
        return [line]
    return textwrap.wrap(
        line,
        _WIDTH,
        subsequent_indent=f"{indent}    ",
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )


def headline(run: RunReport) -> str:
    """What the block did, in one sentence."""
    functions, events = run.functions, run.events
    calls = sum(each.calls for each in functions)
    compiled = sum(each.compilations + each.gradients for each in functions)
    took = sum(each.seconds for each in functions) + run.ops.seconds
    share = f", {took / run.seconds:.1%} of the time" if 0 < took <= run.seconds else ""
    ops = f" and {_count(run.ops.compilations, 'eager op')}" if run.ops.compilations else ""
    last = max((event.second + event.seconds for event in events), default=0.0)
    rest = f"; nothing after {duration(last)}" if events and last < 0.9 * run.seconds else ""
    return (
        f"{duration(run.seconds)}, {_count(calls, 'call')} of {_count(len(functions), 'traced function')}; "
        f"{_count(compiled, 'compilation')}{ops} in {duration(took)}{share}{rest}"
    )


def stages_text(event: Compilation) -> str:
    """The milliseconds of each stage."""
    shown = [f"{name} {event.stages[name]:.1f}" for name in STAGES if event.stages.get(name, 0.0) >= 0.05]
    return ", ".join(shown)


def what_text(event: Compilation) -> str:
    """What was compiled, at which call."""
    match event.kind:
        case "gradient":
            return f"gradient of {event.function}"
        case "op":
            return f"eager op {event.function}"
        case _:
            return f"{event.function}, call {event.call:,}"


def notes_of(event: Compilation) -> Iterator[str]:
    """The reason, and what follows from it."""
    yield event.cause.text
    if event.promoted:
        yield f"from now on {_listed(event.promoted)} may vary"
    if event.drops_another:
        yield "it takes the place of the kind of call that was used least recently"
    if event.unguarded:
        yield f"for this call alone: {event.unguarded}"


def traffic_text(summary: WatchedFunction, seconds: float) -> str:
    """The calls of a function, and how many of them went past Python."""
    if not summary.calls:
        return "no calls"
    rate = f", one each {duration(seconds / summary.calls)}" if summary.calls > 1 else ""
    native = f", {summary.native_calls / summary.calls:.0%} past Python" if summary.calls > _FEW else ""
    return f"{_count(summary.calls, 'call')}{rate}{native}"


def compiled_text(summary: WatchedFunction) -> str:
    """The compilations of a function, in words."""
    counts = (
        (summary.compilations, "compilation"),
        (summary.gradients, "gradient"),
        (summary.failures, "failure"),
        (summary.eager_calls, "eager call"),
    )
    parts = [_count(count, what) for count, what in counts if count]
    return f"{', '.join(parts)} in {duration(summary.seconds)}" if parts else "nothing compiled"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def memory_text(run: RunReport) -> str:
    """The memory of the process at both ends, and at most."""
    samples = [sample for sample in run.samples if sample.resident]
    if not samples:
        return ""
    most = max(samples, key=lambda sample: sample.resident)
    retained = max(sample.retained for sample in samples)
    return (
        f"{bytes_text(samples[0].resident)} at the beginning, {bytes_text(samples[-1].resident)} at the end, at most "
        f"{bytes_text(most.resident)} after {duration(most.second)}; free blocks for results and temporaries: at most "
        f"{bytes_text(retained)}"
    )


def _lines(run: RunReport) -> Iterator[str]:
    yield headline(run)
    if memory := memory_text(run):
        yield f"memory: {memory}"
    if run.error:
        yield f"ended by {run.error}"
    yield from _timeline(run)
    functions = run.functions
    if functions:
        yield "functions:"
    for summary in functions[:_MOST]:
        where = "" if summary.defined_at is None else f" ({summary.defined_at})"
        yield f"  {summary.name}{where}: {traffic_text(summary, run.seconds)}; {compiled_text(summary)}"
        if summary.promoted:
            yield f"    may vary: {', '.join(summary.promoted)}"
        if summary.declined and summary.calls > _FEW and summary.native_calls < 0.9 * summary.calls:
            yield f"    not past Python, because {next(iter(summary.declined))}"
    if len(functions) > _MOST:
        yield f"  ... and {len(functions) - _MOST} more"
    advice = run.advice
    if advice:
        yield "advice:"
    yield from (f"  {line}" for line in advice)


def _timeline(run: RunReport) -> Iterator[str]:
    """Compilations and marks in their order; of many the first and the last."""
    events = run.events
    if not events and not run.marks:
        return
    yield "over time:"
    lines: list[tuple[float, list[str]]] = [
        (mark.second, [f"{mark.second:9.3f} s  -- {mark.name}"]) for mark in run.marks
    ]
    lines += [(event.second, list(_of_event(event))) for event in events]
    lines.sort(key=lambda pair: pair[0])
    half, omitted = _MOST, len(lines) - 2 * _MOST
    for number, (_, block) in enumerate(lines):
        if omitted > 0 and number == half:
            yield f"    ... {omitted + run.omitted} more ..."
        if omitted <= 0 or number < half or number >= len(lines) - half:
            yield from (f"  {line}" for line in block)


def _of_event(event: Compilation) -> Iterator[str]:
    at = "" if event.line is None else f" at {event.line}"
    failed = "failed after " if event.kind == "failure" else ""
    stages = stages_text(event)
    detail = f" (ms: {stages})" if event.origin == "compiled" else f" ({event.origin})" if event.origin else ""
    memory = f", temporaries {bytes_text(event.temporaries)}" if event.temporaries else ""
    yield f"{event.second:9.3f} s  {what_text(event)}{at}: {failed}{duration(event.seconds)}{detail}{memory}"
    yield from (f"{'':13}{note}" for note in notes_of(event))
