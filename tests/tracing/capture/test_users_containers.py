"""Classes of the user's that derive from Python's own: what those hold is read by C, whatever methods they define."""
# ruff: noqa: C416, RUF015 - each way of reading is one of its own

from __future__ import annotations

import array
import collections
import ctypes
import queue
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

X = np.array([1.0, 2.0])


def derived(base: Any, *names: str) -> Any:
    """A class derived from ``base`` whose methods of these names do what those of ``base`` do, written in Python."""

    def method(name: str) -> Any:
        def does(self: Any, *arguments: Any) -> Any:
            return getattr(base, name)(self, *arguments)

        return does

    return type(f"{base.__name__}_{len(names)}", (base,), {name: method(name) for name in names})


CALLS = 6
"""More than Python serves before calls go past it."""


@pytest.fixture(autouse=True, params=["0", "1"], ids=["python", "native"])
def dispatch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", request.param)


def follows(read: Callable[[Any], Any], state: Any, change: Callable[[Any], Any], *, retraces: bool = True) -> None:
    """Whether a trace that reads state gives what Python gives, before and after the state is changed."""
    traced = jg.trace(lambda x: x * read(state))
    for _ in range(CALLS):
        np.testing.assert_array_equal(traced(X).numpy(), X * read(state))
    assert not retraces or traced.cache_info().misses == 1, "what did not change was recorded again"
    change(state)
    np.testing.assert_array_equal(traced(X).numpy(), X * read(state))


MAPPING_READS: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda base, s: s["k"],
    "unbound item": lambda base, s: base.__getitem__(s, "k"),
    "get": lambda base, s: s.get("k"),
    "unbound get": lambda base, s: base.get(s, "k"),
    "items": lambda base, s: [value for _, value in base.items(s)][0],
    "values": lambda base, s: list(base.values(s))[0],
    "iteration": lambda base, s: s[[key for key in base.__iter__(s)][0]],
    "loop": lambda base, s: s[[key for key in s][-1]],
    "membership": lambda base, s: 1.0 if base.__contains__(s, "k2") else 2.0,
    "in": lambda base, s: 1.0 if "k2" in s else 2.0,
    "length": lambda base, s: float(base.__len__(s)),
    "len": lambda base, s: float(len(s)),
    "copy": lambda base, s: base.copy(s)["k"],
    "dict": lambda base, s: dict(s)["k"],
    "keywords": lambda base, s: (lambda k, **_: k)(**s),
    "comparison": lambda base, s: 1.0 if base.__eq__(s, {"k": 2.0}) else 3.0,
    "setdefault": lambda base, s: base.setdefault(s, "k", 9.0),
    "union": lambda base, s: base.__or__(s, {})["k"],
    "reversed": lambda base, s: s[list(base.__reversed__(s))[0]],
}
SEQUENCE_READS: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda base, s: s[0],
    "unbound item": lambda base, s: base.__getitem__(s, 0),
    "iteration": lambda base, s: next(base.__iter__(s)),
    "loop": lambda base, s: [element for element in s][0],
    "sum": lambda base, s: sum(s),
    "length": lambda base, s: float(base.__len__(s)),
    "len": lambda base, s: float(len(s)),
    "membership": lambda base, s: 1.0 if base.__contains__(s, 2.0) else 2.0,
    "count": lambda base, s: 1.0 if base.count(s, 2.0) else 2.0,
    "copy": lambda base, s: base.copy(s)[0],
    "sum of two": lambda base, s: base.__add__(s, base())[0],
    "comparison": lambda base, s: 1.0 if base.__eq__(s, base([2.0])) else 3.0,
    "reversed": lambda base, s: list(reversed(s))[0],
}
METHODS = ((), ("__getitem__",), ("__getitem__", "__iter__", "__len__", "__contains__"), ("__len__",))


