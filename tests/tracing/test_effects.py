"""What a function does to Python state: one log undoes it, and each call does it again as eager does."""

from __future__ import annotations

import copy
import dataclasses
import heapq
import types
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jitgraph as jg
from jitgraph.tracing.call.undo_log import CHANGERS, UndoLog
from jitgraph.tracing.guards.source import Slot


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


def shown(value: Any) -> Any:
    if isinstance(value, jg.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(element)) for key, element in value.items()]
    if isinstance(value, list | tuple | deque):
        return type(value).__name__, [shown(element) for element in value]
    if isinstance(value, types.SimpleNamespace):
        return shown(vars(value))
    return type(value).__name__, value


@dataclasses.dataclass
class Record:
    n: Any
    text: str = "a"


NUMBERS = st.integers(0, 3)
SEQUENCE = st.one_of(
    st.tuples(st.sampled_from(["append", "remove"]), NUMBERS),
    st.tuples(st.just("extend"), st.lists(NUMBERS, max_size=3)),
    st.tuples(st.just("insert"), NUMBERS, NUMBERS),
    st.tuples(st.sampled_from(["pop", "clear", "reverse", "sort"])),
)
MAPPING = st.one_of(
    st.tuples(st.sampled_from(["__setitem__", "setdefault"]), NUMBERS, NUMBERS),
    st.tuples(st.sampled_from(["__delitem__", "pop"]), NUMBERS),
    st.tuples(st.just("update"), st.dictionaries(NUMBERS, NUMBERS, max_size=3)),
    st.tuples(st.sampled_from(["clear", "popitem"])),
)
MEMBERS = st.one_of(
    st.tuples(st.sampled_from(["add", "discard", "remove"]), NUMBERS),
    st.tuples(st.just("update"), st.lists(NUMBERS, max_size=3)),
    st.tuples(st.sampled_from(["clear", "pop"])),
)
KINDS: list[tuple[Callable[[], Any], Any]] = [
    (lambda: [1, 2, 3], SEQUENCE),
    (lambda: {1: 1, 2: 2}, MAPPING),
    (lambda: OrderedDict({1: 1, 2: 2}), MAPPING),
    (lambda: defaultdict(int, {1: 1, 2: 2}), MAPPING),
    (lambda: Counter({1: 1, 2: 2}), MAPPING),
    (lambda: {1, 2}, MEMBERS),
    (lambda: deque([1, 2]), SEQUENCE),
    (lambda: bytearray(b"ab"), SEQUENCE),
    (lambda: array("i", [1, 2]), SEQUENCE),
]


@given(st.sampled_from(KINDS), st.data())
def test_a_log_undoes_and_says_what_was_done(kind: Any, data: st.DataObject) -> None:
    make, methods = kind
    target, log = make(), UndoLog()
    entry = log.save(target, "target")
    before = copy.copy(target)
    for name, *given_ in data.draw(st.lists(methods, max_size=5)):
        try:
            getattr(target, name)(*given_)
        except (AttributeError, LookupError, ValueError, TypeError):
            continue
    after, changes = copy.copy(target), entry.changes()
    assert entry.is_changed == (shown(after) != shown(before))
    assert log.changed() == ([entry] if entry.is_changed else [])
    if changes is not None:
        again = copy.copy(before)
        for change in changes:
            change.apply(again)
        assert shown(again) == shown(after)
    else:
        assert isinstance(target, deque | bytearray | array)
    log.undo()
    assert shown(target) == shown(before) and type(target) is type(before) and not log.changed()


