"""Steps of training: the numbers of jitgraph's own optimisers, eager and traced, and state that is PyTorch's."""

from __future__ import annotations

import copy
from collections import defaultdict

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch import nn, optim

INPUTS = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
LABELS = np.arange(8) % 3

SETTINGS = {
    "ASGD": {},
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"momentum": 0.9},
    "Rprop": {},
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
}


def trained(nn, functional, optim, asarray, name, steps=3, compiled=True):
    """The losses and the model after some steps, and the optimiser."""
    jg.random.seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = getattr(optim, name)(model.parameters(), lr=0.01, **SETTINGS[name])

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    function = jg.trace(step) if compiled else step
    losses = [float(function(asarray(INPUTS), asarray(LABELS))) for _ in range(steps)]
    if compiled:
        assert function.cache_info().misses == 1
    return losses, [parameter.detach().numpy() for parameter in model.parameters()], optimizer


@pytest.mark.parametrize("name", SETTINGS)
def test_steps_are_jitgraphs_own_eager_and_traced(name):
    expected, parameters, _ = trained(jg.nn, jg.nn.functional, jg.optim, jg.asarray, name)
    for compiled in (True, False):
        losses, ours, optimizer = trained(nn, nn.functional, optim, torch.tensor, name, compiled=compiled)
        assert losses == pytest.approx(expected, rel=1e-6)
        for x, y in zip(ours, parameters, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-7)
    assert isinstance(optimizer, optim.Optimizer)
    assert isinstance(optimizer, getattr(jg.optim, name))
    state = optimizer.state_dict()
    assert all(type(value) is torch.Tensor for value in state["state"][0].values())
    assert state["param_groups"][0]["params"] == list(range(6))
    optimizer.load_state_dict(copy.deepcopy(state))


def test_state_that_is_emptied_begins_anew():
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = optim.SGD([weight], lr=0.1, momentum=0.9)
    weight.grad = torch.tensor([1.0, 1.0])
    optimizer.step()
    assert optimizer.state[weight]["momentum_buffer"].tolist() == [1.0, 1.0]
    optimizer.state = defaultdict(dict)
    optimizer.step()
    np.testing.assert_allclose(weight.detach().numpy(), [0.8, 1.8], rtol=1e-6)


def test_an_optimizer_in_pytorchs_idiom():
    class Signs(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"] = 0
                        state["last"] = p.detach().clone()
                    state["step"] += 1
                    with torch.no_grad():
                        p -= group["lr"] * p.grad

    weight = nn.Parameter(torch.tensor([1.0]))
    optimizer = Signs([weight], 0.5)
    weight.grad = torch.tensor([1.0])
    optimizer.step()
    optimizer.step()
    assert weight.tolist() == [0.0]
    assert optimizer.state[weight]["step"] == 2


def test_schedules_and_averages():
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    averaged = optim.swa_utils.AveragedModel(model)
    rates = []
    for _ in range(4):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        averaged.update_parameters(model)
        schedule.step()
    assert rates == [1.0, 1.0, 0.5, 0.5]
    assert isinstance(averaged, nn.Module)
    assert isinstance(averaged.module, nn.Linear)
    assert type(averaged(torch.tensor([1.0]))) is torch.Tensor


def test_errors_are_of_pytorchs_classes():
    weight = nn.Parameter(torch.tensor([1.0]))
    with pytest.raises(TypeError, match="parameters"):
        optim.SGD(weight, lr=0.1)
    for parameters, settings in [([], {}), ([weight], {"lr": -1.0}), ([weight], {"lr": torch.tensor([1.0, 2.0])})]:
        with pytest.raises(ValueError):
            optim.SGD(parameters, **settings)
    with pytest.raises(ValueError, match="names"):
        optim.SGD([("weight", weight), nn.Parameter(torch.tensor([1.0]))])
    with pytest.raises(ValueError, match="twice"):
        optim.Adam([{"params": [weight]}, {"params": [weight]}])


IMPLEMENTATIONS = "foreach maximize differentiable"
ORDERS = {
    "ASGD": (f"lr lambd alpha t0 weight_decay {IMPLEMENTATIONS} capturable", "step eta mu ax"),
    "Adadelta": ("lr rho eps weight_decay maximize capturable foreach differentiable", "step square_avg acc_delta"),
    "Adafactor": ("lr beta2_decay eps d weight_decay foreach maximize", "step row_var col_var"),
    "Adagrad": (f"lr lr_decay eps weight_decay initial_accumulator_value {IMPLEMENTATIONS} fused", "step sum"),
    "Adam": (
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay",
        "step exp_avg exp_avg_sq max_exp_avg_sq",
    ),
    "Adamax": (f"lr betas eps weight_decay {IMPLEMENTATIONS} capturable", "step exp_avg exp_inf"),
    "NAdam": (
        "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable",
        "step mu_product exp_avg exp_avg_sq",
    ),
    "RAdam": (
        "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable",
        "step exp_avg exp_avg_sq",
    ),
    "RMSprop": (
        "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable",
        "step square_avg momentum_buffer",
    ),
    "Rprop": (f"lr etas step_sizes {IMPLEMENTATIONS} capturable", "step prev step_size"),
    "SGD": (
        "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused",
        "momentum_buffer",
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_state_dicts_have_pytorchs_order(name):
    settings, state = ORDERS[name]
    optimizer = getattr(optim, name)([nn.Parameter(torch.ones(2, 2))], lr=0.1, **SETTINGS[name])
    optimizer.param_groups[0]["params"][0].sum().backward()
    optimizer.step()
    saved = optimizer.state_dict()
    assert list(saved["param_groups"][0]) == [*settings.split(), "params"]
    assert list(saved["state"][0]) == state.split()
    assert next(iter(optimizer.param_groups[0])) == "params"


def test_lbfgs_saves_curvatures_as_tensors_and_goes_on_from_them():
    def problem():
        x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([x], lr=0.5, max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = (x**4).sum() + (x[0] - x[1]) ** 2
            loss.backward()
            return loss

        return x, optimizer, closure

    x, optimizer, closure = problem()
    optimizer.step(closure)
    saved = optimizer.state_dict()
    state = saved["state"][0]
    assert isinstance(state["H_diag"], torch.Tensor) and state["H_diag"].dtype == torch.float64
    assert state["ro"] and all(isinstance(weight, torch.Tensor) and weight.ndim == 0 for weight in state["ro"])
    y, other, other_closure = problem()
    y.data.copy_(x.detach())
    other.load_state_dict(saved)
    optimizer.step(closure)
    other.step(other_closure)
    assert y.tolist() == x.tolist()
