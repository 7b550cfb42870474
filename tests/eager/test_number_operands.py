"""Slopes, bounds and probabilities of eager calls: another number needs no other code, and has the bits of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import compilation, ops
from jitgraph.dtypes import DType, float16, float32, is_float
from jitgraph.eager.dispatch.function import NativeFunction
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.rules import Rules
from jitgraph.eager.tape import EagerValue
from jitgraph.ir.op import Op, Sample
from jitgraph.ops.registry import OPS
from jitgraph.runtime import loader

pytestmark = pytest.mark.skipif(not loader.cpu_levels(), reason="no native code here")

functional = jg.nn.functional
RNG: Final = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return jg.asarray(RNG.standard_normal(shape).astype(np.float32))


X, Y, IMAGES = floats(6, 8), floats(6, 8), floats(2, 4, 8, 8)
LABELS, SIGNS = jg.asarray(RNG.integers(0, 8, 6)), jg.sign(floats(6, 8))
ZEROS, ONES = jg.zeros(4), jg.ones(4)
NUMBERS: Final = (0.75, 0.5, 0.625, 0.1875, 0.8125)  # in [0, 1), so that each may be a probability, too


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of graphs that are compiled; nothing was compiled before, and nothing is cached on disk."""
    names: list[str] = []
    original = compilation.compiled

    def counted(graph: Any, *others: Any) -> Any:
        names.append(graph.name)
        return original(graph, *others)

    monkeypatch.setenv("JITGRAPH_CACHE_DIR", "off")
    monkeypatch.delenv("JITGRAPH_DISPATCH", raising=False)  # under 1 a second call compiles what stays with NumPy here
    monkeypatch.setattr(compilation, "compiled", counted)
    monkeypatch.setattr(EAGER, "_rules", Rules())
    yield names


CALLS: Final[Mapping[str, Callable[[float], Any]]] = {
    "batch_norm": lambda v: functional.batch_norm(IMAGES, ZEROS, ONES, eps=v),
    "batch_norm in training": lambda v: functional.batch_norm(IMAGES, None, None, training=True, momentum=v, eps=v),
    "celu": lambda v: functional.celu(X, v),
    "clip": lambda v: jg.clip(X, -v, v),
    "clip below": lambda v: jg.clip(X, v, None),
    "cosine_similarity": lambda v: functional.cosine_similarity(X, Y, eps=v),
    "cross_entropy": lambda v: functional.cross_entropy(X, LABELS, label_smoothing=v),
    "dropout": lambda v: functional.dropout(X, v),
    "elu": lambda v: functional.elu(X, v),
    "gaussian_nll_loss": lambda v: functional.gaussian_nll_loss(X, Y, X * X, eps=v),
    "group_norm": lambda v: functional.group_norm(IMAGES, 2, eps=v),
    "gumbel_softmax": lambda v: functional.gumbel_softmax(X, tau=v),
    "hardshrink": lambda v: functional.hardshrink(X, v),
    "hardtanh": lambda v: functional.hardtanh(X, -v, v),
    "hinge_embedding_loss": lambda v: functional.hinge_embedding_loss(X, SIGNS, margin=v),
    "huber_loss": lambda v: functional.huber_loss(X, Y, delta=v),
    "isclose": lambda v: jg.isclose(X, Y, rtol=v),
    "layer_norm": lambda v: functional.layer_norm(X, (8,), eps=v),
    "leaky_relu": lambda v: functional.leaky_relu(X, v),
    "lerp": lambda v: jg.lerp(X, Y, v),
    "local_response_norm": lambda v: functional.local_response_norm(IMAGES, 2, alpha=v),
    "multi_margin_loss": lambda v: functional.multi_margin_loss(X, LABELS, margin=v),
    "nan_to_num": lambda v: jg.nan_to_num(X, nan=v),
    "normalize": lambda v: functional.normalize(X, eps=v),
    "pad": lambda v: functional.pad(X, (1, 1), value=v),
    "quantile": lambda v: jg.quantile(X, v),
    "renorm": lambda v: jg.renorm(X, 2.0, 0, v),
    "rms_norm": lambda v: functional.rms_norm(X, (8,), eps=v),
    "scaled_dot_product_attention": lambda v: functional.scaled_dot_product_attention(IMAGES, IMAGES, IMAGES, scale=v),
    "smooth_l1_loss": lambda v: functional.smooth_l1_loss(X, Y, beta=v),
    "softplus": lambda v: functional.softplus(X, beta=v, threshold=v),
    "softshrink": lambda v: functional.softshrink(X, v),
    "threshold": lambda v: functional.threshold(X, v, -v),
    "triplet_margin_loss": lambda v: functional.triplet_margin_loss(X, Y, X * 2, margin=v, eps=v),
    "var": lambda v: jg.var(X, correction=v),
    "where": lambda v: jg.where(X > 0, X, v),
}