def test_a_log_undoes_places_attributes_and_arrays() -> None:
    class Watched:
        rate = 2

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value)
            seen.append(name)

    seen: list[str] = []
    box, record, numbers, table = Watched(), Record(1), np.arange(3), {"k": (1, 2)}
    box.n = 1  # type: ignore[attr-defined]
    log = UndoLog()
    for target in (
        Slot("attribute", box, "n", "box.n"),
        Slot("attribute", box, "rate", "box.rate"),
        Slot("item", table, "k", "table['k']"),
        Slot("item", table, "new", "table['new']"),
        record,
        numbers,
    ):
        log.save(target, "target")
    pair = table["k"]
    box.n, box.rate, table["k"], record.n = 2, 3, (1, 2), 5  # type: ignore[attr-defined,assignment]
    table["new"] = (3,)  # type: ignore[assignment]
    record.other = 1  # type: ignore[attr-defined]
    numbers[1] = 7
    seen.clear()
    log.undo()
    assert vars(box) == {"n": 1} and box.rate == 2 and not seen, "no code of the user's runs"
    assert table == {"k": (1, 2)} and table["k"] is pair
    assert vars(record) == {"n": 1, "text": "a"} and numbers.tolist() == [0, 1, 2]


def test_only_the_first_state_counts() -> None:
    items, log = [1], UndoLog()
    log.save(items, "items")
    items.append(2)
    assert log.save(items, "again").before == (1,)
    log.undo()
    assert items == [1]


# --- replay ---------------------------------------------------------------------------------------------------------


def track(s: Any, x: Any) -> Any:
    loss = (x * x).sum()
    s.history.append(loss)
    s.log.extend([loss * 2, 5])
    return loss


def look_back(s: Any, x: Any) -> Any:
    s.history.append(x * 2)
    return s.history[-1] + len(s.history) + s.history[0]


def both_ends(s: Any, x: Any) -> Any:
    s.history.append(x)
    s.history.pop()
    return x * 2


def popped(s: Any, x: Any) -> Any:
    return x * s.numbers.pop() if s.numbers else x


def front(s: Any, x: Any) -> Any:
    s.numbers.insert(0, 9)
    del s.numbers[1]
    return x * s.numbers[0]


def ordered(s: Any, x: Any) -> Any:
    s.numbers.sort()
    s.numbers.reverse()
    return x * s.numbers[0]


def table(s: Any, x: Any) -> Any:
    s.table.setdefault("first", x + 1)
    s.table.update(last=x * 2, n=3)
    gone = s.table.pop("old", None)
    return x if gone is None else x * gone


def remove(s: Any, x: Any) -> Any:
    if "old" in s.table:
        del s.table["old"]
    s.table["new"] = 1
    return x


def cleared(s: Any, x: Any) -> Any:
    s.history.clear()
    s.history.append(x + 1)
    return x


def members(s: Any, x: Any) -> Any:
    s.members.add(4)
    s.members.discard(1)
    return x * len(s.members)


def queue(s: Any, x: Any) -> Any:
    s.queue.append(x * 3)
    return x


def counted(s: Any, x: Any) -> Any:
    s.n += 1
    s.numbers.append(s.n)
    return x * s.n


def nested(s: Any, x: Any) -> Any:
    s.table["rows"].append(x)
    s.table["rows"].append([x, 2])
    return x


def by_name(s: Any, x: Any) -> Any:
    add = s.history.append
    add(x)
    return x


FUNCTIONS = [track, look_back, both_ends, popped, front, ordered, table, remove, cleared, members, queue, counted]
FUNCTIONS += [nested, by_name]


