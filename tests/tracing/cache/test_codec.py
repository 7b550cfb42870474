"""Records are read as what they were written, and anything else in their place is an error or a record of that type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import numpy as np
import pytest

from jitgraph import tree
from jitgraph.ir.dims import Dim
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.runtime.loader import LoadError
from jitgraph.tracing.cache import lookup_paths, traces
from jitgraph.tracing.cache.codec import NotStorableError, Reading, Writing, codec_of, types_of
from jitgraph.tracing.cache.traces import CachedGraph
from jitgraph.tracing.call.plan import CallPlan, Computed, Effect, Fresh, Handle, Input, Leaf, PinnedSource, Template
from jitgraph.tracing.guards.guard import (
    Absent,
    Disjoint,
    Distinct,
    Elements,
    Equals,
    EqualsObject,
    Exactly,
    Extent,
    Guard,
    HasContents,
    Is,
    IsOrStandIn,
    IsTensor,
    Layout,
    Predicate,
    Relation,
    Same,
    Unshared,
    Varies,
)
from jitgraph.tracing.guards.plain import Plain, plain_of
from jitgraph.tracing.guards.source import Ref, Source

F4 = np.dtype("f4")
X = Source("argument", 0, "x")
BOX = Source("object", 1, "box").then("attribute", "a").then("item", (1, "k")).then("item", Ref(0))
AT = Location("/a/b.py", 3, ("Linear", "inner"))
VALUES: list[Any] = [
    3, -(1 << 70), "a", "é", b"ab", None, True, ..., 1.5, -0.0, float("nan"), 1 + 2j, F4, np.float32(2), np.int64(1),
    range(1, 9, 2), slice(None, 3), (1, (2.0, "a")), frozenset({1, "a"}), bytearray(b"c"),
]  # fmt: skip
PLAINS = [plain for value in VALUES if (plain := plain_of(value)) is not None]
PREDICATES: list[Any] = [
    Is(0, "f"), IsOrStandIn(0, 1, "f"), Exactly(1, "int"), Absent(), IsTensor(), *map(Equals, PLAINS), Same(BOX),
    Extent("keys", 2, (Plain("str", "a"), Ref(1)), True), Elements(0, 3, False), HasContents(F4, (1,), b"abcd"),
    Layout("tensor", F4, (Dim.name("n") + 1, 3), True), Layout("array", F4, ()), Varies("float", 2),
    Relation("sizes", "n_n >= 2", "n >= 2", "range"), Distinct((X, BOX)), Unshared((X,), (BOX,)),
    Disjoint((X,), (BOX,)),
]  # fmt: skip
TEMPLATE = Template(
    tree.flatten({"a": (1, [2]), 3: None})[1], (Leaf("plain", Plain("int", 3)), Leaf("handle", 0))
)  # fmt: skip
COPIES = (
    lookup_paths.ArrayCopy(F4, (1,), "F", b"abcd"),
    lookup_paths.NumbersCopy("i", b""),
    lookup_paths.MembersCopy("deque", (Plain("int", 1),), 4),
)
RECORDS: list[Any] = [
    *(Guard(None if p.OF_SEVERAL else X, p, AT) for p in PREDICATES),
    Handle(BOX, "w", TensorType(F4, (2, Dim.name("n"))), True), Input("handle", 0), Input("array", BOX),
    Input("number", ("n0 * 2", F4)), Computed("input", 0, True), Computed("output", 7, False),
    Fresh(Computed("output", 0, True), True, False), TEMPLATE,
    Effect(BOX, "set", TEMPLATE, AT), Effect(X, "append", Computed("output", 1, False)), Effect(X, "truncate", 3),
    PinnedSource(X, "range", None), *(Leaf(kind, at) for kind, at in (("fresh", 0), ("object", 1), ("copy", 0),
    ("made", 0), ("argument", BOX), ("number", "n0"))),
    lookup_paths.CopiedObjects(COPIES), lookup_paths.PartOf(None, "closure", "", 1), lookup_paths.ObjectAt(BOX),
    traces.StoredKey("number", (2, Dim.name("n"))),
    CachedGraph("graph", "f", 1, (None, "x"), (AT, None, AT), ("a", "b"), None),
]  # fmt: skip
COUNTS = {"objects": 2, "handles": 1, "inputs": 1, "fresh": 1, "shared_templates": 1}
HOSTILE: tuple[Any, ...] = (
    "__import__('os')", -1, 1, 1 << 70, None, [], {}, [[]], True, 1.5, "", "x" * 5000, ["Plain", "int", "0x1"],
)  # fmt: skip


def class_named(module: str, name: str) -> type:
    actual: type = {"dict": dict, "tuple": tuple, "list": list, "NoneType": type(None)}[name]
    return actual


def written(record: Any) -> dict[str, Any]:
    writing = Writing()
    row = codec_of(type(record)).write(record, writing)
    return json.loads(json.dumps({"row": row, "tables": writing.tables}))  # type: ignore[no-any-return]


def read(kind: Any, data: Any) -> Any:
    return codec_of(kind).read(data["row"], Reading(data["tables"], COUNTS, class_named))


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in nested lists and dicts where a value stands."""
    for key in range(len(data)) if isinstance(data, list) else list(data):
        yield data, key
        if isinstance(data[key], list | dict):
            yield from places(data[key])