@pytest.mark.parametrize("names", METHODS, ids=len)
@pytest.mark.parametrize("how", MAPPING_READS)
@pytest.mark.parametrize("base", [dict, OrderedDict, defaultdict], ids=lambda base: base.__name__)
def test_a_mapping_of_the_user(base: Any, how: str, names: tuple[str, ...]) -> None:
    def change(state: Any) -> None:
        base.__setitem__(state, "k", 5.0)
        base.__setitem__(state, "k2", 6.0)

    state = derived(base, *names)()
    base.__setitem__(state, "k", 2.0)
    follows(lambda s: MAPPING_READS[how](base, s), state, change)


@pytest.mark.parametrize("names", METHODS, ids=len)
@pytest.mark.parametrize("how", SEQUENCE_READS)
@pytest.mark.parametrize("base", [list, deque], ids=lambda base: base.__name__)
def test_a_sequence_of_the_user(base: Any, how: str, names: tuple[str, ...]) -> None:
    def change(state: Any) -> None:
        base.__setitem__(state, 0, 5.0)
        base.append(state, 6.0)

    follows(lambda s: SEQUENCE_READS[how](base, s), derived(base, *names)([2.0]), change)


@pytest.mark.parametrize("names", [(), ("__contains__",), ("__len__", "__iter__")], ids=len)
@pytest.mark.parametrize(
    "read",
    [
        lambda s: 2.0 if 3 in s else 1.0,
        lambda s: float(set.__len__(s)),
        lambda s: float(sum(s)),
        lambda s: len(s | {7}),
    ],
)
def test_a_set_of_the_user(names: tuple[str, ...], read: Any) -> None:
    follows(read, derived(set, *names)([1]), lambda s: set.add(s, 3))


class LyingList(list[Any]):
    """Its own methods say nothing of what it holds."""

    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Any:
        return iter([1.0, 2.0])

    def __getitem__(self, key: Any) -> Any:
        return 3.0


class LyingDict(dict[str, Any]):
    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Any:
        return iter(["none", "of", "them"])

    def __getitem__(self, key: str) -> Any:
        return 3.0

    def keys(self) -> Any:
        return ["none"]

    def values(self) -> Any:
        return [4.0]

    def items(self) -> Any:
        return [("none", 4.0)]


def test_what_methods_of_the_user_say_is_not_what_a_container_holds() -> None:
    many = [float(n) for n in range(100)]
    for read in (
        lambda s: float(list.__len__(s)),
        lambda s: list.__getitem__(s, 0),
        lambda s: list.index(s, 2.0) + 1.0,
        lambda s: float(len(s)) + sum(s) + s[0],
        lambda s: list.__add__(s, [1.0])[0],
    ):
        follows(read, LyingList([2.0]), lambda s: list.insert(s, 0, 5.0))
        follows(read, LyingList(many), lambda s: list.insert(s, 0, 5.0))
    for read in (
        lambda s: float(dict.__len__(s)),
        lambda s: dict.get(s, "k"),
        lambda s: [*dict.values(s)][-1],
        lambda s: float(len(s)) + s["k"] + sum(s.values()),
        lambda s: dict.copy(s).get("k", 7.0),
    ):
        follows(read, LyingDict(k=2.0), lambda s: dict.update(s, k=5.0, other=6.0))
        follows(read, LyingDict(k=2.0, **{f"k{n}": n for n in many}), lambda s: dict.update(s, k=5.0, other=6.0))


def test_elements_of_a_tuple_of_the_user_are_followed() -> None:
    class Box:
        n = 2.0

    pair = derived(tuple, "__getitem__", "__iter__")((Box(),))
    for read in (lambda s: s[0].n, lambda s: tuple.__getitem__(s, 0).n, lambda s: next(tuple.__iter__(s)).n):
        pair[0].n = 2.0
        follows(read, pair, lambda s: setattr(tuple.__getitem__(s, 0), "n", 5.0))


def test_a_key_that_is_not_read_may_change() -> None:
    state = derived(dict, "__getitem__")(k=2.0, other=1.0)
    traced = jg.trace(lambda x: x * state["k"])
    for value in (1.0, 2.0, 3.0):
        dict.__setitem__(state, "other", value)
        np.testing.assert_array_equal(traced(X).numpy(), X * 2)
    assert traced.cache_info().misses == 1


