"""What a compiled function gives out is a view where it is one eagerly: writes to it are writes to the argument."""

from __future__ import annotations

from typing import Any

import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch import nn


def test_views_of_arguments_share_their_elements() -> None:
    @torch.compile
    def parts(x: Any) -> Any:
        row = x[0]
        return {"row": row, "again": [row], "flat": x.view(-1), "x": x, "corner": x.t()[1:].detach()}

    x = torch.zeros(2, 3)
    for turn in range(3):
        views = parts(x)
        views["row"].add_(1)
        views["flat"][5] = 7
        views["corner"][0, 0] = 4 + turn
    assert x.tolist() == [[3.0, 6.0, 3.0], [0.0, 0.0, 7.0]]
    assert views["flat"].tolist() == [3.0, 6.0, 3.0, 0.0, 0.0, 7.0]
    assert (views["x"] is x, views["row"] is views["again"][0], views["row"]._base is x) == (True, True, True)
    assert (views["corner"].stride(), views["corner"].storage_offset()) == ((1, 3), 1)
    assert parts.cache_info().misses == 1


def test_views_of_arguments_that_are_views() -> None:
    @torch.compile
    def rest(x: Any) -> Any:
        return x[1:]

    base = torch.arange(8.0)
    for part, layout in ((base[::2], (2, 2)), (base[4:], (1, 5))):
        result = rest(part)
        result.mul_(0)
        assert (result.stride(), result.storage_offset()) == ((layout[0],), layout[1])
    assert base.tolist() == [0.0, 1.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0]
    assert rest.cache_info().misses == 1


def test_views_of_other_results() -> None:
    @torch.compile
    def both(x: Any) -> Any:
        y = x * 2
        return y, y[0], y.t()[1], (x + 1)[0]

    y, row, column, alone = both(torch.ones(2, 2))
    y[0, 0] = 100
    column[0] = -5
    assert (y.tolist(), row.tolist(), column.tolist()) == ([[100.0, -5.0], [2.0, 2.0]], [100.0, -5.0], [-5.0, 2.0])
    assert (type(alone), alone.tolist()) == (torch.Tensor, [2.0, 2.0])


def test_views_of_state() -> None:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(3, 2))
            self.linear = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            self.rows[0] = x
            self.last = self.rows[:1]
            return self.rows[:2], self.linear.weight[0]

    module = Cache()
    compiled = torch.compile(module)
    for value in (1.0, 2.0):
        rows, weight = compiled(torch.full((2,), value))
    module.rows[1] = 9
    with torch.no_grad():
        module.linear.weight.fill_(7)
    assert (rows.tolist(), module.last.tolist()) == ([[2.0, 2.0], [9.0, 9.0]], [[2.0, 2.0]])
    assert (weight.tolist(), weight.requires_grad) == ([7.0, 7.0], True)


def test_gradients_pass_views() -> None:
    views = torch.compile(lambda w: (w[0], w.t(), w.detach()[0]))
    w = torch.ones(2, 2, requires_grad=True)
    row, turned, detached = views(w)
    (row.sum() * 2 + (turned * turned).sum()).backward()
    assert w.grad is not None
    assert (w.grad.tolist(), detached.requires_grad) == ([[4.0, 4.0], [2.0, 2.0]], False)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        row.add_(1)


def test_parts_that_depend_on_the_call_are_refused_once_they_differ() -> None:
    @torch.compile
    def row(x: Any, i: Any) -> Any:
        return x[i]

    x = torch.arange(6.0).reshape(3, 2)
    assert [row(x, i).tolist() for i in (0, 1, 2, 1)] == [[0, 1], [2, 3], [4, 5], [2, 3]]
    assert row.cache_info().misses == 2
    for number in (2, torch.tensor(2)):
        part = row(x, number)
        with pytest.raises(RuntimeError, match="gave this out as a part of another tensor"):
            part.add_(1)
        assert part.tolist() == [4.0, 5.0]
        x.add_(0)
        with pytest.raises(RuntimeError, match="gave this out as a part of another tensor"):
            part.tolist()

    @torch.compile
    def write(x: Any, i: Any) -> Any:
        x.add_(1)
        return x[i]

    x = torch.zeros(3, 2)
    assert [write(x, i).tolist() for i in (0, 1, 2)] == [[1.0] * 2, [2.0] * 2, [3.0] * 2]


def test_containers_of_views() -> None:
    """Views among the arguments that other calls bring are no reason to compile anew, and may be written in part."""

    @torch.compile
    def step(xs: Any) -> Any:
        xs[0][1:].mul_(2)
        return [v[0] for v in xs]

    x = torch.ones(3, 2)
    for i in range(3):
        firsts = step([x[i], x[(i + 1) % 3] * 1])
        firsts[0].sub_(i)
    assert x.tolist() == [[1.0, 2.0], [0.0, 2.0], [-1.0, 2.0]]
    assert step.cache_info().misses == 1


def test_files_have_results_of_their_own(tmp_path: Any) -> None:
    jg.save(jg.trace(lambda x: x[0]), tmp_path / "row.jg", example_inputs=(torch.ones(2, 2),))
    assert jg.load(tmp_path / "row.jg")(torch.ones(2, 2)).tolist() == [1.0, 1.0]


def test_sizes_and_bounds_that_vary() -> None:
    """Each call gives the part that its numbers say, though it was recorded for those of another one."""
    start = torch.compile(lambda x, n: (x[:n], x[n], x.narrow(0, n, 2), x.reshape(n, -1)))
    x = torch.arange(12.0)
    for n in (1, 2, 3, 4, 6):
        parts = start(x, n)
        due = x[:n], x[n], x[n : n + 2], x.reshape(n, -1)
        assert [part.tolist() for part in parts] == [part.tolist() for part in due]
    rows = torch.compile(lambda x: x.view(x.shape[0], -1)[1:])
    for count in (2, 3, 4, 5):
        x = torch.zeros(count, 2, 2)
        assert rows(x).shape == (count - 1, 4)
