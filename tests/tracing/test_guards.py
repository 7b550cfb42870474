"""A trace never serves a call for which the Python state that it read has changed."""

from __future__ import annotations

import dataclasses
import enum
import math
import operator
import sys
import types
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from functools import partial
from operator import attrgetter, itemgetter, methodcaller
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tracing.guards.guard import Absent, Guard, Objects
from jitgraph.tracing.guards.plain import same_float
from jitgraph.tracing.guards.source import Slot, Source
from tests.tracing.plans import check_of


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


FACTOR = 2
TABLE = {"k": 3.0, "names": ["a", "b"]}
WEIGHT = jg.asarray([1.0, 2.0])
ARRAY = np.array([1.0, 2.0], np.float32)


def helper(x: Any) -> Any:
    return x * FACTOR


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


class Config:
    scale = 4

    def __init__(self) -> None:
        self.rate = 2
        self.mode = Mode.TRAIN
        self.inner = types.SimpleNamespace(depth=3)
        self.layers: list[Any] = [helper, helper]
        self._hidden = 5

    @property
    def hidden(self) -> int:
        return self._hidden

    def get(self) -> Config:
        return self

    def __getitem__(self, key: int) -> Any:
        return self.layers[key]


CONFIG = Config()
X = [1.0, 1.0]


def check(function: Callable[..., Any], change: Callable[[], None], restore: Callable[[], None]) -> None:
    """The traced function agrees with eager before and after ``change``, and hits again once it is undone."""
    traced = jg.trace(function)
    x = jg.asarray(X)
    first = function(x).numpy()
    np.testing.assert_allclose(traced(x).numpy(), first)
    np.testing.assert_allclose(traced(x).numpy(), first)
    assert traced.cache_info().misses == 1, traced.ledger
    change()
    try:
        changed = function(x).numpy()
        assert not np.array_equal(changed, first), "the change must show, or the test shows nothing"
        np.testing.assert_allclose(traced(x).numpy(), changed)
    finally:
        restore()
    np.testing.assert_allclose(traced(x).numpy(), first)
    np.testing.assert_allclose(function(x).numpy(), first)