def state() -> Any:
    return types.SimpleNamespace(
        history=[], log=[], numbers=[3, 1, 2], table={"old": 2.0, "rows": []}, members={1, 2}, queue=deque([1]), n=0
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_containers_that_a_function_reached_change_as_in_eager(function: Any) -> None:
    mine, due = state(), state()
    kept = dict(vars(mine))
    traced = jg.trace(lambda x: function(mine, x), strict=True)
    for n in range(4):
        x = jg.asarray([1.0 + n, 2.0])
        assert shown(traced(x)) == shown(function(due, x))
        assert shown(mine) == shown(due)
    assert all(vars(mine)[name] is value for name, value in kept.items() if name != "n")


@pytest.mark.parametrize("function", [track, queue, counted, nested, by_name], ids=lambda f: f.__name__)
def test_what_is_appended_is_no_retrace(function: Any) -> None:
    mine = state()
    traced = jg.trace(lambda x: function(mine, x))
    for _ in range(5):
        traced(jg.ones(2))
    assert traced.cache_info() == (4, 1, 1), traced.ledger


def test_a_list_of_a_module_grows() -> None:
    HISTORY.clear()

    @jg.trace
    def f(x: Any) -> Any:
        HISTORY.append(x.sum())
        return x

    for n in range(3):
        f(jg.ones(n + 1))
    assert [loss.item() for loss in HISTORY] == [1, 2, 3]
    assert "HISTORY" in str(jg.explain(f, jg.ones(2)))


HISTORY: list[Any] = []


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_an_exception_leaves_everything_as_it_was(function: Any) -> None:
    mine, due = state(), state()
    kept = dict(vars(mine))

    def fails(x: Any) -> Any:
        function(mine, x)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        jg.trace(fails)(jg.ones(2))
    assert shown(mine) == shown(due) and all(vars(mine)[name] is value for name, value in kept.items())


@pytest.mark.parametrize("function", [track, popped, table, members, queue, nested], ids=lambda f: f.__name__)
def test_bodies_of_control_flow_refuse_it(function: Any) -> None:
    mine, due = state(), state()

    def body(y: Any) -> Any:
        function(mine, y)
        return y * 2

    with pytest.raises(jg.TraceError, match="is changed in a body of"):
        jg.trace(lambda x: jg.cond(x.sum() > 1, body, lambda y: y, x))(jg.ones(2))
    assert shown(mine) == shown(due)


# --- methods and assignments of one container ----------------------------------------------------------------------


def last_and_append(s: Any, x: Any) -> Any:
    s.numbers[-1] = 7
    s.numbers.append(8)
    return x * s.numbers[-1] + s.numbers[-2]


def last_and_pop(s: Any, x: Any) -> Any:
    s.numbers[-1] = 7
    s.numbers.pop()
    return x * len(s.numbers)


def insert_and_set(s: Any, x: Any) -> Any:
    s.numbers.insert(0, 9)
    s.numbers[1] = 4
    return x * s.numbers[0]


def set_to_the_same(s: Any, x: Any) -> Any:
    s.numbers[0] = 3
    s.numbers.append(1)
    return x


def put_in_anew(s: Any, x: Any) -> Any:
    del s.table["old"]
    s.table["new"] = 5
    s.table["old"] = x
    return x


def add_to_itself(s: Any, x: Any) -> Any:
    s.numbers += [1]
    return x


def add_to_another(s: Any, x: Any) -> Any:
    own = [1]
    own += s.numbers
    return x * own[-1]


def merge(s: Any, x: Any) -> Any:
    s.table |= {"z": 1}
    return x


def heap_and_set(s: Any, x: Any) -> Any:
    heapq.heappush(s.numbers, 0)
    s.numbers[0] = 5
    return x * s.numbers[0]


def unbound(s: Any, x: Any) -> Any:
    list.append(s.numbers, 4)
    dict.update(s.table, k=2)
    return x


def set_and_clear(s: Any, x: Any) -> Any:
    s.table["old"] = 9
    s.table.clear()
    s.table["old"] = 1.0
    return x * len(s.table)


def length_and_append(s: Any, x: Any) -> Any:
    n = len(s.numbers)
    s.numbers.append(n)
    return x * n + (5 in s.numbers)


def twice_as_long(s: Any, x: Any) -> Any:
    s.numbers.extend(s.numbers)
    return x * s.numbers[0]


def slice_and_append(s: Any, x: Any) -> Any:
    s.numbers[0:2] = [8]
    s.numbers.append(3)
    return x * s.numbers[0]


def namespace(s: Any, x: Any) -> Any:
    vars(s).update(w=3)
    s.v = 4
    return x * s.w


def taken_from_the_namespace(s: Any, x: Any) -> Any:
    s.q = 1
    vars(s).pop("q")
    vars(s)["numbers"] = [1]
    return x * s.numbers[0]


MIXED = [last_and_append, last_and_pop, insert_and_set, set_to_the_same, put_in_anew, add_to_itself, add_to_another]
MIXED += [merge, heap_and_set, unbound, set_and_clear, length_and_append, twice_as_long, slice_and_append, namespace]
MIXED += [taken_from_the_namespace]
EDITS: list[Callable[[Any], None]] = [
    lambda s: None,
    lambda s: None,
    lambda s: s.numbers.__setitem__(0, 11),
    lambda s: s.numbers.append(2),
    lambda s: setattr(s, "numbers", [5, 6, 7, 8]),
    lambda s: setattr(s, "table", {"old": 4, "q": 0}),
]


@pytest.mark.parametrize("function", MIXED, ids=lambda f: f.__name__)
def test_methods_and_assignments_of_one_container_change_it_as_in_eager(function: Any) -> None:
    mine, due = state(), state()
    traced = jg.trace(lambda x: function(mine, x))
    for n, edit in enumerate(EDITS):
        edit(mine)
        edit(due)
        if not due.numbers:  # all were taken
            break
        x = jg.asarray([1.0 + n])
        assert shown(traced(x)) == shown(function(due, x))
        assert shown(mine) == shown(due)


@pytest.mark.parametrize("function", MIXED, ids=lambda f: f.__name__)
def test_what_was_recorded_is_undone(function: Any) -> None:
    mine, due = state(), state()

    def fails(x: Any) -> Any:
        function(mine, x)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        jg.trace(fails)(jg.ones(1))
    assert shown(mine) == shown(due)


@pytest.mark.parametrize("target", [bytearray(b"ab"), array("i", [1, 2])], ids=repr)
def test_what_no_operation_repeats_is_refused(target: Any) -> None:
    before = copy.copy(target)

    def f(x: Any) -> Any:
        target.append(3)
        return x

    with pytest.raises(jg.TraceError, match="target was changed"):
        jg.trace(f)(jg.ones(1))
    assert target == before


def test_every_changing_method_is_known() -> None:
    plain = {"copy", "count", "index", "get", "items", "keys", "values", "fromkeys", "difference", "intersection"}
    plain |= {"isdisjoint", "issubset", "issuperset", "symmetric_difference", "union", "maxlen"}
    for kind in (list, dict, set, deque, OrderedDict):
        public = {name for name in dir(kind) if not name.startswith("_")}
        assert public - plain <= CHANGERS, kind


def test_a_tensor_of_this_call_is_no_key() -> None:
    seen: dict[Any, Any] = {}

    @jg.trace
    def keep(x: Any) -> Any:
        seen[x.sum(), 1] = 2
        return x

    for f, what in (
        (lambda x: {x.sum(): 1}, "the result"),
        (lambda x: [{"a": {(x, 1): 1}}], "the result"),
        (keep, "seen"),
    ):
        with pytest.raises(jg.TraceError, match=f"{what}[^\n]* has a key that holds a tensor of this call"):
            jg.trace(f)(np.ones(3))
    assert not seen


def test_state_may_be_kept_by_parameter() -> None:
    parameters = [jg.asarray([1.0, 2.0], requires_grad=True), jg.asarray([3.0], requires_grad=True)]
    velocity: dict[Any, Any] = {}

    @jg.trace
    def step() -> None:
        for p in parameters:
            velocity[p] = 0.5 * velocity.get(p, jg.zeros_like(p)) + p
        with jg.no_grad():
            for p in parameters:
                p -= velocity[p]

    for _ in range(3):
        step()
    assert list(map(id, velocity)) == list(map(id, parameters))
    np.testing.assert_array_equal(parameters[0].detach().numpy(), [-0.25, -0.5])
