"""Pickle and deepcopy of tensors, parameters, modules, optimisers and traced functions, before and after calls."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


class Net(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = jg.nn.Linear(3, 2)
        self.again = self.first
        self.norm = jg.nn.BatchNorm1d(2)
        self.n = 0
        self.register_buffer("count", jg.asarray(0))

    def forward(self, x: Any) -> Any:
        self.n += 1
        self.count += 1
        return self.norm(self.again(x)).sum() + (self.first(x) ** 2).sum()


@jg.trace
def loss_of(model: Any, x: Any) -> Any:
    return model(x)


@jg.script
def scripted(x: Any) -> Any:
    while x.sum() < 10:
        x = x * 2
    return x


def by_pickle(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


def step_of(model: Any, optimizer: Any, scheduler: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    return step


X = jg.asarray(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))


def test_memory_that_pickle_hands_out_is_read_only_and_what_it_is_given_is_copied() -> None:
    numbers = np.arange(5000, dtype=np.float32)
    x = jg.asarray(numbers)
    handed: list[pickle.PickleBuffer] = []
    data = pickle.dumps(x, protocol=5, buffer_callback=lambda buffer: handed.append(buffer))
    (view,) = (buffer.raw() for buffer in handed)
    assert view.readonly and len(view) == x.nbytes

    frame = bytearray(view)
    same, framed = pickle.loads(data, buffers=handed), pickle.loads(data, buffers=[frame])
    frame[:] = bytes(len(frame))
    add_one = jg.trace(lambda tensor: tensor.__iadd__(1))
    for _ in range(3):
        add_one(same)
    assert not any(frame) and (x == numbers).all() and (framed == numbers).all() and (same == numbers + 3).all()


@pytest.mark.parametrize("copied", [by_pickle, copy.deepcopy])
@pytest.mark.parametrize("stage", ["fresh", "eager", "traced"])
def test_a_training_run_goes_on_in_a_copy(copied: Any, stage: str) -> None:
    model = Net()
    optimizer = jg.optim.Adam([*model.parameters()], lr=0.1)
    scheduler = jg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    step = step_of(model, optimizer, scheduler)
    step = step if stage == "eager" else jg.trace(step)
    for _ in range(0 if stage == "fresh" else 2):
        step(X)
    other = copied((model, optimizer, scheduler))
    assert other[0].first is other[0].again
    assert other[1].param_groups[0]["params"][0] is other[0].first.weight
    mine, theirs = dict(model.named_parameters()), dict(other[0].named_parameters())
    assert mine.keys() == theirs.keys()
    for name, parameter in mine.items():
        assert type(theirs[name]) is jg.nn.Parameter and theirs[name].requires_grad and theirs[name].is_leaf
        np.testing.assert_array_equal(theirs[name].detach().numpy(), parameter.detach().numpy())
        if parameter.grad is not None:
            np.testing.assert_array_equal(theirs[name].grad.numpy(), parameter.grad.numpy())
            assert theirs[name].grad is not parameter.grad
        else:
            assert theirs[name].grad is None
    before = {name: parameter.detach().numpy().copy() for name, parameter in mine.items()}
    ahead = jg.trace(step_of(*other))
    results = [ahead(X).item() for _ in range(3)]
    for name, parameter in mine.items():
        np.testing.assert_array_equal(parameter.detach().numpy(), before[name])
    np.testing.assert_allclose([step(X).item() for _ in range(3)], results, rtol=1e-5)
    assert (other[0].n, other[0].count.item()) == (model.n, model.count.item())
    assert other[1].param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_a_copy_in_the_same_traced_function() -> None:
    model = Net()
    first = loss_of(model, X).item()
    other = copy.deepcopy(model)
    with jg.no_grad():
        other.first.weight += 1
        expected = copy.deepcopy(other)(X).item()
        assert loss_of(other, X).item() == pytest.approx(expected, rel=1e-5)
        other.norm.eval()
        model.norm.eval()
    assert (model.n, other.n, model.count.item(), other.count.item()) == (1, 2, 1, 2)
    assert first != pytest.approx(expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("data", [3, [0, 1, 1], [[]]])
def test_tensors_of_all_kinds(dtype: str, data: Any) -> None:
    tensor = jg.asarray(data).astype(getattr(jg, dtype))
    for actual in (by_pickle(tensor), copy.deepcopy(tensor), by_pickle(tensor.T if tensor.ndim == 2 else tensor)):
        assert actual.dtype == tensor.dtype and type(actual) is jg.Tensor
        assert actual.tolist() == (tensor.tolist() if actual.ndim < 2 else [] if actual.shape[0] == 0 else [[]])
        actual[...] = 0
    assert by_pickle(tensor).tolist() == tensor.tolist()


def test_what_is_on_the_tape_is_refused_and_attributes_are_kept() -> None:
    leaf = jg.asarray([1.0, 2.0]).requires_grad_()
    result = leaf * 2
    for way in (copy.deepcopy, by_pickle):
        with pytest.raises(jg.JitgraphError, match="detach"):
            way(result)
    result.sum().backward()
    leaf.note = ["a"]  # type: ignore[attr-defined]
    for way in (copy.deepcopy, by_pickle):
        other = way(leaf)
        assert other.note == ["a"] and other.note is not leaf.note  # type: ignore[attr-defined]
        assert other.grad.tolist() == [2.0, 2.0] and other.grad is not leaf.grad
        (other * 3).sum().backward()
        assert other.grad.tolist() == [5.0, 5.0] and leaf.grad.tolist() == [2.0, 2.0]
    with pytest.raises(jg.TraceError):
        jg.trace(lambda x: (pickle.dumps(x), x)[1])(leaf)


class Owner:
    def __init__(self) -> None:
        self.scale = 2.0
        self.run = jg.trace(self._run)

    def _run(self, x: Any) -> Any:
        return x * self.scale

    @jg.trace
    def method(self, x: Any) -> Any:
        return x + self.scale


def test_traced_functions() -> None:
    assert by_pickle(loss_of) is loss_of and copy.deepcopy(loss_of) is loss_of
    assert by_pickle(scripted) is scripted
    owner = Owner()
    assert owner.run(X).tolist() == (X * 2).tolist()
    for way in (by_pickle, copy.deepcopy):
        other = way(owner)
        other.scale = 3.0
        assert other.run(X).tolist() == (X * 3).tolist() and owner.run(X).tolist() == (X * 2).tolist()
        assert way(other.method)(X).tolist() == (X + 3).tolist()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(jg.trace(lambda x: x))
