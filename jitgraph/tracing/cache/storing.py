"""Whether a recorded trace may serve other processes, and what is written of it where it may."""

from __future__ import annotations

import time
import types
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph import config
from jitgraph.ir.graph import Graph
from jitgraph.runtime import sources
from jitgraph.runtime.loader import LoadError
from jitgraph.tensor import Tensor
from jitgraph.tracing.cache.codec import NotStorableError
from jitgraph.tracing.cache.lookup_paths import lookup_paths_of
from jitgraph.tracing.cache.traces import (
    MOST,
    CachedGraph,
    CachedVjp,
    StoredTrace,
    TraceEntry,
    classes_of,
    fingerprint,
    folder_here,
    owners_of_code,
    plan_parts,
    stored_keys,
)
from jitgraph.tracing.call import backend, invocation
from jitgraph.tracing.call.specialisation import Specialisation
from jitgraph.tracing.capture.kinds import is_users_class, may_change

if TYPE_CHECKING:
    from jitgraph.passes.autodiff import Vjp

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
    if not sources.OWN.unchanged():
        config.log("cache", f"trace of {name}: not kept, jitgraph's sources have changed since this process began")
        return
    entry.cache.store(entry.entry(number), content)
    config.log("cache", f"trace {number + 1} of {name}: kept")


def _written(entry: TraceEntry, specialisation: Specialisation) -> bytes:
    plan, call = specialisation.plan, entry.call
    if reasons := (*plan.unguarded, *plan.bound):
        raise NotStorableError(f"it rests on {reasons[0]}")
    if plan.views:
        raise NotStorableError("it gives out views of tensors")
    classes = classes_of(plan)
    owners = owners_of_code(plan.guards, specialisation.world(call.values).find)
    described, met = fingerprint(call.function, plan.objects, classes, owners)
    for value in met:
        _require_seen(value)
    donate, fastmath = () if specialisation.taped else invocation.candidates(plan), call.options.fastmath
    graph = _graph(plan.graph, donate, fastmath, compiled=not specialisation.taped)
    vjp = _vjp(specialisation.vjp, fastmath) if specialisation.taped else None
    paths, keys = lookup_paths_of(plan, call.function), stored_keys(call.arguments, specialisation.keys)
    trace = StoredTrace(plan_parts(plan), paths, described, keys, graph, donate, vjp, classes)
    content = trace.packed()
    _require_same(trace, content)
    return content


def _graph(graph: Graph, donate: Sequence[tuple[int, int]], fastmath: bool, *, compiled: bool = True) -> CachedGraph:
    entry = backend.code_entry(graph, donate, fastmath)
    if entry is None:
        raise NotStorableError("its graph has an op whose meaning no text tells")
    tells_lines = any(node.op.effect != "none" for node in graph.walk())
    return CachedGraph.of(graph, entry if compiled else None, folder_here() if tells_lines else None)


def _vjp(vjp: Vjp, fastmath: bool) -> CachedVjp:
    forward, backward = (_graph(half, (), fastmath) for half in (vjp.forward, vjp.backward))
    return CachedVjp(forward, backward, *[tuple(getattr(vjp, name)) for name in CachedVjp._fields[2:]])


def _require_same(trace: StoredTrace, content: bytes) -> None:
    """NotStorableError where what was written would be read as another trace."""
    names = {(kind.__module__, kind.__qualname__): kind for kind in trace.classes}
    try:
        again = StoredTrace.unpacked(content, lambda module, name: names[module, name])
    except LoadError as error:
        raise NotStorableError(f"a part of it that cannot be read again: {error}") from None
    parts = [*zip(trace.plan.items(), again.plan.values(), strict=True)]
    parts += [*zip(zip(trace._fields[1:], trace[1:], strict=True), again[1:], strict=True)]
    for (name, value), read_again in parts:
        if value != read_again:
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
