"""Tensors that get the elements of others share them from then on, as PyTorch's do; earlier views keep their own."""

from __future__ import annotations

import copy
import gc
import io
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch import nn


def bucket(sizes: list[tuple[int, ...]]) -> tuple[Any, list[Any]]:
    """A flat tensor, and parameters that are parts of it."""
    parameters = [nn.Parameter(torch.zeros(*size)) for size in sizes]
    flat = torch.arange(float(sum(p.numel() for p in parameters)))
    start = 0
    for p in parameters:
        p.data = flat[start : start + p.numel()].view_as(p)
        start += p.numel()
    return flat, parameters


def test_data_is_shared_and_earlier_views_keep_theirs() -> None:
    x, y = torch.arange(4.0), torch.ones(4)
    before, of_y = x[0:2], y[2:]
    x.data = y
    x[0] = 9
    y[1] = 8
    before[1] = 7
    of_y[0] = 6
    after = x[3:]
    after.zero_()
    assert x.tolist() == y.tolist() == [9.0, 8.0, 6.0, 0.0]
    assert before.tolist() == [0.0, 7.0]
    y.data = torch.zeros(4)  # which x has no part in
    assert (x.tolist(), of_y.tolist(), y.tolist()) == ([9.0, 8.0, 6.0, 0.0], [6.0, 0.0], [0.0] * 4)


def test_data_of_a_view() -> None:
    base = torch.arange(4.0)
    x = base[0:2]
    part = x[0:1]
    x.data = torch.tensor([7.0, 8.0])
    x[0] = 1
    part[0] = 20
    assert (base.tolist(), x.tolist(), part.tolist()) == ([20.0, 1.0, 2.0, 3.0], [1.0, 8.0], [20.0])
    assert x._base is None or x._base is not base


def test_chains_of_data() -> None:
    x, y, z = torch.zeros(3), torch.ones(3), torch.arange(3.0)
    x.data = y
    y.data = z
    y[0] = 3
    x[1] = 8
    part = x[:2]
    x.data = z
    part[0] = 100
    assert (x.tolist(), y.tolist(), z.tolist(), part.tolist()) == ([3, 1, 2], [3, 1, 2], [3, 1, 2], [100, 8])


def test_data_keeps_what_the_tensor_is() -> None:
    p, x = nn.Parameter(torch.zeros(2)), torch.ones(2, 2, dtype=torch.float64)
    p.grad = torch.ones(2)
    p.note = "kept"  # type: ignore[attr-defined]
    version, grad = p._version, p.grad
    p.data = x[0]
    assert isinstance(p, nn.Parameter)
    assert (p.requires_grad, p.is_leaf, p._version, p.grad is grad, p.note) == (True, True, version, True, "kept")  # type: ignore[attr-defined]
    assert (p.dtype, p.tolist(), type(p).__name__) == (torch.float64, [1.0, 1.0], "Parameter")
    x[0, 1] = 5
    assert p.tolist() == [1.0, 5.0]
    p.data = torch.zeros(3)
    assert (type(p), p.shape) == (nn.Parameter, (3,))


def test_gradients_of_a_tensor_that_shares_its_elements() -> None:
    x, y = torch.zeros(3, requires_grad=True), torch.ones(3)
    x.data = y
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3
    y.mul_(3)
    (x * x).sum().backward()
    assert (x.grad.tolist(), x._version, y._version, y.requires_grad) == ([8.0] * 3, 0, 1, False)
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)


def test_parameters_and_buffers_share_what_they_are_made_of() -> None:
    for make in (nn.Parameter, nn.Buffer, torch.Tensor):
        x = torch.zeros(3)
        part = x[1:]
        p = make(x)
        x[0] = 1
        with torch.no_grad():
            p[1] = 2
        part[1] = 3
        assert x.tolist() == p.tolist() == [1.0, 2.0, 3.0], make
    linear = nn.Linear(2, 2)
    tied = nn.Parameter(linear.weight.detach())
    with torch.no_grad():
        linear.weight.fill_(3)
    assert tied.tolist() == [[3.0, 3.0]] * 2
    assert type(nn.Parameter(torch.eye(3).t()[1:])) is nn.Parameter  # nobody else has these elements


