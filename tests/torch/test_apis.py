"""A tensor of PyTorch's API stays one through loops, branches, transforms, hooks, copies and files."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph import tree

EXPECTED: Any = [jg.Tensor]


def see(x: Any) -> Any:
    """What the user's code is handed has the class of what came in."""
    if not isinstance(x, EXPECTED[0]) or (EXPECTED[0] is jg.Tensor and isinstance(x, torch.Tensor)):
        raise AssertionError(f"a {type(x).__module__}.{type(x).__name__}")
    return x


def while_statement(x: Any) -> Any:
    total = x * 0
    while total.sum() < 100:
        total = see(total) * 2 + x
    return total


def for_statement(x: Any) -> Any:
    total = x[0] * 0
    for i in range(jg.asarray(3).astype(jg.int64)):
        total = see(total) + x[0] * i
    for row in x:
        total = see(total) + see(row)
    for number, row in enumerate(x):
        total = total + number * see(row)
    for a, b in zip(x, x * 2, strict=True):
        total = total + see(a) * see(b)
    return total


def branches(x: Any) -> Any:
    if x.sum() > 0:
        y, z = x + 1, x
    else:
        y, z = x * 2, x - 1
    return see(y) * see(z), see(x + 1 if x.sum() > 3 else x), x.sum() > 3 and see(x).sum() > 2


def lists(x: Any) -> Any:
    out, both = [], []
    for row in x:
        out.append(see(row) * 2)
        both.append((row + 1, 2.0))
    return see(out[0]) + see(out[-1]) + see(both[1][0]), out, both


def elements(x: Any) -> Any:
    rows = [x, x + 1, x + 2]
    table = {0: x, 1: x * 3}
    position = int((x > 1).sum() % 2)
    return see(rows[position]), see(table[position])


def early_exit(x: Any) -> Any:
    for row in x:
        if see(row).sum() > 3:
            return row * 2
    return x[0]


SCRIPTS = (while_statement, for_statement, branches, lists, elements, early_exit)


def cond(x: Any) -> Any:
    return jg.cond(x.sum() > 0, lambda y: see(y) * 2, lambda y: see(y) * 3, x)


def while_loop(x: Any) -> Any:
    return jg.while_loop(lambda s: see(s[0]).sum() < 100, lambda s: (see(s[0]) * 2, s[1] + 1), (x, 0))


def scan(x: Any) -> Any:
    return jg.scan(lambda carry, row: (see(carry) + see(row), (see(row) * 2, carry)), x[0], x)


def empty_scan(x: Any) -> Any:
    return jg.scan(lambda carry, row: (see(carry) + see(row), see(row) * 2), x[0], x[:0])


def grad(x: Any) -> Any:
    return jg.grad(lambda y: (see(y) * y).sum())(x), jg.value_and_grad(lambda y: (see(y) * y).sum())(x)


def unused(x: Any) -> Any:
    return jg.grad(lambda y, z: (see(y) * y).sum(), argnums=(0, 1))(x, x)


def derivatives(x: Any) -> Any:
    return jg.jacobian(lambda y: see(y) * y)(x), jg.jacfwd(lambda y: see(y) * y)(x)


def hessian(x: Any) -> Any:
    return jg.hessian(lambda y: (see(y) * y * y).sum())(x)


def vjp(x: Any) -> Any:
    y, pull = jg.vjp(lambda y: see(y) * y, x)
    return see(y), pull(y)


def jvp(x: Any) -> Any:
    y, push = jg.linearize(lambda y: see(y) * y, x)
    return jg.jvp(lambda y: see(y) * y, x, x), y, push(x)


def vmap(x: Any) -> Any:
    return jg.vmap(lambda row: (see(row) * 2, see(row).sum()))(x), jg.vmap(jg.grad(lambda y: (see(y) * y).sum()))(x)


def checkpoint(x: Any) -> Any:
    return jg.grad(lambda y: jg.checkpoint(lambda z: see(see(z) * z))(y).sum())(x)


