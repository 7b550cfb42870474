"""AdaptiveLogSoftmaxWithLoss beside a formula in NumPy, traced, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

RNG = np.random.default_rng(8)
ROWS = jg.asarray(RNG.normal(size=(9, 12)).astype(np.float32))
TARGETS = jg.asarray([0, 3, 4, 11, 12, 29, 17, 2, 5])


def made(**settings: Any) -> jg.nn.AdaptiveLogSoftmaxWithLoss:
    jg.random.seed(3)
    return jg.nn.AdaptiveLogSoftmaxWithLoss(12, 30, [4, 12], **settings)


def log_softmax(scores: Any) -> Any:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def by_numpy(state: dict[str, Any], x: Any) -> Any:
    x, state = x.astype(np.float64), {name: value.astype(np.float64) for name, value in state.items()}
    head = log_softmax(x @ state["head.weight"].T + state.get("head.bias", 0.0))
    tails = [log_softmax(x @ state[f"tail.{i}.0.weight"].T @ state[f"tail.{i}.1.weight"].T) for i in range(2)]
    return np.concatenate([head[:, :4], *(tail + head[:, 4 + i : 5 + i] for i, tail in enumerate(tails))], axis=1)


@pytest.mark.parametrize("head_bias", [False, True])
@pytest.mark.parametrize("traced", [False, True])
def test_it_is_the_formula(head_bias: bool, traced: bool) -> None:
    module = made(head_bias=head_bias, div_value=2.0).requires_grad_(False)

    def results(x: Any, y: Any) -> Any:
        return *module(x, y), module.log_prob(x), module.predict(x)

    output, loss, full, best = (jg.trace(results) if traced else results)(ROWS, TARGETS)
    want = by_numpy(module.state_dict(), ROWS.numpy())
    np.testing.assert_allclose(full.numpy(), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(output.numpy(), want[np.arange(9), TARGETS.numpy()], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loss.numpy(), -want[np.arange(9), TARGETS.numpy()].mean(), rtol=1e-5)
    assert best.dtype == jg.int64 and best.tolist() == want.argmax(axis=1).tolist()


def test_predict_looks_into_a_cluster_that_the_head_points_at() -> None:
    """The head's best place is a cluster, and its best class may be less probable than one of the head."""
    module = made()
    with jg.no_grad():
        module.head.weight[...] = 0.0
        module.head.weight[5, 0] = 20.0
        module.head.weight[1, 1] = 1.0
    x = np.zeros((3, 12), np.float32)
    x[0, 0], x[1, 1], x[2, :2] = 1.0, 1.0, (0.06, 1.0)
    want = by_numpy(module.state_dict(), x).argmax(axis=1).tolist()
    assert want[0] >= 12 and want[1] == want[2] == 1
    assert module.predict(jg.asarray(x)).tolist() == want == jg.trace(module.predict)(jg.asarray(x)).tolist()


@pytest.mark.parametrize("bad", [30, -1, -100, -(2**63), 2**62])
@pytest.mark.parametrize("traced", [False, True])
def test_a_target_that_is_no_class_is_an_error(bad: int, traced: bool) -> None:
    module = made()
    call = jg.trace(lambda x, y: module(x, y).loss) if traced else lambda x, y: module(x, y).loss
    with pytest.raises(IndexError, match="a target is not one of 30 classes"):
        call(ROWS[:2], jg.asarray([3, bad]))


def test_one_row_no_rows_and_narrow_targets() -> None:
    module = made()
    entire = module(ROWS, TARGETS)
    alone = module(ROWS[5], TARGETS[5])
    assert alone.output.shape == () and abs(float(alone.output) - float(entire.output[5])) < 1e-6
    assert float(alone.loss) == -float(alone.output)
    none = module(ROWS[:0], TARGETS[:0])
    assert none.output.shape == (0,) and np.isnan(float(none.loss))
    assert module(ROWS, TARGETS.astype(jg.uint8)).loss.item() == entire.loss.item()
    with pytest.raises(IndexError, match="not one of 30 classes"):
        module(ROWS[:1], jg.asarray(np.array([2**63], np.uint64)))


def test_a_traced_call_takes_batches_of_any_size() -> None:
    module = made()
    step = jg.trace(lambda x, y: module(x, y), dynamic_shapes={"x": {0: "rows"}, "y": {0: "rows"}})
    for size in (2, 5, 9):
        got, want = step(ROWS[:size], TARGETS[:size]), module(ROWS[:size], TARGETS[:size])
        np.testing.assert_allclose(got.output.detach().numpy(), want.output.detach().numpy(), rtol=1e-5)
    with pytest.raises(jg.TraceError, match="the size 'rows' is 2"):
        step(ROWS[:2], TARGETS[:3])


def test_gradients_leave_out_clusters_without_a_target() -> None:
    module = made()
    module(ROWS, TARGETS % 4).loss.backward()
    assert module.head.weight.grad is not None and np.abs(module.head.weight.grad.numpy()).max() > 0
    for name, parameter in module.tail.named_parameters():
        assert parameter.grad is None or not parameter.grad.numpy().any(), name


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: jg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, []), "one or more integers"),
        (lambda: jg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [1.5]), "one or more integers"),  # type: ignore[list-item]
        (lambda: jg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, 4), "one or more integers"),  # type: ignore[arg-type]
        (lambda: jg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [0]), "at least 1 to at most n_classes - 1 = 19"),
        (lambda: jg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [20]), "at least 1 to at most n_classes - 1 = 19"),
        (lambda: jg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 4]), r"\[4, 4\] do not"),
        (lambda: jg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [9, 4]), r"\[9, 4\] do not"),
        (lambda: made(div_value=0.0), "div_value is 0.0"),
        (lambda: made()(ROWS, TARGETS.astype(jg.float32)), "targets are class numbers, not float32"),
        (lambda: made()(ROWS, TARGETS[:2]), r"takes input\[N, 12\] and target\[N\]"),
        (lambda: made()(ROWS, TARGETS[:, None]), r"takes input\[N, 12\] and target\[N\]"),
        (lambda: made()(ROWS[:, :5], TARGETS), r"not \(9, 5\) and \(9,\)"),
    ],
)
def test_it_says_what_is_wrong(mistake: Callable[[], Any], message: str) -> None:
    with pytest.raises(jg.JitgraphError, match=message):
        mistake()


@pytest.mark.parametrize("start", ["kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3, 0)])
def test_a_weight_of_no_elements_may_be_initialised(start: str, shape: tuple[int, ...]) -> None:
    """``Linear(0, n)`` is one, as PyTorch has it; its bias is the result."""
    assert getattr(jg.nn.init, start)(jg.zeros(shape)).shape == shape
    assert jg.nn.Linear(0, 3)(jg.zeros((2, 0))).tolist() == [[0.0] * 3] * 2
