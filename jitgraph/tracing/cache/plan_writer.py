"""A plan as plain data for JSON: sources, guards, templates and effects, each a list; sources and files by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph import tree
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.runtime.buffer import CPU
from jitgraph.tracing.cache.lookup_paths import lookup_paths_of
from jitgraph.tracing.cache.plain_text import NotStorableError, write_bytes, write_dtype, write_plain
from jitgraph.tracing.guard import Disjoint, Distinct, Guard, Layout, Relation, Same, Varies
from jitgraph.tracing.plain import Plain, plain_of
from jitgraph.tracing.plan import CallPlan, Computed, Effect, Leaf, Template
from jitgraph.tracing.predicate import (
    Absent,
    Elements,
    Equals,
    EqualsObject,
    Exactly,
    Extent,
    HasContents,
    Is,
    IsOrStandIn,
    IsTensor,
)
from jitgraph.tracing.source import Ref, Source


def write_shape(shape: Sequence[Any]) -> list[Any]:
    """Sizes, of which some may have names."""
    return [size if isinstance(size, int) else str(size) for size in shape]


class PlanWriter:
    """Writes one plan; NotStorableError for one of which another process could not find everything again."""

    def __init__(self, plan: CallPlan, function: Any) -> None:
        self.plan = plan
        self.function = function
        self._sources: list[Any] = []
        self._source_numbers: dict[Source, int] = {}
        self._files: dict[str, int] = {}
        self.kinds: list[type] = []

    def written(self) -> dict[str, Any]:
        """All of the plan but its graph."""
        plan = self.plan
        fields = {
            "objects": lookup_paths_of(plan, self.function, self.source),
            "arguments": [self.source(source) for source in plan.arguments],
            "guards": [self._guard(guard) for guard in plan.guards],
            "handles": [
                [self.source(handle.source), handle.text, self._type(handle.type), handle.requires_grad]
                for handle in plan.handles
            ],
            "inputs": [self._input(each.kind, each.at) for each in plan.inputs],
            "fresh": [[self._computed(fresh.value), fresh.requires_grad, fresh.weak] for fresh in plan.fresh],
            "result": self._template(plan.result),
            "effects": [self._effect(effect) for effect in plan.effects],
            "pinned": [
                [self.source(pinned.source), pinned.what, self._location(pinned.location)] for pinned in plan.pinned
            ],
            "copied": plan.copied,
            "made": [self._template(template) for template in plan.shared_templates],
            "sizes": plan.sizes,
        }
        names = [(kind.__module__, kind.__qualname__) for kind in self.kinds]
        return {**fields, "kinds": names, "sources": self._sources, "files": list(self._files)}

    def source(self, source: Source) -> int:
        """The number of a source in the table; that of its owner is smaller."""
        number = self._source_numbers.get(source)
        if number is None:
            if source.steps:
                step = source.steps[-1]
                entry = [self.source(source.owner), step.kind, self._key(step.key)]
            else:
                entry = [source.kind, source.key, source.name]
            number = self._source_numbers[source] = len(self._sources)
            self._sources.append(entry)
        return number

    def _key(self, key: Any) -> Any:
        if key is None or type(key) in (int, str):
            return key
        if isinstance(key, Ref):
            return ["ref", key.number]
        plain = plain_of(key)
        if plain is None:
            raise NotStorableError(f"a key that is a {type(key).__qualname__}")
        return write_plain(plain)

    def _location(self, location: Location | None) -> Any:
        if location is None:
            return None
        return [self._files.setdefault(location.file, len(self._files)), location.line]

    def _type(self, type: TensorType | None) -> Any:
        return None if type is None else [write_dtype(type.dtype), write_shape(type.shape)]

    # --- guards -----------------------------------------------------------------------------------------------------

    def _guard(self, guard: Guard) -> list[Any]:
        number = None if guard.source is None else self.source(guard.source)
        return [number, self._location(guard.location), *self._predicate(guard.predicate)]

    def _predicate(self, predicate: Any) -> list[Any]:
        match predicate:
            case Is(number=number, shown=shown) | EqualsObject(number=number, shown=shown):
                if isinstance(predicate, EqualsObject):
                    raise NotStorableError(f"a static argument that is {shown}")
                return ["Is", number, shown]
            case Exactly(number=number, shown=shown):
                return ["Exactly", number, shown]
            case IsOrStandIn(number=number, other=other, shown=shown):
                return ["IsOrStandIn", number, other, shown]
            case Equals(plain=plain):
                return ["Equals", write_plain(plain)]
            case Extent(kind=kind, count=count, elements=elements, by_base=by_base):
                return ["Extent", kind, count, [self._mark(element) for element in elements], by_base]
            case Elements(number=number, count=count, is_mapping=is_mapping, by_base=by_base):
                return ["Elements", number, count, is_mapping, by_base]
            case Absent() | IsTensor():
                return [type(predicate).__name__]
            case HasContents(dtype=dtype, shape=shape, bytes=content):
                return ["HasContents", write_dtype(dtype), list(shape), write_bytes(content)]
            case Layout(kind=kind, dtype=dtype, shape=shape, requires_grad=flag, device=device):
                if device != CPU:
                    raise NotStorableError(f"a tensor on {device}")
                return ["Layout", kind, write_dtype(dtype), write_shape(shape), flag]
            case Varies(kind=kind, number=number):
                return ["Varies", kind, number]
            case Relation(about=about, code=code, shown=shown, what=what):
                return ["Relation", about, code, shown, what]
            case Same(other=other):
                return ["Same", self.source(other)]
            case Distinct(sources=sources):
                return ["Distinct", [self.source(source) for source in sources]]
            case Disjoint(left=left, right=right):
                return ["Disjoint", *([self.source(source) for source in side] for side in (left, right))]
        raise NotStorableError(f"a guard of the kind {type(predicate).__name__}")

    def _mark(self, element: Plain | Ref) -> Any:
        return ["ref", element.number] if isinstance(element, Ref) else write_plain(element)

    # --- what comes of it -------------------------------------------------------------------------------------------

    def _input(self, kind: str, at: Any) -> list[Any]:
        match kind:
            case "handle":
                return [kind, at]
            case "number":
                return [kind, at[0], write_dtype(at[1])]
        return [kind, self.source(at)]

    def _computed(self, value: Computed) -> list[Any]:
        return [value.kind, value.number, value.differentiable]

    def _template(self, template: Template) -> list[Any]:
        return [self._structure(template.structure), [self._leaf(leaf) for leaf in template.leaves]]

    def _structure(self, structure: tree.TreeDef) -> Any:
        if structure.kind is None:
            return None
        if structure.data is not None or not tree.is_plain_container(structure.kind):
            raise NotStorableError(f"a result that holds a {structure.kind.__qualname__}, a registered container")
        if structure.kind not in self.kinds:
            self.kinds.append(structure.kind)
        steps = [
            ["item" if isinstance(step, tree.Item) else "attribute", self._key(step[0])] for step in structure.steps
        ]
        if any(isinstance(key, list) and key[0] == "ref" for _, key in steps):
            raise NotStorableError("a result with a key that is an object")
        return [self.kinds.index(structure.kind), steps, [self._structure(child) for child in structure.children]]

    def _leaf(self, leaf: Leaf) -> list[Any]:
        at: Any = leaf.at
        if leaf.kind == "plain":
            return [leaf.kind, write_plain(at)]
        return [leaf.kind, self.source(at) if isinstance(at, Source) else at]

    def _effect(self, effect: Effect) -> list[Any]:
        value = effect.value
        if isinstance(value, Computed):
            encoded: Any = ["computed", self._computed(value)]
        elif isinstance(value, Template):
            encoded = ["template", self._template(value)]
        else:
            encoded = ["count", value]
        return [self.source(effect.source), effect.operation, encoded, self._location(effect.location)]
