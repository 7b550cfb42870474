"""Lists, dicts and attributes that staged branches and loops of a script change hold afterwards what Python says."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree

POSITIVE = np.array([1.0, 2.0, 0.5])
INPUTS = tuple((x, n) for x in (POSITIVE, -POSITIVE) for n in (0, 1, 4))


def plain(value: Any) -> Any:
    leaves, structure = tree.flatten(value)
    return structure, [leaf.detach().numpy() if isinstance(leaf, jg.Tensor) else leaf for leaf in leaves]


def same(mine: Any, due: Any) -> None:
    """Two trees have one structure and the same leaves: numbers where numbers stand, else arrays of one dtype."""
    (shape, actual), (structure, expected) = plain(mine), plain(due)
    assert shape == structure
    for a, b in zip(actual, expected, strict=True):
        assert type(a) is type(b), (mine, due)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-12) if isinstance(a, np.ndarray | float) else None
        assert isinstance(a, np.ndarray | float) or a == b


def agree(function: Callable[..., Any], *state: Any, inputs: Any = INPUTS) -> Any:
    """A script changes its arguments as the function does, call after call, on each input; returns the script."""
    scripted = jg.script(function)
    mine, due = copy.deepcopy(state), copy.deepcopy(state)
    for x, n in inputs:
        x, n = jg.asarray(x), jg.asarray(np.array(n))
        same(scripted(x, n, *mine), function(x, n, *due))
        same(mine, due)
    return scripted


# --- local containers and objects -----------------------------------------------------------------------------------


def test_items_of_a_local_list_in_both_branches() -> None:
    def f(x: Any, n: Any) -> Any:
        results = [x, x + 1, 3]
        if x.sum() > 0:
            results[0] = x * 3
        else:
            results[1] = x - 4
            results[-1] = 7
        return results

    agree(f)


def test_items_of_a_dict_count_in_a_loop() -> None:
    def f(x: Any, n: Any) -> Any:
        state = {"h": x * 0.5, "n": 1, "name": "kept"}
        for i in range(n):
            state["h"] = state["h"] * 0.5 + i
            state["n"] += i
        while state["h"].sum() < 3 and state["n"] < 9:
            state["h"] = state["h"] + 1
            state["n"] += 1
        return state

    agree(f)


def test_swaps_and_nested_containers() -> None:
    def f(x: Any, n: Any) -> Any:
        state = [x, [x + 1, {"k": x - 1}], deque([1.5, 2.5])]
        for i in range(n):
            state[0], state[1][0] = state[1][0], state[0]
            if state[0].sum() > 2:
                state[1][1]["k"] = state[1][1]["k"] + i
            elif i == 1:
                continue
            state[2][0] += 1
        return state[0], state[1], list(state[2])

    agree(f)


def test_loops_of_known_length_over_rows_and_ranges() -> None:
    def f(x: Any, n: Any) -> Any:
        best = [x[0], 0]
        sums = {"even": 0.0 * x[0], "odd": 0.0 * x[0]}
        for i, value in enumerate(x):
            if value > best[0]:
                best[0], best[1] = value, i
        for i in range(12):
            if i % 2 == 0:
                sums["even"] = sums["even"] + x[1] * i
            else:
                sums["odd"] = sums["odd"] - x[1]
        return best, sums

    agree(f)


def test_a_result_that_holds_a_changed_container() -> None:
    def f(x: Any, n: Any) -> Any:
        state = {"deep": {"b": x}}
        for i in range(3):
            if x.sum() > i + 2:
                return x, state
        state["deep"]["b"] = x + 0.5
        held = [state]
        if x.sum() < 0:
            state["deep"]["b"] = x - 1
            held = [state, state][1:]
        return x, held[0]

    agree(f)


class Counter:
    """State with a plain attribute, a tensor, a slot of its class and a property."""

    total = 0

    def __init__(self, h: Any) -> None:
        self.count = 0
        self.h = h
        self._scaled = 1.0

    @property
    def scaled(self) -> Any:
        return self._scaled

    @scaled.setter
    def scaled(self, value: Any) -> None:
        self._scaled = value

    def step(self, x: Any) -> None:
        self.count += 1
        if x.sum() > 0:
            self.h = self.h * 0.5 + x
        else:
            self.total += 2

    def state(self) -> Any:
        return self.count, self.h, self.total, self._scaled


def test_attributes_of_a_local_object() -> None:
    def f(x: Any, n: Any) -> Any:
        counter = Counter(x)
        for i in range(n):
            counter.step(x - i)
        while counter.count < 3:
            counter.count += 1
            counter.scaled = counter.scaled * 2
        return counter.state()

    agree(f)


def test_an_attribute_that_both_branches_make() -> None:
    class Holder:
        pass

    def f(x: Any, n: Any) -> Any:
        holder, state = Holder(), {}
        if x.sum() > 0:
            holder.value, state["new"] = x, 1
        else:
            holder.value, state["new"] = -x, 2
        return holder.value, state

    agree(f)


def test_what_a_body_makes_itself() -> None:
    def f(x: Any, n: Any) -> Any:
        out = x
        for i in range(n):
            mine = [out, out + 1]
            mine.append(mine.pop(0) + i)
            counter = Counter(mine[-1])
            counter.count += 3
            counter.extra = counter.h + counter.count
            out = counter.extra * 0.5
        return out

    agree(f)


# --- state from outside ---------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Cache:
    keys: Any
    length: int = 0
    seen: list[Any] = dataclasses.field(default_factory=lambda: [0.0, True])


def test_containers_among_the_arguments() -> None:
    def f(x: Any, n: Any, history: Any, table: Any) -> Any:
        for i in range(n):
            history[0] = history[0] + i
            history[1][0] += 1
        if x.sum() > 0:
            table["hits"] += 1
            table["last"] = x[0]
        return history[0]

    agree(f, [jg.zeros(3, dtype=jg.float64), [0, 1]], {"hits": 0, "last": jg.asarray(np.array(0.0))})


def test_a_dataclass_among_the_arguments() -> None:
    def f(x: Any, n: Any, cache: Any) -> Any:
        for i in range(n):
            cache.keys = cache.keys + x
            cache.length += 1
            cache.seen[0] = cache.seen[0] + 0.5
            if i == 2:
                cache.seen[1] = not cache.seen[1]
        return cache.keys

    agree(f, Cache(jg.zeros(3, dtype=jg.float64)))


def test_an_object_that_the_function_closes_over() -> None:
    def run(make: Callable[[Any], Any]) -> list[Any]:
        counter, log = Counter(jg.zeros(3, dtype=jg.float64)), {"calls": 0, "loss": 0.0}

        def f(x: Any, n: Any) -> Any:
            for i in range(n):
                counter.step(x - i)
            if x.sum() > 0:
                log["calls"] += 1
            return counter.h

        function, actual = make(f), []
        for x, n in INPUTS:
            result = function(jg.asarray(x), jg.asarray(np.array(n)))
            actual.append(copy.deepcopy((result, counter.state(), log)))
        return actual

    same(run(jg.script), run(lambda f: f))


class Model(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.scale = jg.ones(3, dtype=jg.float64)
        self.history = [0, 0]

    def forward(self, x: Any, n: Any) -> Any:
        for i in range(n):
            self.calls += 1
            self.history[0] += i
            if x.sum() > 0:
                self.scale = self.scale * 0.5
        return x * self.scale


def test_a_module_changes_itself() -> None:
    mine, due = Model(), Model()
    scripted = jg.script(mine)
    for x, n in INPUTS:
        x, n = jg.asarray(x), jg.asarray(np.array(n))
        same(scripted(x, n), due(x, n))
        same((mine.calls, mine.scale, mine.history), (due.calls, due.scale, due.history))


REGISTRY = {"total": 0.0, "steps": [0, 0]}


def test_a_container_of_the_module() -> None:
    def f(x: Any, n: Any) -> Any:
        for i in range(n):
            REGISTRY["steps"][1] += i
            if x.sum() > 0:
                REGISTRY["total"] = REGISTRY["total"] + 1.5
        return x

    def run(function: Callable[..., Any]) -> Any:
        REGISTRY.update(total=0.0, steps=[0, 0])
        for x, n in INPUTS:
            function(jg.asarray(x), jg.asarray(np.array(n)))
        return copy.deepcopy(REGISTRY)

    same(run(jg.script(f)), run(f))


def test_gradients_pass_through_entries() -> None:
    def f(x: Any, n: Any) -> Any:
        state = {"total": x * 0, "parts": [x, x]}
        for i in range(n):
            state["total"] = state["total"] + x * state["parts"][0] * i
            if x.sum() > 0:
                state["parts"][0] = state["parts"][0] * 0.5
        return state["total"].sum()

    for x, n in INPUTS:
        x, n = jg.asarray(x), jg.asarray(np.array(n))
        same(jg.grad(jg.script(f))(x, n), jg.grad(f)(x, n))


def test_setattr_and_other_containers() -> None:
    def f(x: Any, n: Any) -> Any:
        ordered, counts = OrderedDict(a=x, b=1), defaultdict(int, a=1)
        counter = Counter(x)
        for i in range(n):
            ordered["a"] = ordered["a"] + 1
            counts["a"] += i
            setattr(counter, "count", counter.count + 2)  # noqa: B010
        return dict(ordered), dict(counts), counter.state()

    agree(f)


# --- refusals -------------------------------------------------------------------------------------------------------


def refused(function: Callable[..., Any], text: str, line: str) -> None:
    lines, first = inspect.getsourcelines(function)
    at = first + next(i for i, actual in enumerate(lines) if line in actual)
    with pytest.raises(jg.JitgraphError, match=text) as error:
        jg.script(function)(jg.asarray(POSITIVE), jg.asarray(np.array(3)))
    assert f"test_script_mutation.py:{at}" in str(error.value) and "hint:" in str(error.value)


def test_other_extents_are_refused() -> None:
    def appends(x: Any, n: Any) -> Any:
        results = [x]
        for _ in range(n):
            results.append(x)  # here  # noqa: PERF401
        return results

    def pops(x: Any, n: Any) -> Any:
        results = [x, x]
        if x.sum() > 0:
            results.pop()  # here
        return results

    def adds_a_key(x: Any, n: Any) -> Any:
        results = {"a": x}
        if x.sum() > 0:
            results["b"] = x  # here
        return results

    def adds_a_key_in_a_loop(x: Any, n: Any) -> Any:
        results = {"a": x}
        for _ in range(n):
            results["b"] = x  # here
        return results

    def deletes(x: Any, n: Any) -> Any:
        results = {"a": x, "b": x}
        if x.sum() > 0:
            del results["a"]  # here
        return results

    def adds_to_a_set(x: Any, n: Any) -> Any:
        actual = {1}
        if x.sum() > 0:
            actual.add(2)  # here
        return x * len(actual)

    for function, text in (
        (appends, "how often this appends to a list depends on the values of tensors"),
        (pops, "a list from outside is changed in its length"),
        (adds_a_key, "the item 'b' of a dict is there only after the if branch"),
        (adds_a_key_in_a_loop, "the item 'b' of a dict is new in the body of a loop"),
        (deletes, "a dict from outside is changed in its length or keys"),
        (adds_to_a_set, "a set from outside is changed in its elements"),
    ):
        refused(function, text, "# here")


def test_entries_whose_types_differ_are_refused() -> None:
    def differs(x: Any, n: Any) -> Any:
        results = {"mode": "a", "x": x}
        if x.sum() > 0:  # here
            results["mode"] = "b"
        return results

    def grows(x: Any, n: Any) -> Any:
        results = [x]
        for _ in range(n):  # here
            results[0] = jg.concat([results[0], x])
        return results

    refused(differs, "the item 'mode' of a dict is 'b' in the if branch and 'a' in the else branch", "# here")
    refused(grows, r"the item 0 of a list is f64\[3\] when the loop starts and becomes f64\[6\]", "# here")


class Table:
    """Its items are set by code of its own, which the interpreter calls."""

    def __init__(self) -> None:
        self.items = {"a": 1}
        self.sets = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value
        self.sets += 1


def test_changes_by_code_that_is_not_rewritten_are_refused_or_unrolled() -> None:
    table = Table()

    def conditional(x: Any, n: Any) -> Any:
        if x.sum() > 0:
            table["a"] = 5
        return x

    with pytest.raises(jg.TraceError, match="is changed in a body of an if or loop on a tensor"):
        jg.script(conditional)(jg.asarray(POSITIVE), jg.asarray(np.array(3)))
    assert table.items == {"a": 1} and table.sets == 0

    def unrolled(x: Any, n: Any) -> Any:
        for i in range(12):
            table["a"] = i
        return x * table.sets

    assert jg.script(unrolled)(jg.ones(1), 0).item() == 12 and (table.items, table.sets) == ({"a": 11}, 12)


def test_a_list_that_grows_in_a_loop_of_known_length_is_unrolled() -> None:
    def f(x: Any, n: Any) -> Any:
        results = []
        for i in range(12):
            results.append(x * i)
            if len(results) > 3:
                results[1] = results[1] + 1
        return results

    agree(f)


class Account:
    def __init__(self, total: Any) -> None:
        self.total = total


def test_a_variable_that_is_an_outer_object_does_not_hide_its_writes() -> None:
    """Neither where loops carry it, nor where branches choose it."""

    def renamed(x: Any, n: Any) -> Any:
        account = Account(x - 1)
        name = account
        for row in x:
            account.total = account.total - row
            name = x * 0.5
            account.total = account.total + name
        return account.total

    def carried(x: Any, n: Any) -> Any:
        account = Account(x - 1)
        if x.sum() > 0:
            name = account
            for _ in range(n):
                name.total = name.total + 1
                name = account
        return account.total

    def chosen(x: Any, n: Any) -> Any:
        account = Account(x - 1)
        for _ in range(n):
            if x[0] > 0:
                name = account
            else:
                name = account
            name.total = name.total * 0.5
            if x[1] > 0:
                account.total = account.total + 1
        return account.total

    for function in (renamed, carried, chosen):
        agree(function)
