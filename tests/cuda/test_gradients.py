"""Transforms of functions and gradients of tensors on a GPU: where they lie, and whether they require gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree
from jitgraph.errors import DeviceError
from tests.cuda.places import Machine
from tests.graphs import needs_native

X = np.arange(1, 5, dtype=np.float32)
W = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)

pytestmark = needs_native


def cube(x: Any) -> Any:
    return (x * x * x).sum()


def of_tape(x: Any, *, create_graph: bool = False) -> Any:
    leaf = x.detach().requires_grad_()
    cube(leaf).backward(create_graph=create_graph)
    return leaf.grad


def of_an_outer_leaf(x: Any) -> Any:
    outer = x.detach().requires_grad_()
    return jg.grad(lambda x: (x * outer).sum())(x)


def pulled(x: Any) -> Any:
    result, pull = jg.vjp(lambda x: (x * x, x + 1), x)
    return result, pull((x, x))


def pushed(x: Any) -> Any:
    result, push = jg.linearize(lambda x: x * x, x)
    return result, push(x)


def of_a_module(x: Any) -> Any:
    module = jg.nn.Linear(4, 1, bias=False)
    with jg.no_grad():
        module.weight[:] = jg.asarray(W[:1])
    return jg.value_and_grad(lambda module: module(x).sum())(module.to(x.device))


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda x, w: jg.grad(cube)(x),
    "grad-of-grad": lambda x, w: jg.grad(lambda x: jg.grad(cube)(x).sum())(x),
    "grad-of-a-constant": lambda x, w: jg.grad(lambda x, y: (w * w).sum(), argnums=(0, 1))(x, w),
    "grad-through-an-outer-leaf": lambda x, w: of_an_outer_leaf(x),
    "value_and_grad": lambda x, w: jg.value_and_grad(lambda x: (cube(x), x * 2), has_aux=True)(x),
    "value_and_grad-of-a-module": lambda x, w: of_a_module(x),
    "vjp": lambda x, w: pulled(x),
    "jvp": lambda x, w: jg.jvp(lambda x: x * x, (x,), (x,)),
    "jvp-of-a-constant": lambda x, w: jg.jvp(lambda x: w * 2, (x,), (x,)),
    "linearize": lambda x, w: pushed(x),
    "hessian": lambda x, w: jg.hessian(cube)(x),
    "jacrev": lambda x, w: jg.jacrev(lambda x: x * x)(x),
    "jacrev-of-nothing": lambda x, w: jg.jacrev(lambda x: x[:0])(x),
    "jacfwd": lambda x, w: jg.jacfwd(lambda x: x * x)(x),
    "jacfwd-of-nothing": lambda x, w: jg.jacfwd(lambda x: x.sum())(x[:0]),
    "backward": lambda x, w: of_tape(x),
    "backward-with-a-graph": lambda x, w: of_tape(x, create_graph=True),
    "checkpoint": lambda x, w: jg.grad(lambda x: jg.checkpoint(lambda x: (x * x).sum())(x))(x),
    "vmap": lambda x, w: jg.vmap(lambda row: (row * row).sum())(w),
    "vmap-of-grad": lambda x, w: jg.vmap(jg.grad(lambda x, row: (x * row * row).sum()), in_axes=(None, 0))(x, w),
    "grad-of-vmap": lambda x, w: jg.grad(lambda w: jg.vmap(lambda row: jg.exp(row * x).sum())(w).sum())(w),
    "vmap-that-draws": lambda x, w: jg.vmap(lambda row: row + jg.random.normal((4,)), randomness="different")(w),
}


@pytest.mark.parametrize("name", CASES)
def test_transforms_give_what_they_give_on_the_cpu(here: Machine, name: str) -> None:
    jg.random.seed(3)
    wanted = tree.flatten(CASES[name](jg.asarray(X), jg.asarray(W)))[0]
    left = jg.random.get_state().tolist()
    jg.random.seed(3)
    actual = tree.flatten(CASES[name](jg.asarray(X, device="cuda"), jg.asarray(W, device="cuda")))[0]
    assert len(actual) == len(wanted) > 0
    for x, y in zip(actual, wanted, strict=True):
        assert (x.device, x.requires_grad) == ("cuda:0", y.requires_grad)
        assert x.shape == y.shape
        np.testing.assert_array_equal(x.detach().cpu().numpy(), y.detach().numpy())
    assert jg.random.get_state().tolist() == left
    assert jg.random.get_state().device == "cpu"


def test_what_is_mapped_lies_on_one_device(here: Machine) -> None:
    x, w = jg.asarray(X, device="cuda"), jg.asarray(W)
    with pytest.raises(DeviceError, match=r"vmap of tensors on different devices: .* on cpu and .* on cuda:0"):
        jg.vmap(lambda row: row * x)(w)
    number = jg.asarray(np.float32(2))
    np.testing.assert_array_equal(jg.vmap(lambda x: x * number)(x).cpu().numpy(), X * 2)


def test_what_vmap_counts_stays_where_it_lies(here: Machine) -> None:
    count, total = jg.zeros(()), jg.zeros(4, device="cuda")

    def f(row: Any) -> Any:
        nonlocal count, total
        count += 1
        total += 1
        return row * count + total

    actual = jg.vmap(f)(jg.asarray(W, device="cuda"))
    assert (actual.device, count.device, total.device) == ("cuda:0", "cpu", "cuda:0")
    assert (count.item(), total.tolist()) == (1, [1] * 4)
    np.testing.assert_array_equal(actual.cpu().numpy(), W + 1)
