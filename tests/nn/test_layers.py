"""Layers beside loops in NumPy: windows, transposed convolutions, bags; how modules show themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

nn, F = jg.nn, jg.nn.functional
RNG = np.random.default_rng(4)


def windows(x: Any, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> list[list[tuple[int, float]]]:
    """For each output of a pool over a vector the (place, element) pairs inside x."""
    room = len(x) + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= len(x) + padding:
        count -= 1
    at = [[o * stride + k * dilation - padding for k in range(kernel)] for o in range(count)]
    return [[(i, x[i]) for i in row if 0 <= i < len(x)] for row in at]


@pytest.mark.parametrize(
    "settings", [(3, 2, 1, 1, False), (3, 2, 0, 1, True), (3, 3, 1, 1, True), (2, 1, 1, 3, False)], ids=str
)
def test_pools_of_a_vector(settings: tuple[int, int, int, int, bool]) -> None:
    kernel, stride, padding, dilation, ceil = settings
    x = RNG.integers(-3, 4, (1, 1, 11)).astype(float)
    rows = windows(x[0, 0], *settings)
    values, positions = F.max_pool1d(x, kernel, stride, padding, dilation, ceil, True)
    best = [max(row, key=lambda pair: (pair[1], -pair[0])) for row in rows]
    assert values[0, 0].tolist() == [value for _, value in best]
    assert positions[0, 0].tolist() == [position for position, _ in best]
    if dilation == 1:
        inside = F.avg_pool1d(x, kernel, stride, padding, ceil, False)
        np.testing.assert_allclose(inside[0, 0].numpy(), [np.mean([v for _, v in row]) for row in rows], rtol=1e-14)
        size = x.shape[-1]
        held = [min(o * stride - padding + kernel, size + padding) - (o * stride - padding) for o in range(len(rows))]
        padded = F.avg_pool1d(x, kernel, stride, padding, ceil, True)
        sums = [sum(v for _, v in row) for row in rows]
        np.testing.assert_allclose(padded[0, 0].numpy(), np.divide(sums, held), rtol=1e-14)


def test_adaptive_windows_overlap() -> None:
    """Window i of n holds the places from floor(i size / n) to ceil((i + 1) size / n)."""
    x = RNG.standard_normal((1, 2, 7))
    for count in (1, 3, 5, 9):
        spans = [slice(i * 7 // count, -(-(i + 1) * 7 // count)) for i in range(count)]
        means = np.stack([x[..., span].mean(-1) for span in spans], -1)
        np.testing.assert_allclose(F.adaptive_avg_pool1d(x, count).numpy(), means, rtol=1e-13)
        best = np.stack([x[..., span].max(-1) for span in spans], -1)
        np.testing.assert_array_equal(F.adaptive_max_pool1d(x, count).numpy(), best)


def test_a_transposed_convolution_adds_kernels() -> None:
    stride, padding, dilation, extra, groups = 3, 1, 2, 1, 2
    x, w = RNG.standard_normal((2, 4, 5)), RNG.standard_normal((4, 3, 3))
    b = RNG.standard_normal(6)
    size = (5 - 1) * stride - 2 * padding + dilation * 2 + extra + 1
    full = np.zeros((2, 6, size + 2 * padding))
    for n, c, i, o, k in np.ndindex(2, 4, 5, 3, 3):
        full[n, c // 2 * 3 + o, i * stride + k * dilation] += x[n, c, i] * w[c, o, k]
    expected = full[..., padding : padding + size] + b[:, None]
    layer = nn.ConvTranspose1d(4, 6, 3, stride, padding, extra, groups, dilation=dilation).double()
    layer.load_state_dict({"weight": w, "bias": b})
    np.testing.assert_allclose(layer(jg.asarray(x)).detach().numpy(), expected, rtol=1e-12)
    plain = nn.ConvTranspose1d(4, 6, 3, stride, padding, 0, groups, dilation=dilation).double()
    plain.load_state_dict(layer.state_dict())
    np.testing.assert_allclose(plain(jg.asarray(x), output_size=[size]).detach().numpy(), expected, rtol=1e-12)


def test_statistics_of_norms() -> None:
    x, y = RNG.standard_normal((4, 3, 5)), RNG.standard_normal((4, 3, 5)) + 2
    layer = nn.BatchNorm1d(3, momentum=None, dtype=jg.float64)
    for batch in (x, y):
        layer(jg.asarray(batch))
    mean = (x.mean((0, 2)) + y.mean((0, 2))) / 2
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-12)
    single = nn.InstanceNorm1d(3, track_running_stats=True, dtype=jg.float64)
    result = single(jg.asarray(x)).numpy()
    spread = np.sqrt(x.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(result, (x - x.mean(2, keepdims=True)) / spread, rtol=1e-12)
    np.testing.assert_allclose(single.running_var.numpy(), 0.9 + 0.1 * x.var(2, ddof=1).mean(0), rtol=1e-12)
    bare = nn.BatchNorm1d(3, bias=False)
    assert bare.bias is None and "bias" not in bare.state_dict() and nn.GroupNorm(1, 3, bias=False).bias is None


def test_bags_and_tables() -> None:
    table = RNG.standard_normal((6, 3))
    words, starts = np.array([1, 5, 5, 2, 0]), np.array([0, 2, 2])
    bags = [table[[1, 5]], table[:0], table[[5, 2, 0]]]
    for mode, of in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        expected = [of(bag, 0) if len(bag) else np.zeros(3) for bag in bags]
        np.testing.assert_allclose(F.embedding_bag(words, table, starts, mode=mode).numpy(), expected, rtol=1e-13)
    layer = nn.Embedding(6, 3, scale_grad_by_freq=True, _weight=jg.asarray(table), _freeze=False)
    layer(jg.asarray(words)).sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [1, 1, 1, 0, 0, 1]
    table *= 10 / np.linalg.norm(table, axis=1, keepdims=True)
    limited = F.embedding(jg.asarray([1, 1]), held := jg.asarray(table), max_norm=1.0)
    np.testing.assert_allclose(np.linalg.norm(limited.numpy(), axis=1), 1, rtol=1e-6)
    assert np.array_equal(held.numpy()[0], table[0]) and not np.array_equal(held.numpy()[1], table[1])
    with pytest.raises(jg.UnsupportedOp, match="sparse"):
        nn.Embedding(3, 2, sparse=True)
    with pytest.raises(jg.ShapeError, match="_weight"):
        nn.Embedding(3, 2, _weight=jg.ones((2, 3)))


def test_windows_at_random_places() -> None:
    x = jg.asarray(RNG.standard_normal((2, 3, 9, 8)))
    values, positions = F.fractional_max_pool2d(x, (3, 2), output_size=(4, 5), return_indices=True)
    flat, at = x.numpy().reshape(2, 3, 72), positions.numpy().reshape(2, 3, 20)
    assert np.array_equal(np.take_along_axis(flat, at, 2).reshape(2, 3, 4, 5), values.numpy())
    assert (np.diff(positions.numpy() // 8, axis=2) >= 0).all() and nn.FractionalMaxPool2d(2, 3)(x).shape == (
        2,
        3,
        3,
        3,
    )
    with pytest.raises(jg.ShapeError, match="do not fit"):
        F.fractional_max_pool2d(x, 3, output_size=8)
    with pytest.raises(jg.JitgraphError, match="one of output_size"):
        nn.FractionalMaxPool3d(2)


def test_the_bilinear_form() -> None:
    x, y, w, b = (RNG.standard_normal(shape) for shape in ((5, 2), (5, 3), (4, 2, 3), (4,)))
    expected = np.einsum("ni,oij,nj->no", x, w, y) + b
    np.testing.assert_allclose(F.bilinear(x, y, w, b).numpy(), expected, rtol=1e-12)
    with pytest.raises(jg.ShapeError, match="bilinear takes"):
        nn.Bilinear(2, 3, 4)(jg.ones((5, 3)), jg.ones((5, 3)))


def test_lists_of_modules() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net.insert(1, nn.Tanh())
    assert [name for name, _ in net.named_children()] == ["0", "1", "2"] and isinstance(net[1], nn.Tanh)
    assert isinstance(net.pop(), nn.ReLU) and len(net) == 2
    net += [nn.Identity()]
    del net[0]
    assert [type(layer).__name__ for layer in net + net] == ["Tanh", "Identity"] * 2
    named = nn.Sequential({"first": nn.Linear(2, 2), "second": nn.ReLU()})
    assert list(named[:1].state_dict()) == ["first.weight", "first.bias"]
    assert list(nn.ModuleList([nn.ReLU(), nn.Linear(1, 1)])[1:].state_dict(prefix="x.")) == ["x.0.weight", "x.0.bias"]


SHOWN = """Sequential(
  (0): Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), padding=same, dilation=(2, 2), bias=False)
  (1): BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
  (2): ModuleList(
    (0-1): 2 x Linear(in_features=1, out_features=2, bias=True)
    (2): Dropout(p=0.1, inplace=False)
  )
)"""


def test_modules_show_themselves_as_in_pytorch() -> None:
    several = nn.ModuleList([nn.Linear(1, 2), nn.Linear(1, 2), nn.Dropout(0.1)])
    first = nn.Conv2d(3, 4, 3, padding="same", dilation=2, bias=False)
    assert repr(nn.Sequential(first, nn.BatchNorm2d(4), several)) == SHOWN


def test_a_summary() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    net[3].weight.requires_grad_(False)
    result = nn.summary(net, jg.ones((5, 1, 4, 4)))
    assert [row.result for row in result.rows] == ["[5, 3]", "[5, 2, 2, 2]", "[5, 2, 2, 2]", "[5, 8]", "[5, 3]"]
    assert [row.parameters for row in result.rows] == [0, 20, 4, 0, 27]
    assert (result.parameters, result.trainable, result.parameter_bytes) == (51, 27, 204)
    assert net.training and net[1].num_batches_tracked.item() == 0 and not net[0]._hooks
    assert "0 (Conv2d)" in str(result) and nn.summary(net).rows[1].result == "-"


def test_hooks_before_gradients() -> None:
    layer = nn.Linear(2, 1, bias=False)
    x, seen = jg.ones((1, 2)).requires_grad_(), []
    before = layer.register_full_backward_pre_hook(lambda module, gradients: (gradients[0] * 3,))
    layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].tolist()))
    layer(x).sum().backward()
    assert seen == [[[3.0]]] and layer.weight.grad.tolist() == [[3.0, 3.0]]
    with pytest.raises(jg.TraceError, match="outside of traces"):
        jg.trace(layer)(x)
    before.remove()
    layer(x).sum().backward()
    assert seen[1] == [[1.0]]


def test_gradients_at_bends() -> None:
    """PyTorch's choices: 0 at both bounds of hardtanh, 1 at 0 of celu, none of what overflows."""
    x = jg.asarray([-np.inf, -6.0, 0.0, 6.0, np.inf], dtype=jg.float32)
    for function, slopes in (
        (F.relu6, [0.0, 0.0, 0.0, 0.0, 0.0]),
        (lambda x: F.hardtanh(x, -6.0, 7.0), [0.0, 0.0, 1.0, 1.0, 0.0]),
        (F.hardswish, [0.0, 0.0, 0.5, 1.0, 1.0]),
        (lambda x: F.celu(x, 0.5)[2:], [0.0, 0.0, 1.0, 1.0, 1.0]),
    ):
        leaf = x.clone().requires_grad_()
        function(leaf).sum().backward()
        assert leaf.grad.tolist() == slopes
    assert F.celu(jg.asarray([3e38], dtype=jg.float32), 0.5).item() == np.float32(3e38)


