"""Layers, functions and optimisers against PyTorch, where it is installed: values, gradients, keys, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

torch = pytest.importorskip("torch")
F, T = jg.nn.functional, torch.nn.functional
RNG = np.random.default_rng(0)


def draw(*shape: int, positive: bool = False) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return np.abs(x) + 0.1 if positive else x


def labels(classes: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, classes, shape)


Case = tuple[str, list[np.ndarray], dict[str, Any]]
FUNCTIONS: list[Case] = [
    ("linear", [draw(2, 3, 5), draw(4, 5), draw(4)], {}),
    ("linear", [draw(5), draw(4, 5)], {}),
    *((name, [draw(3, 4)], {}) for name in ("relu", "relu6", "sigmoid", "logsigmoid", "tanh", "silu", "softplus")),
    ("gelu", [draw(7)], {}),
    ("gelu", [draw(7)], {"approximate": "tanh"}),
    ("elu", [draw(7)], {"alpha": 0.7}),
    ("leaky_relu", [draw(7)], {"negative_slope": 0.2}),
    ("softplus", [draw(7)], {"beta": 2.0}),
    ("hardtanh", [draw(7)], {}),
    ("softmax", [draw(2, 3, 4)], {"dim": 1}),
    ("log_softmax", [draw(2, 3, 4)], {"dim": -1}),
    ("layer_norm", [draw(2, 3, 4)], {"normalized_shape": (3, 4)}),
    ("group_norm", [draw(2, 6, 5), *[draw(6)] * 0], {"num_groups": 3}),
    ("rms_norm", [draw(2, 6)], {"normalized_shape": (6,)}),
    ("conv1d", [draw(2, 4, 9), draw(6, 2, 3), draw(6)], {"stride": 2, "padding": 1, "groups": 2}),
    ("conv2d", [draw(2, 3, 7, 8), draw(4, 3, 3, 2), draw(4)], {"stride": (2, 1), "padding": (1, 0), "dilation": 2}),
    ("conv2d", [draw(3, 5, 6), draw(4, 3, 3, 2)], {"padding": "valid"}),
    ("conv3d", [draw(1, 2, 4, 5, 3), draw(3, 2, 2, 2, 2), draw(3)], {"padding": 1}),
    ("max_pool2d", [draw(2, 3, 7, 8)], {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("max_pool2d", [draw(3, 4, 4)], {"kernel_size": 2}),
    ("max_pool1d", [draw(2, 3, 8)], {"kernel_size": 2}),
    ("avg_pool2d", [draw(2, 3, 7, 8)], {"kernel_size": (3, 2), "stride": 2, "padding": 1}),
    ("avg_pool2d", [draw(2, 3, 6, 6)], {"kernel_size": 3, "padding": 1, "count_include_pad": False}),
    ("avg_pool1d", [draw(2, 3, 8)], {"kernel_size": 3, "stride": 1}),
    ("adaptive_avg_pool2d", [draw(2, 3, 6, 4)], {"output_size": (3, 1)}),
    ("pad", [draw(2, 3, 4)], {"pad": (1, 2, 0, 3), "value": 1.5}),
    ("pad", [draw(2, 3, 4)], {"pad": (-1, 2, 1, -1)}),
    ("pad", [draw(2, 3, 4)], {"pad": (-5, 6), "mode": "replicate"}),  # of elements that are cut off
    ("pad", [draw(2, 3, 4, 5)], {"pad": (2, -3, -1, 3), "mode": "replicate"}),
    ("pad", [draw(2, 3, 6)], {"pad": (-1, 3), "mode": "reflect"}),
    ("mse_loss", [draw(3, 4), draw(3, 4)], {}),
    ("mse_loss", [draw(3, 4), draw(3, 4)], {"reduction": "sum"}),
    ("l1_loss", [draw(3, 4), draw(3, 4)], {"reduction": "none"}),
    ("smooth_l1_loss", [draw(9), draw(9)], {"beta": 0.5}),
    ("binary_cross_entropy_with_logits", [draw(5) * 30, RNG.random(5)], {}),
    ("binary_cross_entropy", [RNG.random(5), RNG.random(5)], {}),
    ("normalize", [draw(3, 4)], {}),
    ("normalize", [draw(3, 4)], {"p": 3.0, "dim": 0}),
    ("cosine_similarity", [draw(3, 4), draw(3, 4)], {}),
    ("scaled_dot_product_attention", [draw(2, 3, 5, 4), draw(2, 3, 6, 4), draw(2, 3, 6, 7)], {}),
    ("scaled_dot_product_attention", [draw(2, 5, 4), draw(2, 6, 4), draw(2, 6, 7)], {"is_causal": True}),
    ("scaled_dot_product_attention", [draw(6, 5, 4), draw(2, 6, 4), draw(2, 6, 7)], {"enable_gqa": True}),
]


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case[0])
def test_function(case: Case) -> None:
    name, arrays, settings = case
    ours = [jg.asarray(array, requires_grad=True) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    result, expected = getattr(F, name)(*ours, **settings), getattr(T, name)(*theirs, **settings)
    assert result.shape == tuple(expected.shape)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    cotangent = draw(*result.shape)
    result.backward(jg.asarray(cotangent))
    expected.backward(torch.tensor(cotangent))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-9, atol=1e-11)


IGNORED = np.array([0, -100, 2, 1])
CLASS_LOSSES: list[tuple[np.ndarray, np.ndarray, dict[str, Any]]] = [
    (draw(4, 3), labels(3, 4), {}),
    (draw(4, 3), labels(3, 4).astype(np.int32), {"reduction": "sum"}),
    (draw(2, 3, 5), labels(3, 2, 5), {"reduction": "none"}),
    (draw(4, 3), IGNORED, {}),
    (draw(4, 3), IGNORED, {"weight": np.array([0.5, 2.0, 1.0])}),
    (draw(4, 3), IGNORED, {"weight": np.array([0.5, 2.0, 1.0]), "reduction": "none"}),
    (draw(3), np.array(2), {}),
    (draw(3), np.array(2), {"reduction": "none"}),
]


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("number", range(len(CLASS_LOSSES)))
def test_loss_of_classes(name: str, number: int) -> None:
    scores, classes, settings = CLASS_LOSSES[number]
    x, y = jg.asarray(scores, requires_grad=True), torch.tensor(scores, requires_grad=True)
    weight = settings.get("weight")
    result = getattr(F, name)(x, jg.asarray(classes), **settings)
    inputs = settings | ({"weight": torch.tensor(weight)} if weight is not None else {})
    expected = getattr(T, name)(y, torch.tensor(classes).long(), **inputs)
    assert result.shape == tuple(expected.shape)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
    result.sum().backward()
    expected.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-10, atol=1e-13)


def test_cross_entropy_of_probabilities_and_smoothed_labels() -> None:
    scores, soft = draw(4, 3, 2), RNG.random((4, 3, 2))
    for target, settings in [
        (soft, {}),
        (soft, {"label_smoothing": 0.2, "reduction": "sum"}),
        (soft, {"weight": np.array([1.0, 2.0, 3.0])}),
        (labels(3, 4, 2), {"label_smoothing": 0.1}),
    ]:
        ours = F.cross_entropy(jg.asarray(scores), jg.asarray(target), **settings)
        inputs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
        expected = T.cross_entropy(torch.tensor(scores), torch.tensor(target), **inputs)
        np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-12)


def test_binary_cross_entropy_with_pos_weight() -> None:
    x, t, w = draw(6, 2), RNG.random((6, 2)), np.array([0.5, 3.0])
    ours = F.binary_cross_entropy_with_logits(jg.asarray(x), jg.asarray(t), pos_weight=jg.asarray(w))
    expected = T.binary_cross_entropy_with_logits(torch.tensor(x), torch.tensor(t), pos_weight=torch.tensor(w))
    np.testing.assert_allclose(ours.item(), expected.item(), rtol=1e-12)


LAYERS: list[tuple[Callable[[Any], Any], tuple[int, ...]]] = [
    (lambda nn: nn.Linear(5, 3), (2, 5)),
    (lambda nn: nn.Linear(5, 3, bias=False), (4, 2, 5)),
    (lambda nn: nn.Conv1d(2, 4, 3, padding=1), (2, 2, 6)),
    (lambda nn: nn.Conv2d(2, 4, 3, stride=2, padding="valid", groups=2), (2, 2, 6, 7)),
    (lambda nn: nn.Conv2d(2, 4, (4, 3), padding="same"), (2, 2, 6, 7)),
    (lambda nn: nn.Conv3d(1, 2, 2, dilation=2), (1, 1, 4, 4, 4)),
    (lambda nn: nn.BatchNorm1d(3), (5, 3)),
    (lambda nn: nn.BatchNorm1d(3, momentum=None), (5, 3, 2)),
    (lambda nn: nn.BatchNorm2d(3, affine=False), (2, 3, 4, 4)),
    (lambda nn: nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 4)),
    (lambda nn: nn.LayerNorm((3, 4)), (2, 3, 4)),
    (lambda nn: nn.LayerNorm(4, bias=False), (2, 3, 4)),
    (lambda nn: nn.GroupNorm(2, 6), (2, 6, 3)),
    (lambda nn: nn.RMSNorm(4), (2, 4)),
    (lambda nn: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Sequential(nn.Linear(6, 2), nn.Softmax(-1))), (3, 4)),
    (lambda nn: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.Flatten()), (2, 1, 6, 6)),
]


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
@pytest.mark.parametrize("number", range(len(LAYERS)))
def test_layer(number: int) -> None:
    """Keys, shapes, defaults, results, gradients and running statistics over two training steps and one evaluation."""
    make, shape = LAYERS[number]
    ours, theirs = make(jg.nn).double(), make(torch.nn).double()
    state = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    own = ours.state_dict()
    assert list(own) == list(state)
    assert {k: (v.shape, v.dtype) for k, v in own.items()} == {k: (v.shape, v.dtype) for k, v in state.items()}
    ours.load_state_dict(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    for training in (True, True, False):
        ours.train(training)
        theirs.train(training)
        array = draw(*shape)
        x, y = jg.asarray(array, requires_grad=True), torch.tensor(array, requires_grad=True)
        result, expected = ours(x), theirs(y)
        np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-10)
        cotangent = draw(*result.shape)
        ours.zero_grad()
        theirs.zero_grad()
        result.backward(jg.asarray(cotangent))
        expected.backward(torch.tensor(cotangent))
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-8, atol=1e-9)
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-8, atol=1e-9)
    after = theirs.state_dict()
    for name, array in ours.state_dict().items():
        np.testing.assert_allclose(array, after[name].numpy(), rtol=1e-12)
    theirs.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in own.items()})


def test_embedding_with_padding() -> None:
    ours, theirs = jg.nn.Embedding(5, 3, padding_idx=-2), torch.nn.Embedding(5, 3, padding_idx=-2)
    assert ours.weight[3].tolist() == [0.0, 0.0, 0.0]
    ours.load_state_dict(theirs.state_dict())
    numbers = np.array([[1, 3], [3, 1]])
    result, expected = ours(jg.asarray(numbers)), theirs(torch.tensor(numbers))
    np.testing.assert_array_equal(result.detach().numpy(), expected.detach().numpy())
    result.sum().backward()
    expected.sum().backward()
    np.testing.assert_array_equal(ours.weight.grad.numpy(), theirs.weight.grad.numpy())


OPTIMISERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
]


@pytest.mark.parametrize(("name", "settings"), OPTIMISERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optimiser(name: str, settings: dict[str, Any], dtype: str) -> None:
    start = draw(4, 3).astype(dtype)
    p, q = jg.nn.Parameter(start), torch.nn.Parameter(torch.tensor(start))
    ours, theirs = getattr(jg.optim, name)([p], **settings), getattr(torch.optim, name)([q], **settings)
    for _ in range(5):
        gradient = draw(4, 3).astype(dtype)
        p.grad, q.grad = jg.asarray(gradient), torch.tensor(gradient)
        ours.step()
        theirs.step()
    tolerance = 1e-12 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("StepLR", {"step_size": 3, "gamma": 0.5}),
        ("ExponentialLR", {"gamma": 0.9}),
        ("CosineAnnealingLR", {"T_max": 8, "eta_min": 0.01}),
        ("LambdaLR", {"lr_lambda": lambda epoch: 0.8**epoch}),
    ],
)
def test_schedule(name: str, settings: dict[str, Any]) -> None:
    p, q = jg.nn.Parameter(np.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    q.grad = torch.zeros(2)
    ours = jg.optim.SGD([p], lr=0.4)
    theirs = torch.optim.SGD([q], lr=0.4)
    mine = getattr(jg.optim.lr_scheduler, name)(ours, **settings)
    other = getattr(torch.optim.lr_scheduler, name)(theirs, **settings)
    for _ in range(8):
        ours.step()
        theirs.step()
        mine.step()
        other.step()
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-12)


def test_clipping_the_norm_of_gradients() -> None:
    arrays = [draw(3, 2), draw(4)]
    ours = [jg.nn.Parameter(array) for array in arrays]
    theirs = [torch.nn.Parameter(torch.tensor(array)) for array in arrays]
    for limit in (0.5, 100.0):
        for p, q, array in zip(ours, theirs, arrays, strict=True):
            p.grad, q.grad = jg.asarray(array), torch.tensor(array)
        norm = jg.nn.utils.clip_grad_norm_(ours, limit)
        expected = torch.nn.utils.clip_grad_norm_(theirs, limit)
        np.testing.assert_allclose(norm.item(), expected.item(), rtol=1e-12)
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"])
def test_initial_values_have_the_spread_of_pytorch(name: str) -> None:
    p = jg.nn.Parameter(jg.zeros((80, 50, 3)))
    getattr(jg.nn.init, name)(p)
    torch.manual_seed(0)
    expected = getattr(torch.nn.init, name)(torch.empty(80, 50, 3)).std().item()
    assert abs(p.detach().std().item() / expected - 1) < 0.03