def test_the_order_of_an_ordered_dict() -> None:
    for kind in (OrderedDict, derived(OrderedDict, "__getitem__")):
        state = kind()
        OrderedDict.__setitem__(state, "a", 2.0)
        OrderedDict.__setitem__(state, "b", 3.0)
        follows(lambda s: [*s.values()][0], state, lambda s: s.move_to_end("a"))
        follows(lambda s: [s[key] for key in s][0], state, lambda s: s.move_to_end("b"))


@pytest.mark.parametrize("kind", [dict, OrderedDict, derived(dict), derived(dict, "__getitem__"), derived(OrderedDict)])
def test_items_of_mappings_are_read_past_python(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    state = kind(k=2.0)
    traced = jg.trace(lambda x: x * state["k"])
    for _ in range(CALLS):
        traced(X)
    assert traced.native.hits > 0, traced.native.reasons
    dict.__setitem__(state, "k", 5.0)
    np.testing.assert_array_equal(traced(X).numpy(), X * 5)


@pytest.mark.parametrize("kind", [list, derived(list), derived(list, "__getitem__"), derived(tuple, "__getitem__")])
def test_items_of_sequences_are_read_past_python(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    state = kind([2.0, 3.0])
    traced = jg.trace(lambda x: x * state[1])
    for _ in range(CALLS):
        traced(X)
    assert traced.native.hits > 0, traced.native.reasons
    if issubclass(kind, list):
        list.__setitem__(state, 1, 5.0)
        np.testing.assert_array_equal(traced(X).numpy(), X * 5)
        list.pop(state)
        with pytest.raises(IndexError):
            traced(X)


def test_a_method_that_a_class_gets_later_is_asked() -> None:
    for base, inputs in ((dict, {0: 2.0}), (list, [2.0])):
        kind = derived(base)
        state = kind(inputs)
        traced = jg.trace(lambda x: x * state[0])  # noqa: B023
        for _ in range(CALLS):
            traced(X)
        kind.__getitem__ = lambda self, key: 7.0
        np.testing.assert_array_equal(traced(X).numpy(), X * 7)


# --- changes --------------------------------------------------------------------------------------------------------


class Twice(dict[str, Any]):
    """What is put in is doubled, so that doing it again is seen."""

    count = 0

    def __setitem__(self, key: str, value: Any) -> None:
        self.count += 1
        super().__setitem__(key, value * 2)

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)


class Tripled(list[Any]):
    def append(self, value: Any) -> None:
        super().append(value * 3)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value * 3)


class Offset(set[int]):
    def add(self, value: int) -> None:
        super().add(value + 10)


def test_a_method_that_changes_a_mapping_runs_once_a_call() -> None:
    state, plain = Twice(), Twice()

    def put(state: Any, x: Any) -> Any:
        state["a"] = x
        return state["a"] + 1

    traced = jg.trace(put)
    for value in (X, X + 1, X + 2):
        np.testing.assert_array_equal(traced(state, value).numpy(), put(plain, value))
        np.testing.assert_array_equal(dict.__getitem__(state, "a").numpy(), dict.__getitem__(plain, "a"))
    assert state.count == plain.count == 3 and traced.cache_info().hits > 0


def test_a_method_that_changes_a_sequence_or_a_set_runs_once_a_call() -> None:
    state, members = Tripled([0.0]), Offset()

    @jg.trace
    def put(x: Any) -> Any:
        state.append(x)
        state[0] = x
        members.add(len(state))
        return x + 1

    for number in range(3):
        put(X + number)
        assert len(state) == number + 2 and members == {12 + n for n in range(number + 1)}
        for element in (state[-1], state[0]):
            np.testing.assert_array_equal(element.numpy(), 3 * (X + number))