class Doubled(jg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(see(x))
        return x * 2

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return see(ct) * see(ctx.saved_tensors[0])


def function(x: Any) -> Any:
    return see(Doubled.apply(x)), jg.grad(lambda y: Doubled.apply(y).sum())(x)


@jg.custom_vjp
def cubed(x: Any) -> Any:
    return see(x) * x * x


cubed.defvjp(lambda x: (x * x * x, see(x)), lambda x, ct: (see(ct) * 3 * see(x) * x,))


@jg.custom_jvp
def squared(x: Any) -> Any:
    return see(x) * x


@squared.defjvp
def squared_tangent(primals: Any, tangents: Any) -> Any:
    return see(primals[0]) * primals[0], see(tangents[0]) * primals[0] * 2


def rules(x: Any) -> Any:
    return see(cubed(x)), jg.grad(lambda y: (cubed(y) + squared(y)).sum())(x)


def hooks(x: Any) -> Any:
    leaf = x.clone().requires_grad_()
    leaf.register_hook(lambda ct: see(ct) * 2)
    y = leaf * 3
    y.register_hook(lambda ct: see(ct) + 1)
    (y * y).sum().backward()
    return see(leaf.grad)


def tensor_grad(x: Any) -> Any:
    leaf = x.clone().requires_grad_()
    return jg.autograd.grad((leaf * leaf).sum(), leaf)


CALLS: tuple[Callable[[Any], Any], ...] = (
    cond,
    while_loop,
    scan,
    empty_scan,
    grad,
    unused,
    derivatives,
    hessian,
    vjp,
    jvp,
    vmap,
    checkpoint,
    function,
    rules,
    hooks,
    tensor_grad,
)


def tensors(result: Any) -> Iterator[Any]:
    return (leaf for leaf in tree.flatten(result)[0] if isinstance(leaf, jg.Tensor))


def runs(program: Callable[[Any], Any]) -> Iterator[Callable[[Any], Any]]:
    if program in SCRIPTS:
        yield jg.script(program)
        yield jg.trace(jg.script(program))
    else:
        yield program
        yield jg.trace(program)


@pytest.mark.parametrize("program", [*SCRIPTS, *CALLS], ids=lambda program: program.__name__)
def test_tensors_keep_their_class(program: Callable[[Any], Any]) -> None:
    array = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    for run in runs(program):
        numbers = []
        for x, kind in ((jg.asarray(array), jg.Tensor), (torch.tensor(array), torch.Tensor)):
            EXPECTED[0] = kind
            for _ in range(2):
                results = [*tensors(run(x))]
                if program is not elements:
                    assert [type(y) for y in results if not isinstance(y, kind)] == []
                assert [type(y) for y in results if kind is jg.Tensor and isinstance(y, torch.Tensor)] == []
            numbers.append([y.detach().numpy() for y in results])
        for ours, theirs in zip(*numbers, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_choice_between_both_apis_is_of_pytorchs() -> None:
    @jg.script
    def chosen(x: Any, y: Any) -> Any:
        z = x if x.sum() > 0 else y
        total = y
        while total.sum() < 10:
            total = total + x
        return z, total

    array = np.ones(2, np.float32)
    for pair in ((torch.tensor(array), jg.asarray(array)), (jg.asarray(array), torch.tensor(array))):
        assert [type(z) for z in chosen(*pair)] == [torch.Tensor, torch.Tensor]


def test_files_and_batches_keep_the_class(tmp_path: Path) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    jg.save(jg.trace(lambda x: (x * 2, x.sum())), tmp_path / "f.jg", example_inputs=(x,))
    loaded = jg.load(tmp_path / "f.jg")
    for _ in range(2):
        assert [type(y) for y in loaded(x)] == [torch.Tensor] * 2
        assert [type(y) for y in loaded(jg.asarray(x.numpy()))] == [jg.Tensor] * 2
    assert type(jg.data.default_collate([x, x])) is torch.Tensor


def test_copies_and_pickles_keep_the_class() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    leaf = torch.tensor([1.0]).requires_grad_()
    leaf.grad = torch.tensor([2.0])
    for y in (
        copy.copy(x),
        copy.deepcopy(x),
        copy.deepcopy(x[0]),
        copy.deepcopy({"x": x.t()})["x"],
        copy.deepcopy(leaf),
        copy.deepcopy(leaf).grad,
        pickle.loads(pickle.dumps(x)),
        pickle.loads(pickle.dumps(x[0])),
        tree.map_leaves(lambda z: z, {"a": [x]})["a"][0],
    ):
        assert isinstance(y, torch.Tensor)
    row = copy.deepcopy(x[0])
    row.mul_(0)
    assert x.tolist() == [[1, 2], [3, 4]]
    assert pickle.loads(pickle.dumps([x, x]))[0].tolist() == x.tolist()
    stream = io.BytesIO()
    pickle.dump({"view": x[1], "leaf": leaf}, stream)
    stream.seek(0)
    loaded = pickle.load(stream)
    assert loaded["view"].tolist() == [3, 4] and loaded["leaf"].requires_grad


def test_traces_know_of_the_default_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    half = jg.trace(lambda x: (x / 2, torch.zeros(1) + 0.5))
    x = torch.tensor([1, 2])

    def dtypes() -> list[Any]:
        return [str(y.dtype) for _ in range(3) for y in half(x)]

    single, double = ["torch.float32"] * 6, ["torch.float64"] * 6
    assert dtypes() == single
    try:
        torch.set_default_dtype(torch.float64)
        assert dtypes() == double
        with torch.no_grad():
            with torch.enable_grad():
                torch.set_default_dtype(torch.float32)
                assert dtypes() == single
            assert dtypes() == single and torch.get_default_dtype() is torch.float32
            torch.set_default_dtype(torch.float64)
        assert dtypes() == double
        with pytest.raises(jg.TraceError, match="default_dtype"):
            jg.trace(lambda x: torch.set_default_dtype(torch.float32))(x)
    finally:
        torch.set_default_dtype(torch.float32)
    assert dtypes() == single
    assert torch.float64 != None and torch.float32 != "x"  # noqa: E711
