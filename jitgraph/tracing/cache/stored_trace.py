"""StoredTrace: all that a file of the cache holds of a recorded call, as records."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, Literal

from jitgraph.ir.dims import DimLike
from jitgraph.records import NamedTuple
from jitgraph.runtime.loader import LoadError
from jitgraph.runtime.loader.json_objects import parse_json
from jitgraph.tracing.cache.cached_graph import CachedGraph
from jitgraph.tracing.cache.codec import Reading, Writing, codec_of, types_of
from jitgraph.tracing.cache.lookup_paths import LookupPath
from jitgraph.tracing.plan import CallPlan, Template

_UNSTORED: Final = frozenset({"graph", "unguarded", "bound", "objects", "device"})
"""Fields of a plan that have their defaults in the plans that are stored, or stand beside the plan."""


class StoredKey(NamedTuple):
    """How the key of a leaf differs from that of the call for which the trace is looked up."""

    kind: Literal["number", "static float"] | None
    shape: tuple[DimLike, ...]


class CachedVjp(NamedTuple):
    """As ``passes.autodiff.Vjp``, of graphs that are read when they are compiled."""

    forward: CachedGraph
    backward: CachedGraph
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]
    seeds: tuple[int, ...]
    wrt: tuple[int, ...]


class StoredTrace(NamedTuple):
    """``plan`` has fields of a CallPlan by name, ``objects`` says where those of its table are found, ``fingerprint``
    what they, and ``classes``, the containers of results, were."""

    plan: dict[str, Any]
    objects: tuple[LookupPath, ...]
    fingerprint: Annotated[Any, "json"]
    keys: tuple[StoredKey, ...]
    graph: CachedGraph
    donate: tuple[tuple[int, int], ...]
    vjp: CachedVjp | None
    classes: tuple[type, ...]

    def packed(self) -> bytes:
        """The content of a file; NotStorableError where there can be none."""
        writing = Writing()
        plan = {name: codec.write(self.plan[name], writing) for name, codec in _plan_codecs().items()}
        rest = {name: codec.write(getattr(self, name), writing) for name, codec in _codecs().items()}
        return json.dumps({"plan": plan, **rest, "tables": writing.tables}, separators=(",", ":")).encode()

    @classmethod
    def unpacked(cls, content: bytes, class_named: Callable[[str, str], type]) -> StoredTrace:
        """What ``packed`` wrote; LoadError for anything else."""
        data = parse_json(content, "a trace")
        try:
            plan, counted = data["plan"], ("handles", "inputs", "fresh", "shared_templates")
            counts = {"objects": len(data["objects"]), **{name: len(plan[name]) for name in counted}}
            reading = Reading(data["tables"], counts, class_named)
            parts = {name: codec.read(plan[name], reading) for name, codec in _plan_codecs().items()}
            return cls._make([parts, *[codec.read(data[name], reading) for name, codec in _codecs().items()]])
        except (KeyError, TypeError) as error:
            raise LoadError(f"a trace lacks {error}") from None


def plan_parts(plan: CallPlan) -> dict[str, Any]:
    """The fields of a plan that are stored."""
    return {name: getattr(plan, name) for name in _plan_codecs()}


def classes_of(plan: CallPlan) -> tuple[type, ...]:
    """The classes of the containers in what a call gives and writes."""
    templates = (plan.result, *plan.shared_templates, *(effect.value for effect in plan.effects))
    pending = [template.structure for template in templates if isinstance(template, Template)]
    classes: dict[type, None] = {}
    while pending:
        structure = pending.pop()
        if structure.kind is not None:
            classes[structure.kind] = None
            pending += structure.children
    return tuple(classes)


@cache
def _plan_codecs() -> dict[str, Any]:
    return {name: codec_of(kind) for name, kind in types_of(CallPlan).items() if name not in _UNSTORED}


@cache
def _codecs() -> dict[str, Any]:
    return {name: codec_of(kind) for name, kind in types_of(StoredTrace).items() if name != "plan"}
