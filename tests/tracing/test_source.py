"""Sources: the code of each step, what it means, and what people read are one table."""

from __future__ import annotations

import functools
import pickle
import sys
import types
from collections import defaultdict
from typing import Any

import pytest

import jitgraph as jg
from jitgraph import torch
from jitgraph.tracing.call.arguments import Static
from jitgraph.tracing.guards.guard import Absent, Guard, Objects
from jitgraph.tracing.guards.source import STEP_NAMES, STEPS, Slot, Source, Step, StepKind, World
from jitgraph.tracing.record.provenance import Provenance
from tests.tracing.plans import check_of

SETTINGS = {"k": 3}


class Slotted:
    __slots__ = ("n",)
    kind = "slotted"


class Plain:
    kind = "plain"

    def __init__(self) -> None:
        self.n = 1
        self.__dict__["odd name"] = 2

    def method(self) -> int:
        return self.n


def outer() -> Any:
    level = 7

    def inner(x: int = 5, *, y: int = 6) -> int:
        return x + y + level

    return inner


def slotted() -> Slotted:
    result = Slotted()
    result.n = 4
    return result


@functools.lru_cache
def CACHED(n: int) -> list[int]:  # noqa: N802 - a constant of the cases, as the others
    return [n]


INNER, PARTIAL, OBJECT = outer(), functools.partial(outer, 1, k=2), Plain()
HANDLE, HOOKED = jg.asarray([1.0]).requires_grad_(), jg.asarray([1.0]).requires_grad_()
HOOKED.register_hook(lambda gradient: gradient)
VIEW = torch.ones(2, 3)[0]

CASES: list[tuple[StepKind, Any, Any, Any, str]] = [
    ("attribute", OBJECT, "n", 1, "o.n"),
    ("attribute", OBJECT, "odd name", 2, "o.odd name"),
    ("attribute", OBJECT, "kind", "plain", "o.kind"),
    ("attribute", slotted(), "n", 4, "o.n"),
    ("attribute", Plain, "method", Plain.method, "o.method"),
    ("class", Plain, "kind", "plain", "o.kind"),
    ("own", OBJECT, "n", 1, "o.n"),
    ("cached", CACHED, (4,), CACHED(4), "o(4,)"),
    ("item", [1, 2], 1, 2, "o[1]"),
    ("item", {"a": 3}, "a", 3, "o['a']"),
    ("item", {1.5: 3}, 1.5, 3, "o[1.5]"),
    ("entry", defaultdict(list, a=3), "a", 3, "o['a']"),
    ("cell", INNER.__closure__[0], None, 7, "o"),
    ("closure", INNER, (0, "level"), INNER.__closure__[0], "level"),
    ("namespace", types, None, vars(types), ""),
    ("type", OBJECT, None, Plain, "type(o)"),
    ("globals", INNER, None, globals(), ""),
    ("defaults", INNER, None, INNER.__defaults__, "o.__defaults__"),
    ("kwdefaults", INNER, None, INNER.__kwdefaults__, "o.__kwdefaults__"),
    ("code", INNER, None, INNER.__code__, "o.__code__"),
    ("self", OBJECT.method, None, OBJECT, "o.__self__"),
    ("func", OBJECT.method, None, Plain.method, "o"),
    ("wrapped", functools.wraps(outer)(lambda: None), None, outer, "o.__wrapped__"),
    ("partial func", PARTIAL, None, outer, "o.func"),
    ("partial args", PARTIAL, None, PARTIAL.args, "o.args"),
    ("partial keywords", PARTIAL, None, PARTIAL.keywords, "o.keywords"),
    ("static", Static(3), None, 3, "o"),
    ("value", HANDLE, None, HANDLE._value, "o"),
    ("grad", HANDLE, None, None, "o.grad"),
    ("view", VIEW, None, VIEW._state, "o"),
    ("requires_grad", HANDLE, None, True, "o.requires_grad"),
    ("hooks", HANDLE, None, None, "the state of the hooks of o"),
    ("hooks", HOOKED, None, HOOKED._hooks.number, "the state of the hooks of o"),  # type: ignore[union-attr]
]


def test_every_step_is_tested() -> None:
    assert {case[0] for case in CASES} == STEPS.keys()


@pytest.mark.parametrize(("kind", "owner", "key", "value", "text"), CASES, ids=lambda v: v if type(v) is str else "")
def test_a_step_is_read_and_written_as_code_alike(kind: StepKind, owner: Any, key: Any, value: Any, text: str) -> None:
    objects = Objects()
    source = Source("object", objects.number(owner), "o").then(kind, key)
    result = World(None, (), objects.values).find(source)
    assert result is value and source.text == text
    names: dict[str, Any] = dict(STEP_NAMES)

    def constant(x: Any) -> str:
        names["k"] = x
        return "k"

    code = STEPS[kind].expression("owner", key, constant)
    assert eval(code, {**names, "owner": owner}) is value
    assert check_of([Guard(source, objects.same(value))], objects)()
    assert not check_of([Guard(source, objects.same(SETTINGS))], objects)()
    assert not check_of([Guard(source, Absent())], objects)()


