"""einsum and products of vectors and matrices, against NumPy: eager, traced, with named sizes, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tensor import products as einsum_module

CASES = [
    ("ij,jk->ik", (3, 4), (4, 2)),
    ("ij,jk", (3, 4), (4, 2)),
    ("ba", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iji->j", (3, 2, 3)),
    ("iii->i", (2, 2, 2)),
    ("iijj->ij", (2, 2, 3, 3)),
    ("i,i->i", (4,), (4,)),
    ("i,j->ji", (4,), (3,)),
    ("i,i", (0,), (0,)),
    ("ij,jk->ik", (3, 0), (0, 2)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 2)),
    ("...ij,...jk->...ik", (5, 1, 3, 4), (2, 4, 2)),
    ("...i,i...->...", (2, 3), (3, 2)),
    ("i...->...", (2, 3)),
    ("...ii->...i", (2, 3, 3)),
    ("ij,ij->j", (1, 4), (3, 4)),
    ("i,i->i", (1,), (3,)),
    (" a b , b c -> c a ", (2, 3), (3, 4)),
    ("ij,jk,kl->il", (3, 4), (4, 2), (2, 5)),
    ("ij,jk,kl,lm->im", (2, 9), (9, 1), (1, 8), (8, 3)),
    ("i,j,k->kji", (2,), (3,), (4,)),
    ("ab,ac,ad->bcd", (2, 3), (2, 4), (2, 5)),
    ("a,ab,bc,cd,de,ef,fg,g->", (2,), *[(2, 2)] * 6, (2,)),
    (",ij->ij", (), (2, 3)),
    ("aAb,bB->aAB", (2, 3, 4), (4, 2)),
]


def _arrays(shapes, dtype=np.float64):
    random = np.random.default_rng(5)
    return [random.integers(-4, 5, size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_einsum_is_numpy_s(case):
    text, *shapes = case
    arrays = _arrays(shapes)
    due = np.einsum(text, *arrays)  # exact: small integers
    tensors = [jg.asarray(array) for array in arrays]
    traced = jg.trace(lambda *xs: jg.einsum(text, *xs))
    for actual in (jg.einsum(text, *tensors), traced(*tensors)):
        assert actual.shape == due.shape and np.array_equal(actual.numpy(), due)


def test_eager_and_traced_have_the_same_bits():
    random = np.random.default_rng(1)
    for text, *shapes in CASES[::4]:
        tensors = [jg.asarray(random.normal(size=shape).astype(np.float32)) for shape in shapes]
        eager, traced = jg.einsum(text, *tensors), jg.trace(lambda *xs, text=text: jg.einsum(text, *xs))(*tensors)
        assert np.array_equal(eager.numpy(), traced.numpy(), equal_nan=True), text


def test_diagonals_are_moved_and_not_computed():
    x = np.array([[-0.0, np.nan], [np.inf, 2.0]])
    result = jg.einsum("ii->i", jg.asarray(x)).numpy()
    assert np.array_equal(result, [-0.0, 2.0]) and np.signbit(result[0])
    assert jg.einsum("ii->i", jg.asarray([[1, 2], [3, 4]], dtype=jg.int8)).dtype == jg.int8


@pytest.mark.parametrize(
    ("text", "shapes"),
    [("ij,jk,kl->il", [(3, 4), (4, 2), (2, 5)]), ("iji->j", [(3, 2, 3)]), ("...i,i->...", [(2, 3), (3,)])],
)
def test_named_sizes(text, shapes):
    traced = jg.trace(lambda xs: jg.einsum(text, *xs), dynamic_shapes=_named(text))
    for scale in (1, 2):
        arrays = _arrays([tuple(scale * size for size in shape) for shape in shapes])
        assert np.array_equal(traced([jg.asarray(x) for x in arrays]).numpy(), np.einsum(text, *arrays))


def _named(text):
    parts = text.split("->")[0].replace("...", "z").split(",")
    return {
        f"xs[{number}]": {axis: f"n_{letter}" for axis, letter in enumerate(part)} for number, part in enumerate(parts)
    }


@pytest.mark.parametrize("case", CASES[4::3], ids=lambda case: case[0])
def test_gradients_of_both_orders(case):
    """A product is linear in each operand: central differences are exact but for rounding."""
    text, *shapes = case
    tensors = [jg.asarray(x) for x in _arrays(shapes)]
    directions = [jg.asarray(np.random.default_rng(9).normal(size=shape)) for shape in shapes]
    weight = jg.asarray(np.random.default_rng(7).normal(size=jg.einsum(text, *tensors).shape))
    numbers = tuple(range(len(shapes)))

    def loss(*xs):
        return (jg.einsum(text, *xs) * weight).sum()

    def along(*xs):
        gradients = jg.grad(loss, argnums=numbers)(*xs)
        return sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))

    step = 1e-4
    for function in loss, along:
        first = jg.trace(jg.grad(function, argnums=numbers))(*tensors)
        slope = sum((g * d).sum().item() for g, d in zip(first, directions, strict=True))
        ahead, behind = ([x + s * d for x, d in zip(tensors, directions, strict=True)] for s in (step, -step))
        due = (function(*ahead).item() - function(*behind).item()) / (2 * step)
        assert abs(slope - due) <= 1e-5 * max(1.0, abs(due))


def test_the_order_of_pairs_follows_from_cost():
    extents = {"a": 2, "b": 1000, "c": 3, "d": 500}
    terms = [frozenset("ab"), frozenset("bc"), frozenset("cd")]
    assert einsum_module._next_pair(terms, frozenset("ad"), extents) == (0, 1)
    extents |= {"a": 1000, "b": 3, "c": 500, "d": 2}
    assert einsum_module._next_pair(terms, frozenset("ad"), extents) == (1, 2)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: jg.einsum("ij,jk", x), jg.JitgraphError, "names 2 operands, and 1 are given"),
        (lambda x: jg.einsum("i1", x), jg.JitgraphError, "more than letters"),
        (lambda x: jg.einsum("ij->ii", x), jg.JitgraphError, "a letter twice"),
        (lambda x: jg.einsum("ij->k", x), jg.JitgraphError, "no operand has the letter 'k'"),
        (lambda x: jg.einsum("ijk", x), jg.ShapeError, "names 3 axes of an operand of rank 2"),
        (lambda x: jg.einsum("ij,ij", x, x.mT), jg.ShapeError, "the letter 'i' has the sizes 2 and 3"),
        (lambda x: jg.einsum(x, "ij"), jg.JitgraphError, "takes subscripts first"),
        (lambda x: jg.mm(x, x), jg.ShapeError, "inner sizes 3 and 2"),
        (lambda x: jg.mv(x, x), jg.ShapeError, "operand 1 should be a vector"),
        (lambda x: jg.bmm(x[None], x[None]), jg.ShapeError, "do not fit"),
        (lambda x: jg.bmm(jg.ones((1, 2, 3)), jg.ones((2, 3, 2))), jg.ShapeError, "do not fit"),
        (lambda x: jg.dot(x, jg.ones((1, 2))), jg.ShapeError, "the sizes 3 and 1 differ"),
        (lambda x: jg.einsum("ij,jk", x > 0, x.mT > 0), jg.DTypeError, "a number"),
    ],
)
def test_mistakes(call, error, text):
    with pytest.raises(error, match=text):
        call(jg.ones((2, 3)))


PRODUCTS = [
    ("mm", lambda a, b: a @ b, [(2, 3), (3, 4)]),
    ("mv", lambda a, b: a @ b, [(2, 3), (3,)]),
    ("bmm", lambda a, b: a @ b, [(2, 3, 4), (2, 4, 1)]),
    ("dot", np.dot, [(3,), (3,)]),
    ("dot", np.dot, [(2, 3), (4, 3, 2)]),
    ("dot", np.dot, [(), (2,)]),
    ("inner", np.inner, [(2, 3), (4, 3)]),
    ("inner", np.inner, [(3,), ()]),
    ("vdot", np.vdot, [(2, 3), (3, 2)]),
    ("kron", np.kron, [(2, 3), (3, 1)]),
    ("kron", np.kron, [(2,), (2, 3)]),
    ("kron", np.kron, [(), (2, 0)]),
    ("addmm", lambda x, a, b: x + a @ b, [(4,), (2, 3), (3, 4)]),
    ("addmv", lambda x, a, b: x + a @ b, [(2,), (2, 3), (3,)]),
    ("addr", lambda x, a, b: x + np.outer(a, b), [(2, 3), (2,), (3,)]),
    ("baddbmm", lambda x, a, b: x + a @ b, [(3, 1), (2, 3, 4), (2, 4, 1)]),
]


@pytest.mark.parametrize(("name", "due", "shapes"), PRODUCTS, ids=lambda x: x if isinstance(x, str) else "")
def test_products(name, due, shapes):
    dtype = "int64" if len(shapes[0]) == 1 else "float32"
    arrays = _arrays(shapes, dtype)
    function = getattr(jg, name)
    expected = due(*arrays)
    tensors = [jg.asarray(x) for x in arrays]
    for actual in (function(*tensors), jg.trace(function)(*tensors)):
        assert actual.shape == expected.shape and actual.dtype == jg.asarray(arrays[0]).dtype
        assert np.array_equal(actual.numpy(), expected)


def test_beta_and_alpha():
    x, a, b = (jg.asarray(x) for x in _arrays([(2, 2), (2, 3), (3, 2)]))
    product = a.numpy() @ b.numpy()
    assert np.array_equal(jg.addmm(x, a, b, beta=0.5, alpha=2).numpy(), 0.5 * x.numpy() + 2 * product)
    nan = jg.full((2, 2), float("nan"), dtype=jg.float64)
    assert np.array_equal(jg.addmm(nan, a, b, beta=0).numpy(), product)  # PyTorch's rule


def test_chain_matmul():
    arrays = _arrays([(3,), (3, 5), (5, 2), (2, 4), (4,)])
    tensors = [jg.asarray(x) for x in arrays]
    assert jg.chain_matmul(*tensors).item() == np.linalg.multi_dot(arrays)
    assert np.array_equal(jg.chain_matmul(*tensors[1:4]).numpy(), np.linalg.multi_dot(arrays[1:4]))
    with pytest.raises(jg.ShapeError, match="two matrices or more"):
        jg.chain_matmul(*tensors[:1])
