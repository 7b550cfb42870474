"""What code around modules does: hooks of state dicts, extra state, views of what a module holds, reset_parameters."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

nn = jg.nn


def test_hooks_change_state_dicts() -> None:
    module, seen = nn.Linear(2, 1), []
    handles = [
        module.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((m is module, prefix, keep))),
        module.register_state_dict_post_hook(lambda m, state, prefix, _: state.update({f"{prefix}version": 3})),
    ]
    model = nn.Sequential(module, nn.ReLU())
    assert list(model.state_dict()) == ["0.weight", "0.bias", "0.version"] and seen == [(True, "0.", False)]
    for handle in handles:
        handle.remove()
    assert list(model.state_dict()) == ["0.weight", "0.bias"]

    def rename(m: Any, state: dict[str, Any], prefix: str, _: Any, strict: bool, *lists: Any) -> None:
        for old in [key for key in state if key.startswith(f"{prefix}old_")]:
            state[key_of(old)] = state.pop(old)

    def key_of(old: str) -> str:
        return old.replace("old_", "")

    module.register_load_state_dict_pre_hook(rename)
    inputs = {"0.old_weight": np.full((1, 2), 4.0), "0.old_bias": np.zeros(1)}
    assert model.load_state_dict(inputs) == ([], []) and module.weight.tolist() == [[4.0, 4.0]]
    assert list(inputs) == ["0.old_weight", "0.old_bias"]

    module._register_load_state_dict_pre_hook(lambda state, prefix, *lists: lists[-1].append("no good"))
    with pytest.raises(jg.JitgraphError, match="loading state_dict for Sequential:\n\tno good"):
        model.load_state_dict(inputs)
    assert module.weight.tolist() == [[4.0, 4.0]]


def test_hooks_after_a_load_may_accept_what_is_missing() -> None:
    model = nn.Linear(2, 1)
    before = model.weight.tolist()
    handle = model.register_load_state_dict_post_hook(lambda m, keys: keys.unexpected_keys.clear())
    with pytest.raises(jg.JitgraphError, match='Missing key\\(s\\) in state_dict: "weight"'):
        model.load_state_dict({"bias": np.ones(1), "more": np.ones(1)})
    assert model.weight.tolist() == before and model.bias.tolist() != [1.0]  # undone
    model.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    assert model.load_state_dict({"bias": np.ones(1), "more": np.ones(1)}) == ([], [])
    assert model.bias.tolist() == [1.0]
    handle.remove()
    with pytest.raises(jg.JitgraphError, match="Unexpected key"):
        model.load_state_dict({"more": np.ones(1)})


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(jg.ones(2))
        self.count = 0

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        self.count = state["count"]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if prefix + "w" in state_dict:
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
        super()._load_from_state_dict(state_dict, prefix, *args)


def test_extra_state_and_keys_of_older_versions() -> None:
    first, second = nn.ModuleList([Counting()]), nn.ModuleList([Counting()])
    first[0].count = 7
    state = first.state_dict()
    assert list(state) == ["0.weight", "0._extra_state"]
    second.load_state_dict({"0.w": np.zeros(2), "0._extra_state": state["0._extra_state"]})
    assert second[0].count == 7 and second[0].weight.tolist() == [0.0, 0.0]
    with pytest.raises(jg.JitgraphError, match=r'Missing key.*"0._extra_state"'):
        second.load_state_dict({"0.weight": np.zeros(2)})
    with pytest.raises(jg.JitgraphError, match="define get_extra_state"):
        nn.Linear(1, 1).get_extra_state()


def test_assign_takes_dtypes() -> None:
    model = nn.Linear(2, 1)
    weight, state = model.weight, {"weight": np.ones((1, 2)), "bias": np.ones(1, np.float16)}
    model.load_state_dict(state)
    assert model.weight.dtype == jg.float32
    model.load_state_dict(state, assign=True)
    assert (model.weight.dtype, model.bias.dtype) == (jg.float64, jg.float16) and model.weight is weight
    with pytest.raises(jg.DTypeError, match=r"assign=True.: int64 for weight"):
        model.load_state_dict({**state, "weight": np.ones((1, 2), np.int64)}, assign=True)


def test_views_of_what_a_module_holds() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3), nn.ReLU())
    assert list(model._modules) == ["0", "1", "2"] and model._modules["2"] is model[2]
    assert list(model[0]._parameters) == ["weight"] and model[0]._parameters["bias"] is None
    assert list(model[1]._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    for name, child in model._modules.items():
        if isinstance(child, nn.ReLU):
            model._modules[name] = nn.Tanh()
    assert isinstance(model[2], nn.Tanh) and len(model._modules) == 3
    with pytest.raises(KeyError):
        model._modules["9"]
    weight = model[0].weight
    model[0]._parameters["weight"] = jg.zeros((3, 2))  # a plain tensor, which assigning to the attribute refuses
    assert not list(model[0].parameters()) and model[0](jg.ones((1, 2))).tolist() == [[0.0, 0.0, 0.0]]
    model[0].weight = weight
    del model._modules["1"]
    assert [name for name, _ in model.named_children()] == ["0", "2"]
    memo = {model[0]}
    assert [name for name, _ in model.named_modules(memo)] == ["", "2"] and len(memo) == 3
    assert [name for name, _ in model.named_modules(prefix="net")] == ["net", "net.0", "net.2"]


def test_buffers_by_their_class() -> None:
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = nn.Buffer(jg.ones(2))
            self.scratch = nn.Buffer(jg.zeros(2), persistent=False)

        def forward(self, x: jg.Tensor) -> jg.Tensor:
            return x + self.by

    module = Shift()
    assert list(module.state_dict()) == ["by"] and [name for name, _ in module.named_buffers()] == ["by", "scratch"]
    assert not module.by.requires_grad and not list(module.parameters())
    assert jg.trace(module)(jg.zeros(2)).tolist() == [1.0, 1.0]
    module.double()
    assert module.by.dtype == jg.float64 and copy.deepcopy(module).by.tolist() == [1.0, 1.0]
    assert nn.Parameter().shape == (0,) and nn.Buffer().shape == (0,)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(3, 4),
        lambda: nn.Bilinear(2, 3, 4),
        lambda: nn.Conv2d(2, 4, 3, groups=2),
        lambda: nn.ConvTranspose1d(2, 4, 3),
        lambda: nn.Embedding(5, 3, padding_idx=-1),
        lambda: nn.EmbeddingBag(5, 3),
        lambda: nn.BatchNorm2d(3),
        lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
        lambda: nn.LayerNorm((2, 3)),
        lambda: nn.GroupNorm(2, 4),
        lambda: nn.RMSNorm(3),
        lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2),
        lambda: nn.GRUCell(3, 4),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6]),
    ],
)
def test_reset_parameters_is_what_construction_did(make: Any) -> None:
    jg.random.seed(5)
    layer = make()
    begun = layer.state_dict()
    for tensor in (*layer.parameters(), *layer.buffers()):
        with jg.no_grad():
            tensor[...] = 9
    jg.random.seed(5)
    layer.reset_parameters()
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value, begun[name])


def test_subclasses_begin_their_way_and_lazy_layers_wait() -> None:
    class Ones(nn.Linear):
        def reset_parameters(self) -> None:
            nn.init.ones_(self.weight)
            nn.init.constant_(self.bias, val=0.5)

    assert Ones(2, 1)(jg.ones((1, 2))).tolist() == [[2.5]]
    lazy = nn.LazyLinear(2)
    lazy.reset_parameters()
    lazy(input=jg.ones((1, 3)))
    lazy.reset_parameters()
    assert lazy.weight.shape == (2, 3)


def test_norms_begin_their_averages_anew() -> None:
    norm = nn.BatchNorm1d(2)
    norm(jg.asarray([[1.0, 2.0], [3.0, 5.0]]))
    norm.reset_running_stats()
    assert norm.running_mean.tolist() == [0.0, 0.0] and norm.running_var.tolist() == [1.0, 1.0]
    assert norm.num_batches_tracked.item() == 0 and norm.num_batches_tracked.dtype == jg.int64


def test_modules_are_copied_and_pickled() -> None:
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(9, 2))
    optimizer = jg.optim.Adam(model.parameters(), lr=0.1)
    x = jg.random.normal((4, 2, 4))
    model(x).sum().backward()
    optimizer.step()
    for copied in (copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))):
        other, stepper = copied
        assert stepper.param_groups[0]["params"][0] is other[0].weight is not model[0].weight
        assert next(iter(stepper.state)) is other[0].weight
        np.testing.assert_array_equal(stepper.state[other[0].weight]["exp_avg"], optimizer.state[0]["exp_avg"])
        np.testing.assert_array_equal(other.eval()(x).detach(), model.eval()(x).detach())


def test_casts_and_grads_in_place() -> None:
    model = nn.Linear(2, 1)
    model(jg.ones((1, 2))).sum().backward()
    model.zero_grad(set_to_none=False)
    assert model.weight.grad is not None and model.weight.grad.tolist() == [[0.0, 0.0]]
    assert model.type(jg.float64).weight.dtype == jg.float64 and model.to_empty(device="cpu") is model
    assert not model.requires_grad_(requires_grad=False).weight.requires_grad
    with pytest.raises(AttributeError, match=r"hint: write jg.trace\(model\)"):
        model.compile()


def test_recurrent_attributes() -> None:
    lstm = nn.LSTM(2, 3, num_layers=2, bidirectional=True)
    assert (lstm.mode, nn.GRU(2, 3).mode, nn.RNN(2, 3, nonlinearity="relu").mode) == ("LSTM", "GRU", "RNN_RELU")
    assert [len(each) for each in lstm.all_weights] == [4] * 4 and lstm.all_weights[0][0] is lstm.weight_ih_l0
    assert nn.Conv2d(1, 2, 3).output_padding == (0, 0) and not nn.Conv2d(1, 2, 3).transposed


def test_dictionaries_are_dictionaries() -> None:
    parameters = nn.ParameterDict({"a": jg.ones(1)})
    assert parameters.get("b") is None and parameters.setdefault("b", jg.zeros(1)).tolist() == [0.0]
    assert list(parameters | {"c": jg.ones(1)}) == ["a", "b", "c"] and list(parameters.copy()) == ["a", "b"]
    assert parameters.popitem()[0] == "b" and parameters.pop("a").tolist() == [1.0] and len(parameters) == 0
    with pytest.raises(KeyError):
        parameters.popitem()
    modules = nn.ModuleDict({"a": nn.ReLU()})
    modules.clear()
    assert len(modules) == 0
    several = nn.ParameterList([jg.ones(1), jg.zeros(1), jg.ones(2)])
    assert several.pop(1).tolist() == [0.0] and [x.shape for x in several] == [(1,), (2,)]
    several += [jg.ones(3)]
    assert list(several.state_dict()) == ["0", "1", "2"]


def test_token_numbers_are_padded() -> None:
    rows = [jg.asarray([4, 5, 6]), jg.asarray([7])]
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    assert padded.dtype == jg.int64 and padded.tolist() == [[4, 5, 6], [7, 0, 0]]
    packed = nn.utils.rnn.pack_sequence(rows)
    full, lengths = nn.utils.rnn.pad_packed_sequence(packed, padding_value=-1.0)
    assert full.dtype == jg.int64 and full.tolist() == [[4, 7], [5, -1], [6, -1]] and lengths.tolist() == [3, 1]
    other = nn.utils.rnn.pack_sequence(rows[::-1], enforce_sorted=False)
    assert other.sorted_indices.tolist() == [1, 0] and other.unsorted_indices.tolist() == [1, 0]
    assert other.to(jg.float32).padded.dtype == jg.float32
    with pytest.raises(jg.ShapeError, match=r"hint: packed._replace\(padded="):
        nn.LSTM(2, 2)(nn.utils.rnn.PackedSequence(jg.ones((4, 2)), jg.asarray([2, 2])))


def test_losses_as_older_code_reduces_them() -> None:
    torch = pytest.importorskip("torch")
    x, y = np.float32([[1.0, 2.0], [3.0, 5.0]]), np.float32([[0.0, 1.0], [1.0, 0.0]])
    for settings in ({"size_average": False}, {"reduce": False}, {"size_average": True}, {"reduce": True}):
        for name in ("MSELoss", "BCEWithLogitsLoss", "KLDivLoss", "SoftMarginLoss"):
            with pytest.warns(UserWarning):
                theirs = getattr(torch.nn, name)(**settings)(torch.tensor(x), torch.tensor(y))
            mine = getattr(nn, name)(**settings)(input=jg.asarray(x), target=jg.asarray(y))
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)
    assert nn.functional.nll_loss(jg.asarray(x), jg.asarray([0, 1]), size_average=False).item() == -6.0
    with pytest.raises(jg.JitgraphError, match="size_average is True, False or None, not -100"):
        nn.functional.cross_entropy(jg.asarray(x), jg.asarray([0, 1]), None, -100)


def test_weight_norms_of_older_checkpoints_load() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 2))
    with pytest.warns(FutureWarning):
        torch.nn.utils.weight_norm(theirs[0])
    mine = nn.Sequential(nn.utils.weight_norm(nn.Conv1d(2, 3, 2)))
    mine.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal((1, 2, 5)).astype(np.float32)
    np.testing.assert_allclose(mine(x).detach(), theirs(torch.tensor(x)).detach(), rtol=1e-5, atol=1e-6)
    assert next(iter(mine.state_dict())) == "0.bias"
    copied = copy.deepcopy(mine)
    copied.load_state_dict(theirs.state_dict())
