"""Lists that loops of a script append to: the elements that Python's list has, recorded as one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree
from jitgraph.runtime import loader

X = np.array([0.5, -1.0, 2.0, 0.25], np.float32)
ROWS = np.arange(60, dtype=np.float32).reshape(20, 3) % 7 - 2


def same(mine: Any, due: Any) -> None:
    (actual, shape), (expected, structure) = tree.flatten(mine), tree.flatten(due)
    assert shape == structure
    for a, b in zip(actual, expected, strict=True):
        one, other = (np.asarray(v.detach().numpy() if isinstance(v, jg.Tensor) else v) for v in (a, b))
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


# --- native loops: their graphs do not grow with the number of turns ------------------------------------------------


def stacked(x: Any, n: int) -> Any:
    out = []
    for i in range(n):
        if x.sum() > 3:
            x = x * 0.5
        x = x + i * 0.01
        out.append(x)
    return jg.stack(out), jg.stack(out, axis=1), jg.concat(out), jg.concat(out, axis=-1), len(out)


def ends(x: Any, n: int) -> Any:
    out = [x]
    for _ in range(n):
        x = x * 0.9 + 1
        out.append(x)
    return out[-1], out[0], out[1], out[n // 2], out[-n], jg.stack(out)


def last_elements(x: Any, n: int) -> Any:
    out = [x, x + 1]
    for i in range(n):
        out.append(out[-1] * 0.5 + out[-2] * 0.25 + out[0] + i)
    return jg.stack(out), out[-1]


def several_lists(x: Any, n: int) -> Any:
    values, sums = [], []
    for i in range(n):
        x = x * 0.9
        values.append(x)
        values.append(x + i)
        sums.append((x.sum(), {"twice": x * 2}))
    return jg.stack(values), sums[-1], sums[2][1]["twice"]


def dict_of_lists(x: Any, n: int) -> Any:
    log: dict[str, list[Any]] = {"x": [], "sum": []}
    for _ in range(n):
        x = x * 0.9
        log["x"].append(x)
        log["sum"].append(x.sum())
    return {name: jg.stack(values) for name, values in log.items()}


def nested_loops(x: Any, n: int) -> Any:
    out = []
    for _ in range(n):
        for j in range(10):
            x = x * 0.9 + j
            out.append(x)
    return jg.stack(out), out[-1], out[11]


def list_of_lists(x: Any, n: int) -> Any:
    table = []
    for i in range(n):
        row = []
        for j in range(10):
            row.append(x.sum() * i + j)  # noqa: PERF401
        table.append(jg.stack(row))
    return jg.stack(table)


def both_branches(x: Any, n: int) -> Any:
    out = []
    for _ in range(n):
        if x.sum() > 3:
            out.append(x * 0.5)
        else:
            out.append(x * 2)
        x = out[-1] + 0.5
    return jg.stack(out)


def loops_in_branches(x: Any, n: int) -> Any:
    out = []
    if x.sum() > 1:
        for i in range(n):
            out.append(x * i)  # noqa: PERF401
    else:
        for i in range(n):
            out.append(x - i)  # noqa: PERF401
    return jg.stack(out)


def gone_along(x: Any, n: int) -> Any:
    a, b = [], []
    for _ in range(n):
        x = x * 0.9
        a.append(x)
        b.append(x * 2 + 1)
    total = x * 0
    for i, (p, q) in enumerate(zip(a, reversed(b), strict=True)):
        total = total + p * q * i
    return total, sum(a), sum(b, x), sum(p * q for p, q in zip(a, b, strict=True))


def comprehensions(x: Any, n: int) -> Any:
    values = [x * i for i in range(n)]
    return jg.stack(values), jg.stack([v.sum() + i for i, v in enumerate(values)]), sum(x - i for i in range(n))


def in_a_helper(x: Any, n: int) -> Any:
    def push(values: Any, value: Any) -> None:
        values.append(value)

    out: list[Any] = []
    for _ in range(n):
        x = x * 0.9
        push(out, x)
    return jg.stack(out)


def other_methods(x: Any, n: int) -> Any:
    out = list()  # noqa: C408
    for i in range(n):
        x = x * 0.9
        out += [x, x + i]
        out.extend([x - 1])
        out.append(out.pop() * 3)
    return jg.stack(out)


def types_by_the_first_turn(x: Any, n: int) -> Any:
    total, before = 0, None
    for i in range(n):
        total = total + x * i
        before = x if before is None else before * 0.5 + x
    return total, before


NATIVE = (
    stacked, ends, last_elements, several_lists, dict_of_lists, nested_loops, list_of_lists, both_branches,
    loops_in_branches, gone_along, comprehensions, in_a_helper, other_methods, types_by_the_first_turn,
)  # fmt: skip


def recorded(function: Callable[..., Any], n: int) -> int:
    """How many nodes the graph has, those of bodies included."""
    pending, count = [jg.script(function).lower(jg.asarray(X), n).graph], 0
    while pending:
        graph = pending.pop()
        count += len(graph.nodes)
        pending += [region for node in graph.nodes for region in node.regions]
    return count


@pytest.mark.parametrize("function", NATIVE, ids=lambda f: f.__name__)
def test_a_list_grows_by_a_loop_of_the_graph(function: Any) -> None:
    x = jg.asarray(X)
    same(jg.script(function)(x, 12), function(x, 12))
    assert recorded(function, 12) == recorded(function, 40)


def test_thousands_of_turns_are_recorded_as_a_few() -> None:
    def f(x: Any) -> Any:
        out = []
        for i in range(20_000):
            x = x * 0.5 + i
            out.append(x.sum())
        return jg.stack(out), out[-1]

    x = jg.asarray(X)
    actual, last = jg.script(f)(x)
    assert actual.shape == (20_000,)
    assert actual[-1] == last == f(x)[1]


def test_the_length_may_be_a_named_size() -> None:
    def f(rows: Any) -> Any:
        out, h = [], rows.sum() * 0
        for row in rows:
            h = h * 0.5 + row.sum()
            out.append(h)
        total = h * 0
        for value in out:
            total = total + value
        return jg.stack(out) / len(out), total, out[-1], sum(out), [jg.stack([r * 2 for r in rows])]

    scripted = jg.script(f, dynamic_shapes={"rows": {0: "n"}})
    for n in (20, 3, 1):
        same(scripted(jg.asarray(ROWS[:n])), f(jg.asarray(ROWS[:n])))

    def returned(rows: Any) -> Any:
        return [row.sum() for row in rows]

    with pytest.raises(jg.ScriptError, match=r"no length that Python knows[^$]*hint: use jg.stack"):
        jg.script(returned, dynamic_shapes={"rows": {0: "n"}})(jg.asarray(ROWS))


# --- what lists are to Python ---------------------------------------------------------------------------------------


def changed_afterwards(x: Any) -> Any:
    out = [x * i for i in range(12)]
    out.insert(1, x)
    last, third = out.pop(), out.pop(3)
    out.extend([x, x + 1])
    out[2] = x * 5
    del out[0]
    out.reverse()
    more = [x, x + 2]
    return (
        out,
        last,
        third,
        out[1:4],
        out + more,
        more + out,
        [x, *out],
        out * 2,
        len(out),
        isinstance(out, list),
        bool(out),
    )


def comprehensions_along_others(x: Any) -> Any:
    """What a comprehension goes along may hold one, and so may its elements and conditions."""
    pairs = [[x * i, x + i] for i in range(3)]
    last = sum(e * 2 for e in [pairs[i] for i in range(2)][-1])
    rows = [[a + b for a in pair] for b, pair in enumerate([p[::-1] for p in pairs])]
    return last, [jg.stack(row) for row in rows], [y for y in [2 * i for i in range(4)] if y in [k + 1 for k in (1, 3)]]


def shared_elements(x: Any) -> Any:
    out = []
    for _ in range(12):
        x = x * 0.9
        y = x + 1
        out.append((x, y))
    y += 1
    x[0] = 7
    out[3][0][1] = 5
    return out, x, y


def written_elements(x: Any) -> Any:
    out = [x + i for i in range(12)]
    for value in out:
        value += 1
    for i, value in enumerate(out):
        value *= i
    return jg.stack(out), out


def one_tensor_in_each_turn(x: Any) -> Any:
    buffer, other, first, second, third = x * 1, x * 2, [], [], []
    for i in range(12):
        buffer[i % 4] = i
        x += 1
        first.append(buffer)
        second.append(other)
        third.append(x)
    other += 1
    return jg.stack(first), jg.stack(second), jg.stack(third)


def one_tensor_in_two_turns(x: Any) -> Any:
    out = []
    for _ in range(12):
        x += 1
        x = x * 0.9
        out.append(x)
    return jg.stack(out)


def python_values(x: Any) -> Any:
    index, names = [], []
    for i in range(12):
        index.append(i % 4)
        names.append(f"k{i}")
    buffers: list[list[Any]] = [[] for _ in range(10)]
    for i in range(20):
        buffers[i % 10].append(x * i)
    return x[index], dict.fromkeys(names, x), buffers, jg.ones([n for n in range(1, 3)]), [i * 2 for i in range(9)]  # noqa: C416


def objects_of_their_own(x: Any) -> Any:
    class Box:
        def __init__(self, value: Any) -> None:
            self.value = value

    boxes = []
    for i in range(12):
        boxes.append(Box(x * i))  # noqa: PERF401
    boxes[2].value = x
    return [box.value for box in boxes], boxes[0] is boxes[1]


def other_types_in_turn(x: Any) -> Any:
    out: list[Any] = []
    for i in range(12):
        out.append(x * i)
        out.append(x.sum())
        out.append("text")
    return out


def numbers(x: Any) -> Any:
    out = [1.0]
    for _ in range(12):
        out.append(out[-1] * 0.5 + float(x.sum()))
        x = x + 1
    return jg.asarray(out[-1]), jg.stack(out).shape


def read_while_it_grows(x: Any) -> Any:
    out, sizes = [x], 0
    for i in range(12):
        out.append(out[i // 2] * 0.5 + len(out))
        sizes += len(out)
    return jg.stack(out), sizes


def counted_while_it_grows(x: Any) -> Any:
    out = [x]
    for _ in range(12):
        x = x + len(out)
        out.append(x)
    return jg.stack(out)


PYTHON = (
    changed_afterwards, comprehensions_along_others, shared_elements, written_elements, one_tensor_in_each_turn,
    one_tensor_in_two_turns,
    python_values, objects_of_their_own, other_types_in_turn, numbers, read_while_it_grows,
    counted_while_it_grows,
)  # fmt: skip


@pytest.mark.parametrize("function", PYTHON, ids=lambda f: f.__name__)
def test_a_list_means_what_it_means_to_python(function: Any) -> None:
    same(jg.script(function)(jg.asarray(X)), function(jg.asarray(X)))


def test_an_attribute_is_a_plain_list_for_python() -> None:
    class Log:
        values: Any = None

    def f(x: Any, log: Any) -> Any:
        log.values = []
        for _ in range(12):
            x = x * 0.9
            log.values.append(x)
        return jg.stack(log.values)

    mine, due, scripted = Log(), Log(), jg.script(f)
    for _ in range(3):
        same(scripted(jg.asarray(X), mine), f(jg.asarray(X), due))
        assert type(mine.values) is list
        same(mine.values, due.values)


def test_gradients_flow_through_lists() -> None:
    def f(x: Any, weight: Any) -> Any:
        out = [x]
        for i in range(12):
            out.append(jg.tanh(out[-1] * weight) + i * 0.1)
        loss = (jg.stack(out) ** 2).sum() + sum(value.sum() for value in out) + out[3].sum()
        return jg.autograd.grad(loss, [x, weight])

    args = [jg.asarray(X.astype(np.float64)) for _ in range(2)]
    for arg in args:
        arg.requires_grad = True
    for a, b in zip(jg.script(f)(*args), f(*args), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_lists_that_a_script_makes_are_lists_to_its_caller_and_in_files(tmp_path: Any) -> None:
    def f(x: Any) -> Any:
        return [x * i for i in range(3)], {"a": [x + i for i in range(2)]}

    scripted = jg.script(f)
    assert type(scripted(jg.asarray(X))[0]) is list
    jg.save(scripted, tmp_path / "lists.jg", example_inputs=(X,))
    model = loader.load(tmp_path / "lists.jg")
    assert [spec.name for spec in model.outputs] == ["out0.0", "out0.1", "out0.2", "out1.a.0", "out1.a.1"]
    same(model(X), f(jg.asarray(X)))


def test_saved_files_hold_the_loop(tmp_path: Any) -> None:
    def f(rows: Any) -> Any:
        out, h = [], rows.sum() * 0
        for row in rows:
            h = h * 0.5 + row.sum()
            out.append(h)
        return jg.stack(out)

    rows = jg.asarray(ROWS)
    scripted = jg.script(f)
    scripted(rows)
    jg.save(scripted, tmp_path / "f.jg", example_inputs=(rows,))
    same(jg.load(tmp_path / "f.jg")(rows), f(rows))


# --- what no graph can do -------------------------------------------------------------------------------------------


def in_a_while(x: Any) -> Any:
    out = []
    while x.sum() < 30:
        x = x + 1
        out.append(x)  # here
    return jg.stack(out)


def in_one_branch(x: Any) -> Any:
    out = []
    for _ in range(12):
        x = x + 1
        if x.sum() > 10:
            out.append(x)  # here
    return jg.stack(out)


def behind_a_break(x: Any) -> Any:
    out = []
    for _ in range(12):
        x = x + 1
        if x.sum() > 10:
            break
        out.append(x)  # here
    return jg.stack(out)


def by_a_tensor(x: Any) -> Any:
    out = []
    for i in range(x.sum().astype(jg.int64)):
        out.append(x * i)  # here  # noqa: PERF401
    return jg.stack(out)


def in_a_comprehension(x: Any) -> Any:
    return [value for value in x if value > 0]  # here


@pytest.mark.parametrize("function", [in_a_while, in_one_branch, behind_a_break, by_a_tensor, in_a_comprehension])
def test_a_length_that_depends_on_data_is_refused(function: Any) -> None:
    import inspect

    lines, first = inspect.getsourcelines(function)
    at = first + next(i for i, line in enumerate(lines) if "# here" in line)
    with pytest.raises(jg.ScriptError) as error:
        jg.script(function)(jg.asarray(X))
    assert "how often this appends to a list depends on the values of tensors" in str(error.value)
    assert f"test_script_lists.py:{at}\n" in str(error.value)
    assert "hint: write into a tensor of the greatest length" in str(error.value)


def exchanged(a: Any, b: Any, n: Any) -> Any:
    out = []
    for _ in range(1500):
        out.append(a)
        a, b = b, a
    a += 1
    return out[0] * 1


def of_the_turn_before(a: Any, b: Any, n: Any) -> Any:
    out = []
    for _ in range(1500):
        b, a = a, a * 0.5
        out.append(a)
    b += 1
    return out[-2] * 1


def two_of_each_turn(a: Any, b: Any, n: Any) -> Any:
    out = []
    for _ in range(1500):
        a = a * 0.5
        out.append(a)
        out.append(a * 2)
    a += 1
    return out[-2] * 1


def of_an_inner_loop(a: Any, b: Any, n: Any) -> Any:
    out = []
    for _ in range(1100):
        for _ in range(1200):
            a = a * 0.5
            out.append(a)
    a += 1
    return out[-1] * 1


def of_a_staged_position(a: Any, b: Any, n: Any) -> Any:
    out = []
    for _ in range(1500):
        a = a * 0.5
        out.append(a)
    k = 0
    while k < n:
        k += 1
    x = out[k]
    x += 1
    return out[3] * 1


@pytest.mark.parametrize(
    "function", [exchanged, of_the_turn_before, two_of_each_turn, of_an_inner_loop, of_a_staged_position]
)
def test_a_write_into_an_element_that_the_graph_cannot_name_is_refused(function: Any) -> None:
    with pytest.raises(jg.ScriptError, match="is an element of a list to which the loop appends") as error:
        jg.script(function)(jg.asarray(X), jg.asarray(X), jg.asarray(3))
    assert "hint: append a copy" in str(error.value)


def last_element(a: Any) -> Any:
    out = []
    for _ in range(1500):
        a = a * 0.5
        out.append(a)
    a += 1
    return out[-2] * 1, out[-1] * 1, a


def element_from_outside(a: Any) -> Any:
    out = []
    b = a * 2
    for _ in range(1500):
        out.append(a)
        b = b * 0.5
    a += 1
    b += 1
    return out[0] * 1, out[-1] * 1, a, b


@pytest.mark.parametrize("function", [last_element, element_from_outside])
def test_a_write_into_an_element_that_the_graph_knows_is_seen_in_the_list(function: Any) -> None:
    same(jg.script(function)(jg.asarray(X)), function(jg.asarray(X)))
