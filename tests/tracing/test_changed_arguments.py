"""What a traced function does to containers among its arguments, and objects that it makes, are as in eager."""

from __future__ import annotations

import enum
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jitgraph as jg


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


@dataclass
class State:
    n: int
    w: Any
    rate: float = 0.5


@dataclass(slots=True)
class Slotted:
    n: int
    w: Any


def x() -> Any:
    return jg.asarray([1.0, 2.0])


def shown(value: Any) -> Any:
    if isinstance(value, jg.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(element)) for key, element in value.items()]
    if isinstance(value, list | tuple | deque):
        return type(value).__name__, [shown(element) for element in value]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return type(value).__name__, shown(vars(value))
    if isinstance(value, Slotted):
        return value.n, shown(value.w)
    return type(value).__name__, value


def count(s: Any, x: Any) -> Any:
    s["n"] += 1
    s["rate"] *= 0.5
    return x * s["n"] + s["rate"]


def attributes(s: Any, x: Any) -> Any:
    s.n += 1
    s.w = s.w + x
    s.extra = s.n * 2
    return x * s.n


def slots(s: Any, x: Any) -> Any:
    s.n, s.w = s.n + 1, x * s.n
    return s.w


def growing(s: Any, x: Any) -> Any:
    s.append(x * len(s))
    s[0] = s[0] + 1
    return x * len(s)


def shrinking(s: Any, x: Any) -> Any:
    if len(s) > 1:
        x = x * s.pop()
    return x


def keys(s: Any, x: Any) -> Any:
    s["new"] = x + 1
    s.pop("old", None)
    s["n"] = s.get("n", 0) + 1
    return x * s["n"]


def order(s: Any, x: Any) -> Any:
    s["a"] = s.pop("a")
    return x * 2


def nested(s: Any, x: Any) -> Any:
    s["in"]["n"] += 1
    s["in"]["list"][0] = x * s["in"]["n"]
    return s["in"]["list"][0], s["w"]


def arrays(s: Any, x: Any) -> Any:
    s["n"] += 1
    return x * s["n"] + s["array"]


def fresh_array(s: Any, x: Any) -> Any:
    s["made"] = np.arange(s["n"])
    s["made"][0] += 1
    return x


def conditional(s: Any, x: Any) -> Any:
    s["n"] += 1
    if s["n"] % 2:
        s["odd"] = s["n"]
    return x * s["n"]


def swap(s: Any, x: Any) -> Any:
    s["a"], s["b"] = s["b"], s["a"]
    return x + s["a"]


CASES: list[tuple[Callable[..., Any], Callable[[], Any]]] = [
    (count, lambda: {"n": 0, "rate": 1.0}),
    (count, lambda: OrderedDict(n=0, rate=1.0)),
    (attributes, lambda: State(0, x())),
    (slots, lambda: Slotted(1, x())),
    (growing, lambda: [x()]),
    (shrinking, lambda: [2.0, 3.0, 4.0]),
    (keys, lambda: {"old": 3}),
    (order, lambda: {"a": 1, "b": 2}),
    (nested, lambda: {"in": {"n": 0, "list": [x()]}, "w": x()}),
    (arrays, lambda: {"n": 0, "array": np.ones(2, np.float32)}),
    (fresh_array, lambda: {"n": 3}),
    (conditional, lambda: {"n": 0, "odd": 0}),
    (swap, lambda: {"a": x(), "b": x() * 3}),
]