def test_corners_of_windows_and_bags() -> None:
    assert F.avg_pool1d(jg.ones((1, 1, 1)), 4, 3, 1, True, False).tolist() == [[[1.0]]]
    assert F.unfold(jg.ones((0, 4, 6, 6)), 3).shape == (0, 36, 16)
    for call, error, message in (
        (lambda: nn.InstanceNorm1d(2)(jg.ones((3, 2, 1))), jg.ShapeError, "more than one element"),
        (lambda: nn.Conv2d(2, 2, 0), jg.JitgraphError, "kernel_size"),
        (lambda: F.embedding_bag([1, 2], jg.ones((4, 2)), [1]), IndexError, "offsets begin with 0"),
        (lambda: F.embedding_bag([1, 2], jg.ones((4, 2)), [0, 3]), IndexError, "offsets"),
        (lambda: F.embedding_bag([1, 2], jg.ones((4, 2)), [0, 2, 1]), IndexError, "do not fall"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_a_named_batch() -> None:
    """One trace serves batches of every size."""
    net = nn.Sequential(
        nn.ConvTranspose2d(2, 4, 3, 2, groups=2),
        nn.InstanceNorm2d(4, affine=True),
        nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.Conv2d(4, 4, 3, padding="same", padding_mode="circular"),
        nn.BatchNorm2d(4).eval(),
        nn.AvgPool2d(2, padding=1, count_include_pad=False),
        nn.LPPool2d(2, 2),
        nn.AdaptiveMaxPool2d((2, None)),
    )
    run = jg.trace(dynamic_shapes={"x": {0: "batch"}})(lambda x: net(x))
    for size in (3, 1, 5):
        x = jg.random.normal((size, 2, 6, 7))
        np.testing.assert_allclose(run(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert run.cache_info().misses == 1


# of PyTorch 2.13, for numbers alone
MARGINS: dict[str, tuple[Callable[..., Any], float]] = {
    "multi_margin_loss": (lambda: F.multi_margin_loss(jg.asarray(1.5), jg.asarray(0)), 0.0),
    "multilabel_margin_loss": (lambda: F.multilabel_margin_loss(jg.asarray(1.5), jg.asarray(0)), 0.0),
    "multilabel_margin_loss of none": (lambda: F.multilabel_margin_loss(jg.asarray(1.5), jg.asarray(-1)), 0.0),
    "soft_margin_loss": (lambda: F.soft_margin_loss(jg.asarray(1.5), jg.asarray(1.0)), 0.2014133),
    "hinge_embedding_loss": (lambda: F.hinge_embedding_loss(jg.asarray(0.5), jg.asarray(-1.0)), 0.5),
    "margin_ranking_loss": (
        lambda: F.margin_ranking_loss(jg.asarray(1.5), jg.asarray(2.0), jg.asarray(1.0)),
        0.5,
    ),
    "triplet_margin_loss": (
        lambda: F.triplet_margin_loss(jg.asarray(1.5), jg.asarray(2.0), jg.asarray(1.0)),
        0.999998,
    ),
}


@pytest.mark.parametrize("name", MARGINS)
def test_margin_losses_of_numbers_alone(name: str) -> None:
    loss, expected = MARGINS[name]
    for actual in (loss(), jg.trace(loss)()):
        assert actual.shape == () and abs(actual.item() - expected) < 1e-6


ONE_FOR_ALL: dict[str, Callable[[Any], Any]] = {
    "avg_pool2d padding": lambda given: F.avg_pool2d(jg.ones((1, 1, 6, 6)), 2, padding=given),
    "avg_pool2d kernel": lambda given: F.avg_pool2d(jg.ones((1, 1, 6, 6)), given),
    "max_pool2d stride": lambda given: F.max_pool2d(jg.ones((1, 1, 6, 6)), 2, stride=given),
    "max_pool3d dilation": lambda given: F.max_pool3d(jg.ones((1, 1, 6, 6, 6)), 2, dilation=given),
    "lp_pool2d kernel": lambda given: F.lp_pool2d(jg.ones((1, 1, 6, 6)), 2, given),
    "conv2d stride": lambda given: F.conv2d(jg.ones((1, 1, 6, 6)), jg.ones((1, 1, 2, 2)), stride=given),
    "conv3d padding": lambda given: F.conv3d(jg.ones((1, 1, 6, 6, 6)), jg.ones((1, 1, 2, 2, 2)), padding=given),
    "conv_transpose2d": lambda given: F.conv_transpose2d(jg.ones((1, 1, 3, 3)), jg.ones((1, 1, 2, 2)), stride=given),
    "Conv2d kernel": lambda given: jg.nn.Conv2d(1, 1, given).weight,
    "AvgPool2d": lambda given: jg.nn.AvgPool2d(2, padding=given)(jg.ones((1, 1, 6, 6))),
}


@pytest.mark.parametrize("name", ONE_FOR_ALL)
def test_one_number_in_a_tuple_stands_for_all_axes(name: str) -> None:
    function = ONE_FOR_ALL[name]
    expected = function(1)
    for inputs in ((1,), [1]):
        assert function(inputs).shape == expected.shape
        if name != "Conv2d kernel":
            assert function(inputs).tolist() == expected.tolist()
