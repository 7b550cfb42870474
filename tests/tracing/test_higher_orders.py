"""Derivatives of the first to third order through control flow, each step of them eager or traced, are all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

POINT, STEP = 1.3, 1e-5
STEPS = jg.asarray([0.1, 0.2, 0.3], dtype=jg.float64)


def number(value: float) -> Any:
    return jg.asarray(value, dtype=jg.float64)


def repeated(times: int, step: Any, x: Any) -> Any:
    return jg.while_loop(lambda s: s[0] < times, lambda s: (s[0] + 1, step(s[1])), (jg.asarray(0), x))[1]


def power(x: Any) -> Any:
    return repeated(3, lambda y: y * x, x)


def loop(x: Any) -> Any:
    return repeated(3, lambda y: y * jg.sin(y), x)


def loop_in_loop(x: Any) -> Any:
    return repeated(3, lambda y: repeated(2, lambda z: z * jg.cos(z * x), y) * jg.sin(y), x)


def scan(x: Any) -> Any:
    end, rows = jg.scan(lambda c, t: (c * jg.sin(c) + t, c * t), x, STEPS)
    return end + rows.sum()


def loop_in_scan(x: Any) -> Any:
    def body(c: Any, t: Any) -> Any:
        end = repeated(3, lambda y: jg.sin(y * (x + t)), c)
        return end, end * x

    end, rows = jg.scan(body, x, STEPS)
    return end + rows.sum()


def branch(x: Any) -> Any:
    return jg.cond(x > 0.5, lambda y: y * jg.sin(y) * y, lambda y: y * jg.exp(y), x)


def loop_in_branch(x: Any) -> Any:
    return jg.cond(x > 0.5, loop, lambda y: y * jg.exp(y), x)


def loop_in_other_branch(x: Any) -> Any:
    return jg.cond(x < 0.5, lambda y: y * jg.exp(y), loop, x)


def loops_in_branches(x: Any) -> Any:
    return jg.cond(x > 0.5, loop, power, x)


def branch_in_loop(x: Any) -> Any:
    def body(y: Any) -> Any:
        return jg.cond(y > 0.5, lambda z: z * jg.sin(z) * x, lambda z: z * jg.exp(x), y)

    return repeated(3, body, x)


PROGRAMS = [
    power,
    loop,
    loop_in_loop,
    scan,
    loop_in_scan,
    branch,
    loop_in_branch,
    loop_in_other_branch,
    loops_in_branches,
    branch_in_loop,
]


def differentiated(function: Any, traced: tuple[bool, ...]) -> Any:
    """One derivative for each flag after the first; what is flagged, the function first, is traced."""
    compiled = jg.trace(function) if traced[0] else function
    for flag in traced[1:]:
        compiled = jg.trace(jg.grad(compiled)) if flag else jg.grad(compiled)
    return compiled


def ways(count: int) -> list[tuple[bool, ...]]:
    """Flags for ``count`` steps: none is traced, one of them, or all."""
    return [(False,) * count, *(tuple(i == at for i in range(count)) for at in range(count)), (True,) * count]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_control_flow(program: Any, order: int) -> None:
    below = differentiated(program, (False,) * order)
    slope = (below(number(POINT + STEP)).item() - below(number(POINT - STEP)).item()) / (2 * STEP)
    for traced in ways(order + 1):
        result = differentiated(program, traced)(number(POINT)).item()
        assert result == pytest.approx(slope, rel=1e-6, abs=1e-8), traced


def test_powers_in_closed_form() -> None:
    """``power`` is the fourth power of x."""
    wanted = [4 * POINT**3, 12 * POINT**2, 24 * POINT, 24.0]
    for order, value in enumerate(wanted, 1):
        for traced in ways(order + 1):
            assert differentiated(power, traced)(number(POINT)).item() == pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("at", range(4))
def test_prints_are_printed_once(at: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What a derivative computes again, op by op, it computes in silence."""

    def told(x: Any) -> Any:
        jg.debug.print("begin {}", x)
        return repeated(2, lambda y: (jg.debug.print("turn {}", y), y * x)[1], x)

    third = differentiated(told, tuple(i == at for i in range(4)))(number(2.0))
    assert third.item() == 6.0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["begin", "turn", "turn"]


def test_state_is_differentiated_again() -> None:
    """A loop over a parameter that a traced function reads: the derivative by it, twice more outside."""
    weight = number(1.5).requires_grad_()
    first = jg.trace(lambda x: jg.grad(lambda y: repeated(3, lambda z: z * y * weight, y))(x))
    (second,) = jg.autograd.grad(first(number(2.0)), weight, create_graph=True)
    (third,) = jg.autograd.grad(second, weight)
    np.testing.assert_allclose(second.item(), 4 * 2.0**3 * 3 * 1.5**2)
    np.testing.assert_allclose(third.item(), 4 * 2.0**3 * 3 * 2 * 1.5)
