"""Whether a recorded trace may serve other processes, and what is written of it where it may."""

from __future__ import annotations

import json
import time
import types
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import config
from jitgraph.ir.graph import Graph
from jitgraph.runtime import sources
from jitgraph.runtime.loader import LoadError
from jitgraph.tensor import Tensor
from jitgraph.tracing import backend, donation
from jitgraph.tracing.cache.cached_graph import CachedGraph, folder_here, write_graph
from jitgraph.tracing.cache.plain_text import NotStorableError
from jitgraph.tracing.cache.plan_reader import PlanReader
from jitgraph.tracing.cache.plan_writer import PlanWriter
from jitgraph.tracing.cache.traces import MOST, TraceEntry, fingerprint, keys_written, owners_of_code
from jitgraph.tracing.capture.followed import is_users_class
from jitgraph.tracing.capture.kinds import may_change
from jitgraph.tracing.plan import CallPlan
from jitgraph.tracing.specialisation import Specialisation

_SEEN: Final = (
    list, dict, set, OrderedDict, defaultdict, Counter, deque, object, types.SimpleNamespace, bytearray, array,
    np.ndarray, Tensor, types.CellType,
)  # fmt: skip
_BASES: Final = frozenset({"abc", "typing", "collections", "enum", "types", "dataclasses"})
_BUILTIN_BASES: Final = (*_SEEN, int, float, str, bytes, tuple, types.ModuleType)  # not those with an inside in C


def store(entry: TraceEntry, specialisation: Specialisation) -> None:
    """Write a trace that was just recorded for the call at a place, if other processes may take it; the log says why
    not."""
    name = entry.call.name
    try:
        content = _written(entry, specialisation)
    except NotStorableError as error:
        config.log("cache", f"trace of {name}: not kept, {error}")
        return
    number = int(time.time()) % MOST if entry.free is None else entry.free
    if sources.OWN.unchanged():
        entry.cache.store(entry.entry(number), content)
        config.log("cache", f"trace {number + 1} of {name}: kept")


def _written(entry: TraceEntry, specialisation: Specialisation) -> bytes:
    plan, call = specialisation.plan, entry.call
    if reasons := (*plan.unguarded, *plan.bound):
        raise NotStorableError(f"it rests on {reasons[0]}")
    writer = PlanWriter(plan, call.function)
    data = writer.written()
    owners = owners_of_code(plan.guards, specialisation.world(call.values).find)
    described, met = fingerprint(call.function, plan.objects, writer.kinds, owners)
    for value in met:
        _require_seen(value)
    _require_same(plan, data, writer.kinds)
    donate = () if specialisation.taped else donation.candidates(plan)
    fastmath = call.options.fastmath
    record = {
        "plan": data,
        "fingerprint": described,
        "keys": keys_written(call.arguments, specialisation.keys),
        "graph": _graph(plan.graph, donate, fastmath, compiled=not specialisation.taped),
        "donate": donate,
        "vjp": None,
    }
    if specialisation.taped:
        vjp = specialisation.vjp
        record["vjp"] = {
            "forward": _graph(vjp.forward, (), fastmath),
            "backward": _graph(vjp.backward, (), fastmath),
            **{name: list(getattr(vjp, name)) for name in ("saved_inputs", "saved_outputs", "seeds", "wrt")},
        }
    return json.dumps(record, separators=(",", ":")).encode()


def _graph(graph: Graph, donate: Sequence[tuple[int, int]], fastmath: bool, *, compiled: bool = True) -> dict[str, Any]:
    entry = backend.code_entry(graph, donate, fastmath)
    if entry is None:
        raise NotStorableError("its graph has an op whose meaning no text tells")
    tells_lines = any(node.op.effect != "none" for node in graph.walk())
    data = write_graph(graph, entry if compiled else None, folder_here() if tells_lines else None)
    CachedGraph(data)
    return data


def _require_same(plan: CallPlan, data: Any, kinds: Sequence[type]) -> None:
    """NotStorableError where what was written would be read as another plan."""
    try:
        again = PlanReader(data).fields(kinds)
    except LoadError as error:
        raise NotStorableError(f"a part of it that cannot be read again: {error}") from None
    for name, value in again.items():
        if getattr(plan, name) != value:
            raise NotStorableError(f"its {name}, which would be read as others")


def _require_seen(value: Any) -> None:
    """NotStorableError for an object of which a recording assumes more than guards say: a library's own."""
    kind = type(value)
    if kind in _SEEN:
        return
    known = may_change(kind) or is_users_class(kind)
    for base in kind.__mro__:
        if not known or not (
            may_change(base)
            or is_users_class(base)
            or base.__module__ in _BASES
            or base in _BUILTIN_BASES
            or issubclass(Tensor, base)
        ):
            raise NotStorableError(f"a {kind.__qualname__}, whose inside no guard sees")
