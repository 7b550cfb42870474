"""What a program can change to compile less, from the reasons for which a run compiled."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from jitgraph.runtime import disk_cache
from jitgraph.tracing.report.quantities import bytes_text, duration

if TYPE_CHECKING:
    from jitgraph.tracing.report.run import CauseTotal, RunReport, WatchedFunction

_OFTEN: Final = 3  # compilations for one reason, from which on it is worth a change
_MUCH: Final = 0.05  # the share of a run that is worth a change
_OBJECTS: Final = frozenset({"Is", "IsOrStandIn", "EqualsObject", "Same", "Distinct", "Unshared", "Disjoint"})
_LEAST_GROWTH: Final = 64 << 20


def advice(run: RunReport) -> Iterator[str]:
    """What would compile less or need less memory, the most costly first."""
    found = [(cost, f"{each.name}: {text}") for each in run.functions for cost, text in _of_function(run, each)]
    yield from (text for _, text in sorted(found, key=lambda pair: -pair[0]))
    yield from _of_cache(run)
    yield from _of_memory(run)


def _of_function(run: RunReport, summary: WatchedFunction) -> Iterator[tuple[float, str]]:
    """Pairs of seconds that would be saved, and how."""
    if summary.unguarded:
        what = next(iter(summary.unguarded))
        yield (
            summary.seconds,
            f"{summary.single_use} recordings served one call each, as the function depends on what cannot be guarded: "
            f"{what}. Pass it as an argument, or read it by plain attributes and items; strict=True makes it an error",
        )
    first = summary.groups.get(("first call", "", ""))
    if summary.traced >= _OFTEN and first is not None and first.count >= _OFTEN:
        yield (
            first.seconds,
            f"{first.count} functions of this definition were traced, and each was compiled by itself, in "
            f"{duration(first.seconds)}: call jg.trace once, outside of the loop or function that calls it",
        )
    for group in summary.groups.values():
        text = _of_group(run, summary, group)
        if text:
            yield group.seconds, text
    if summary.dropped:
        yield (
            summary.seconds,
            f"it had more than 8 kinds of calls, so that the code of {summary.dropped} was dropped, which would be "
            "compiled again: reduce the kinds, as above, or trace one function for each use",
        )
    if summary.eager_calls:
        yield (
            0.0,
            f"{_calls(summary.eager_calls)} ran as plain Python, under jg.detect_anomaly() or JITGRAPH_DISABLE_JIT: "
            "turn it off once the fault is found",
        )
    if summary.failures:
        yield 0.0, f"{_calls(summary.failures)} could not be compiled; the last: {summary.last_error}"


def _of_group(run: RunReport, summary: WatchedFunction, group: CauseTotal) -> str:
    cause = group.cause
    times = f"{group.count} compilation{'' if group.count == 1 else 's'}, {duration(group.seconds)}"
    values = _listed(group)
    if cause.predicate == "Layout" and any(text.startswith(f"{cause.source}.shape[") for text in summary.promoted):
        named = _dynamic_shapes(summary)
        if group.seconds < _MUCH * run.seconds or not named:
            return ""
        return (
            f"sizes of {cause.source} vary ({times}); with names for them from the beginning there is no compilation "
            f"for the first ones alone: dynamic_shapes={named}"
        )
    if group.count < _OFTEN or cause.kind in ("first call", "operand"):
        return ""
    if cause.pinned_by:
        return (
            f"{cause.source} had other values ({times}){values}, and {cause.pinned_by} at {cause.pinned_at} needs the "
            "value itself: pass it as a tensor, jg.asarray(...), or compute there with what varies freely"
        )
    if cause.kind == "structure":
        return f"the arguments had another structure each time ({times}): pass as many, nested alike, at each call"
    if cause.kind == "context":
        return f"calls come under changing surroundings ({cause.source}; {times}): call it under the same ones"
    if cause.kind == "relation":
        return (
            f"what the code asked about sizes or numbers had another answer ({cause.source}; {times}): ask about a "
            "tensor in a @jg.script, or use jg.where"
        )
    if cause.predicate in _OBJECTS:
        return (
            f"{cause.source} was another object each time ({times}): make it once, outside of the loop, and pass the "
            "same one"
        )
    if cause.predicate == "Layout":
        return f"{cause.source} differed each time ({times}){values}: pad it to a few sizes, and convert dtypes before"
    if cause.predicate in ("Extent", "Elements", "HasContents", "Absent", "Exactly"):
        return f"{cause.source} changed its length, its keys or its class ({times}): leave it as it is during the run"
    return (
        f"{cause.source} took {group.count + 1} values{values}, each of which is compiled by itself ({times}): pass "
        "what varies as a tensor, jg.asarray(...), or leave what chooses code to a few values"
    )


def _calls(number: int) -> str:
    return f"{number} call{'' if number == 1 else 's'}"


def _dynamic_shapes(summary: WatchedFunction) -> str:
    """The sizes of arguments that have a name by now, as the option of ``jg.trace`` that names them."""
    axes: dict[str, dict[int, str]] = {}
    for text, name in summary.promoted.items():
        argument, _, axis = text.partition(".shape[")
        if name.isidentifier() and argument.isidentifier():
            axes.setdefault(argument, {})[int(axis.rstrip("]"))] = name
    return str(axes).replace("'", '"') if axes else ""


def _listed(group: CauseTotal) -> str:
    """A few of the values that there were."""
    values = [value for value in group.values or () if value]
    more = ", ..." if group.count > len(values) else ""
    return f" ({', '.join(values[:4])}{more})" if values else ""


def _of_cache(run: RunReport) -> Iterator[str]:
    compiled = sum(event.seconds for event in run.events if event.origin == "compiled")
    if disk_cache.current() is None and compiled > max(1.0, _MUCH * run.seconds):
        yield (
            f"compilations took {duration(compiled)} of {duration(run.seconds)}, and the cache on disk is turned off: "
            "with JITGRAPH_CACHE_DIR unset, the next process finds the code there"
        )


def _of_memory(run: RunReport) -> Iterator[str]:
    """Memory that grows to the end, though nothing has been compiled for a while."""
    last = max((event.second + event.seconds for event in run.events), default=0.0)
    late = [sample for sample in run.samples if sample.second > last and sample.resident]
    if len(late) < 8:
        return
    quarters = [late[len(late) * part // 4 - (part == 4)].resident for part in range(5)]
    growth = quarters[-1] - quarters[0]
    if growth > _LEAST_GROWTH and all(b - a > growth / 10 for a, b in itertools.pairwise(quarters)):
        yield (
            f"memory grew by {bytes_text(growth)} in the last {duration(late[-1].second - late[0].second)}, in which "
            "nothing was compiled: something collects tensors or graphs, such as a list of losses; append loss.item() "
            "or loss.detach() instead"
        )
