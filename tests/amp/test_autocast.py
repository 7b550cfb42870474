"""Which ops autocast runs in which dtype, eager and traced, and what of it reaches parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops
from jitgraph.ir import context
from jitgraph.ir.builder import decomposition
from jitgraph.ir.types import TensorType

F = jg.nn.functional
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(0.1, 0.9, (4, 4)).astype(np.float32)
IMAGE = RANDOM.normal(size=(1, 2, 5, 5)).astype(np.float32)
KERNEL = RANDOM.normal(size=(3, 2, 3, 3)).astype(np.float32)
LABELS = np.array([0, 1, 2, 3])

RECURRENT: dict[str, jg.nn.Module] = {name: getattr(jg.nn, name)(4, 4) for name in ("LSTM", "GRU", "GRUCell")}

LOW: dict[str, Callable[[Any, Any], Any]] = {  # of (float32, bfloat16) operands, as PyTorch's lists have them
    "matmul": lambda x, h: x @ h,
    "einsum": lambda x, h: jg.einsum("ij,jk->ik", x, x),
    "linear": lambda x, h: F.linear(x, h, x[0]),
    "addmm": lambda x, h: jg.addmm(x, x, h),
    "addmm without its first": lambda x, h: jg.addmm(x, h, x, beta=0),
    "baddbmm": lambda x, h: jg.baddbmm(x[None], x[None], h[None], alpha=2.0),
    "addmm of a number": lambda x, h: jg.addmm(1.0, x, h),
    "addmv": lambda x, h: jg.addmv(x[0], x, h[0]),
    "LSTM": lambda x, h: RECURRENT["LSTM"](x)[0],
    "state of an LSTM": lambda x, h: RECURRENT["LSTM"](x, (x[:1], x[:1]))[1][1],
    "GRU": lambda x, h: RECURRENT["GRU"](x)[1],
    "GRUCell": lambda x, h: RECURRENT["GRUCell"](x, x),
    "GRUCell without a state": lambda x, h: RECURRENT["GRUCell"](x),
    "conv2d": lambda x, h: F.conv2d(IMAGE, KERNEL, KERNEL[:, 0, 0, 0]),
    "attention": lambda x, h: F.scaled_dot_product_attention(x[None], h[None], x[None]),
    "addmm of another 16-bit dtype": lambda x, h: jg.addmm(x.astype(jg.float16), x, h),
    "prelu": lambda x, h: F.prelu(x, x[0, :1]),
    "relu": lambda x, h: F.relu(h),
    "gelu": lambda x, h: F.gelu(h),
    "add": lambda x, h: h + h,
    "max": lambda x, h: jg.max(h),
    "mean": lambda x, h: jg.mean(h),
}
WIDE: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: (lambda x, h, name=name: getattr(jg, name)(h))
        for name in ("exp", "expm1", "log", "log2", "log10", "log1p", "rsqrt", "reciprocal", "tan", "acos", "asin")
    },
    **{name: (lambda x, h, name=name: getattr(jg, name)(h)) for name in ("cosh", "sinh", "sum", "prod", "softmax")},
    "pow": lambda x, h: h**3.5,
    "cumsum": lambda x, h: jg.cumsum(h, axis=0),
    "log_softmax": lambda x, h: jg.log_softmax(h, axis=1),
    "layer_norm": lambda x, h: F.layer_norm(h, (4,)),
    "cross_entropy": lambda x, h: F.cross_entropy(h, LABELS),
    "mse_loss": lambda x, h: F.mse_loss(h, h),
    "l1_loss": lambda x, h: F.l1_loss(h, h),
    **{
        name: (lambda x, h, name=name: getattr(F, name)(h, h))
        for name in ("smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "soft_margin_loss")
    },
    "hinge_embedding_loss": lambda x, h: F.hinge_embedding_loss(h, h),
    "margin_ranking_loss": lambda x, h: F.margin_ranking_loss(h, h, h, reduction="none"),
    "multi_margin_loss": lambda x, h: F.multi_margin_loss(h, LABELS),
    "multilabel_margin_loss": lambda x, h: F.multilabel_margin_loss(h, LABELS[None] * np.ones((4, 1), np.int64)),
    "triplet_margin_loss": lambda x, h: F.triplet_margin_loss(h, h, h),
    "cosine_embedding_loss": lambda x, h: F.cosine_embedding_loss(h, h, x[0]),
    "binary_cross_entropy": lambda x, h: F.binary_cross_entropy(h, h),
    "dot of vectors": lambda x, h: jg.dot(x[0], x[0]),
    "outer": lambda x, h: jg.outer(x[0], x[0]),
    "bilinear": lambda x, h: F.bilinear(x, x, x[None]),
    "softplus": lambda x, h: F.softplus(h),
    "mixed sum": lambda x, h: x + h,
    "mixed concat": lambda x, h: jg.concat([x, h]),
    "mixed where": lambda x, h: jg.where(x > 0.5, x, h),
}


def of_all(x: Any, h: Any) -> list[Any]:
    return [function(x, h) for function in (*LOW.values(), *WIDE.values())]


def test_ops_run_in_the_dtypes_of_the_lists_eager_and_traced() -> None:
    x, h = jg.asarray(X), jg.asarray(X).astype(jg.bfloat16)
    with jg.amp.autocast("cpu"):
        eager = of_all(x, h)
        traced = jg.trace(of_all)(x, h)
    inside = jg.trace(lambda x, h: jg.amp.autocast("cpu")(of_all)(x, h))(x, h)
    for name, one, two, three in zip((*LOW, *WIDE), eager, traced, inside, strict=True):
        wanted = jg.bfloat16 if name in LOW else jg.float32
        assert one.dtype == two.dtype == three.dtype == wanted, name
        for other in (two, three):
            np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy(), err_msg=name)


def test_recurrent_layers_are_trained_in_16_bits_and_keep_float64() -> None:
    layer, x = jg.nn.LSTM(4, 3, batch_first=True), RANDOM.normal(size=(2, 5, 4)).astype(np.float32)

    def losses(x: Any) -> Any:
        with jg.amp.autocast("cpu"):
            packed = jg.nn.utils.rnn.pack_padded_sequence(x, np.array([5, 2]), batch_first=True)
            outputs, _ = jg.nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
        assert outputs.dtype == jg.bfloat16
        outputs.astype(jg.float32).sum().backward()
        return outputs

    for step in (losses, jg.trace(losses)):
        layer.zero_grad()
        result = step(jg.asarray(x))
        low = [p.grad.numpy() for p in layer.parameters()]
        layer.zero_grad()
        plain = layer(jg.asarray(x[:1]))[0]
        np.testing.assert_allclose(result[0].detach().astype(jg.float32).numpy(), plain[0].detach().numpy(), atol=0.02)
        assert all(g.dtype == np.float32 and np.abs(g).max() > 0 for g in low)
    with jg.amp.autocast("cpu"):
        assert jg.nn.LSTM(4, 3, dtype=jg.float64)(jg.asarray(x, dtype=jg.float64))[0].dtype == jg.float64


def test_a_product_is_that_of_rounded_operands() -> None:
    x = jg.asarray(X)
    low = x.astype(jg.float16)
    with jg.amp.autocast("cuda"):
        assert jg.amp.get_autocast_dtype() == jg.float16
        np.testing.assert_array_equal((x @ x).numpy(), (low @ low).numpy())
        double = x.astype(jg.float64)
        assert (double @ double).dtype == jg.float64  # as in PyTorch


def test_blocks_nest_and_end() -> None:
    x = jg.asarray(X)

    @jg.amp.autocast("cpu")
    def low(x: Any) -> Any:
        return x @ x

    def mixed(x: Any) -> Any:
        results = [x @ x]
        with jg.amp.autocast("cpu"):
            results.append(x @ x)
            with jg.amp.autocast("cpu", dtype=jg.float16):
                results.append(x @ x)
                with jg.amp.autocast("cpu", enabled=False):
                    results.append(x @ x)
                    assert not jg.amp.is_autocast_enabled()
            results.append(x @ x)
        return [*results, x @ x, low(x)]

    wanted = [jg.float32, jg.bfloat16, jg.float16, jg.float32, jg.bfloat16, jg.float32, jg.bfloat16]
    assert [y.dtype for y in mixed(x)] == [y.dtype for y in jg.trace(mixed)(x)] == wanted
    with pytest.raises(ZeroDivisionError), jg.amp.autocast("cpu"):
        1 / 0  # noqa: B018
    assert not jg.amp.is_autocast_enabled()


def test_a_trace_of_one_mode_does_not_serve_another() -> None:
    x = jg.asarray(X)
    f = jg.trace(lambda x: x @ x)
    for _ in range(10):  # long enough for the native path
        assert f(x).dtype == jg.float32
        with jg.amp.autocast("cpu"):
            assert f(x).dtype == jg.bfloat16
        with jg.amp.autocast("cpu", dtype=jg.float16):
            assert f(x).dtype == jg.float16
    assert f.cache_info().misses == 3


def test_eager_products_that_came_back_often_are_cast() -> None:
    """They have tables of native code by then."""
    x = jg.asarray(X)
    for _ in range(100):
        x @ x
        F.linear(x, x)
        jg.exp(x.astype(jg.bfloat16))
    with jg.amp.autocast("cpu"):
        for _ in range(100):
            results = (x @ x, F.linear(x, x), jg.exp(x.astype(jg.bfloat16)))
            assert [y.dtype for y in results] == [jg.bfloat16, jg.bfloat16, jg.float32]
    assert (x @ x).dtype == jg.float32


def test_loops_branches_and_transforms_are_cast() -> None:
    x = jg.asarray(X)

    def f(x: Any) -> Any:
        _, ys = jg.scan(lambda carry, row: (carry, row @ x), jg.zeros(()), x)
        branch = jg.cond(x[0, 0] > 0, lambda: x @ x, lambda: x @ x.T)
        return ys, branch, jg.vmap(lambda row: x @ row)(x), jg.checkpoint(lambda y: y @ y)(x)

    with jg.amp.autocast("cpu"):
        assert [y.dtype for y in f(x)] == [y.dtype for y in jg.trace(f)(x)] == [jg.bfloat16] * 4


@pytest.mark.parametrize("traced", [False, True])
def test_a_carry_keeps_its_dtype(traced: bool) -> None:
    """What a product makes of it is cast back, as a loop has one dtype for it; an error would be the other way out."""
    x = jg.asarray(X)

    def f(x: Any) -> Any:
        last, _ = jg.scan(lambda carry, row: (jg.tanh(carry @ x), row), x[0], x)
        low, _ = jg.scan(lambda carry, row: (carry * jg.exp(carry), row), x[0].astype(jg.bfloat16), x)
        _, looped = jg.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] @ x), (jg.asarray(0), x[0]))
        return last, low, looped

    with jg.amp.autocast("cpu"):
        assert [y.dtype for y in (jg.trace(f) if traced else f)(x)] == [jg.float32, jg.bfloat16, jg.float32]
    with pytest.raises(jg.ShapeError, match=r"starts as f32\[4\] and becomes bf16\[4\]"):
        jg.scan(lambda carry, row: (carry.astype(jg.bfloat16), row), x[0], x)


@pytest.mark.parametrize("traced", [False, True])
def test_gradients_arrive_in_the_dtypes_of_parameters(traced: bool) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.LayerNorm(8), jg.nn.GELU(), jg.nn.Linear(8, 4))

    def step(x: Any) -> Any:
        with jg.amp.autocast("cpu"):
            loss = F.cross_entropy(model(x), LABELS)
        loss.backward()
        return loss

    loss = (jg.trace(step) if traced else step)(jg.asarray(X))
    assert loss.dtype == jg.float32
    low = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    assert len(low) == 6 and {g.dtype for g in low} == {np.dtype(np.float32)}
    model.zero_grad()
    F.cross_entropy(model(jg.asarray(X)), LABELS).backward()
    for mine, p in zip(low, model.parameters(), strict=True):
        assert p.grad is not None
        exact = p.grad.numpy()
        assert 0 < np.abs(mine - exact).max() < 0.05 * np.abs(exact).max() + 1e-3


def test_backward_inside_the_block_runs_in_the_dtypes_of_its_ops() -> None:
    x = jg.asarray(X, requires_grad=True)
    with jg.amp.autocast("cpu", enabled=False):
        y = x @ x
    (outside,) = jg.autograd.grad((x @ x).sum(), [x])
    with jg.amp.autocast("cpu"):
        for again in (False, True):  # the second by ops that are differentiated themselves
            (inside,) = jg.autograd.grad(y.sum(), [x], create_graph=again, retain_graph=True)
            np.testing.assert_array_equal(inside.detach().numpy(), outside.numpy())


def test_mistakes() -> None:
    with pytest.raises(jg.JitgraphError, match=r"takes 'cpu' or 'cuda' first, not dtype"):
        jg.amp.autocast(jg.bfloat16)  # type: ignore[arg-type]
    with pytest.raises(jg.DTypeError, match="in a 16-bit float dtype, not float32"):
        jg.amp.autocast("cpu", dtype=jg.float32)


OF_ONE_PRECISION = {  # whatever autocast says
    "attention_gradient",
    "complex_dot",
    "dft",
    "fft",
    "irfft",
    "rfft",
    "slide",
}


def test_every_op_of_products_and_losses_is_in_a_list() -> None:
    """A composite that is made of a product has to say by its traits whether it runs in 16 bits."""
    lists = {"autocast_low", "autocast_wide"}
    missing = []
    for name, op in ops.OPS.items():
        if op.traits & lists or name in OF_ONE_PRECISION:
            continue
        if op.kind == "contraction" or name.endswith("_loss"):
            missing.append(name)
        samples = op.samples(jg.float32) if op.samples and op.decompose else ()
        for sample in samples[:1]:
            types = [TensorType(np.asarray(x).dtype, np.asarray(x).shape) for x in sample.inputs]
            inside = decomposition(op, types, sample.attrs, context.constraints())
            missing += [name for node in inside.nodes if "autocast_low" in node.op.traits]
    assert not missing, 'give them the trait "autocast_low" or "autocast_wide"'


def test_one_block_is_entered_again_and_again() -> None:
    block, x = jg.amp.autocast("cpu"), jg.asarray(X)

    def products(x: Any) -> list[Any]:
        results = []
        for _ in range(2):
            with block:
                with block:
                    results.append(x @ x)
                results.append(x @ x)
        return [*results, x @ x]

    names = ["bfloat16"] * 4 + ["float32"]
    assert [y.dtype.name for y in products(x)] == names
    traced = jg.trace(products)
    assert [[y.dtype.name for y in traced(x)] for _ in range(2)] == [names] * 2 and traced.cache_info().misses == 1
    with pytest.raises(KeyError), block:
        raise KeyError
    assert (x @ x).dtype == jg.float32


def test_a_block_that_is_switched_off_takes_any_dtype() -> None:
    a, b = jg.asarray(X), jg.asarray(X)
    with jg.amp.autocast("cpu", dtype=jg.bfloat16):
        assert (a @ b).dtype == jg.bfloat16
        with jg.amp.autocast("cpu", dtype=jg.float32, enabled=False):
            assert (a @ b).dtype == jg.float32
    with pytest.raises(jg.DTypeError, match="16-bit float"):
        jg.amp.autocast("cpu", dtype=jg.float32)
