"""A plan from plain data (``writing.py``). Makes records of plans alone, and checks whatever becomes code of a call.

Every mistake is a LoadError; the objects of the table are the caller's to find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, get_args

from jitgraph import tree
from jitgraph.ir.dims import DimLike
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.runtime.loader import LoadError
from jitgraph.tracing.cache.expressions import checked
from jitgraph.tracing.cache.plain_text import read_bytes, read_dtype, read_plain
from jitgraph.tracing.guard import Disjoint, Distinct, Guard, Layout, Relation, Same, Varies
from jitgraph.tracing.plan import Computed, Effect, Fresh, Handle, Input, Leaf, Operation, PinnedSource, Template
from jitgraph.tracing.predicate import Absent, Elements, Equals, Exactly, Extent, HasContents, Is, IsOrStandIn, IsTensor
from jitgraph.tracing.source import STEPS, Ref, RootKind, Source

_DEEPEST: Final = 32
_ROOTS: Final = frozenset(get_args(RootKind))
_OPERATIONS: Final = frozenset(get_args(Operation))
_NAMED: Final = frozenset({"attribute", "class", "own"})


def read_int(value: Any, limit: int = 1 << 62) -> int:
    """An int from 0 to below ``limit``; LoadError for anything else."""
    if type(value) is not int or not 0 <= value < limit:
        raise LoadError(f"{value!r:.40} is no number of this plan")
    return value


def read_text(value: Any) -> str:
    """A text; LoadError for anything else."""
    if type(value) is not str:
        raise LoadError(f"{value!r:.40} is no text")
    return value


def read_flag(value: Any) -> bool:
    """A bool; LoadError for anything else."""
    if type(value) is not bool:
        raise LoadError(f"{value!r:.40} is neither true nor false")
    return value


def one_of(value: Any, known: Any) -> Any:
    """``value`` where it is one of ``known``; LoadError otherwise."""
    if type(value) is not str or value not in known:
        raise LoadError(f"{value!r:.40} is not known")
    return value


class PlanReader:
    """Reads the parts of one plan."""

    def __init__(self, data: Any) -> None:
        """LoadError where the tables are malformed."""
        self.data = data
        try:
            self.files = [read_text(file) for file in data["files"]]
            self.ways: list[Any] = list(data["objects"])
            self.sources: list[Source] = []
            for entry in data["sources"]:
                self.sources.append(self._read_source(entry))
        except (KeyError, TypeError, ValueError, IndexError):
            raise LoadError("the tables of a plan are malformed") from None

    def fields(self, kinds: Sequence[type]) -> dict[str, Any]:
        """The fields of the plan but its graph and objects; ``kinds`` are the classes of its containers."""
        try:
            return self._fields(kinds)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise LoadError("a part of a plan is malformed") from None

    def _fields(self, kinds: Sequence[type]) -> dict[str, Any]:
        data = self.data
        self._kinds = kinds
        self._counts = {name: len(data[name]) for name in ("handles", "inputs", "fresh", "made")}
        return {
            "arguments": tuple([self._source(number) for number in data["arguments"]]),
            "guards": tuple([self._guard(*guard) for guard in data["guards"]]),
            "handles": tuple([self._handle(*handle) for handle in data["handles"]]),
            "inputs": tuple([self._input(*each) for each in data["inputs"]]),
            "fresh": tuple([Fresh(self._computed(v), read_flag(r), read_flag(w)) for v, r, w in data["fresh"]]),
            "result": self._template(data["result"]),
            "effects": tuple([self._effect(*effect) for effect in data["effects"]]),
            "pinned": tuple(
                [PinnedSource(self._source(s), read_text(w), self._location(at)) for s, w, at in data["pinned"]]
            ),
            "copied": None if data["copied"] is None else self._object(data["copied"]),
            "shared_templates": tuple([self._template(template) for template in data["made"]]),
            "sizes": {read_text(name): read_int(size) for name, size in data["sizes"].items()},
            "unguarded": (),
            "bound": (),
        }

    # --- sources ----------------------------------------------------------------------------------------------------

    def _read_source(self, entry: Any) -> Source:
        first, second, third = entry
        if type(first) is int:
            owner = self.sources[read_int(first)]
            kind = one_of(second, STEPS)
            key = self._key(third)
            if kind in _NAMED and type(key) is not str:
                raise LoadError("an attribute has no name")
            return owner.then(kind, key)
        kind = one_of(first, _ROOTS)
        if kind == "function":
            key = None if second is None else read_int(second, 0)
        else:
            key = read_text(second) if kind == "module" else read_int(second)
        if kind == "object":
            self._object(key)
        return Source(kind, key, read_text(third))

    def _key(self, data: Any) -> Any:
        if data is None or type(data) in (int, str):
            return data
        if data[0] == "ref":
            return Ref(self._object(data[1]))
        return read_plain(data).value

    def _source(self, number: Any) -> Source:
        return self.sources[read_int(number)]

    def _object(self, number: Any) -> int:
        return read_int(number, len(self.ways))

    def _location(self, data: Any) -> Location | None:
        return None if data is None else Location(self.files[read_int(data[0])], read_int(data[1]))

    def _shape(self, data: Any) -> tuple[DimLike, ...]:
        return tuple([read_int(size) if type(size) is int else _size(read_text(size)) for size in data])

    # --- guards -----------------------------------------------------------------------------------------------------

    def _guard(self, source: Any, location: Any, kind: Any, *rest: Any) -> Guard:
        read: Callable[..., Any] = _PREDICATES[one_of(kind, _PREDICATES)]
        guarded_source = None if source is None else self._source(source)
        if (guarded_source is None) != (kind in _OF_SEVERAL):
            raise LoadError("a guard is about nothing")
        return Guard(guarded_source, read(self, *rest), self._location(location))

    def _mark(self, data: Any) -> Any:
        return Ref(self._object(data[1])) if data[0] == "ref" else read_plain(data)

    def _extent(self, kind: Any, count: Any, elements: Any, by_base: Any) -> Extent:
        known = one_of(kind, ("length", "keys", "members"))
        marks = tuple([self._mark(element) for element in elements])
        return Extent(known, read_int(count), marks, read_flag(by_base))

    def _layout(self, kind: Any, dtype: Any, shape: Any, flag: Any) -> Layout:
        return Layout(one_of(kind, ("tensor", "array")), read_dtype(dtype), self._shape(shape), read_flag(flag))

    def _relation(self, about: Any, code: Any, shown: Any, what: Any) -> Relation:
        return Relation(one_of(about, ("sizes", "numbers")), checked(code), read_text(shown), read_text(what))

    def _contents(self, dtype: Any, shape: Any, content: Any) -> HasContents:
        return HasContents(read_dtype(dtype), tuple([read_int(size) for size in shape]), read_bytes(content))

    def _several(self, numbers: Any) -> tuple[Source, ...]:
        return tuple([self._source(number) for number in numbers])

    # --- what comes of it -------------------------------------------------------------------------------------------

    def _handle(self, source: Any, text: Any, type: Any, flag: Any) -> Handle:
        tensor_type = None if type is None else TensorType(read_dtype(type[0]), self._shape(type[1]))
        return Handle(self._source(source), read_text(text), tensor_type, read_flag(flag))

    def _input(self, kind: Any, at: Any, dtype: Any = None) -> Input:
        match one_of(kind, ("handle", "array", "float", "number")):
            case "handle":
                return Input("handle", read_int(at, self._counts["handles"]))
            case "number":
                return Input("number", (checked(at), read_dtype(dtype)))
        return Input(kind, self._source(at))

    def _computed(self, data: Any) -> Computed:
        kind, number, flag = data
        limit = self._counts["inputs"] if one_of(kind, ("output", "input")) == "input" else 1 << 20
        return Computed(kind, read_int(number, limit), read_flag(flag))

    def _template(self, data: Any) -> Template:
        structure, leaves = data
        template = Template(self._structure(structure, _DEEPEST), tuple([self._leaf(*leaf) for leaf in leaves]))
        if template.structure.leaves != len(template.leaves):
            raise LoadError("a template has another number of leaves than its structure")
        return template

    def _structure(self, data: Any, depth: int) -> tree.TreeDef:
        if data is None:
            return tree.LEAF
        if depth < 0:
            raise LoadError("containers are nested too deeply")
        kind, steps, children = data
        path = [
            tree.Item(self._key(key))
            if one_of(which, ("item", "attribute")) == "item"
            else tree.Attribute(read_text(key))
            for which, key in steps
        ]
        if len(path) != len(children):
            raise LoadError("a container has another number of names than of children")
        inner = tuple([self._structure(child, depth - 1) for child in children])
        return tree.TreeDef(self._kinds[read_int(kind)], tuple(path), inner, None)

    def _leaf(self, kind: Any, at: Any) -> Leaf:
        match one_of(kind, _LEAVES):
            case "plain":
                return Leaf(kind, read_plain(at))
            case "number":
                return Leaf(kind, checked(at))
            case "argument":
                return Leaf(kind, self._source(at))
            case "object":
                return Leaf(kind, self._object(at))
            case "copy":
                return Leaf(kind, read_int(at))
        return Leaf(kind, read_int(at, self._counts[{"handle": "handles"}.get(kind, kind)]))

    def _effect(self, source: Any, operation: Any, data: Any, location: Any) -> Effect:
        kind, value = data
        match one_of(kind, ("computed", "template", "count")):
            case "computed":
                effect_value: Any = self._computed(value)
            case "template":
                effect_value = self._template(value)
            case _:
                effect_value = None if value is None else read_int(value)
        return Effect(self._source(source), one_of(operation, _OPERATIONS), effect_value, self._location(location))


def _size(text: str) -> DimLike:
    from jitgraph.ir.literals import parse_size  # here: few plans have sizes with names

    return parse_size(text)


_LEAVES: Final = frozenset({"handle", "fresh", "plain", "object", "copy", "made", "argument", "number"})
_OF_SEVERAL: Final = frozenset({"Relation", "Distinct", "Disjoint"})
_PREDICATES: Final[dict[str, Callable[..., Any]]] = {
    "Is": lambda self, number, shown: Is(self._object(number), read_text(shown)),
    "Exactly": lambda self, number, shown: Exactly(self._object(number), read_text(shown)),
    "IsOrStandIn": lambda self, a, b, shown: IsOrStandIn(self._object(a), self._object(b), read_text(shown)),
    "Equals": lambda self, plain: Equals(read_plain(plain)),
    "Extent": PlanReader._extent,
    "Elements": lambda self, number, count, is_mapping, by_base: Elements(
        self._object(number), read_int(count), read_flag(is_mapping), read_flag(by_base)
    ),
    "Absent": lambda self: Absent(),
    "IsTensor": lambda self: IsTensor(),
    "HasContents": PlanReader._contents,
    "Layout": PlanReader._layout,
    "Varies": lambda self, kind, number: Varies(one_of(kind, ("int", "float")), read_int(number, 1 << 20)),
    "Relation": PlanReader._relation,
    "Same": lambda self, other: Same(self._source(other)),
    "Distinct": lambda self, sources: Distinct(self._several(sources)),
    "Disjoint": lambda self, left, right: Disjoint(self._several(left), self._several(right)),
}
