"""What is one function by its values is one by its bits and its derivatives, whatever names it has where."""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import jitgraph as jg

SPACES = {"jg": jg, "special": jg.special, "functional": jg.nn.functional}
INSIDE = np.array([0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 0.95])
AROUND = np.array([-2.7, -1.3, -0.6, -0.2, 0.1, 0.4, 0.8, 1.9, 3.3])
POINTS = np.array([-30.0, -3.0, -0.5, -0.0, 0.0, 1e-8, 0.25, 1.0, 2.5, 30.0])
# the same values by chance, or for these points alone
OTHER = {frozenset({"relu", "relu6"}), frozenset({"float_power", "pow"}), frozenset({"fmax", "maximum"})}
OTHER |= {
    frozenset({"fmin", "minimum"}),
    frozenset({"cumprod", "nancumprod"}),
    frozenset({"cumulative_prod", "nancumprod"}),
}


def along_the_last(function: Callable[..., Any], x: Any) -> Any:
    return function(x, dim=-1)


@cache
def public() -> dict[str, tuple[Callable[..., Any], int]]:
    """The public functions of one or two operands by namespace and name, with the number of these."""
    outputs = {}
    for space, module in SPACES.items():
        for name in dir(module):
            function = getattr(module, name)
            if name.startswith("_") or name.endswith("_") or isinstance(function, type | types.ModuleType):
                continue
            try:
                parameters = inspect.signature(function).parameters
            except (TypeError, ValueError):
                continue
            if parameters.get("dim", None) is not None and parameters["dim"].default is None:  # of softmax
                function = partial(along_the_last, function)
                parameters = inspect.signature(function).parameters
            needed = [p for p in parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
            if len(needed) in (1, 2):
                outputs[f"{space}.{name}"] = function, len(needed)
    return outputs


def called(function: Callable[..., Any], arity: int, points: Any) -> Any:
    x = jg.asarray(points)
    return function(x) if arity == 1 else function(x, x[::-1] * 1.3)


@cache
def values() -> dict[str, list[Any]]:
    """What each gives at two sets of points, where that is floats of the points' shape and not the points."""
    outputs = {}
    for path, (function, arity) in public().items():
        try:
            results = [called(function, arity, points) for points in (INSIDE, AROUND)]
        except Exception:  # a function of other things than vectors of floats
            continue
        if all(isinstance(y, jg.Tensor) and y.shape == x.shape for y, x in zip(results, (INSIDE, AROUND), strict=True)):
            arrays = [y.detach().numpy() for y in results]
            trivial = [np.array_equal(arrays[1], each) for each in (AROUND, np.sort(AROUND), np.zeros(9))]
            if arrays[0].dtype == np.float64 and not any(trivial):
                outputs[path] = arrays
    return outputs


def pairs() -> list[tuple[str, str]]:
    """Names of functions that agree to rounding, or share a name, and are not one object."""
    outputs = []
    for (a, left), (b, right) in itertools.combinations(values().items(), 2):
        names = frozenset(path.rpartition(".")[2] for path in (a, b))
        if public()[a][0] is public()[b][0] or public()[a][1] != public()[b][1] or names in OTHER:
            continue
        close = all(np.allclose(x, y, rtol=1e-7, atol=1e-9, equal_nan=True) for x, y in zip(left, right, strict=True))
        if close or len(names) == 1:
            outputs.append((a, b))
    return outputs


def derived(path: str) -> list[bytes]:
    """The bits of values and of derivatives of first and second order."""
    function, arity = public()[path]
    outputs = []
    for dtype in (np.float32, np.float64):
        points = POINTS.astype(dtype)
        first = jg.grad(lambda x: jg.sum(called(function, arity, x)))
        second = jg.grad(lambda x, first=first: jg.sum(first(x)))  # type: ignore[misc]
        outputs.append(called(function, arity, points).numpy().tobytes())
        outputs += [each(jg.asarray(points)).numpy().tobytes() for each in (first, second)]
    return outputs


def test_functions_that_are_one_by_their_values_are_one_to_the_bit() -> None:
    seen = pairs()
    assert {("special.softplus", "functional.softplus"), ("special.log_expit", "functional.logsigmoid")} <= set(seen)
    assert len(seen) >= 10, seen
    differ = [(a, b) for a, b in seen if derived(a) != derived(b)]
    assert not differ
