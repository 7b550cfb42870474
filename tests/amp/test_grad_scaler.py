"""GradScaler: scales, skips, grows and shrinks as PyTorch's does, eager and in one traced step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

SETTINGS: dict[str, Any] = {"init_scale": 8.0, "growth_interval": 2}
OVERFLOWS = [False, False, True, False, False, False, True, True, False, False]
SCALES = [8, 16, 8, 8, 16, 16, 8, 4, 4, 8]  # by hand: doubled after two good steps in a row, halved by a bad one


def run(traced: bool, make: Any) -> tuple[list[float], list[np.ndarray], Any]:
    p = jg.nn.Parameter(np.array([1.0, -2.0], np.float32))
    optimizer, scaler = make([p]), jg.amp.GradScaler(**SETTINGS)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        scaler.scale((p * p * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    call = jg.trace(step) if traced else step
    scales, values = [], []
    for number, overflows in enumerate(OVERFLOWS):
        call(np.float32(np.inf if overflows else 0.5 + number))
        scales.append(scaler.get_scale())
        values.append(p.detach().numpy())
    if traced:
        assert call.cache_info().misses == 1
    return scales, values, optimizer


MAKERS = [
    lambda params: jg.optim.SGD(params, lr=0.01, momentum=0.9, dampening=0.1),
    lambda params: jg.optim.AdamW(params, lr=0.1),
    lambda params: jg.optim.RMSprop(params, lr=0.1, momentum=0.5),
]


@pytest.mark.parametrize("make", MAKERS)
def test_steps_with_infinities_are_skipped(make: Any) -> None:
    p = jg.nn.Parameter(np.array([1.0, -2.0], np.float32))
    plain, expected = make([p]), []
    for number, overflows in enumerate(OVERFLOWS):
        if not overflows:
            plain.zero_grad()
            (p * p * np.float32(0.5 + number)).sum().backward()
            plain.step()
        expected.append(p.detach().numpy())
    for traced in (False, True):
        scales, values, optimizer = run(traced, make)
        assert scales == SCALES
        np.testing.assert_array_equal(values, expected)  # powers of two: nothing is rounded
        for mine, theirs in zip(optimizer.state[0].values(), plain.state[0].values(), strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_gradients_are_clipped_after_unscaling() -> None:
    p = jg.nn.Parameter(np.array([3.0, 4.0], np.float32))
    optimizer, scaler = jg.optim.SGD([p], lr=1.0), jg.amp.GradScaler(init_scale=1024.0)

    @jg.trace
    def step() -> Any:
        optimizer.zero_grad()
        scaler.scale((p * p).sum() / 2).backward()
        scaler.unscale_(optimizer)
        norm = jg.nn.utils.clip_grad_norm_([p], 1.0)
        scaler.step(optimizer)
        scaler.update()
        return norm

    assert step().item() == 5.0
    np.testing.assert_allclose(p.detach().numpy(), [2.4, 3.2], rtol=1e-5)


def test_state_and_settings() -> None:
    scaler = jg.amp.GradScaler("cuda", **SETTINGS)
    saved = scaler.state_dict()
    assert saved == {
        "scale": 8.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 0,
    }
    other = jg.amp.GradScaler()
    other.load_state_dict({**saved, "scale": 4.0, "_growth_tracker": 1})
    assert other.get_scale() == 4.0 and other.state_dict()["_growth_tracker"] == 1
    other.update(new_scale=2.0)
    assert other.get_scale() == 2.0
    with pytest.raises(jg.JitgraphError, match=r"no state of a GradScaler: it has no \['_growth_tracker'"):
        other.load_state_dict({"scale": 1.0})
    off = jg.amp.GradScaler(enabled=False)
    p = jg.nn.Parameter(np.ones(2, np.float32))
    optimizer = jg.optim.SGD([p], lr=1.0)
    off.scale((p * p).sum() / 2).backward()
    off.step(optimizer)
    off.update()
    assert p.tolist() == [0.0, 0.0] and off.state_dict() == {} and off.get_scale() == 1.0


def test_mistakes() -> None:
    p = jg.nn.Parameter(np.ones(2, np.float16))
    optimizer, scaler = jg.optim.SGD([p], lr=1.0), jg.amp.GradScaler()
    with pytest.raises(jg.JitgraphError, match="before a step"):
        scaler.update()
    p.grad = jg.ones(2, dtype=jg.float16)
    with pytest.raises(jg.JitgraphError, match="a float16 gradient cannot be unscaled"):
        scaler.step(optimizer)
    q = jg.nn.Parameter(np.ones(2, np.float32))
    second = jg.optim.SGD([q], lr=1.0)
    q.grad = jg.ones(2)
    scaler.unscale_(second)
    with pytest.raises(jg.JitgraphError, match="unscaled already"):
        scaler.unscale_(second)
    scaler.step(second)
    with pytest.raises(jg.JitgraphError, match="stepped already"):
        scaler.step(second)
    with pytest.raises(jg.JitgraphError, match="takes no closure"):
        scaler.step(second, lambda: None)
    with pytest.raises(jg.JitgraphError, match="the first is above 1"):
        jg.amp.GradScaler(growth_factor=1.0)
