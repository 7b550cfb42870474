"""Which objects are one and the same: containers that a call gives out, and arguments that stand elsewhere, too."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import pytest

import jitgraph as jg


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


WAYS: list[Callable[[Any], Any]] = [jg.trace, jg.script]
BOX = types.SimpleNamespace()
TABLE: dict[str, Any] = {"v": 1}
OTHER: dict[str, Any] = {"v": 2}
NESTED: dict[str, Any] = {"in": {"v": 1.0}}
NUMBERS: list[Any] = [1, 2]
HISTORY: list[Any] = []


@dataclasses.dataclass
class State:
    m: Any
    n: int = 0


def x() -> jg.Tensor:
    return jg.asarray([1.5, -2.0])


def stores_and_returns(x: Any) -> Any:
    results = [x, x * 2]
    BOX.made = results
    return results


def stores_twice(x: Any) -> Any:
    entries = {"x": State(x)}
    BOX.made, BOX.more = [entries], (entries, [entries["x"]])
    return entries["x"]


def returns_twice(x: Any) -> Any:
    results = [x]
    return results, {"k": results}, [[results]]


@pytest.mark.parametrize("way", WAYS)
def test_a_container_that_stands_in_several_places_is_one(way: Any) -> None:
    f, g, h = way(stores_and_returns), way(stores_twice), way(returns_twice)
    for _ in range(3):
        result = f(x())
        assert result is BOX.made and result[1].tolist() == [3.0, -4.0]
        result = g(x())
        assert BOX.made[0]["x"] is result is BOX.more[1][0] and BOX.more[0] is BOX.made[0]
        result, table, lists = h(x())
        assert table["k"] is result is lists[0][0]
        result.append(1)  # is no part of the next result
        assert len(table["k"]) == 2


def test_a_container_that_holds_itself_is_refused() -> None:
    @jg.trace
    def f(x: Any) -> Any:
        results = [x]
        results.append(results)
        return results

    with pytest.raises(jg.TraceError, match="the result holds a list that holds itself"):
        f(x())


@pytest.mark.parametrize("way", WAYS)
def test_an_argument_that_is_given_out_is_the_callers_own(way: Any) -> None:
    def f(x: Any, table: Any) -> Any:
        table["n"] = x
        BOX.table = table
        HISTORY.append(table)
        return table, [table["in"]]

    f = way(f)
    for number in (1, 2.5, 3.5):
        table = {"in": [number], "n": x()}
        inputs, (inner,) = f(x(), table)
        assert inputs is table is BOX.table is HISTORY[-1] and inner is table["in"]


def counted(x: Any, table: Any) -> Any:
    table["v"] = table["v"] + 1
    return x * TABLE["v"]


def both(x: Any, a: Any, b: Any) -> Any:
    a["v"] = b["v"] + TABLE["v"]
    OTHER["v"] += 1
    return x * TABLE["v"] * OTHER["v"]


def nested(x: Any, table: Any) -> Any:
    table["v"] = table["v"] + 1
    return x * NESTED["in"]["v"]


def appended(x: Any, values: Any) -> Any:
    NUMBERS.append(3)
    return x * len(values)


def same(x: Any, a: Any, b: Any) -> Any:
    return x * (2 if a is b else 3) + (1 if a is NUMBERS else 0) + (5 if b is not NUMBERS else 0)


def calls() -> dict[Any, list[Callable[[], tuple[Any, ...]]]]:
    """Arguments by function; each is made when it is needed, as the state changes meanwhile."""
    fresh = lambda: {"v": 1}
    equal = lambda: list(NUMBERS)
    shared = [1]
    return {
        counted: [lambda: (fresh(),), lambda: (TABLE,), lambda: (fresh(),), lambda: (dict(TABLE),), lambda: (TABLE,)],
        both: [
            *(lambda: (fresh(), fresh()), lambda: (TABLE, fresh()), lambda: (OTHER, fresh()), lambda: (fresh(), OTHER)),
            *(lambda: (fresh(), TABLE), lambda: (TABLE, OTHER), lambda: (OTHER, TABLE), lambda: (fresh(), fresh())),
        ],
        nested: [lambda: ({"v": 1.0},), lambda: (NESTED["in"],), lambda: ({"v": 2.0},), lambda: (NESTED["in"],)],
        appended: [lambda: (equal(),), lambda: (equal(),), lambda: (NUMBERS,), lambda: (NUMBERS,), lambda: (equal(),)],
        same: [
            *(lambda: ([1], [1]), lambda: (shared, shared), lambda: (shared, [1]), lambda: (NUMBERS, equal())),
            *(lambda: (equal(), NUMBERS), lambda: (NUMBERS, NUMBERS), lambda: ([1], [1])),
        ],
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", list(calls()), ids=lambda f: f.__name__)
def test_an_argument_that_the_function_also_reaches_by_itself(function: Any, way: Any) -> None:
    def run(f: Any) -> list[Any]:
        TABLE.update(v=1), OTHER.update(v=2), NESTED.update({"in": {"v": 1.0}})
        NUMBERS[:] = [1, 2]
        results = []
        for arguments in calls()[function]:
            inputs = arguments()
            results.append((f(x(), *inputs).tolist(), repr(inputs), repr((TABLE, OTHER, NESTED, NUMBERS))))
        return results

    assert run(way(function)) == run(function)


def test_what_nobody_changes_may_be_one_object_or_two() -> None:
    @jg.trace
    def f(x: Any, table: Any) -> Any:
        return x * table["v"] + OTHER["v"]

    f(x(), {"v": OTHER["v"]})
    f(x(), OTHER)
    assert f.cache_info().misses == 1


def test_a_tuple_from_outside_that_is_stored_elsewhere_is_that_very_tuple() -> None:
    source = types.SimpleNamespace(kept=(1.5, [2]), copy=None)

    def f(x: Any) -> Any:
        source.copy = source.kept
        return x * source.kept[0]

    traced = jg.trace(f)
    for _ in range(2):
        source.copy = None
        assert traced(jg.asarray([2.0])).tolist() == [3.0]
        assert source.copy is source.kept