@pytest.mark.parametrize("compiled", [False, True])
def test_parameters_in_a_flat_bucket(compiled: bool) -> None:
    """A step of an optimiser, eager and compiled, writes to the bucket; gradients are those of the parameters."""
    flat, (weight, bias) = bucket([(2, 3), (2,)])
    sgd = torch.optim.SGD([weight, bias], lr=0.5)
    x = torch.tensor([[1.0, 2.0, 3.0]])

    def step(x: Any) -> Any:
        sgd.zero_grad()
        loss = torch.nn.functional.linear(x, weight, bias).sum()
        loss.backward()
        sgd.step()
        return loss

    run = torch.compile(step) if compiled else step
    losses = [run(x).item() for _ in range(3)]
    assert losses == [47.0, 32.0, 17.0]
    assert flat.tolist() == [-1.5, -2.0, -2.5, 1.5, 1.0, 0.5, 4.5, 5.5]
    flat.zero_()
    assert weight.tolist() == [[0.0] * 3] * 2
    if compiled:
        assert run.cache_info().misses <= 2
        weight.data = torch.ones(2, 3)  # the bucket has no part in it any more
        assert run(x).item() == 12.0
        assert flat.tolist() == [0.0] * 6 + [-0.5] * 2


def test_compiled_functions_see_that_elements_are_others() -> None:
    """What a compiled function reads from outside is looked at in each call: it may be a view by now, or of others."""
    p, x, y = nn.Parameter(torch.zeros(2)), torch.arange(4.0), torch.full((4,), 10.0)
    part = x[2:]

    @torch.compile
    def read() -> Any:
        return p * 1, part * 1

    values = [[read()[i].tolist() for i in (0, 1)]]
    for change in (
        lambda: setattr(p, "data", x[:2]),
        lambda: setattr(p, "data", y[:2]),
        lambda: x.add_(1),
        lambda: setattr(x, "data", y),
        lambda: setattr(p, "data", torch.ones(2)),
        lambda: part.add_(1),
    ):
        change()
        values.append([read()[i].tolist() for i in (0, 1)])
    assert [one for one, _ in values] == [[0, 0], [0, 1], [10, 10], [10, 10], [10, 10], [1, 1], [1, 1]]
    assert [other for _, other in values] == [[2, 3], [2, 3], [2, 3], [3, 4], [3, 4], [3, 4], [4, 5]]


def test_vector_to_parameters_shares() -> None:
    linear, vector = nn.Linear(2, 1), torch.arange(3.0)
    nn.utils.vector_to_parameters(vector, linear.parameters())
    vector[0] = 10
    with torch.no_grad():
        linear.bias.add_(5)
    assert (linear.weight.tolist(), vector.tolist()) == ([[10.0, 1.0]], [10.0, 1.0, 7.0])
    assert nn.utils.parameters_to_vector(linear.parameters()).tolist() == vector.tolist()


def test_set_and_changes_of_shape() -> None:
    x, y = torch.zeros(3), torch.arange(3.0)
    part = x[0:1]
    x.set_(y)  # type: ignore[attr-defined]
    x[0] = 5
    part[0] = 3
    assert (x.tolist(), y.tolist(), part.tolist()) == ([5, 1, 2], [5, 1, 2], [3])
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        x.set_(torch.zeros(3, dtype=torch.int64))  # type: ignore[attr-defined]
    m = torch.arange(6.0).reshape(2, 3)
    row = m[1]
    m.t_()
    m[0, 1] = 30
    assert (m.shape, row.tolist()) == ((3, 2), [30.0, 4.0, 5.0])
    larger = torch.arange(4.0)
    square = larger.reshape(2, 2)
    larger.resize_(6)
    larger[0] = 5
    square[1, 1] = 9
    assert (larger.tolist()[:4], square.tolist()) == ([5, 1, 2, 9], [[5, 1], [2, 9]])
    larger.resize_(2)
    larger[1] = 7
    assert square.tolist() == [[5, 7], [2, 9]]


