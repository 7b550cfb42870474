"""Plans: what a recorded call needs is data that can be stored, and explain, save and the ledger read it."""

from __future__ import annotations

import json
import types
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tracing.cache.codec import Reading, Writing, codec_of, types_of
from jitgraph.tracing.cache.fingerprint import by_name
from jitgraph.tracing.cache.traces import plan_parts
from jitgraph.tracing.call.plan import CallPlan


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


SETTINGS: dict[str, Any] = {"rate": 0.5, "names": ["a", "b"], "step": 0}
WEIGHT = jg.asarray([1.0, 2.0])
LARGE = np.arange(20_000, dtype=np.float32)
SMALL = np.ones(3)


def helper(x: Any, factor: float = 2.0) -> Any:
    return x * factor * SETTINGS["rate"]


def reading(x: Any) -> Any:
    return helper(x) + WEIGHT * len(SETTINGS["names"])


def writing(x: Any) -> Any:
    global WEIGHT
    WEIGHT += x
    SETTINGS["step"] += 1
    return {"w": WEIGHT, "n": SETTINGS["step"]}


def learning(x: Any) -> Any:
    w = PARAMETER.w
    (w * x).sum().backward()
    w.grad = w.grad * 2
    return w.grad, float


def arguments(batch: Any, n: int, *, mode: str = "train") -> Any:
    batch["seen"] = n + 1
    return batch["x"][0] * n if mode == "train" else batch["x"][1]


def large(x: Any) -> Any:
    return x + SMALL.sum() + jg.asarray(LARGE)[0]


class Model(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = jg.nn.Linear(2, 2)
        self.scale = 3

    @jg.trace
    def step(self, x: Any) -> Any:
        return self.inner(x) * self.scale

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.scale


MODEL = Model()
PARAMETER = types.SimpleNamespace(w=jg.asarray([3.0, 4.0]).requires_grad_())
X = jg.asarray([1.0, 1.0])
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (reading, (X,), {}),
    (writing, (X,), {}),
    (learning, (X,), {}),
    (arguments, ({"x": (X, np.ones(3))}, 3), {"mode": "test"}),
    (large, (X,), {}),
]


def plans(function: Any, argument: Any, named: Any) -> tuple[CallPlan, ...]:
    traced = jg.trace(function)
    for _ in range(2):
        traced(*argument, **named)
    actual: tuple[CallPlan, ...] = traced.plans
    return actual


@pytest.mark.parametrize(("function", "given", "named"), CALLS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_plan_without_its_objects_is_stored_and_read_again(function: Any, given: Any, named: Any) -> None:
    for plan in plans(function, given, named):
        counts = {
            name: len(getattr(plan, name)) for name in ("objects", "handles", "inputs", "fresh", "shared_templates")
        }
        types = types_of(CallPlan)
        for name, value in plan_parts(plan).items():
            writing, codec = Writing(), codec_of(types[name])
            data = json.loads(json.dumps([codec.write(value, writing), writing.tables]))
            assert codec.read(data[0], Reading(data[1], counts, by_name)) == value, name


@pytest.mark.parametrize(("function", "given", "named"), CALLS, ids=lambda v: getattr(v, "__name__", ""))
def test_no_source_of_module_level_state_needs_an_object(function: Any, given: Any, named: Any) -> None:
    for plan in plans(function, given, named):
        sources = [guard.source for guard in plan.guards if guard.source is not None]
        sources += [handle.source for handle in plan.handles] + [effect.source for effect in plan.effects]
        sources += [given.at for given in plan.inputs if given.kind in ("array", "float")]
        assert sources and all(source.is_storable for source in sources), [s for s in sources if not s.is_storable]


@pytest.mark.parametrize("way", ["traced method", "bound method", "module", "function"])
def test_objects_are_found_from_the_arguments_or_the_function(way: str) -> None:
    model = Model()
    modes = {
        "traced method": (model.step, "self"),
        "bound method": (jg.trace(model.forward), "forward.__self__"),
        "module": (jg.trace(model), ""),
        "function": (jg.trace(lambda x: MODEL(x)), "MODEL"),
    }
    traced, root = modes[way]
    traced(jg.ones((1, 2)))
    (plan,) = (traced.function if way == "traced method" else traced).plans[:1]
    prefix = f"{root}." if root else ""
    assert [handle.source.text for handle in plan.handles[1:]] == [f"{prefix}inner.weight", f"{prefix}inner.bias"]
    assert all(handle.source.is_storable for handle in plan.handles)
    report = str(jg.explain(traced, jg.ones((1, 2))))
    assert "inner.weight: f32[2, 2]" in report  # which lists the first guards alone
    assert any(f"{prefix}scale == 3" in str(guard) for guard in plan.guards)
    Model.step.cache_clear()


def test_the_guards_of_a_plan_say_what_was_read() -> None:
    (plan,) = plans(reading, (X,), {})
    texts = [str(guard) for guard in plan.guards]
    for text in ("x is a tensor of float32 [2]", "helper is helper", "SETTINGS['rate'] == 0.5", "WEIGHT is a tensor"):
        assert any(text in actual for actual in texts), (text, texts)
    assert any("has these 2 elements" in actual for actual in texts)
    located = [guard for guard in plan.guards if str(guard).startswith("SETTINGS['rate']")]
    assert located and all("test_plan.py" in str(guard.location) for guard in located)


def test_effects_say_what_was_done() -> None:
    results = [(effect.text, effect.operation) for effect in plans(writing, (X,), {})[0].effects]
    assert ("SETTINGS['step']", "set") in results and ("WEIGHT", "set") in results
    plan = plans(learning, (X,), {})[-1]  # there is another where no test set the gradient before
    assert [effect.text for effect in plan.effects] == ["PARAMETER.w.grad"] and not plan.state_effects
    plan = plans(arguments, ({"x": (X, X)}, 3), {})[-1]
    assert [(effect.text, effect.operation) for effect in plan.effects] == [("batch['seen']", "set")]