def swap(owner: Any, name: Any, value: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    """Functions that put ``value`` at a place and put the old one back."""
    location = Slot("item" if isinstance(owner, dict | list) else "attribute", owner, name, "")
    old = location.get()
    return lambda: location.set(value), lambda: location.set(old)


def test_global() -> None:
    check(lambda x: x * FACTOR, *swap(globals(), "FACTOR", 5))


def test_global_of_a_helper() -> None:
    check(lambda x: helper(x), *swap(globals(), "FACTOR", 5))


def test_global_function() -> None:
    check(lambda x: helper(x), *swap(globals(), "helper", lambda x: x - 1))


def imported_inside(x: Any) -> Any:
    from tests.tracing import test_guards as here
    from tests.tracing.test_guards import CONFIG, TABLE

    return x * TABLE["k"] * CONFIG.rate + here.FACTOR


def test_names_imported_inside_the_function() -> None:
    module = sys.modules[__name__]
    assert module.__name__ == "tests.tracing.test_guards"  # by which the function imports it
    check(imported_inside, *swap(TABLE, "k", -0.5))
    check(imported_inside, *swap(CONFIG, "rate", 7))
    check(imported_inside, *swap(module, "CONFIG", types.SimpleNamespace(rate=11)))
    check(imported_inside, *swap(module, "FACTOR", 13))


def test_item_of_a_dict() -> None:
    check(lambda x: x * TABLE["k"], *swap(TABLE, "k", -0.5))


def test_length_of_a_list() -> None:
    names: Any = TABLE["names"]
    check(lambda x: x * len(TABLE["names"]), lambda: names.append("c"), lambda: names.pop() and None)


def test_elements_of_a_list() -> None:
    def f(x: Any) -> Any:
        for layer in CONFIG.layers:
            x = layer(x)
        return x

    check(f, *swap(CONFIG.layers, 1, lambda x: x - 1))


def test_attribute_and_class_attribute() -> None:
    check(lambda x: x * CONFIG.rate, *swap(CONFIG, "rate", 7))
    check(lambda x: x * CONFIG.scale, *swap(Config, "scale", 7))
    check(lambda x: x * CONFIG.scale, lambda: setattr(CONFIG, "scale", 9), lambda: delattr(CONFIG, "scale"))


def test_nested_attribute_and_enum() -> None:
    check(lambda x: x * CONFIG.inner.depth, *swap(CONFIG.inner, "depth", 7))
    check(lambda x: x * CONFIG.inner.depth, *swap(CONFIG, "inner", types.SimpleNamespace(depth=8)))
    check(lambda x: x if CONFIG.mode is Mode.TRAIN else -x, *swap(CONFIG, "mode", Mode.EVAL))


def test_property_call_and_getattr() -> None:
    check(lambda x: x * CONFIG.hidden, *swap(CONFIG, "_hidden", 7))
    check(lambda x: x * CONFIG.get().rate, *swap(CONFIG, "rate", 7))
    name = "rate"
    check(lambda x: x * getattr(CONFIG, name), *swap(CONFIG, "rate", 7))
    check(lambda x: CONFIG[0](x), *swap(CONFIG.layers, 0, lambda x: x - 1))


def test_attribute_of_a_loop_variable() -> None:
    parts = [types.SimpleNamespace(k=2), types.SimpleNamespace(k=3)]

    def f(x: Any) -> Any:
        for part in parts:
            x = x * part.k
        return x + sum([part.k for part in parts])

    check(f, *swap(parts[1], "k", 7))
    check(f, *swap(parts[0], "k", 7))


def test_membership() -> None:
    seen: dict[str, int] = {"a": 1}
    check(lambda x: x if "b" in seen else -x, lambda: seen.update(b=1), lambda: seen.pop("b") and None)


def test_closure_cell_and_default() -> None:
    k, table = 2, {"k": 2}

    def f(x: Any, table: dict[str, int] = table) -> Any:
        return x * k * table["k"]

    def change() -> None:
        nonlocal k
        k = 5

    def restore() -> None:
        nonlocal k
        k = 2

    check(f, change, restore)
    check(f, *swap(table, "k", 9))


def test_method_of_a_class() -> None:
    check(lambda x: CONFIG.get().rate * x, *swap(Config, "get", lambda self: types.SimpleNamespace(rate=9)))


def test_method_shadowed_by_an_attribute() -> None:
    other = types.SimpleNamespace(rate=9)
    check(
        lambda x: CONFIG.get().rate * x, lambda: setattr(CONFIG, "get", lambda: other), lambda: delattr(CONFIG, "get")
    )


def test_numpy_array() -> None:
    def change() -> None:
        ARRAY[:] = 9

    def restore() -> None:
        ARRAY[:] = [1, 2]

    check(lambda x: x * ARRAY, change, restore)
    check(lambda x: x * float(ARRAY.sum()), change, restore)
    for use in (
        lambda x: x * ARRAY + ARRAY[1],  # an input, too, and its elements all the same
        lambda x: x * ARRAY / ARRAY.max(),
        lambda x: x * ARRAY / np.max(ARRAY),
        lambda x: x * ARRAY + float(ARRAY[0]) + sum(ARRAY.tolist()),
        lambda x: x * ARRAY * len(ARRAY) + sum(ARRAY),
        lambda x: x * ARRAY + jg.asarray(ARRAY[[1, 0]]) + np.asarray(ARRAY).max(),
    ):
        check(use, change, restore)
    check(lambda x: x * ARRAY.T + ARRAY[::-1] * ARRAY[None], change, restore)
    traced = jg.trace(lambda x: x * ARRAY + ARRAY.shape[0] - ARRAY.size)
    traced(jg.asarray(X))
    ARRAY[:] = 4
    np.testing.assert_array_equal(traced(jg.asarray(X)).numpy(), [4, 4])
    assert traced.cache_info().misses == 1, "an array that meets a tensor is an input"
    restore()


class Answering:
    """Answers every question by looking into a dict, with another error than Python's where nothing is there."""

    def __init__(self) -> None:
        self.__dict__["known"] = {"rate": 2.0}

    def __getattr__(self, name: str) -> Any:
        return self.known[name]

    def __call__(self, x: Any) -> Any:
        return x * self.rate


ANSWERING = Answering()


def test_an_object_that_answers_with_other_errors() -> None:
    check(
        lambda x: ANSWERING(x) + ANSWERING.rate,
        lambda: ANSWERING.known.update(rate=3.0),
        lambda: ANSWERING.known.update(rate=2.0),
    )


def test_tensor_is_an_input_and_may_be_replaced() -> None:
    traced = jg.trace(lambda x: x * WEIGHT)
    x = jg.asarray(X)
    old = WEIGHT
    np.testing.assert_array_equal(traced(x).numpy(), [1, 2])
    globals()["WEIGHT"] = jg.asarray([5.0, 6.0])
    np.testing.assert_array_equal(traced(x).numpy(), [5, 6])
    assert traced.cache_info().misses == 1
    globals()["WEIGHT"] = jg.asarray([5.0, 6.0], dtype=jg.float64)
    assert traced(x).dtype == jg.float64
    globals()["WEIGHT"] = old
    assert traced.cache_info().misses == 2


def test_tensor_that_becomes_an_argument_too() -> None:
    traced = jg.trace(lambda x: x.__iadd__(1) * WEIGHT)
    x = jg.asarray(X)
    np.testing.assert_array_equal(traced(x).numpy(), [2, 4])
    mine = jg.asarray([1.0, 2.0])
    old, globals()["WEIGHT"] = WEIGHT, mine
    np.testing.assert_array_equal(traced(mine).numpy(), [4, 9])
    globals()["WEIGHT"] = old


def test_counter_of_the_function_itself() -> None:
    box = types.SimpleNamespace(count=0)

    def f(x: Any) -> Any:
        box.count += 1
        return x * box.count

    traced = jg.trace(f)
    x = jg.asarray(1.0)
    assert [traced(x).item() for _ in range(3)] == [1, 2, 3]
    box.count = 0
    assert traced(x).item() == 1 and box.count == 1


def test_local_state_is_not_guarded() -> None:
    def f(x: Any) -> Any:
        table = {"k": 1}
        local = types.SimpleNamespace(k=1)
        for _ in range(3):
            table["k"] += 1
            local.k += 1

        def inner(y: Any) -> Any:
            return y * table["k"]

        return inner(x) + local.k

    traced = jg.trace(f, strict=True)
    for _ in range(2):
        assert traced(jg.asarray(1.0)).item() == 8
    assert traced.cache_info() == (1, 1, 1)


def test_host_float_is_an_input() -> None:
    from jitgraph.tracing import host_float

    group = {"lr": 0.5}

    @jg.trace
    def f(x: Any) -> Any:
        return x * host_float(group, "lr")

    assert f(jg.asarray(2.0)).item() == 1.0
    group["lr"] = 0.25
    assert f(jg.asarray(2.0)).item() == 0.5
    assert f.cache_info().misses == 1

    @jg.trace
    def with_a_question(x: Any) -> Any:
        return x * host_float(group, "lr") if group["lr"] != 0 else x

    for rate, due in ((0.25, 0.5), (0.5, 1.0), (0.0, 2.0), (0.125, 0.25), (0.0, 2.0)):
        group["lr"] = rate
        assert with_a_question(jg.asarray(2.0)).item() == due


def test_module_and_optimiser_state() -> None:
    model = jg.nn.Linear(3, 2)
    dropout = jg.nn.Dropout(0.5)
    optimizer = jg.optim.SGD([*model.parameters()], lr=0.01, momentum=0.9)

    @jg.trace
    def step(x: Any) -> Any:
        loss = (dropout(model(x)) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x = jg.ones((4, 3))
    dropout.eval()
    first = step(x).item()
    assert step(x).item() < first
    misses = step.cache_info().misses
    optimizer.param_groups[0]["lr"] = 0.0
    now = model.weight.detach().numpy().copy()
    optimizer.param_groups[0]["momentum"] = 0.0
    step(x)
    np.testing.assert_array_equal(model.weight.detach().numpy(), now)
    dropout.train()
    step(x)
    assert step.cache_info().misses > misses, "the mode of a module is guarded"


@pytest.mark.parametrize(
    "value",
    [
        1,
        True,
        None,
        1.5,
        float("nan"),
        -0.0,
        "text",
        b"b",
        2j,
        Mode.TRAIN,
        np.dtype("f4"),
        np.float32(2),
        (1, 2),
        len,
        int,
    ],
)
def test_a_guard_holds_for_its_value_and_no_other(value: Any) -> None:
    box, objects = types.SimpleNamespace(v=value), Objects()
    source = Source("object", objects.number(box), "box").then("attribute", "v")
    predicate = objects.value(value)
    holds = check_of([Guard(source, predicate)], objects)
    assert predicate.holds(value, objects.values) and holds()
    for other in (0.0, 1, 1.0, True, "1", None, 2, float("inf")):
        box.v = other
        same = other is value or (type(other) is type(value) and other == value and not isinstance(value, float))
        same = same or (isinstance(value, float) and same_float(other, value))
        assert predicate.holds(other, objects.values) == holds() == same, (other, value)
    del box.v
    assert not holds() and check_of([Guard(source, Absent())], objects)()


def test_same_float() -> None:
    assert same_float(math.nan, math.nan) and same_float(0.0, 0.0)
    assert not same_float(0.0, -0.0) and not same_float(1, 1.0)
    source = Source("object", 0, "box").then("attribute", "v")
    assert "box.v == 1.5" in str(Guard(source, Objects().value(1.5)))


class Bunch(dict[str, Any]):
    __getattr__ = dict.__getitem__


class Numbers(list[int]):
    pass


@pytest.mark.parametrize(
    ("state", "change", "use"),
    [
        (deque([1, 2]), lambda d: d.appendleft(9), lambda x, d: x * d[0] + len(d)),
        (Counter("aab"), lambda d: d.update("a"), lambda x, d: x * d["a"]),
        (Counter("a"), lambda d: d.update("b"), lambda x, d: x * d["b"]),
        (defaultdict(int, a=1), lambda d: d.update(a=5), lambda x, d: x * d["a"]),
        (Numbers([1, 2]), lambda d: d.append(4), lambda x, d: x * d[-1]),
        (Bunch(rate=2), lambda d: d.update(rate=7), lambda x, d: x * d.rate),
        (Bunch(inner=Bunch(rate=2)), lambda d: d["inner"].update(rate=7), lambda x, d: x * d.inner.rate),
        (types.SimpleNamespace(), lambda d: setattr(d, "b", 4), lambda x, d: x * getattr(d, "b", 2)),
        (types.SimpleNamespace(), lambda d: setattr(d, "b", 4), lambda x, d: x * (3 if hasattr(d, "b") else 1)),
        (types.SimpleNamespace(b=1), lambda d: delattr(d, "b"), lambda x, d: x * (3 if hasattr(d, "b") else 1)),
        (types.SimpleNamespace(b=1), lambda d: setattr(d, "b", 4), lambda x, d: x * vars(d)["b"]),
        (array("d", [1.0, 2.0]), lambda d: d.append(3.0), lambda x, d: x * sum(d)),
        (bytearray(b"ab"), lambda d: d.append(3), lambda x, d: x * len(d)),
        ({}, lambda d: d.update(k=3), lambda x, d: x * tried(d)),
    ],
    ids=lambda _: "",
)
def test_containers_and_what_is_absent(state: Any, change: Any, use: Any) -> None:
    traced = jg.trace(lambda x: use(x, state))
    x = jg.ones(())
    assert traced(x).item() == use(x, state).item()
    change(state)
    assert traced(x).item() == use(x, state).item()
    assert traced.cache_info().misses == 2


def tried(d: Any) -> int:
    try:
        return d["k"]  # type: ignore[no-any-return]
    except KeyError:
        return 1


def test_a_guard_puts_nothing_into_a_mapping_with_defaults() -> None:
    table = defaultdict(list, rows=[1])
    traced = jg.trace(lambda x: x * len(table["rows"]))
    traced(jg.ones(()))
    del table["rows"]
    assert Slot("item", table, "rows", "").get_or(None) is None
    assert not table


def test_an_attribute_made_by_the_first_call() -> None:
    class Lazy:
        def scale(self) -> float:
            if not hasattr(self, "kept"):
                self.kept = 3.0
            return self.kept

    lazy = Lazy()
    traced = jg.trace(lambda x: x * lazy.scale())
    assert [traced(jg.ones(())).item() for _ in range(3)] == [3.0, 3.0, 3.0]
    lazy.kept = 5.0
    assert traced(jg.ones(())).item() == 5.0
    del lazy.kept
    assert traced(jg.ones(())).item() == 3.0 and lazy.kept == 3.0


def test_modules_of_a_container_are_guarded() -> None:
    layers = jg.nn.ModuleList([jg.nn.Linear(2, 2)])

    @jg.trace
    def f(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    x = jg.ones((1, 2))
    f(x)
    layers.append(jg.nn.Linear(2, 3))
    assert f(x).shape == (1, 3)
    layers[1] = jg.nn.Linear(2, 4)
    assert f(x).shape == (1, 4)
    assert "0.weight" in jg.explain(f, x)


def test_an_attribute_counted_while_the_parameters_are_listed() -> None:
    class Counted(jg.nn.Linear):
        calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return super().forward(x) * sum(1 for _ in self.parameters())

    module = Counted(2, 2)
    f = jg.trace(lambda x: module(x))
    for number in range(1, 4):
        f(jg.ones((1, 2)))
        assert module.calls == number


class Matched:
    __match_args__ = ("a",)

    def __init__(self) -> None:
        self.a = 1
        self.b = 2


def with_default(x: Any, k: int = 2, *, name: str = "a") -> Any:
    return x * k if name == "a" else x - k


MATCHED = Matched()
NUMBER = 2
MARKED = jg.asarray([1.0, 2.0])
PARTIAL = partial(with_default, k=2)
GET = {"a": attrgetter("a"), "k": itemgetter("k"), "deep": attrgetter("inner.depth"), "call": methodcaller("get")}
SETTINGS = {"k": 2}
UNLISTED = types.ModuleType("unlisted")


def by_match(x: Any) -> Any:
    match MATCHED:
        case Matched(a=7):
            return x
        case Matched(b=8):
            return x * 8
        case Matched(a, b=2):
            return x * a
    return x * 9


def by_exec(x: Any) -> Any:
    results: dict[str, Any] = {"NUMBER": 1}
    exec("NUMBER = NUMBER + 1\nfound = NUMBER", results)
    return x * results["found"] + eval("NUMBER * 2")


def joined(x: Any, flag: bool = True) -> Any:
    box = MATCHED if flag else CONFIG
    return x * (MATCHED.a if flag else 3) + box.__dict__["b"]


CONFIG = Config()


def set_by_name(x: Any) -> Any:
    setattr(MATCHED, "a", MATCHED.a + 1)  # noqa: B010 - what is tested
    return x * MATCHED.a


def marked(x: Any) -> Any:
    MARKED.level += 1  # type: ignore[attr-defined]
    return MARKED * MARKED.level + x  # type: ignore[attr-defined]


def replaced_defaults() -> None:
    with_default.__defaults__ = (5,)


def restored_defaults() -> None:
    with_default.__defaults__ = (2,)


RARE: dict[str, tuple[Callable[[Any], Any], list[Callable[[], Any]]]] = {
    "defaults": (lambda x: with_default(x), [replaced_defaults, restored_defaults]),
    "keyword defaults": (
        lambda x: with_default(x),
        [lambda: vars(with_default), lambda: setattr(with_default, "__kwdefaults__", {"name": "b"})],
    ),
    "partial": (lambda x: PARTIAL(x), [lambda: PARTIAL.keywords.update(k=7)]),
    "match": (by_match, [lambda: setattr(MATCHED, "b", 8), lambda: setattr(MATCHED, "a", 7)]),
    "match again": (by_match, [lambda: setattr(MATCHED, "a", 3), lambda: setattr(MATCHED, "b", 3)]),
    "attrgetter": (lambda x: x * GET["a"](MATCHED), [lambda: setattr(MATCHED, "a", 30)]),
    "attrgetter made": (lambda x: x * attrgetter("a")(MATCHED), [lambda: setattr(MATCHED, "a", 31)]),
    "deep attrgetter": (lambda x: x * GET["deep"](CONFIG), [lambda: setattr(CONFIG.inner, "depth", 9)]),
    "itemgetter": (lambda x: x * GET["k"](SETTINGS), [lambda: SETTINGS.update(k=5)]),
    "getitem": (lambda x: x * operator.getitem(SETTINGS, "k"), [lambda: SETTINGS.update(k=6)]),
    "methodcaller": (lambda x: x * GET["call"](CONFIG).rate, [lambda: setattr(CONFIG, "rate", 6)]),
    "globals": (lambda x: x * globals()["NUMBER"], [lambda: globals().update(NUMBER=5)]),
    "vars of a module": (lambda x: x * vars(UNLISTED)["q"], [lambda: setattr(UNLISTED, "q", 5)]),
    "a module that nobody imported": (lambda x: x * UNLISTED.q, [lambda: setattr(UNLISTED, "q", 6)]),
    "eval and exec": (by_exec, [lambda: globals().update(NUMBER=7)]),
    "dir": (lambda x: x * len(dir(CONFIG)), [lambda: setattr(CONFIG, "more", 1)]),
    "argv": (lambda x: x * len(sys.argv), [lambda: sys.argv.append("more"), lambda: sys.argv.pop()]),
    "attribute of a tensor": (lambda x: x * MARKED.level, [lambda: setattr(MARKED, "level", 5)]),
    "two ways": (joined, [lambda: setattr(MATCHED, "b", 50), lambda: setattr(MATCHED, "a", 60)]),
}


@pytest.mark.parametrize("name", RARE)
def test_rare_ways_to_read_state(name: str) -> None:
    MARKED.level = 1  # type: ignore[attr-defined]
    UNLISTED.q = 2  # type: ignore[attr-defined]
    use, edits = RARE[name]
    traced, x = jg.trace(use), jg.asarray([1.0, 2.0])
    assert traced(x).tolist() == use(x).tolist()
    for edit in edits:
        edit()
        assert traced(x).tolist() == use(x).tolist()
    assert not [what for plan in traced.plans for what in plan.unguarded]


def test_attributes_set_by_name_or_on_a_tensor() -> None:
    traced, x = jg.trace(set_by_name), jg.asarray([1.0, 2.0])
    MATCHED.a = 0
    assert [traced(x).tolist()[0] for _ in range(3)] == [1, 2, 3] and MATCHED.a == 3
    MARKED.level = 0  # type: ignore[attr-defined]
    traced = jg.trace(marked)
    assert [traced(x).tolist()[0] for _ in range(3)] == [2, 3, 4]
    assert MARKED.level == 3  # type: ignore[attr-defined]

    def on_an_argument(x: Any) -> Any:
        x.seen = True
        return x * 2

    with pytest.raises(jg.TraceError, match=r"x.seen is set on a tensor among the arguments"):
        jg.trace(on_an_argument)(x)
    assert not hasattr(x, "seen")


def test_a_tensor_whose_attribute_is_read_has_to_stay() -> None:
    first, second = jg.asarray([1.0]), jg.asarray([1.0])
    first.level, second.level = 1, 2  # type: ignore[attr-defined]
    box = types.SimpleNamespace(w=first)
    traced = jg.trace(lambda x: x * box.w.level + box.w)
    x = jg.asarray([1.0])
    assert traced(x).tolist() == [2]
    box.w = second
    assert traced(x).tolist() == [3]


@dataclasses.dataclass
class Layer:
    weight: Any
    depth: int = 1
    kind = "dense"

    def __post_init__(self) -> None:
        self.rate = 2.0
        self.bias = jg.asarray([1.0, 1.0])


def test_attributes_of_arguments_that_are_no_fields() -> None:
    def f(layer: Any) -> Any:
        return layer.weight * layer.rate * len(layer.kind) + layer.bias * layer.depth

    for weight in (jg.asarray(X), np.asarray(X), 1.5):  # as it is, and rebuilt around what stands for it
        traced = jg.trace(f)
        layers = [Layer(weight) for _ in range(5)]
        layers[1].rate, layers[2].kind, layers[3].bias, layers[4].depth = 3.0, "sparse", jg.asarray([5.0, 6.0]), 7
        for layer in (*layers, *layers[::-1]):
            np.testing.assert_allclose(traced(layer).numpy(), f(layer).numpy())
    Layer.kind = "conv2d"
    try:
        np.testing.assert_allclose(traced(layers[0]).numpy(), f(layers[0]).numpy())
    finally:
        Layer.kind = "dense"
    assert any("layer.rate" in line.reason for line in traced.ledger)


def test_an_attribute_of_an_argument_that_hides_that_of_its_class() -> None:
    shared = jg.asarray([1.0, 1.0])
    plain, own = Layer(1.5), Layer(1.5)
    plain.bias = own.bias = shared
    own.kind = "sparse"
    traced = jg.trace(lambda layer: layer.bias * len(layer.kind))
    assert [traced(layer).tolist() for layer in (plain, own, plain)] == [[5.0, 5.0], [6.0, 6.0], [5.0, 5.0]]


def test_a_global_that_is_absent() -> None:
    def f(x: jg.Tensor) -> jg.Tensor:
        try:
            return x * LATER  # type: ignore[name-defined]
        except NameError:
            return x

    check(f, lambda: globals().update(LATER=3.0), lambda: globals().pop("LATER"))