def test_modules_that_get_other_elements() -> None:
    module = nn.Linear(2, 2)
    weight, row = module.weight, module.weight[0]
    module.double()
    with torch.no_grad():
        weight.fill_(2)
    assert (row.dtype, weight is module.weight, (row == 2).any().item()) == (torch.float32, True, False)
    state = {"weight": torch.zeros(2, 2), "bias": torch.zeros(2)}
    module.float().load_state_dict(state, assign=True)
    with torch.no_grad():
        module.weight.fill_(2)
    assert state["weight"].tolist() == [[2.0, 2.0]] * 2
    flat, parameters = bucket([(2, 2), (2,)])
    module.weight, module.bias = parameters
    module.float()  # which changes nothing
    flat.fill_(3)
    assert module.bias.tolist() == [3.0, 3.0]
    module._apply(lambda t: t)
    flat.fill_(4)
    assert module.bias.tolist() == [4.0, 4.0]


def test_copies_and_files_of_parameters_in_a_bucket() -> None:
    flat, parameters = bucket([(2,), (3,)])
    copies = copy.deepcopy(parameters)
    file = io.BytesIO()
    torch.save(parameters, file)
    file.seek(0)
    for each in (copies, torch.load(file, weights_only=False)):
        assert [p.tolist() for p in each] == [[0.0, 1.0], [2.0, 3.0, 4.0]]
        assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in each)
    flat.zero_()
    assert copies[0].tolist() == [0.0, 1.0]


def test_what_nobody_sees_is_dropped() -> None:
    """Earlier elements live as long as their views, and no longer."""
    x = torch.zeros(1000)
    view = x[:2]
    first = weakref.ref(view.base)
    x.data = torch.ones(1000)
    behind = weakref.ref(view.base)
    assert first() is x
    assert behind() is not None
    view = x[:2]
    gc.collect()
    assert behind() is None
    y = torch.ones(3)
    x.data = y
    gone = weakref.ref(y)
    del y
    assert gone() is None


@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: setattr(x, "data", y),
        lambda x, y: x.set_(y[:]),
        lambda x, y: setattr(x[:2], "data", y[:2]) or x.zero_(),
    ],
)
def test_compiled_functions_refuse_what_would_be_shared_afterwards(program: Callable[..., Any]) -> None:
    with pytest.raises(jg.JitgraphError, match=r"both are from outside|of another one since"):
        jg.trace(lambda x, y: (program(x, y), x * 1)[1])(torch.zeros(3), torch.ones(3))


def test_compiled_functions_refuse_writes_to_one_of_two_that_share() -> None:
    def data(x: Any) -> Any:
        y = x * 2
        x.data = y
        y.add_(1)
        return x * 1

    def stale(x: Any) -> Any:
        y = x * 2
        x.data = y
        x.add_(1)
        return y * 1

    def parameter(x: Any) -> Any:
        p = nn.Parameter(x, requires_grad=False)
        x.add_(1)
        return p * 1

    for program in (data, stale, parameter):
        with pytest.raises(jg.ScriptError, match=r"shares the elements of another one since .*test_shared_elements"):
            jg.trace(program)(torch.zeros(3))

    def views(x: Any) -> Any:
        before = x[:2]
        x.data = x * 2 + 1
        return before + 0, x + 0

    before, x = jg.trace(views)(torch.arange(3.0))
    assert (before.tolist(), x.tolist()) == ([0.0, 1.0], [1.0, 3.0, 5.0])


def test_arrays_share_nothing() -> None:
    a = np.zeros(3, np.float32)
    x = torch.from_numpy(a)
    a[0] = 1
    b = x.numpy()
    x[1] = 2
    assert (x.tolist(), b.tolist()) == ([0.0, 2.0, 0.0], [0.0, 0.0, 0.0])
    for array in (b, np.asarray(x)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    for obj, kind in ((a, None), ([1.0], None), (x, torch.int64)):
        with pytest.raises(ValueError, match="copy=False"):
            torch.asarray(obj, dtype=kind, copy=False)
    assert torch.asarray(x, copy=False) is x
    assert torch.as_tensor(x) is x