@pytest.mark.parametrize(("function", "make"), CASES, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("mode", ["traced", "verified", "disabled"])
def test_containers_change_as_in_eager(function: Any, make: Any, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "disabled":
        monkeypatch.setenv("JITGRAPH_DISABLE_JIT", "1")
    traced = jg.trace(function, verify=mode == "verified", strict=True)
    mine, due = make(), make()
    for i in range(5):
        if i == 3:
            mine, due = make(), make()
        actual, wanted = shown(traced(mine, x())), shown(function(due, x()))
        assert actual == wanted
        assert shown(mine) == (shown(due) if mode != "disabled" else shown(mine))
        assert type(mine) is type(due)


def test_counting_in_a_container_compiles_once() -> None:
    traced, state = jg.trace(count), {"n": 0, "rate": 1.0}
    for _ in range(4):
        traced(state, x())
    assert state == {"n": 4, "rate": 0.0625} and type(state["n"]) is int and type(state["rate"]) is float
    assert traced.cache_info() == (3, 1, 1)


def test_an_exception_leaves_the_arguments_alone() -> None:
    @jg.trace
    def f(s: Any, x: Any) -> Any:
        s["n"] += 1
        s["x"] = x * 2
        s["list"].clear()
        raise ValueError("no")

    element = x()
    state: dict[str, Any] = {"n": 0, "list": [element]}
    with pytest.raises(ValueError, match="no"):
        f(state, x())
    assert list(state) == ["n", "list"] and state["n"] == 0 and state["list"][0] is element


def test_one_container_given_twice() -> None:
    def both(a: Any, b: Any, x: Any) -> Any:
        a["n"] += 1
        return x * b["n"]

    traced = jg.trace(both)
    one, two = {"n": 0}, {"n": 5}
    assert traced(one, two, x()).tolist() == [5, 10] and one["n"] == 1
    try:
        assert traced(two, two, x()).tolist() == [6, 12] and two["n"] == 6
    except jg.TraceError as error:
        assert "more than once" in str(error)
        assert two["n"] == 5
    assert traced(one, two, x()).tolist()[0] == two["n"] and one["n"] == 2


def test_a_container_that_moves_is_refused() -> None:
    @jg.trace
    def f(s: Any, x: Any) -> Any:
        s["b"] = s["a"]
        return x * 2

    with pytest.raises(jg.TraceError, match=r"s\['b'\] is set to s\['a'\]"):
        f({"a": [1], "b": [2]}, x())


class Made:
    def __init__(self, k: Any) -> None:
        self.k = k


SHARED = np.arange(4.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(3),
        lambda: {1, 2},
        lambda: bytearray(b"ab"),
        lambda: deque([1, [2]]),
        lambda: [np.zeros(2), {"k": np.ones(1)}],
        lambda: Made([1]),
    ],
)
def test_objects_that_the_function_makes_are_new_at_each_call(make: Any) -> None:
    @jg.trace
    def f(x: Any) -> Any:
        actual = make()
        return x, actual, actual

    results = []
    for _ in range(3):
        _, actual, again = f(x())
        assert shown(actual) == shown(make())
        if not isinstance(actual, list):
            assert actual is again
        if isinstance(actual, list):
            actual[0][0] = 7
            actual[1]["k"][0] = 7
        elif isinstance(actual, np.ndarray):
            actual[:] = 7
        elif isinstance(actual, set):
            actual.add(7)
        elif hasattr(actual, "k"):
            actual.k.append(7)
        else:
            actual.append(7)
        results.append(actual)
    assert len({id(actual) for actual in results}) == 3


def test_objects_from_outside_are_given_out_themselves() -> None:
    holder = types.SimpleNamespace(items={1, 2}, array=SHARED)

    @jg.trace
    def f(x: Any, argument: Any) -> Any:
        return x, holder.items, holder.array, SHARED[1:], holder

    for _ in range(2):
        _, items, array, view, same = f(x(), 3)
        assert items is holder.items and array is SHARED and same is holder
        assert np.shares_memory(view, SHARED)


def test_a_fresh_array_in_an_attribute() -> None:
    holder = types.SimpleNamespace(made=None)

    @jg.trace
    def f(x: Any) -> Any:
        holder.made = np.zeros(2)
        return x

    f(x())
    first = holder.made
    first[:] = 5
    f(x())
    assert holder.made is not first and holder.made.tolist() == [0, 0]


def test_an_array_changed_in_place_is_refused_and_put_back() -> None:
    small, large = np.zeros(2, np.float32), np.zeros(1 << 19, np.float32)
    holder = types.SimpleNamespace(array=small)

    @jg.trace
    def f(x: Any) -> Any:
        used = holder.array
        used += 1
        return x * float(used[0])

    for holder.array in (small, large):
        with pytest.raises(jg.TraceError, match=r"holder.array was changed while the function was traced"):
            f(x())
    assert small.tolist() == [0, 0]


def test_a_container_changed_by_a_method_of_its_own_is_put_back() -> None:
    class Bag(list[Any]):
        def add(self, element: Any) -> None:
            super().append(element)

    holder = types.SimpleNamespace(bag=Bag([1]))

    def grow(x: Any) -> Any:
        for _ in holder.bag:
            x = x * 2
        holder.bag.add(2)
        return x

    traced = jg.trace(grow)
    try:
        traced(x())
    except jg.TraceError as error:
        assert "was changed while the function was traced" in str(error) and holder.bag == [1]
    else:
        assert holder.bag == [1, 2]


def test_bodies_of_control_flow_change_nothing_outside() -> None:
    holder = types.SimpleNamespace(n=0, mode=True)
    seen: list[Any] = []
    count = 0

    def attribute(y: Any) -> Any:
        holder.n += 1
        return y * 2

    def variable(y: Any) -> Any:
        nonlocal count
        count += 1
        return y * 2

    def container(y: Any) -> Any:
        seen.append(1)
        return y * 2

    def there_and_back(y: Any) -> Any:
        holder.mode = False
        y = y * (3 if holder.mode else 2)
        holder.mode = True
        return y

    uses: list[Callable[[Any, Any], Any]] = [
        lambda body, x: jg.cond(x.sum() > 2, body, lambda y: y * 3, x),
        lambda body, x: jg.while_loop(lambda y: y.sum() < 20, body, x),
        lambda body, x: jg.scan(lambda c, v: (body(c), v), x, x)[0],
    ]
    for use in uses:
        for body, text in ((attribute, "holder.n"), (variable, "count"), (container, "seen")):
            if use is uses[2] and body is not attribute:
                continue  # the variables of a function that the body calls are not its own
            with pytest.raises(jg.TraceError, match=f"{text} is changed in a body of"):
                jg.trace(lambda x, use=use, body=body: use(body, x))(x())
        np.testing.assert_array_equal(
            jg.trace(lambda x, use=use: use(there_and_back, x))(x()).numpy(), use(there_and_back, x()).numpy()
        )
    assert (holder.n, holder.mode, count, seen) == (0, True, 0, [])


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


def test_what_a_call_sets_is_set_whatever_stood_there() -> None:
    def run(wrap: Any) -> list[Any]:
        layer = jg.nn.Dropout(0.0)
        box = types.SimpleNamespace(n=0, mode=Mode.TRAIN, text="a", items=[1], other=[1], gone=1)
        items, other = box.items, box.other

        def step(x: Any, flag: bool) -> Any:
            layer.train(flag)
            box.mode = Mode.TRAIN if flag else Mode.EVAL
            box.text = "a" if flag else "b"
            box.items = items if flag else other
            if flag and hasattr(box, "gone"):
                del box.gone
            return x * (2 if layer.training else 3)

        function, actual = wrap(step), []
        for i, flag in enumerate([True, False, True, True, False, True]):
            result = function(x(), flag)
            actual.append(
                (result.tolist(), layer.training, box.mode, box.text, box.items is items, hasattr(box, "gone"))
            )
            if i == 2:
                layer.eval()
                box.mode, box.text, box.items, box.gone = Mode.EVAL, "c", other, 2
        return actual

    assert run(jg.trace) == run(lambda f: f)


def test_a_container_from_outside_is_given_out_itself() -> None:
    holder = types.SimpleNamespace(items=[1, [2]], table={"w": x()}, state=State(1, x()))

    @jg.trace
    def f(x: Any) -> Any:
        holder.items[0] += 1
        holder.again = holder.items
        return x * holder.table["w"], holder.items, {"t": (holder.table, holder.state)}

    for n in (2, 3, 4):
        _, items, rest = f(x())
        assert items is holder.items is holder.again and items == [n, [2]]
        assert rest["t"][0] is holder.table and rest["t"][1] is holder.state
    assert f.cache_info().misses == 1
