"""Optimisers against their formulas, and their state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.models import optimizer_cases

START = np.array([1.0, -2.0, 3.0])
GRADIENTS = [np.array([0.5, -1.0, 0.1]), np.array([-0.2, 0.4, 0.3]), np.array([0.0, 2.0, -1.0])]


def run(make: Any, gradients: list[np.ndarray] = GRADIENTS) -> tuple[np.ndarray, Any]:
    p = jg.nn.Parameter(START)
    optimizer = make([p])
    for gradient in gradients:
        p.grad = jg.asarray(gradient)
        optimizer.step()
    return p.detach().numpy(), optimizer


def test_sgd() -> None:
    p, buffer = START.copy(), np.zeros(3)
    for g in GRADIENTS:
        buffer = 0.9 * buffer + (g + 0.1 * p)
        p = p - 0.05 * buffer
    actual, _ = run(lambda ps: jg.optim.SGD(ps, lr=0.05, momentum=0.9, weight_decay=0.1))
    np.testing.assert_allclose(actual, p, rtol=1e-14)


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam(decoupled: bool) -> None:
    p, m, v = START.copy(), np.zeros(3), np.zeros(3)
    for step, gradient in enumerate(GRADIENTS, 1):
        g = gradient if decoupled else gradient + 0.1 * p
        p = p * (1 - 0.01 * 0.1) if decoupled else p
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    kind = jg.optim.AdamW if decoupled else jg.optim.Adam
    actual, _ = run(lambda ps: kind(ps, lr=0.01, weight_decay=0.1))
    np.testing.assert_allclose(actual, p, rtol=1e-12)


def test_rmsprop() -> None:
    p, v, a, b = START.copy(), np.zeros(3), np.zeros(3), np.zeros(3)
    for g in GRADIENTS:
        v, a = 0.9 * v + 0.1 * g * g, 0.9 * a + 0.1 * g
        b = 0.5 * b + g / (np.sqrt(v - a * a) + 1e-8)
        p = p - 0.01 * b
    actual, _ = run(lambda ps: jg.optim.RMSprop(ps, lr=0.01, alpha=0.9, momentum=0.5, centered=True))
    np.testing.assert_allclose(actual, p, rtol=1e-10)


def test_a_parameter_without_a_gradient_stays() -> None:
    p, q = jg.nn.Parameter(START), jg.nn.Parameter(START)
    optimizer = jg.optim.Adam([p, q])
    p.grad = jg.asarray(GRADIENTS[0])
    optimizer.step()
    assert q.tolist() == START.tolist() and p.tolist() != START.tolist()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is not None and p.grad.tolist() == [0.0] * 3 and q.grad is None
    optimizer.zero_grad()
    assert p.grad is None


def test_groups() -> None:
    p, q = jg.nn.Parameter(START), jg.nn.Parameter(START)
    groups = [{"params": [p], "lr": 1}, {"params": q, "momentum": 0.9}]
    optimizer = jg.optim.SGD(groups, lr=0.1)
    assert [g["lr"] for g in optimizer.param_groups] == [1.0, 0.1] and len(optimizer.state[1]) == 2
    p.grad = q.grad = jg.ones(3, dtype=jg.float64)
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), START - 1.5)
    np.testing.assert_allclose(q.detach().numpy(), START - 0.1 - 0.19)
    adam = jg.optim.Adam([{"params": [p], "betas": (0.5, 0.6)}])
    assert (adam.param_groups[0]["beta1"], adam.param_groups[0]["beta2"]) == (0.5, 0.6)


MAKERS = [
    lambda ps: jg.optim.SGD(ps, momentum=0.9, dampening=0.1),
    lambda ps: jg.optim.Adam(ps),
    lambda ps: jg.optim.AdamW(ps),
    lambda ps: jg.optim.RMSprop(ps, momentum=0.9, centered=True),
    lambda ps: jg.optim.Adam(ps, amsgrad=True, foreach=True, fused=False, capturable=True),
    lambda ps: jg.optim.NAdam(ps),
    lambda ps: jg.optim.RAdam(ps),
    lambda ps: jg.optim.Adamax(ps),
    lambda ps: jg.optim.Adadelta(ps),
    lambda ps: jg.optim.Rprop(ps),
    lambda ps: jg.optim.ASGD(ps),
    lambda ps: jg.optim.Adafactor(ps),
]


@pytest.mark.parametrize("make", MAKERS)
def test_state_is_saved_and_loaded(make: Any) -> None:
    full, _ = run(make)
    half, optimizer = run(make, GRADIENTS[:1])
    state = optimizer.state_dict()
    p = jg.nn.Parameter(half)
    again = make([p])
    again.load_state_dict(state)
    for gradient in GRADIENTS[1:]:
        p.grad = jg.asarray(gradient)
        again.step()
    np.testing.assert_array_equal(p.detach().numpy(), full)
    for array in state["state"][0].values():
        array[...] = 0  # copies
    assert any(np.any(tensor.numpy()) for tensor in optimizer.state[0].values())
    with pytest.raises(jg.JitgraphError, match="the saved state of parameter 0"):
        again.load_state_dict({"state": {0: {"other": np.zeros(3)}}, "param_groups": state["param_groups"]})
    before = p.tolist()
    again.load_state_dict({"state": {}, "param_groups": state["param_groups"]})  # as before the first step
    assert again.state_dict()["state"] == {} and p.tolist() == before
    with pytest.raises(jg.JitgraphError, match="other parameter groups"):
        again.load_state_dict({"state": {}, "param_groups": []})


def test_steps_keep_the_dtype_and_the_handle() -> None:
    p = jg.nn.Parameter(jg.ones(3, dtype=jg.float16))
    for make in MAKERS:
        optimizer = make([p])
        p.grad = jg.ones(3, dtype=jg.float16)
        optimizer.step()
        assert p.dtype == jg.float16 and p.is_leaf and p.requires_grad
        assert {s.dtype for k, s in optimizer.state[0].items() if k not in ("step", "mu_product", "eta", "mu")} == {
            p.dtype
        }


def test_schedules_set_the_rate() -> None:
    optimizer = jg.optim.SGD([jg.nn.Parameter(START)], lr=0.8)
    schedule = jg.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    assert rates == [0.8, 0.8, 0.4, 0.4, 0.2]
    saved = schedule.state_dict()
    schedule.load_state_dict({**saved, "last_epoch": 0})
    assert schedule.last_epoch == 0 and schedule.get_last_lr() == [0.2]  # rates are the optimiser's state
    with pytest.raises(jg.JitgraphError, match=r"no state of a StepLR: it has \['T_max'\]"):
        schedule.load_state_dict({"last_epoch": 0, "T_max": 3})


def test_mistakes() -> None:
    p = jg.nn.Parameter(START)
    model = jg.nn.Linear(2, 1)
    cases: list[tuple[Any, str]] = [
        ([], "at least one"),
        ([p, p], "twice"),
        ([1.0], "takes parameters, not a float"),
        (model, r"write model.parameters\(\)"),
        (model.weight, r"write a list: \[parameter\]"),
        ([model.weight * 2], "not results computed from them"),
    ]
    for inputs, message in cases:
        with pytest.raises(jg.JitgraphError, match=message):
            jg.optim.SGD(inputs)
    for settings in ([p], [{"params": [p], "lr": -1.0}]):
        with pytest.raises(jg.JitgraphError, match="must not be negative"):
            jg.optim.Adam(settings, lr=-0.1)
    with pytest.raises(jg.JitgraphError, match="nesterov"):
        jg.optim.SGD([p], nesterov=True)


def test_settings_of_pytorch() -> None:
    """What makes no difference is taken, what would make one is refused."""
    p = jg.nn.Parameter(START)
    with pytest.raises(jg.JitgraphError, match=r"Adam\(differentiable=True\) is not there"):
        jg.optim.Adam([p], differentiable=True)
    with pytest.raises(AttributeError, match="no sparse tensors, nor gradients"):
        jg.optim.SparseAdam  # noqa: B018
    optimizer = jg.optim.Adam([p])
    with pytest.raises(jg.JitgraphError, match="twice"):
        optimizer.add_param_group({"params": [p]})
    with pytest.raises(jg.JitgraphError, match="learning rate is nan"):
        jg.optim.SGD([p], lr=float("nan"))


PAIRS: list[tuple[str, str, dict[str, Any], tuple[float, float]]] = [
    *[(name, "betas", {}, (0.5, 0.6)) for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam")],
    ("Lion", "betas", {}, (0.5, 0.6)),
    ("Rprop", "etas", {}, (0.4, 1.3)),
    ("Adafactor", "eps", {}, (1e-20, 1e-2)),
]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize(("name", "key", "more", "pair"), PAIRS, ids=[name for name, *_ in PAIRS])
def test_pairs_of_settings_are_read_and_written(
    name: str, key: str, more: dict[str, Any], pair: tuple[float, float], traced: bool
) -> None:
    """A pair that is written between steps acts as one that the two numbers were given by their names."""
    results = []
    for by_pair in (True, False):
        p = jg.nn.Parameter(jg.asarray([[1.0, -2.0], [0.5, 3.0]]))
        optimizer = getattr(jg.optim, name)([p], lr=0.1, **more)

        def step(p: Any = p, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()

        run = jg.trace(step) if traced else step
        run()
        group = optimizer.param_groups[0]
        first, second = type(optimizer).PAIRS[key]
        assert key in group and group[key] == (group[first], group[second]) == group.get(key)
        if by_pair:
            group[key] = pair
            assert (group[first], group[second]) == pair == group[key]
        else:
            group[first], group[second] = pair
        run()
        run()
        results.append(p.detach().tolist())
        assert optimizer.state_dict()["param_groups"][0][key] == pair
    assert results[0] == results[1]
    with pytest.raises(jg.JitgraphError, match=key):
        group[key] = (0.5,)
    with pytest.raises(KeyError):
        group["no setting"]


def test_closures_and_hooks() -> None:
    p = jg.nn.Parameter(START)
    optimizer = jg.optim.SGD([p], lr=0.5)
    seen: list[str] = []
    take_away = optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (p * p).sum() / 2
        loss.backward()
        return loss

    with jg.no_grad():
        assert optimizer.step(closure).item() == 7.0
    take_away.remove()
    optimizer.step(closure)
    assert seen == ["before", "after", "after"] and p.tolist() == (START / 4).tolist()
    lbfgs = jg.optim.LBFGS([p])
    with pytest.raises(jg.TraceError, match="calls its closure as often as the losses ask for"):
        jg.trace(lambda: lbfgs.step(closure))()
    lbfgs.step(jg.trace(closure))
    np.testing.assert_allclose(p.detach().numpy(), np.zeros(3), atol=1e-6)


def test_averages_of_weights() -> None:
    kit = jg.optim.swa_utils
    model = jg.nn.Sequential(jg.nn.Linear(2, 3), jg.nn.BatchNorm1d(3)).double()
    mean, moving = kit.AveragedModel(model), kit.AveragedModel(model, avg_fn=kit.get_ema_avg_fn(0.9), use_buffers=True)

    @jg.trace
    def update() -> None:
        with jg.no_grad():
            model[0].weight *= 2.0
        mean.update_parameters(model)
        moving.update_parameters(model)

    begin = model[0].weight.detach().numpy()
    for _ in range(3):
        update()
    assert update.cache_info().misses == 1 and mean.n_averaged.item() == 3
    np.testing.assert_allclose(mean.module[0].weight.detach().numpy(), begin * (2 + 4 + 8) / 3, rtol=1e-14)
    expected = begin * ((2 * 0.9 + 4 * 0.1) * 0.9 + 8 * 0.1)
    np.testing.assert_allclose(moving.module[0].weight.detach().numpy(), expected, rtol=1e-14)
    batches = [np.random.default_rng(i).normal(size=(5, 2)) for i in range(3)]
    kit.update_bn([(jg.asarray(batch), None) for batch in batches], mean)
    images = [mean.module[0](jg.asarray(batch)).detach().numpy() for batch in batches]
    norm = mean.module[1]
    np.testing.assert_allclose(norm.running_mean.numpy(), np.mean([i.mean(axis=0) for i in images], axis=0))
    np.testing.assert_allclose(norm.running_var.numpy(), np.mean([i.var(axis=0, ddof=1) for i in images], axis=0))
    assert norm.momentum == 0.1 and norm.num_batches_tracked.item() == 3


def test_averages_of_lists_are_those_of_each() -> None:
    kit = jg.optim.swa_utils
    model = jg.nn.Linear(2, 3)
    pairs = [
        (kit.get_swa_multi_avg_fn(), kit.get_swa_avg_fn()),
        (kit.get_ema_multi_avg_fn(0.9), kit.get_ema_avg_fn(0.9)),
    ]
    for of_all, of_one in pairs:
        together, each = kit.AveragedModel(model, multi_avg_fn=of_all), kit.AveragedModel(model, avg_fn=of_one)
        for _ in range(3):
            with jg.no_grad():
                model.weight *= 2.0
            together.update_parameters(model)
            each.update_parameters(model)
        np.testing.assert_array_equal(together.module.weight.detach().numpy(), each.module.weight.detach().numpy())


def test_a_small_model_learns() -> None:
    jg.random.seed(0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    model = jg.nn.Sequential(jg.nn.Linear(2, 16), jg.nn.Tanh(), jg.nn.Linear(16, 2))
    optimizer = jg.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(80):
        loss = jg.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    assert jg.nn.utils.clip_grad_norm_(model.parameters(), 1e-3).item() > 0
    norm = np.sqrt(sum(float((p.grad.numpy() ** 2).sum()) for p in model.parameters()))
    assert norm <= 1e-3 * (1 + 1e-5)


def test_settings_may_be_switched_on_later() -> None:
    """As in PyTorch, state that they need begins then; a traced step wants it to be there."""
    p = jg.nn.Parameter(START)
    optimizer = jg.optim.SGD([p], lr=1.0)
    p.grad = jg.asarray(GRADIENTS[0])
    step = jg.trace(optimizer.step)
    step()
    optimizer.param_groups[0]["momentum"] = 0.5
    with pytest.raises(jg.TraceError, match=r"needs state of its own \(momentum_buffer, step\)"):
        step()
    optimizer.add_missing_state()
    step()
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), START - 3.5 * GRADIENTS[0])
    adam = jg.optim.Adam([p])
    adam.param_groups[0]["amsgrad"] = True
    adam.step()
    assert "max_exp_avg_sq" in adam.state_dict()["state"][0]
    cycled = jg.optim.SGD([p], lr=1.0)  # without a momentum, until the schedule sets it
    jg.optim.lr_scheduler.OneCycleLR(cycled, max_lr=0.1, total_steps=5)
    assert cycled.param_groups[0]["momentum"] == 0.95 and "momentum_buffer" in cycled.state[0]


def test_classes_that_step_by_themselves() -> None:
    class Momentum(jg.optim.Optimizer):
        def __init__(self, params: Any, lr: float = 0.1, rho: float = 2.0) -> None:
            super().__init__(params, {"lr": lr, "rho": rho})

        @jg.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state["step"], state["mean"] = 0, jg.zeros_like(p)
                    state["step"] += 1
                    state["mean"] *= 0.5
                    state["mean"] += p.grad
                    p -= group["lr"] * state["mean"]

    p, q = jg.nn.Parameter(jg.ones(2)), jg.nn.Parameter(jg.ones(1))
    optimizer = Momentum([p, q])
    assert optimizer.state_dict()["state"] == {}
    for _ in range(2):
        optimizer.zero_grad()
        (p.sum() + q.sum()).backward()
        optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), 1 - 0.1 - 0.15, rtol=1e-6)
    assert all(key is x for key, x in zip(optimizer.state, (p, q), strict=True))
    other = Momentum([p, q])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[q]["step"] == 2 and other.state[q]["mean"].tolist() == [1.5]
    for state in other.state.values():
        for name, value in state.items():
            state[name] = value.to("cpu") if isinstance(value, jg.Tensor) else value
    with pytest.raises(KeyError, match="no parameter of the optimiser"):
        other.state[jg.ones(1)]
    assert p in other.state and jg.ones(1) not in other.state


def test_hooks_of_state_dicts_and_names() -> None:
    model = jg.nn.Linear(2, 1)
    optimizer = jg.optim.SGD(model.named_parameters(), lr=0.5, momentum=0.9)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert repr(optimizer).startswith("SGD (\nParameter Group 0\n    dampening: 0.0\n") and "0.5" in repr(optimizer)
    seen: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(f"loading {state.pop('more')}"))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["saving", "loading 1", "loaded"]


TAKES_COMPLEX = [c for c in optimizer_cases.CASES if not c.name.startswith(("Adafactor", "Muon"))]


@pytest.mark.parametrize("case", TAKES_COMPLEX, ids=lambda case: case.name)
def test_parts_of_complex_parameters_are_parameters_of_their_own(case: optimizer_cases.OptimizerCase) -> None:
    start = np.random.default_rng(0).normal(size=(3, 2, 2))
    real, full = jg.nn.Parameter(jg.asarray(start)), jg.nn.Parameter(jg.view_as_complex(start))
    optimizers = [case.make(jg, [real]), case.make(jg, [full])]

    def real_loss() -> Any:
        optimizers[0].zero_grad()
        loss = ((real * real) * jg.cos(real)).sum()
        loss.backward()
        return loss

    def whole_loss() -> Any:
        optimizers[1].zero_grad()
        parts = jg.view_as_real(full)
        loss = ((parts * parts) * jg.cos(parts)).sum()
        loss.backward()
        return loss

    for _ in range(4):
        optimizers[0].step(real_loss)
        optimizers[1].step(whole_loss)
    np.testing.assert_allclose(jg.view_as_real(full.detach()).numpy(), real.detach().numpy(), rtol=1e-12)
    optimizers[1].load_state_dict(optimizers[1].state_dict())


@pytest.mark.parametrize("kind", [np.float64, np.float32, jg.asarray, float, int])
def test_rates_are_numbers_of_any_kind(kind: Any) -> None:
    p = jg.nn.Parameter(jg.ones(2))
    optimizer = jg.optim.Adam([p], lr=1.0)

    @jg.trace
    def step() -> None:
        p.grad = jg.ones(2)
        optimizer.step()

    for rate in (1, 2, 4):
        optimizer.param_groups[0]["lr"] = kind(rate)
        step()
    np.testing.assert_allclose(p.detach().numpy(), 1.0 - 7.0, rtol=1e-6)
    if kind is np.float64 or kind is float:
        assert step.cache_info().misses == 1
    p.grad = jg.ones(2)
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), 1.0 - 11.0, rtol=1e-6)


def test_a_tensor_as_rate_is_read_at_each_call() -> None:
    p, rate = jg.nn.Parameter(jg.zeros(2)), jg.asarray(1.0)
    optimizer = jg.optim.SGD([p], lr=0.0)
    optimizer.param_groups[0]["lr"] = rate

    @jg.trace
    def step() -> None:
        p.grad = jg.ones(2)
        optimizer.step()

    for value in (1.0, 2.0, 4.0):
        rate[...] = value
        step()
    assert p.tolist() == [-7.0, -7.0] and step.cache_info().misses == 1


def test_named_parameters_are_parameters() -> None:
    model = jg.nn.Linear(2, 3)
    optimizer = jg.optim.Adam(model.named_parameters(), lr=0.5, betas=(0.8, 0.9))
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    shown = repr(optimizer)
    assert shown.startswith("Adam (\nParameter Group 0\n    amsgrad: False\n    betas: (0.8, 0.9)\n")
    assert "    lr: 0.5\n" in shown and shown.endswith("\n)")


def test_the_state_of_another_optimiser_is_refused_before_its_first_step() -> None:
    p = jg.nn.Parameter(jg.zeros(2))
    adam, sgd = jg.optim.Adam([p]), jg.optim.SGD([p], lr=0.5, momentum=0.9)
    with pytest.raises(jg.JitgraphError, match=r"another optimiser than SGD: .* has no dampening, momentum"):
        sgd.load_state_dict(adam.state_dict())
    with pytest.raises(jg.JitgraphError, match=r"another optimiser than Adam: .* has no beta1, beta2, eps"):
        adam.load_state_dict(sgd.state_dict())
