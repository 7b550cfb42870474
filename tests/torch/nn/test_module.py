"""Modules: what they hold is PyTorch's, whoever made it; state dicts, copies, errors."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch import nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        self.register_buffer("offset", torch.tensor([0.5]))
        self.register_buffer("scratch", torch.tensor([0.0]), persistent=False)

    def forward(self, x):
        return self.norm(self.linear(x)) * self.scale + self.offset


def test_classes_are_both_pytorchs_and_jitgraphs():
    block = Block()
    for module in block.modules():
        assert isinstance(module, nn.Module)
        assert isinstance(module, jg.nn.Module)
    assert isinstance(block.linear, nn.Linear)
    assert isinstance(block.linear, jg.nn.Linear)
    for parameter in block.parameters():
        assert type(parameter) is nn.Parameter
        assert isinstance(parameter, torch.Tensor)
        assert isinstance(parameter, jg.nn.Parameter)
    assert {type(buffer) for buffer in block.buffers()} == {torch.Tensor}
    assert type(block(torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]]))) is torch.Tensor


def test_what_layers_make_inside_is_pytorchs():
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    assert type(layer.self_attn) is nn.MultiheadAttention
    assert type(layer.linear1) is nn.Linear
    assert all(isinstance(module, nn.Module) for module in nn.TransformerEncoder(layer, 2).modules())
    assert {type(parameter) for parameter in layer.parameters()} == {nn.Parameter}


def test_state_dict_shares_elements_and_says_versions():
    block = Block()
    state = block.state_dict()
    assert isinstance(state, OrderedDict)
    assert list(state) == [
        "scale",
        "offset",
        "linear.weight",
        "linear.bias",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]
    assert state._metadata["norm"]["version"] >= 1
    assert all(isinstance(value, torch.Tensor) and not value.requires_grad for value in state.values())
    with torch.no_grad():
        block.scale[0] = 7.0
    assert state["scale"].tolist() == [7.0, 2.0, 3.0, 4.0]
    other = Block()
    assert other.load_state_dict(copy.deepcopy(state)) == ([], [])
    assert other.scale.tolist() == [7.0, 2.0, 3.0, 4.0]
    with torch.no_grad():
        block.scale[1] = 9.0
    assert other.scale.tolist() == [7.0, 2.0, 3.0, 4.0]
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({"scale": state["scale"]})


def test_classes_write_and_read_state_of_their_own():
    class Versioned(nn.Module):
        _version = 3

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "more"] = torch.tensor([1.0])

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            versions.append(local_metadata.get("version"))
            state_dict.pop(prefix + "more", None)
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    versions: list[int | None] = []
    model = nn.Sequential(Versioned())
    state = model.state_dict()
    assert list(state) == ["0.more"]
    model.load_state_dict(state, strict=False)
    model.load_state_dict({}, strict=False)
    assert versions == [3, None]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_have_the_classes(copied):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LSTM(3, 4))
    other = copied(model)
    assert list(map(type, other)) == [nn.Conv2d, nn.BatchNorm2d, nn.LSTM]
    assert {type(parameter) for parameter in other.parameters()} == {nn.Parameter}
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_assignments_that_pytorch_refuses():
    block = Block()
    with pytest.raises(TypeError, match=r"cannot assign .* as parameter 'scale' \(torch.nn.Parameter or None"):
        block.scale = torch.tensor([1.0])
    with pytest.raises(TypeError, match="as parameter 'scale'"):
        block.scale = 3
    with pytest.raises(TypeError, match=r"as child module 'linear' \(torch.nn.Module or None"):
        block.linear = 3
    with pytest.raises(TypeError, match="is not a Module subclass"):
        block.add_module("x", 3)
    with pytest.raises(KeyError, match="already exists"):
        block.register_buffer("training", None)
    with pytest.raises(KeyError, match="contain"):
        block.register_parameter("a.b", None)
    with pytest.raises(TypeError, match=r"torch.nn.Parameter or None required"):
        block.register_parameter("a", torch.tensor([1.0]))
    block.scale = None
    assert "scale" not in dict(block.named_parameters())

    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(torch.tensor([1.0]))

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


def test_train_goes_by_the_children_s_own_method():
    class Frozen(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    model = nn.Sequential(Frozen(3), nn.Dropout())
    model.eval().train()
    assert [module.training for module in model] == [False, True]
    with pytest.raises(ValueError, match="boolean"):
        model.train(1)


def test_a_buffer_that_is_a_view_goes_along_with_conversions():
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.tensor([[1.0], [2.0]]).unsqueeze(0))

    module = Positions().double()
    assert module.table.dtype == torch.float64
    assert copy.deepcopy(module).table.tolist() == [[[1.0], [2.0]]]
    assert module.state_dict()["table"].tolist() == [[[1.0], [2.0]]]


def test_layers_have_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        assert {p.dtype for p in nn.GRU(2, 3).parameters()} == {torch.float64}
        assert nn.Linear(2, 3, dtype=torch.float32).weight.dtype == torch.float32
        assert nn.BatchNorm1d(2).running_mean.dtype == torch.float64
        assert nn.BatchNorm1d(2).num_batches_tracked.dtype == torch.int64
    finally:
        torch.set_default_dtype(torch.float32)


def test_lazy_layers_become_pytorchs():
    layer = nn.LazyLinear(3)
    assert isinstance(layer, nn.Linear)
    assert layer(torch.tensor([[1.0, 2.0]])).shape == (1, 3)
    assert type(layer) is nn.Linear
    assert type(layer.weight) is nn.Parameter


def test_apply_of_conversions():
    layer = nn.Linear(2, 1)
    layer._apply(lambda x: x.to(torch.float64))
    assert layer.weight.dtype == torch.float64
    assert layer.weight.requires_grad
    assert isinstance(layer.weight, nn.Parameter)


def test_hooks_see_tensors_of_pytorch():
    seen = []

    class Inner(nn.Module):
        def forward(self, x):
            seen.append(type(x))
            return x * 2.0

    module = Inner()
    module.register_full_backward_hook(lambda module, of_inputs, of_results: seen.extend(map(type, of_inputs)))
    module.register_full_backward_pre_hook(lambda module, of_results: seen.extend(map(type, of_results)))
    x = torch.tensor([1.0], requires_grad=True)
    module(x).sum().backward()
    assert len(seen) == 3
    assert all(issubclass(kind, torch.Tensor) for kind in seen)


def test_a_hook_that_is_always_called_sees_a_failure():
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    calls = []
    module = Failing()
    module.register_forward_hook(lambda module, args, result: calls.append(("after", result)))
    module.register_forward_hook(lambda module, args, result: calls.append(("always", result)), always_call=True)
    with pytest.raises(ValueError, match="no"):
        module(1)
    assert calls == [("always", None)]


def test_a_compiled_module_and_its_copy():
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    x = torch.tensor([[1.0, 2.0]])
    expected = module(x).tolist()
    module.compile()
    assert module(x).tolist()[0] == pytest.approx(expected[0])
    copied = copy.deepcopy(module)
    with torch.no_grad():
        module[0].weight.zero_()
        module[0].bias.zero_()
    assert module(x).tolist() == [[0.0, 0.0, 0.0]]
    assert copied(x).tolist()[0] == pytest.approx(expected[0])


def test_modules_have_pytorchs_layout():
    from jitgraph.torch.nn.modules.batchnorm import BatchNorm2d, _BatchNorm
    from jitgraph.torch.nn.modules.conv import _ConvNd
    from jitgraph.torch.nn.modules.utils import _pair, consume_prefix_in_state_dict_if_present

    assert BatchNorm2d is nn.BatchNorm2d
    assert isinstance(nn.BatchNorm1d(2), _BatchNorm)
    assert isinstance(nn.ConvTranspose2d(1, 1, 1), _ConvNd)
    assert not isinstance(nn.Linear(1, 1), _ConvNd)
    assert _pair(3) == (3, 3)
    state = nn.DataParallel(nn.Linear(1, 1)).state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert nn.Linear(1, 1).load_state_dict(state) == ([], [])
    assert list(state._metadata) == [""]


def test_parameters_without_a_shape():
    parameter = nn.UninitializedParameter()
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        parameter.shape  # noqa: B018
    parameter.materialize((2, 3))
    assert type(parameter) is nn.Parameter
    assert parameter.shape == (2, 3)
    assert parameter.requires_grad


def test_losses_and_softmax_in_their_older_forms():
    with pytest.warns(UserWarning, match="Using a target size"):
        loss = nn.MSELoss()(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 3.0]))
    assert float(loss) == 2.0
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        assert nn.Softmax()(torch.tensor([[1.0, 1.0]])).tolist() == [[0.5, 0.5]]
    assert nn.functional.softmax(torch.tensor(3.0), 0).tolist() == 1.0
    norm = nn.BatchNorm1d(2)
    assert norm(torch.zeros(0, 2)).shape == (0, 2)
    assert norm.running_var.tolist() == [1.0, 1.0]
    scores = nn.LinearCrossEntropyLoss(2, 3, out_features=(2,), bias=True)
    assert scores(torch.ones(4, 2), torch.zeros(4, 2, dtype=torch.int64)).shape == ()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def test_what_a_load_finds_is_said_in_pytorchs_words():
    model = Net()
    state = model.state_dict()
    assert str(model.load_state_dict(state)) == "<All keys matched successfully>"
    keys = model.load_state_dict({"zz": torch.ones(1)}, strict=False)
    assert repr(keys).startswith("_IncompatibleKeys(missing_keys=['a.weight', 'a.bias', 'b.weight', 'b.bias'], unex")
    assert keys.unexpected_keys == ["zz"] and isinstance(keys, tuple)
    with pytest.raises(RuntimeError) as raised:
        model.load_state_dict({"zz": torch.ones(1)})
    text = str(raised.value)
    assert text.index("Missing key(s)") < text.index("Unexpected key(s)")
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'list'>"):
        model.load_state_dict([1])


def test_a_copied_parameter_has_no_gradient_and_a_copied_tensor_has_its_own():
    model = Net()
    model(torch.ones(1, 2)).sum().backward()
    assert all(parameter.grad is None for parameter in copy.deepcopy(model).parameters())
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    assert copy.deepcopy(x).grad.tolist() == [1.0, 1.0]


def test_extra_state_comes_with_the_modules_own():
    class Extra(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.zeros(2))

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[f"{prefix}more"] = torch.ones(1)

        def get_extra_state(self):
            return {"k": 1}

        def set_extra_state(self, state):
            self.state = state

    assert list(nn.Sequential(Extra()).state_dict()) == ["0.w", "0._extra_state", "0.more"]


def test_an_optimiser_is_pickled_and_copied_without_its_hooks():
    model, seen = Net(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    again = pickle.loads(pickle.dumps(optimizer))
    assert [len(group["params"]) for group in again.param_groups] == [4] and again.defaults["lr"] == 0.1
    copy.deepcopy(optimizer).step()
    assert seen == [1]


def test_names_of_modules_and_of_types():
    assert Net()._get_name() == "Net" and Net().share_memory()._get_name() == "Net"
    assert torch.typename(nn.Linear) == "jitgraph.torch.nn.Linear" and torch.typename(3) == "int"
    with pytest.raises(TypeError, match=r"cannot assign 'int' as parameter 'weight'"):
        nn.Linear(1, 1).weight = 3


def test_there_are_no_meta_tensors():
    for make in (
        lambda: torch.ones(2, device="meta"),
        lambda: torch.ones(2).to("meta"),
        lambda: nn.Linear(2, 3, device="meta"),
        lambda: nn.Linear(2, 3).to("meta"),
    ):
        with pytest.raises(RuntimeError, match="skip_init"):
            make()


def test_hooks_of_all_modules_run_before_those_of_one():
    module = nn.modules.module
    seen = []
    model = Net()
    model.a.register_forward_hook(lambda *_: seen.append("own"))
    name = lambda layer: type(layer).__name__
    handles = [
        module.register_module_forward_pre_hook(lambda layer, args: seen.append("pre")),
        module.register_module_forward_hook(lambda layer, args, result: seen.append(name(layer))),
        module.register_module_full_backward_pre_hook(lambda layer, cotangents: seen.append(f"into {name(layer)}")),
        module.register_module_full_backward_hook(lambda layer, inputs, outputs: seen.append(f"of {name(layer)}")),
    ]
    model(torch.ones(1, 2, requires_grad=True)).sum().backward()
    forward = ["pre", "pre", "Linear", "own", "pre", "Linear", "Net"]
    backward = ["into Net", "into Linear", "of Linear", "into Linear", "of Linear", "of Net"]
    assert seen == [*forward, *backward]
    for handle in handles:
        handle.remove()
    model(torch.ones(1, 2))
    assert seen[len(forward) + len(backward) :] == ["own"]


def test_a_compiled_model_has_the_hooks_of_all_modules_from_their_registration_on():
    model = Net()
    run, x = torch.compile(model), torch.ones(1, 2)
    plain = run(x)
    handle = nn.modules.module.register_module_forward_hook(
        lambda layer, args, result: result * 2 if isinstance(layer, nn.Linear) else None
    )
    changed = run(x)
    assert torch.allclose(changed, model(x)) and not torch.allclose(changed, plain)
    handle.remove()
    assert torch.equal(run(x), plain)
