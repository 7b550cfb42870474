"""Gradients of random programs through every differentiable op, of first and second order.

Each is held against central differences, and the tape against the interpreter; every fourth of the first hundred is
traced and compiled as well, and of more every sixteenth. 100 programs run by default, ``GRADIENT_PROGRAMS=2000 pytest
tests/ops/test_gradient_programs.py`` runs as many as it says. How many programs of each op came out right stands in the
table by op that is printed after the run. Programs of ``kinks`` are tried at points that are not smooth.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.ir.interpreter import interpret
from jitgraph.ops import OPS
from jitgraph.tensor import lifting, wrap
from tests.coverage_table import note
from tests.ops.test_gradients import DIFFERENTIABLE as IN_THE_TABLE
from tests.programs import kinks
from tests.programs.gradients import DIFFERENTIABLE, SIZE, Program

COUNT = int(os.environ.get("GRADIENT_PROGRAMS", "100"))
STEP = 1e-4
POINTS = 400  # tried until one is found that no kink is near


def differences(function: Callable[[Any], Any], x: Any, direction: Any) -> Any | None:
    """The derivative along a direction, of fourth order in the step; None where a kink is near or it is too steep."""

    def slope(h: float) -> Any:
        with np.errstate(all="ignore"):
            return (function(x + h * direction) - function(x - h * direction)) / (2 * h)

    near, far = slope(STEP), slope(2 * STEP)
    fine = (4 * near - far) / 3
    scale = 1.0 + np.max(np.abs(fine), initial=0.0)

    def agree(other: Any) -> bool:
        return bool(np.all(np.abs(near - other) <= 1e-4 * scale))

    if not np.isfinite(scale) or not agree(far):
        return None
    return fine if agree(slope(STEP / 16)) else None  # the even jumps of a steep floor have one slope for two steps


def smooth_point(program: Program, seed: int) -> tuple[Any, Any, Any, Any] | None:
    """An input, two directions, and by differences the slopes along both and how the gradient bends."""
    rng = np.random.default_rng(seed)
    graph, derivatives = program.graph(), program.derivatives()

    def value(x: Any) -> Any:
        return interpret(graph, [x])[0]

    for _ in range(POINTS):
        x, direction, other = (rng.uniform(-1, 1, SIZE) for _ in range(3))
        slopes = [differences(value, x, way) for way in (direction, other)]
        second = differences(lambda x, d=direction: interpret(derivatives, [x, d])[1], x, direction)
        if second is not None and all(slope is not None for slope in slopes):
            return x, np.stack([direction, other]), np.array(slopes), second
    return None


@pytest.mark.parametrize("seed", range(COUNT))
def test_program(seed: int) -> None:
    program = Program(seed)
    point = smooth_point(program, seed)
    assert point is not None, f"no smooth point was found for {program.names}"
    x, directions, slopes, curve = point
    direction = directions[0]
    result, gradient, second = interpret(program.derivatives(), [x, direction])
    noise = 1e-11 * (1 + abs(float(result)))  # what rounding of the result does to differences
    scale = np.max(np.abs(gradient)) + noise
    have, bound = directions @ gradient, 1e-7 * scale + noise
    np.testing.assert_allclose(have, slopes, rtol=1e-6, atol=bound, err_msg=f"{program.names}")
    scale += np.max(np.abs(curve))
    np.testing.assert_allclose(second, curve, rtol=1e-6, atol=1e-7 * scale, err_msg=f"{program.names}, second order")

    def function(t: Any) -> Any:
        return wrap(program(lifting.value_of(t)))

    along = jg.asarray(direction)
    curvature = jg.grad(lambda t: (jg.grad(function)(t) * along).sum())

    def everything(t: Any) -> Any:
        return function(t), jg.grad(function)(t), curvature(t)

    expected = (result, gradient, second)
    modes = {"on the tape": everything}
    if seed % (4 if seed < 100 else 16) == 0:  # compiling takes most of the time
        modes["traced"] = jg.trace(everything)
    for way, run in modes.items():
        for order, (have, want) in enumerate(zip(run(jg.asarray(x)), expected, strict=True)):
            bound = 1e-9 * (1 + np.max(np.abs(want)))
            message = f"{way}, order {order}: {program.names}"
            np.testing.assert_allclose(have.numpy(), want, rtol=1e-9, atol=bound, err_msg=message)
    for name in program.names:
        note(name, "programs")


@pytest.mark.parametrize("part", range(10))
def test_programs_at_ties_nan_infinities_and_ends_of_the_range(part: int) -> None:
    """``GRADIENT_PROGRAMS`` says how many; every fortieth is traced as well."""
    for seed in range(part, max(COUNT, 600), 10):
        program = kinks.Program(seed)
        due, unknown, sizes = program.reference()
        modes = {"on the tape": jg.grad(program)}
        if seed // 10 % 40 == 0:
            modes["traced"] = jg.trace(modes["on the tape"])
        for way, gradient in modes.items():
            actual = gradient(jg.asarray(program.input)).numpy()
            with np.errstate(invalid="ignore"):
                near = abs(actual - due) <= 1e-9 * abs(due) + 1e-12 * sizes + 1e-306
            right = np.where(np.isfinite(due), near, ~np.isfinite(actual))
            message = (
                f"{way}, seed {seed}: {program.steps}, {program.reduction} of {program.input}: {actual}, not {due}"
            )
            assert np.all(right | unknown), message


def test_every_function_of_the_programs_at_kinks_comes_up() -> None:
    counts = Counter(name for seed in range(600) for name in kinks.Program(seed).names)
    assert not {*kinks.UNARY, *kinks.BINARY, *kinks.REDUCTIONS} - set(counts)


def test_a_program_with_a_fused_group() -> None:
    test_program(next(seed for seed in range(1000) if "fused" in Program(seed).names))


def test_every_differentiable_op_is_in_a_program() -> None:
    counts = Counter(name for seed in range(max(COUNT, 100)) for name in Program(seed).names)
    print(*(f"{counts[name]:5} {name}" for name in DIFFERENTIABLE), sep="\n")
    assert set(DIFFERENTIABLE) == {name for name in IN_THE_TABLE if OPS[name].lowering != "host"}
    assert not [name for name in DIFFERENTIABLE if not counts[name]]


def _sorted(a: Any) -> Any:
    return jg.sort(a, axis=1)


def _picked(a: Any) -> Any:
    return jg.take_along_axis(a, jg.argsort(a, axis=1), axis=1)


def _top(a: Any) -> Any:
    return jg.concat([jg.topk(a, 3, axis=1)[0], a[:, 3:]], axis=1)


@pytest.mark.parametrize("first", [_sorted, _picked, _top])
@pytest.mark.parametrize("second", [_sorted, _picked, _top])
def test_second_order_through_sorts_of_sorts(first: Any, second: Any) -> None:
    """The groups of such a gradient read one another by way of sorts: none may be merged into a circle."""
    rng = np.random.default_rng(0)
    x = jg.asarray(rng.permutation(12).reshape(3, 4) / 10 + 0.05)
    w = jg.asarray(rng.normal(size=(3, 4)))
    function = lambda x: (x * second(first(x) * 0.7) ** 2 * w).sum()
    curvature = jg.grad(lambda x: (jg.grad(function)(x) * w).sum())
    slope = differences(lambda x: jg.grad(function)(jg.asarray(x)).numpy(), x.numpy(), w.numpy() / 10)
    np.testing.assert_allclose(curvature(x).numpy(), slope * 10, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(jg.trace(curvature)(x).numpy(), curvature(x).numpy(), rtol=1e-12, atol=1e-12)