RANDOM: Final = {"dropout", "gumbel_softmax"}


@pytest.mark.parametrize("name", CALLS)
def test_another_number_compiles_nothing(name: str, compiled: list[str]) -> None:
    """The first number is a constant of its code, and the second makes code that has it as an operand."""
    counts = []
    for number in NUMBERS:
        before = len(compiled)
        CALLS[name](number)
        counts.append(len(compiled) - before)
    assert not any(counts[2:]), (counts, compiled)


@pytest.mark.parametrize("name", sorted(CALLS.keys() - RANDOM))
def test_gradients_past_python_are_those_of_a_first_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tape records the operands of the op, without the numbers that its kernel takes behind them."""

    def gradient(number: float) -> Any:
        leaf = jg.asarray(X.numpy(), requires_grad=True)
        images = jg.asarray(IMAGES.numpy(), requires_grad=True)
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "X", leaf)
            patch.setitem(globals(), "IMAGES", images)
            result = CALLS[name](number)
        if result.requires_grad:
            (result * result).sum().backward()
        return [None if each.grad is None else each.grad.numpy() for each in (leaf, images)]

    monkeypatch.setenv("JITGRAPH_DISPATCH", "0")
    due = [gradient(number) for number in NUMBERS]
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    for _ in range(3):
        for number, expected in zip(NUMBERS, due, strict=True):
            np.testing.assert_equal(gradient(number), expected)


def samples(dtype: DType) -> Iterator[tuple[str, tuple[Op, Sample, str]]]:
    """For each op of the table with numbers among its attributes, one sample for each of them."""
    for op in OPS.values():
        if op.decompose is None or op.effect != "none":
            continue
        seen = set()
        for sample in op.samples(dtype) if op.samples is not None else ():
            for name, attr in sample.attrs.items():
                if attr.__class__ is float and attr and name not in seen and "shape" not in sample.attrs:
                    seen.add(name)
                    yield f"{op.name} {name} {dtype.name}", (op, sample, name)


SAMPLES: Final = dict(sample for dtype in (float32, float16) for sample in samples(dtype))


def run(op: Op, sample: Sample, name: str, number: float) -> list[bytes]:
    """The results of an op with another attribute, and the gradients of all operands that have one, bit by bit."""
    variables = [jg.asarray(array) for array in sample.inputs]
    for variable in variables:
        if is_float(variable.dtype):
            variable.requires_grad_()
    outputs = op(*[variable.value for variable in variables], **{**sample.attrs, name: number})
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    assert all(isinstance(value, EagerValue) for value in results)
    first = jg.tensor.wrap(results[0])
    if first.requires_grad:
        first.backward(jg.ones_like(first))
    gradients = [variable.grad for variable in variables if variable.grad is not None]
    return [value.array.tobytes() for value in results] + [gradient.numpy().tobytes() for gradient in gradients]


def test_all_ops_with_numbers_are_tried() -> None:
    names = {name.partition(" ")[0] for name in SAMPLES}
    assert names >= {"attention", "batch_norm", "cross_entropy", "dropout", "elu", "layer_norm", "leaky_relu"}


@pytest.mark.parametrize("name", SAMPLES)
def test_bits_are_those_of_constants(name: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of results and gradients, also once calls go past Python."""
    runs = [run(*SAMPLES[name], number) for number in NUMBERS[:3]]
    before = len(compiled)
    again = [run(*SAMPLES[name], NUMBERS[2]) for _ in range(8)]
    assert len(compiled) == before
    assert all(each == runs[2] for each in again)
    monkeypatch.setattr(EAGER, "_rules", Rules())  # where this number is the first
    assert run(*SAMPLES[name], NUMBERS[2]) == runs[2]


def test_what_a_number_decides_is_other_code(compiled: list[str]) -> None:
    """A bound that is NaN makes all NaN, which is no bound any more; no code of other bounds may serve it."""
    for bound in (0.5, 0.25, 0.125):
        assert jg.clip(X, None, bound).max() == bound
    assert jg.isnan(jg.clip(X, None, float("nan"))).all()
    assert jg.clip(X, None, 1.5).max() == 1.5
    assert compiled.count("clamp") == 3


def test_calls_with_numbers_go_past_python(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")  # at once
    value, expected = X.value, np.where(X.numpy() > 0, X.numpy(), X.numpy() * np.float32(0.25))
    for slope in (0.5, 0.75, 0.25):
        results = [ops.leaky_relu(value, negative_slope=slope) for _ in range(12)]
    rule = EAGER._rules.rule(ops.leaky_relu, [value], {"negative_slope": 0.25})
    assert isinstance(rule.launch.run, NativeFunction) and len(rule.launch._kernel[-1]) == 1
    assert all((result.array == expected).all() for result in results)