@pytest.mark.parametrize("kind", ["attribute", "item", "entry", "cell"])
def test_places_are_written_and_taken_away(kind: Any) -> None:
    def fresh(value: int = 1) -> Any:
        return lambda: value

    owner: Any = {"attribute": OBJECT, "item": {}, "entry": defaultdict(list), "cell": fresh().__closure__[0]}[kind]
    key = None if kind == "cell" else "k"
    location = Slot("item" if kind == "entry" else kind, owner, key, "o.k")
    step = STEPS[kind]
    assert location.step == kind
    for write, remove in (
        (location.set, location.remove),
        (lambda v: step.write(owner, key, v), lambda: step.remove(owner, key)),
    ):
        write(5)
        assert location.get() == location.get_or(None) == step.read(owner, key) == 5
        remove()
        assert location.get_or("gone") == "gone"
    names: dict[str, Any] = {}
    exec(step.assignment("owner", key, "6", lambda x: repr(x)), {**STEP_NAMES, "owner": owner}, names)
    assert location.get() == 6
    exec(step.deletion("owner", key, lambda x: repr(x)), {**STEP_NAMES, "owner": owner}, names)
    objects = Objects()
    source = Source("object", objects.number(owner), "o").then(kind, key)
    assert check_of([Guard(source, Absent())], objects)()
    assert not owner or kind in ("attribute", "cell"), "looking puts nothing there"


def test_roots() -> None:
    world = World(INNER, ("a", "b"), [SETTINGS])
    assert world.find(Source("argument", 1, "y")) == "b"
    assert world.find(Source("function", None, "f")) is INNER
    assert world.find(Source("module", __name__, "m")) is sys.modules[__name__]
    assert world.find(Source("module", "builtins", "builtins").then("attribute", "len")) is len
    assert world.find(Source("object", 0, "o")) is SETTINGS
    with pytest.raises(KeyError):
        world.find(Source("object", 0, "o").then("item", "none"))


def test_sources_are_plain_data() -> None:
    source = Source("module", __name__, "").then("namespace").then("item", "SETTINGS").then("item", "k")
    assert source.text == "SETTINGS['k']" and source.is_storable
    assert pickle.loads(pickle.dumps(source)) == source
    assert source.owner.steps[-1] == Step("item", "SETTINGS")
    objects = Objects()
    assert not source.then("item", objects.key(object())).is_storable
    assert not Source("object", 0, "o").is_storable
    assert World(None, (), []).find(source) == 3


def test_each_object_has_the_source_by_which_it_was_reached_first() -> None:
    objects = Objects()
    provenance = Provenance(INNER, objects)
    world = World(INNER, (), objects.values)
    cell = INNER.__closure__[0]
    level = provenance.at(Slot("cell", cell, None, "level"))
    assert level.text == "level" and level.is_storable and world.find(level) == 7
    settings = provenance.at(Slot("item", globals(), "SETTINGS", "SETTINGS"))
    assert settings.kind == "module" and world.find(settings) is SETTINGS
    provenance.reach(SETTINGS, settings)
    again = provenance.at(Slot("item", SETTINGS, "k", "other['k']"))
    assert again.text == "SETTINGS['k']" and world.find(again) == 3
    unknown = provenance.at(Slot("attribute", OBJECT, "n", "box.n"))
    assert not unknown.is_storable and unknown.text == "box.n" and world.find(unknown) == 1
    bound, result = OBJECT.method, functools.partial(OBJECT.method, 3)
    provenance.reach(result, Source("argument", 0, "f"))
    other = World(INNER, (result,), objects.values)
    assert other.find(provenance.of(result.args, "")) == (3,)
    assert other.find(provenance.of(bound.__func__, "")) is Plain.method
    assert world.slot(settings) == Slot("item", globals(), "SETTINGS", "SETTINGS")
    assert world.slot(Source("function", None, "f")) is None


def test_absence_looks_into_a_mapping_where_there_is_one() -> None:
    class Slots:
        __slots__ = ("a",)

    class Plain:
        pass

    def name(value: Any) -> str:
        return "k"

    counted: dict[str, int] = defaultdict(int)
    assert STEPS["item"].absence("x", {"a": 1}, "b", name) == "'b' not in x"
    assert STEPS["own"].absence("x", Plain(), "b", name) == "'b' not in storage_of(x)"
    assert STEPS["class"].absence("x", Plain, "b", name) == "'b' not in entries_of(x)"
    for kind, owner in [("own", Slots()), ("item", counted), ("item", [1]), ("class", 3), ("attribute", Plain())]:
        assert STEPS[kind].absence("x", owner, "b", name) == ""