def test_what_a_failed_call_changed_is_put_back() -> None:
    mapping, ordered, row = Twice(), derived(OrderedDict, "__setitem__")(), Tripled([1.0])
    dict.__setitem__(mapping, "a", 2.0)
    OrderedDict.__setitem__(ordered, "a", 2.0)

    @jg.trace
    def fails(x: Any) -> Any:
        mapping["a"] = mapping["b"] = ordered["a"] = ordered["b"] = 7.0
        row.append(7.0)
        row[0] = 7.0
        raise ValueError("after the changes")

    with pytest.raises(ValueError, match="after the changes"):
        fails(X)
    assert dict(dict.items(mapping)) == {"a": 2.0} and dict(ordered) == {"a": 2.0} and list(row) == [1.0]


def test_a_counter_in_a_mapping_of_the_user_counts() -> None:
    state = derived(dict, "__getitem__", "__setitem__", "get")(n=0)

    @jg.trace
    def count(x: Any) -> Any:
        state["n"] = state["n"] + 1
        return x * state["n"]

    for number in range(1, 5):
        np.testing.assert_array_equal(count(X).numpy(), X * number)


# --- what no attribute shows ----------------------------------------------------------------------------------------


class Numbers(array.array):  # type: ignore[type-arg]
    pass


class Counted(array.array):  # type: ignore[type-arg]
    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key)


class Bytes(bytearray):
    pass


class Waiting(queue.SimpleQueue):  # type: ignore[type-arg]
    pass


class Doubles(ctypes.c_double * 2):  # type: ignore[misc]
    pass


class Failure(Exception):
    pass


HIDDEN: list[tuple[Any, Any, Any]] = [
    *(
        (kind("d", [2.0]), read, lambda s: array.array.__setitem__(s, 0, 5.0))
        for kind in (Numbers, Counted)
        for read in (
            lambda s: s[0],
            lambda s: array.array.__getitem__(s, 0),
            lambda s: sum(s),
            lambda s: [element for element in s][0],
            lambda s: s.tolist()[0],
        )
    ),
    (Numbers("d", [2.0]), lambda s: float(len(s)), lambda s: s.append(5.0)),
    (Bytes(b"\2"), lambda s: float(s[0]), lambda s: s.__setitem__(0, 5)),
    (Bytes(b"\2"), lambda s: float(bytearray.__getitem__(s, 0)), lambda s: s.__setitem__(0, 5)),
    (Bytes(b"\2"), lambda s: float(sum(s) + len(s)), lambda s: s.append(5)),
    (Waiting(), lambda s: float(s.qsize()), lambda s: s.put(1)),
    ((ctypes.c_double * 2)(2.0), lambda s: s[0], lambda s: s.__setitem__(0, 5.0)),
    (Doubles(2.0), lambda s: s[0], lambda s: s.__setitem__(0, 5.0)),
    (Failure(2.0), lambda s: s.args[0], lambda s: setattr(s, "args", (5.0,))),
    (collections.UserDict(k=2.0), lambda s: s["k"], lambda s: s.__setitem__("k", 5.0)),
    (collections.ChainMap({"k": 2.0}), lambda s: s["k"], lambda s: s.__setitem__("k", 5.0)),
]


@pytest.mark.filterwarnings("ignore:.*recorded anew")
@pytest.mark.parametrize("number", range(len(HIDDEN)))
def test_what_no_attribute_shows(number: int) -> None:
    state, read, change = HIDDEN[number]
    follows(read, state, change, retraces=False)


def test_names_that_are_loaded_when_a_trace_uses_them_first() -> None:
    program = """if True:
        import jitgraph as jg
        from jitgraph.runtime import stubs
        left = 0
        for module, text in ((jg.nn, "jg.nn"), (jg.nn.functional, "jg.nn.functional")):
            for name in [name for name in module.__all__ if name not in vars(module)]:
                assert stubs.is_loaded_when_used(module.__name__, name), name
                f = jg.trace(eval(f"lambda x: ({text}.{name}, x + 1)[1]"))
                f(jg.zeros(2)), f(jg.zeros(2))
                assert f.cache_info().misses == 1, name
                original = getattr(module, name)
                setattr(module, name, lambda: None)
                f(jg.zeros(2))
                assert f.cache_info().misses == 2, f"another {name} is not seen"
                setattr(module, name, original)
                left += 1
        assert left > 50, left
        """
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
