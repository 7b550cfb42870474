"""Modules and layers: state, modes, mistakes, and values against formulas in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

nn, F = jg.nn, jg.nn.functional
RNG = np.random.default_rng(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(4, 2, bias=False), nn.Linear(4, 1)])
        self.scale = nn.Parameter(jg.ones(()))
        self.register_buffer("seen", jg.zeros((), dtype=jg.int64))
        self.register_buffer("scratch", jg.zeros(2), persistent=False)

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        hidden = self.body(x) * self.scale
        return jg.concat([head(hidden) for head in self.heads], axis=1)


def test_what_a_module_holds() -> None:
    net = Net()
    parameters = ["scale", "body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias"]
    parameters += ["heads.0.weight", "heads.1.weight", "heads.1.bias"]
    assert [name for name, _ in net.named_parameters()] == parameters
    statistics = [f"body.1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")]
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch", *statistics]
    assert set(net.state_dict()) == {*parameters, "seen", *statistics}
    assert [name for name, _ in net.named_children()] == ["body", "heads"]
    assert len(list(net.modules())) == 8 and len(net.heads) == 2 and net.body[-1] is net.body[2]
    assert "(0): Linear(in_features=3, out_features=4, bias=True)" in repr(net)


def test_saving_and_loading() -> None:
    net, other = Net(), Net()
    net(jg.asarray(RNG.standard_normal((5, 3)).astype(np.float32)))
    state = net.state_dict()
    other.load_state_dict(state)
    assert all(np.array_equal(state[name], array) for name, array in other.state_dict().items())
    assert state["body.1.num_batches_tracked"] == 1
    state["scale"][...] = 9
    assert net.scale.item() == 1.0, "a state holds copies"
    before = other.state_dict()
    unexpected = (
        r'for Net:\n\tMissing key\(s\) in state_dict: "scale"\. \n\tUnexpected key\(s\) in state_dict: "scales"\.'
    )
    with pytest.raises(jg.JitgraphError, match=unexpected):
        other.load_state_dict({("scales" if name == "scale" else name): array for name, array in state.items()})
    mismatch = r"size mismatch for body\.0\.weight: copying a param with shape \(3, 4\) from checkpoint, the shape"
    with pytest.raises(jg.ShapeError, match=mismatch):
        other.load_state_dict(state | {"body.0.weight": state["body.0.weight"].T, "scale": np.array(5.0)})
    assert all(np.array_equal(before[name], array) for name, array in other.state_dict().items()), "all or nothing"
    keys = other.load_state_dict({"scale": np.array(3.0), "more": np.array(1.0)}, strict=False)
    assert "body.0.bias" in keys.missing_keys and keys.unexpected_keys == ["more"] and other.scale.item() == 3.0


def test_tied_parameters_are_one_parameter_with_two_keys() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 1 and list(net.state_dict()) == ["0.weight", "1.weight"]


def test_modes_and_dtypes() -> None:
    net = Net()
    assert net.eval() is net and not net.body[1].training
    net.train()
    assert net.body[1].training
    net.double()
    assert {p.dtype for p in net.parameters()} == {jg.float64} and net.seen.dtype == jg.int64
    net.to("float32")
    assert net.body[1].running_mean.dtype == jg.float32 and net.seen.dtype == jg.int64 and net.to("cpu") is net
    assert net.scale.is_leaf and net.scale.requires_grad
    with pytest.raises(jg.DTypeError, match="parameters are floats"):
        net.to(jg.int32)
    with pytest.raises(jg.DeviceError):
        net.to("cuda")
    net(jg.ones((2, 3))).sum().backward()
    assert net.scale.grad is not None
    net.zero_grad()
    assert net.scale.grad is None
    net.requires_grad_(False)
    assert not net(jg.ones((2, 3))).requires_grad


def test_hooks_and_apply() -> None:
    net, calls = nn.Sequential(nn.Identity(), nn.ReLU()), []
    handle = net.register_forward_hook(lambda module, args, result: result + 1)
    assert net(jg.zeros(2)).tolist() == [1.0, 1.0]
    threes = jg.full((2,), 3.0)
    with net.register_forward_pre_hook(lambda module, args: args[0] - 1):
        assert net(threes).tolist() == jg.trace(net)(threes).tolist() == [3.0, 3.0]
        double = lambda module, args, kw: ((args[0] * 2,), kw)
        doubled = net.register_forward_pre_hook(double, with_kwargs=True, prepend=True)
        assert net(threes).tolist() == jg.trace(net)(threes).tolist() == [6.0, 6.0]
        doubled.remove()
    handle.remove()
    handle.remove()
    assert net(jg.zeros(2)).tolist() == [0.0, 0.0]
    net.apply(lambda module: calls.append(type(module).__name__))
    assert calls == ["Identity", "ReLU", "Sequential"]


def test_full_backward_hooks() -> None:
    layer, seen = nn.Linear(2, 1, bias=False), []
    layer.load_state_dict({"weight": np.array([[2.0, 3.0]], np.float32)})

    def hook(module: nn.Module, grad_input: Any, grad_output: Any) -> Any:
        seen.append((module, [None if g is None else g.tolist() for g in grad_input], grad_output[0].tolist()))
        return tuple(None if g is None else g * 10 for g in grad_input)

    handle = layer.register_full_backward_hook(hook)
    x = jg.asarray([[1.0, 4.0]]).requires_grad_()
    (layer(x) * 5).sum().backward()
    assert seen == [(layer, [[[10.0, 15.0]]], [[5.0]])]
    assert x.grad.tolist() == [[100.0, 150.0]] and layer.weight.grad.tolist() == [[5.0, 20.0]]
    layer(x.detach()).sum().backward()
    assert seen[1] == (layer, [None], [[1.0]]), "an argument that needs no gradient has none"
    with pytest.raises(jg.TraceError, match="outside of traces"):
        jg.trace(layer)(x)
    handle.remove()
    assert jg.trace(layer)(x).tolist() == [[14.0]]


def test_names_below_a_module() -> None:
    net = Net()
    assert net.get_submodule("body.1") is net.body[1] and net.get_submodule("") is net
    assert net.get_parameter("heads.1.bias") is net.heads[1].bias
    assert net.get_buffer("body.1.running_var") is net.body[1].running_var
    for find, name in ((net.get_submodule, "body.9"), (net.get_parameter, "seen"), (net.get_buffer, "scale")):
        with pytest.raises(AttributeError, match="Net has no"):
            find(name)
    assert [name for name, _ in net.named_parameters("net", recurse=False)] == ["net.scale"]
    shared = nn.ModuleDict({"a": net.heads[0], "b": net.heads[0]})
    assert list(shared) == ["a", "b"] and "a" in shared and len(shared) == 2
    assert [name for name, _ in shared.named_parameters()] == ["a.weight"]
    assert [name for name, _ in shared.named_parameters(remove_duplicate=False)] == ["a.weight", "b.weight"]
    assert list(shared.state_dict()) == ["a.weight", "b.weight"]
    with pytest.raises(jg.JitgraphError, match="attribute of modules"):
        shared["training"] = nn.ReLU()
    table = nn.ParameterDict({"left": jg.ones(2)})
    table["right"] = nn.Parameter(jg.zeros(3))
    row = nn.ParameterList([jg.ones(2), jg.zeros(1)])
    holder = nn.ModuleList([table, row])
    assert list(holder.state_dict()) == ["0.left", "0.right", "1.0", "1.1"]
    assert len(row) == 2 and row[-1] is row[1] and [x.shape for x in row[:1]] == [(2,)] and "right" in table
    assert net.half().scale.dtype == jg.float16 and net.to(dtype=jg.float32, device="cpu").scale.dtype == jg.float32


def test_layers_that_drop_and_lose_nothing() -> None:
    """Dropout of channels: whole ones, with the mean kept; alpha dropout keeps mean and variance."""
    jg.random.seed(3)
    x = jg.ones((64, 50, 3, 2))
    dropped = nn.Dropout2d(0.3)(x).numpy().reshape(64, 50, 6)
    assert (dropped == dropped[:, :, :1]).all() and set(np.unique(dropped).round(5)) == {
        0.0,
        np.float32(1 / 0.7).round(5),
    }
    assert abs(dropped.mean() - 1) < 0.05
    z = jg.random.normal((100, 400))
    for layer in (nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.2)):
        y = layer(z).numpy()
        assert abs(y.mean()) < 0.02 and abs(y.var() - 1) < 0.03
        assert layer.eval()(z) is not None and np.array_equal(layer(z).numpy(), z.numpy())
    slopes = nn.RReLU()(jg.full((1000,), -1.0)).numpy()
    assert slopes.min() > -1 / 3 and slopes.max() < -1 / 8 and slopes.std() > 0.05


def test_mistakes_in_modules() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Identity()

        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(jg.JitgraphError, match=r"Bare\.__init__ does not call super"):
        Bare()(1)
    with pytest.raises(jg.JitgraphError, match="defines no forward"):
        nn.ModuleList([])(1)
    with pytest.raises(jg.DTypeError, match="only floats"):
        nn.Parameter(jg.arange(3))


# --- values ---------------------------------------------------------------------------------------------------------


def test_convolution_is_a_sum_over_windows() -> None:
    x, w, b = RNG.standard_normal((2, 4, 6, 5)), RNG.standard_normal((6, 2, 3, 2)), RNG.standard_normal(6)
    actual = F.conv2d(x, w, b, stride=(2, 1), padding=1, groups=2).numpy()
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = np.empty((2, 6, 3, 6))
    for n, o, i, j in np.ndindex(expected.shape):
        group = slice(0, 2) if o < 3 else slice(2, 4)
        expected[n, o, i, j] = (padded[n, group, 2 * i : 2 * i + 3, j : j + 2] * w[o]).sum() + b[o]
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
    line = F.conv1d(x[:, :, 0], w[:, :, 0], padding="same", groups=2).numpy()
    flat = F.conv2d(x[:, :, :1], w[:, :, :1], padding="same", groups=2).numpy()
    np.testing.assert_allclose(line, flat[:, :, 0], rtol=1e-12)


def test_pooling() -> None:
    x = RNG.standard_normal((1, 2, 4, 6))
    tiles = x.reshape(1, 2, 2, 2, 3, 2)
    np.testing.assert_array_equal(F.max_pool2d(x, 2).numpy(), tiles.max((3, 5)))
    np.testing.assert_allclose(F.avg_pool2d(x, 2).numpy(), tiles.mean((3, 5)), rtol=1e-14)
    np.testing.assert_allclose(F.adaptive_avg_pool2d(x, 1).numpy(), x.mean((2, 3), keepdims=True), rtol=1e-13)


def test_normalisation() -> None:
    x = RNG.standard_normal((6, 4, 3)) * 3 + 1
    mean, var = x.mean((0, 2)), x.var((0, 2))
    layer = nn.BatchNorm1d(4).double()
    expected = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5)
    np.testing.assert_allclose(layer(jg.asarray(x)).detach().numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * mean, rtol=1e-12)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.9 + 0.1 * x.var((0, 2), ddof=1), rtol=1e-12)
    layer.eval()
    scale = np.sqrt(layer.running_var.numpy()[:, None] + 1e-5)
    expected = (x - layer.running_mean.numpy()[:, None]) / scale
    np.testing.assert_allclose(layer(jg.asarray(x)).detach().numpy(), expected, rtol=1e-10)
    assert layer.num_batches_tracked.item() == 1
    actual = F.layer_norm(x, (4, 3)).numpy()
    np.testing.assert_allclose(actual.mean((1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(actual.std((1, 2)), 1, rtol=1e-5)


def test_cross_entropy() -> None:
    logits, labels = RNG.standard_normal((5, 3)) * 50, np.array([0, 1, 2, 1, -100])
    shifted = logits - logits.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    each = -log_p[np.arange(4), labels[:4]]
    np.testing.assert_allclose(F.cross_entropy(logits, labels).item(), each.mean(), rtol=1e-12)
    np.testing.assert_allclose(nn.CrossEntropyLoss(reduction="sum")(logits, labels).item(), each.sum(), rtol=1e-12)
    assert F.cross_entropy(logits, labels, reduction="none")[4].item() == 0.0
    assert np.isnan(F.cross_entropy(logits[:1], np.array([-100])).item())


def test_dropout() -> None:
    x = jg.ones((50, 40))
    layer = nn.Dropout(0.5)
    assert set(np.unique(layer(x).numpy())) == {0.0, 2.0}
    layer.eval()
    assert layer(x).tolist() == x.tolist()
    y = jg.asarray(np.ones(9), requires_grad=True)
    result = F.dropout(y, 0.3)
    result.sum().backward()
    assert y.grad is not None and y.grad.tolist() == result.detach().tolist()
    assert F.dropout(x, 1.0).sum().item() == 0.0


def test_axes_by_either_name() -> None:
    x = jg.asarray(RNG.standard_normal((2, 3)))
    for name in ("softmax", "log_softmax"):
        function = getattr(F, name)
        assert function(x, 1).tolist() == function(x, dim=1).tolist() == function(x, axis=-1).tolist()
    with pytest.raises(jg.JitgraphError, match="say the same"):
        F.softmax(x, dim=1, axis=1)
    with pytest.raises(jg.JitgraphError, match="dim=-1"):
        F.softmax(x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype: str) -> None:
    x = jg.asarray(RNG.standard_normal((4, 6)), dtype=dtype)
    for function in (
        lambda t: F.layer_norm(t, 6),
        lambda t: F.rms_norm(t, 6),
        lambda t: F.softmax(t, -1),
        F.gelu,
        lambda t: F.linear(t, jg.ones((2, 6), dtype=dtype)),
    ):
        result, wide = function(x), function(x.astype(jg.float32))
        assert result.dtype == jg.dtypes.canonical(dtype)
        np.testing.assert_allclose(result.numpy().astype(np.float32), wide.numpy().astype(np.float32), atol=0.06)


# --- mistakes -------------------------------------------------------------------------------------------------------

ones = jg.ones


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.Linear(5, 3)(ones((2, 4))), jg.ShapeError, r"in_features=5 takes x\[\.\.\., 5\], not f32\[2, 4\]"),
        (lambda: F.linear(ones(3), ones((2, 3)), ones(3)), jg.ShapeError, r"out_features=2 takes a bias \[2\]"),
        (
            lambda: nn.Conv2d(3, 4, 3)(ones((2, 4, 8, 8))),
            jg.ShapeError,
            r"in_channels=3 takes x\[N, 3, H, W\], not f32\[2, 4",
        ),
        (lambda: nn.Conv2d(3, 4, 3)(ones((2, 3, 8))), jg.ShapeError, "axis 1"),
        (lambda: nn.Conv2d(3, 4, 9)(ones((2, 3, 8, 8))), jg.ShapeError, "conv"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), jg.JitgraphError, "groups=2 must divide"),
        (lambda: nn.Conv1d(3, 4, (3, 3)), jg.JitgraphError, "Conv1d: kernel_size"),
        (
            lambda: F.conv2d(ones((1, 1, 4, 4)), ones((1, 1, 2, 2)), stride=2, padding="same"),
            jg.JitgraphError,
            "stride 1",
        ),
        (lambda: nn.Conv1d(3, 4, 3, padding="sam"), jg.JitgraphError, "Conv1d: padding='sam' is neither 'same' nor"),
        (
            lambda: F.conv1d(ones((1, 1, 4)), ones((1, 1, 2)), padding="full"),
            jg.JitgraphError,
            "conv1d: padding='full' is neither 'same' nor",
        ),
        (lambda: nn.BatchNorm2d(3)(ones((2, 4, 5, 5))), jg.ShapeError, r"BatchNorm2d\(3\) takes x \[N, 3, \*, \*\]"),
        (lambda: nn.BatchNorm1d(3)(ones((1, 3))), jg.ShapeError, "more than one value per channel"),
        (lambda: nn.LayerNorm(4)(ones((2, 3))), jg.ShapeError, r"normalized_shape=\(4,\) takes x\[\.\.\., 4\]"),
        (lambda: nn.GroupNorm(4, 6), jg.JitgraphError, "must divide"),
        (lambda: nn.Embedding(3, 2)(jg.asarray([0, 3])), IndexError, "index 3 is out of range"),
        (lambda: nn.Embedding(3, 2)(ones(2)), jg.DTypeError, "embedding takes integers"),
        (lambda: F.cross_entropy(ones((2, 3)), jg.asarray([0, 3])), IndexError, "a label is not one of 3 classes"),
        (lambda: F.cross_entropy(ones((2, 3)), jg.asarray([0, -1])), IndexError, "a label is not one of 3 classes"),
        (
            lambda: F.cross_entropy(ones((2, 3)), ones(2)),
            jg.DTypeError,
            r"integers, not f32\[2\]\n.*\n.*astype\(jg.int64\)",
        ),
        (lambda: F.cross_entropy(ones((2, 3)), jg.asarray([[0], [1]])), jg.ShapeError, r"takes labels of shape \(2,\)"),
        (lambda: F.cross_entropy(ones((2, 3)), jg.asarray([0, 1, 2])), jg.ShapeError, r"takes labels of shape \(2,\)"),
        (lambda: F.cross_entropy(ones((2, 3)), jg.asarray([0, 1]), reduction="avg"), jg.JitgraphError, "'avg' is not"),
        (lambda: F.mse_loss(ones((2, 1)), ones(2)), jg.ShapeError, "of one shape"),
        (lambda: F.max_pool2d(ones((1, 1, 4, 4)), 2, padding=2), jg.ShapeError, "at most half"),
        (lambda: F.max_pool3d(ones((1, 1, 2, 2, 2)), 3), jg.ShapeError, "max_pool3d"),
        (lambda: nn.ConvTranspose2d(2, 2, 3)(ones((1, 3, 4, 4))), jg.ShapeError, "in_channels=2"),
        (lambda: nn.ConvTranspose1d(2, 2, 3, output_padding=1)(ones((1, 2, 4))), jg.ShapeError, "output_padding"),
        (lambda: nn.Conv2d(2, 2, 3, padding_mode="wrap"), jg.JitgraphError, "padding_mode='wrap'"),
        (lambda: F.max_pool2d(ones((1, 1, 2, 2)), 3), jg.ShapeError, "pooling"),
        (lambda: F.one_hot(jg.asarray([0, 3]), 3), IndexError, "one_hot"),
        (lambda: F.dropout(ones(2), 1.5), jg.JitgraphError, "not a probability"),
        (lambda: F.gelu(ones(2), "erf"), jg.JitgraphError, "approximate='erf'"),
        (lambda: nn.init.xavier_uniform_(nn.Parameter(ones(3))), jg.ShapeError, "at least two axes"),
    ],
)
def test_layers_name_what_they_expect(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_one_hot() -> None:
    actual = F.one_hot(jg.asarray([[0, 2], [1, 1]]))
    assert actual.dtype == jg.int64
    np.testing.assert_array_equal(actual.numpy(), np.eye(3)[[[0, 2], [1, 1]]])


def test_a_traced_step_is_the_eager_one() -> None:
    def make() -> tuple[nn.Module, Any]:
        jg.random.seed(3)
        # no bias before the norm: its gradient is zero but for rounding, which AdamW would blow up
        layers = [
            nn.Conv2d(1, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        ]
        model = nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(36, 3))
        return model, jg.optim.AdamW(model.parameters(), lr=0.01)

    def step(model: nn.Module, optimizer: Any, x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    data = np.random.default_rng(0)  # of its own: the comparison must not depend on which tests ran before
    x, y = jg.asarray(data.standard_normal((6, 1, 6, 6)).astype(np.float32)), jg.asarray(data.integers(0, 3, 6))
    states = []
    for wrap in (lambda f: f, jg.trace):
        model, optimizer = make()
        run = wrap(lambda x, y, model=model, optimizer=optimizer: step(model, optimizer, x, y))
        losses = [run(x, y).item() for _ in range(4)]
        states.append({**model.state_dict(), "losses": np.array(losses)})
    eager, traced = states
    assert traced["1.num_batches_tracked"] == 4 and traced["losses"][-1] < traced["losses"][0]
    for name, array in eager.items():
        np.testing.assert_allclose(traced[name], array, rtol=2e-4, atol=2e-5, err_msg=name)


def test_a_module_of_a_container_is_replaced() -> None:
    model = jg.nn.Sequential(jg.nn.Linear(2, 2), jg.nn.ReLU())
    traced = jg.trace(lambda x: model(x))
    x = jg.ones((1, 2))
    traced(x)
    model[-1] = jg.nn.Linear(2, 3)
    assert traced(x).shape == model(x).shape == (1, 3) and len(model) == 2
    with pytest.raises(IndexError):
        model[2] = jg.nn.ReLU()


def test_containers_hold_modules_alone() -> None:
    first, last = nn.Linear(2, 3), nn.Linear(3, 1)
    for actual, hint in (
        (lambda: nn.Sequential(first, jg.relu, last), "jg.nn.ReLU()"),
        (lambda: nn.Sequential([first, last]), r"Sequential\(\*modules\)"),
        (lambda: nn.Sequential(first, nn.ReLU), r"write ReLU\(\)"),
        (lambda: nn.ModuleList([first, None]), "not a NoneType"),
        (lambda: nn.ModuleList([first]).append([last]), "append one by one"),
        (lambda: nn.Sequential(first, last).__setitem__(1, jg.tanh), "not a function"),
    ):
        with pytest.raises(jg.JitgraphError, match=hint):
            actual()


def test_a_sequence_of_named_modules() -> None:
    model = nn.Sequential({"wide": nn.Linear(2, 3), "bend": nn.ReLU(), "narrow": nn.Linear(3, 1)})
    assert list(model.state_dict()) == ["wide.weight", "wide.bias", "narrow.weight", "narrow.bias"]
    x = jg.ones((4, 2))
    np.testing.assert_array_equal(model(x).detach().numpy(), model.narrow(jg.relu(model.wide(x))).detach().numpy())
    model[1] = nn.Tanh()
    assert isinstance(model.bend, nn.Tanh) and len(model) == 3


def test_a_plain_tensor_does_not_take_the_place_of_a_parameter() -> None:
    layer = nn.Linear(2, 3)
    with pytest.raises(jg.JitgraphError, match=r"Linear.weight is a parameter.*module.weight\[\.\.\.\] = value"):
        layer.weight = jg.ones((3, 2))
    with jg.no_grad():
        layer.weight[...] = jg.ones((3, 2))
    assert layer.weight.tolist() == [[1.0, 1.0]] * 3
    layer.weight = nn.Parameter(jg.zeros((3, 2)))
    layer.bias = None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 0.5])], ids=["plain", "weighted"])
def test_where_every_label_is_ignored_nothing_moves(smoothing: float, weight: Any) -> None:
    """The mean of nothing is NaN, and its gradient 0, as in PyTorch: such a batch must not spoil a model."""
    x, labels = jg.asarray(RNG.standard_normal((2, 3)), requires_grad=True), np.array([-100, -100])
    loss = F.cross_entropy(x, labels, weight, label_smoothing=smoothing)
    loss.backward()
    assert np.isnan(loss.item()) and x.grad is not None and x.grad.tolist() == [[0.0] * 3] * 2


def test_dicts_of_modules_and_parameters_are_emptied() -> None:
    modules = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    modules.clear()
    assert len(modules) == 0 and not list(modules.children())
    values = nn.ParameterDict({"a": jg.ones(1), "b": jg.ones(2)})
    assert values.get("c", 5) == 5 and values.get("a") is values["a"]
    assert values.setdefault("c", jg.ones(3)) is values["c"] and values.setdefault("a", None) is values["a"]
    assert values.popitem()[0] == "c" and values.pop("a").shape == (1,) and list(values) == ["b"]
    values.clear()
    assert not list(values.parameters())
    with pytest.raises(KeyError):
        values.popitem()


@pytest.mark.parametrize("name", ["sigmoid", "silu"])
def test_the_logistic_function_of_complex_numbers(name: str) -> None:
    z = np.array([1 + 2j, -0.5j, 3.0])
    logistic = 1 / (1 + np.exp(-z))
    want = logistic if name == "sigmoid" else z * logistic
    np.testing.assert_allclose(np.asarray(getattr(jg.nn.functional, name)(z)), want, rtol=1e-12)


def test_an_option_that_is_none_of_those_known() -> None:
    x = jg.ones((2, 2))
    with pytest.raises(jg.OptionError, match="reduction='average'"):
        jg.nn.functional.mse_loss(x, x, reduction="average")
    with pytest.raises(jg.OptionError, match="for class numbers, not for probabilities"):
        jg.nn.functional.cross_entropy(x, x, ignore_index=1)


def test_negative_widths_replicate_elements_that_are_cut_off() -> None:
    x = np.arange(4.0)[None, None]
    padded = jg.nn.functional.pad(x, (-5, 3), mode="replicate")
    np.testing.assert_array_equal(np.asarray(padded), np.full((1, 1, 2), 3.0))
    padded = jg.nn.functional.pad(x, (2, -5), mode="replicate")
    np.testing.assert_array_equal(np.asarray(padded), np.zeros((1, 1, 1)))


def test_a_loss_takes_a_reduction_of_its_own() -> None:
    x = jg.ones((2, 3))
    loss = jg.nn.KLDivLoss(reduction="batchmean")(x, x)
    np.testing.assert_allclose(float(loss), float(jg.nn.functional.kl_div(x, x, reduction="sum")) / 2)