def same(a: Any, b: Any) -> bool:
    """Equal, with 1, True and 1.0 told apart by their texts; a frozenset has no order, so neither have its signs."""
    return bool(a == b) and sorted(repr(a)) == sorted(repr(b)) and type(a) is type(b)


def test_a_record_is_read_as_it_was() -> None:
    for record in RECORDS:
        assert same(read(type(record), written(record)), record), record
        assert read(Location, written(AT)).modules == AT.modules
    kinds = {type(record.predicate) for record in RECORDS if isinstance(record, Guard)}
    assert kinds == set(Predicate.KINDS.values()) - {EqualsObject}, "a predicate that is not tried"


class Bounded(NamedTuple):
    name: str
    most: float


def test_a_field_that_no_codec_stores_is_named() -> None:
    with pytest.raises(TypeError, match=r"^Bounded\.most: no codec stores the type float; .* as a Plain$"):
        codec_of(Bounded).write(Bounded("x", 1.5), Writing())


def test_every_field_that_is_stored_has_a_codec() -> None:
    """Also those that no example has."""
    elsewhere = {(CallPlan, "graph"), (CallPlan, "objects"), (traces.StoredTrace, "plan")}
    pending: list[Any] = [CallPlan, traces.StoredTrace, *Predicate.KINDS.values()]
    records: set[Any] = set()
    while pending:
        kind = pending.pop()
        if (metadata := getattr(kind, "__metadata__", None)) is not None:
            pending += metadata[0].values() if isinstance(metadata[0], dict) else ()
        elif kind is CallPlan or type(codec_of(kind)).__name__ == "_Record":
            if kind not in records:
                records.add(kind)
                pending += [each for name, each in types_of(kind).items() if (kind, name) not in elsewhere]
        elif get_origin(kind) is not np.dtype:
            pending += [inner for inner in get_args(kind) if not isinstance(inner, str) and inner is not ...]
    assert {Plain, Guard, Template, Leaf, CachedGraph, lookup_paths.PartOf} <= records


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:12])
def test_anything_in_the_place_of_anything(value: Any) -> None:
    """It is refused, or a record of the same type that is written and read as any other."""
    refused = 0
    for record in RECORDS:
        data = written(record)
        for number in range(sum(1 for _ in places(data))):
            changed = json.loads(json.dumps(data))
            owner, key = next(position for at, position in enumerate(places(changed)) if at == number)
            owner[key] = value
            try:
                result = read(type(record), changed)
            except (LoadError, KeyError):  # a class of another name
                refused += 1
                continue
            assert type(result) is type(record)
            assert same(read(type(record), written(result)), result)
    assert refused > 300


def test_numbers_end_where_what_they_count_does() -> None:
    limits = [(Ref(1), Ref(2)), (Is(1, ""), Is(2, "")), (Input("handle", 0), Input("handle", 1))]
    limits += [(Leaf("made", 0), Leaf("made", 1)), (Computed("input", 0, True), Computed("input", 1, True))]
    for fits, exceeds in limits:
        assert read(type(fits), written(fits)) == fits
        with pytest.raises(LoadError, match="number"):
            read(type(exceeds), written(exceeds))


FAULTS = [
    Guard(None, Absent()), Guard(X, Distinct((X,))), Plain("range", (Plain("int", 0),) * 3),
    Plain("scalar", (F4, b"abc")), Plain("float", "1.5.5"), Template(tree.LEAF, ()),
]  # fmt: skip


@pytest.mark.parametrize("record", FAULTS, ids=lambda record: type(record).__name__)
def test_a_record_that_contradicts_itself_is_refused(record: Any) -> None:
    with pytest.raises(LoadError):
        read(type(record), written(record))


def test_none_stands_only_where_it_may() -> None:
    """Also among several records, and where one type alone may stand."""
    for record in (
        lookup_paths.CopiedObjects(COPIES),
        TEMPLATE,
        Leaf("plain", Plain("int", 1)),
        Computed("output", 0, True),
    ):
        data = written(record)
        for number in range(len(data["row"])):
            changed = json.loads(json.dumps(data))
            changed["row"][number] = [None] if isinstance(data["row"][number], list) else None
            with pytest.raises(LoadError):
                read(type(record), changed)


def test_depth_ends() -> None:
    data = written(Plain("tuple", ()))
    for _ in range(100):
        data["row"] = ["tuple", [data["row"]]]
    with pytest.raises(LoadError, match="too deeply"):
        read(Plain, data)
    for structure in (Leaf("plain", Plain("int", 1)), X):
        read(type(structure), written(structure))


UNSTORABLE = [
    EqualsObject(0, "this K"), Layout("tensor", F4, (1,), False, "cuda:0"), Equals(Plain("int", 1 << 20000)),
    Plain("dtype", np.dtype([("a", "f4")])), Plain("str", "\ud800"), X.then("item", object()),
    Plain("array", ("i", b"")),
    Template(tree.TreeDef(dict, (tree.Item(object()),), (tree.LEAF,), None), (Leaf("copy", 0),)),
]  # fmt: skip


@pytest.mark.parametrize("record", UNSTORABLE, ids=lambda record: type(record).__name__)
def test_what_no_file_can_hold(record: Any) -> None:
    with pytest.raises(NotStorableError):
        written(record)
