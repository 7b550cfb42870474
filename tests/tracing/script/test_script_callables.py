"""jg.script takes whatever jg.trace takes, with the same options, and stages the user's code wherever it is called."""

from __future__ import annotations

import contextlib
import functools
import linecache
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.tracing.script import scripts

POSITIVE = np.array([1.0, 2.0], np.float32)
INPUTS = (POSITIVE, -POSITIVE, np.array([0.5, -0.25], np.float32))


def agree(function: Any, scripted: Any = None) -> Any:
    """The script gives what the callable gives eagerly, on inputs that take both sides; returns the script."""
    made = jg.script(function) if scripted is None else scripted
    for x in INPUTS:
        mine, due = made(jg.asarray(x)), function(jg.asarray(x))
        np.testing.assert_allclose(mine.detach().numpy(), due.detach().numpy(), rtol=1e-6)
        assert mine.dtype == due.dtype
    return made


def scaled(x: Any, factor: Any = 2.0, *, sign: int = 1) -> Any:
    if x.sum() > 0:
        return x * factor * sign
    return -x * factor


class Scale:
    """A callable object with methods of each kind."""

    factor = 3.0

    def __call__(self, x: Any) -> Any:
        if x.sum() > 0:
            return x * self.factor
        return x - 1

    def method(self, x: Any) -> Any:
        return x * self.factor if x.sum() > 0 else -x

    @staticmethod
    def static(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor if x.sum() > 0 else x

    @jg.script
    def scripted(self, x: Any) -> Any:
        return self.method(x)

    @jg.script
    @staticmethod
    def scripted_static(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    @staticmethod
    @jg.script
    def static_scripted(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    @jg.script
    @classmethod
    def scripted_of_class(cls, x: Any) -> Any:
        return x * cls.factor if x.sum() > 0 else x


class Louder(Scale):
    def __call__(self, x: Any) -> Any:
        y = super().__call__(x)
        if y.sum() > 3:
            y = y - 1
        return y


class Gate(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = jg.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            return self.inner(x)
        return x - 1

    def shrink(self, x: Any) -> Any:
        while jg.abs(x).sum() > 1:
            x = x / 2
        return x


def test_partials() -> None:
    agree(functools.partial(scaled, factor=3.0))
    agree(functools.partial(functools.partial(scaled, factor=3.0), sign=-1))
    agree(functools.partial(Scale().method))
    assert jg.script(functools.partial(scaled, jg.ones(2)))(4.0).tolist() == [4.0, 4.0]


def test_modules_and_their_methods() -> None:
    gate = Gate()
    for callable_ in (gate, gate.forward, gate.shrink, jg.nn.Sequential(Gate(), jg.nn.ReLU(), gate)):
        agree(callable_)
    scripted = agree(gate)
    gate.inner.weight = jg.nn.Parameter(jg.ones((2, 2)))  # later updates of the module are seen
    agree(gate, scripted)


def test_callable_objects_and_methods() -> None:
    scale = Scale()
    for callable_ in (scale, Louder(), scale.method, scale.static, Scale.static, Scale.of_class, scale.of_class):
        agree(callable_)
    scripted = jg.script(scale)
    agree(scale, scripted)
    scale.factor = 7.0
    agree(scale, scripted)


def test_decorated_methods() -> None:
    scale = Scale()
    agree(scale.method, scale.scripted)
    for actual in (scale.scripted_static, Scale.scripted_static, scale.static_scripted):
        agree(Scale.static, actual)
    for actual in (scale.scripted_of_class, Louder.scripted_of_class):
        agree(Scale.of_class, actual)


def test_lambdas_on_one_line_and_in_calls() -> None:
    pair = (lambda x: x * 2 if x.sum() > 0 else x, lambda x: x * 3 if x.sum() > 0 else -x)
    for function in pair:
        agree(function)

    def second(_: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    agree(second(lambda x: x, lambda x: -x if x.sum() > 0 else x))
    agree((lambda factor: lambda x: x * factor if x.sum() > 0 else -x)(3))


def louder(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        y = function(*args, **kwargs)
        if y.sum() > 2:
            y = y + 1
        return y

    return call


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


def test_decorated_functions() -> None:
    agree(louder(scaled))
    agree(louder(louder(Scale().method)))
    agree(jg.no_grad()(scaled))
    agree(nothing()(scaled))  # a decorator of the standard library, whose wrapper closes over the function
    agree(lambda x: nothing()(scaled)(x))
    agree(jg.grad(lambda x: (x * x if x.sum() > 0 else x).sum()))
    agree(lambda x: jg.grad(lambda t: scaled(t).sum())(x))


def test_functions_that_are_scripts_or_traces_already() -> None:
    scale = Scale()
    agree(scaled, jg.script(jg.trace(scaled)))
    agree(scaled, jg.script(jg.script(jg.script(scaled))))
    agree(scale.method, jg.script(scale.scripted))
    wrapper = functools.wraps(jg.script(scaled))(lambda x, *_, **__: x + 1 if x.sum() > 0 else x)
    agree(wrapper)  # it has a copy of the script's attributes


def decorated_inside(x: Any) -> Any:
    @jg.script
    def halved(v: Any) -> Any:
        while v.sum() > 1:
            v = v / 2
        return v

    return halved(x)


def wrapped_inside(x: Any) -> Any:
    def doubled(v: Any) -> Any:
        while (v * v).sum() < 10:
            v = v * 2
        return v

    return jg.script(doubled)(x)


def transformed_inside(x: Any) -> Any:
    def signed(v: Any) -> Any:
        return v * v if v > 0 else -v

    return jg.vmap(jg.script(signed))(x) + jg.jvp(jg.script(scaled), (x,), (x,))[1]


def lambda_inside(x: Any) -> Any:
    return jg.script(lambda v: v * 2 if v.sum() > 0 else v - 1)(x)


@pytest.mark.parametrize("function", [decorated_inside, wrapped_inside, transformed_inside, lambda_inside])
def test_scripts_made_inside_scripts(function: Callable[..., Any]) -> None:
    agree(function)


def test_a_function_of_the_user_is_a_script_within_a_script() -> None:
    """A transform gets the rewritten function, which jg.script must take as well."""
    made = jg.script(lambda x: jg.grad(lambda v: jg.script(scaled)(v).sum())(x))
    np.testing.assert_array_equal(made(jg.asarray(POSITIVE)).numpy(), [2.0, 2.0])


def test_functions_of_libraries() -> None:
    agree(jg.sum)
    agree(operator.neg)


def test_functions_made_by_exec() -> None:
    source = "def program(x):\n    if x.sum() > 0:\n        return x * 2\n    return x\n"
    agree(scripts.define(source))
    space: dict[str, Any] = {}
    exec(compile(source, "<input 1>", "exec"), space)
    with pytest.raises(jg.ScriptError, match="the source of program is not to be found"):
        jg.script(space["program"])
    linecache.cache["<input 2>"] = (len(source), None, source.splitlines(keepends=True), "<input 2>")  # as a REPL does
    exec(compile(source, "<input 2>", "exec"), space)
    agree(space["program"])


OPTIONS: tuple[dict[str, Any], ...] = (
    {"dynamic_shapes": {"x": {0: "n"}}},
    {"static_argnames": ("factor",)},
    {"static_argnums": (1,)},
    {"strict": True},
    {"verify": True},
    {"threads": 1},
    {"max_bytes": "1MB"},
    {"fastmath": True},
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_options(options: dict[str, Any]) -> None:
    agree(scaled, jg.script(scaled, **options))
    partial = functools.partial(scaled, sign=-1)
    agree(partial, jg.script(**options)(partial))


@pytest.mark.parametrize("name", ["strict", "verify", "fastmath"])
def test_options_for_objects(name: str) -> None:
    for callable_ in (Gate(), Scale(), Scale().method):
        agree(callable_, jg.script(callable_, **{name: True}))


def test_options_take_effect() -> None:
    dynamic = jg.script(functools.partial(scaled, sign=2), dynamic_shapes={"x": {0: "n"}})
    for n in (2, 3, 5):
        dynamic(jg.ones(n))
    assert dynamic.cache_info().misses == 1
    static = jg.script(lambda x, mode: scaled(x) if mode == "a" else x, static_argnames=("mode",))
    assert [static(jg.ones(1), mode).item() for mode in "aba"] == [2, 1, 2] and static.cache_info().misses == 2
    with pytest.raises(jg.TraceError, match="max_bytes=4"):
        jg.script(Gate(), max_bytes=4)(jg.ones(2))


class Halves:
    """Its own constructor steers by tensors."""

    def __init__(self, x: Any, factor: float = 0.5) -> None:
        self.factor = factor
        self.part = -x
        if x.sum() > 0:
            self.part = x * factor

    def get(self) -> Any:
        part = self.part
        while part.sum() > 1:
            part = part / 2
        return part


class Quarters(Halves):
    def __init__(self, x: Any) -> None:
        super().__init__(x, factor=0.25)
        self.parts = [self.part]


def test_constructors_are_rewritten() -> None:
    def f(x: Any) -> Any:
        result = Quarters(x)
        if x.sum() > -5:
            x = x + Halves(x).get()
        return result.get() + x + result.parts[0]

    agree(f)


def test_what_is_no_function_is_refused() -> None:
    for value in (3, "x", [scaled]):
        with pytest.raises(jg.ScriptError, match="takes a function"):
            jg.script(value)


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
def test_a_module_has_the_parameters_of_its_forward(compiled: Callable[..., Any]) -> None:
    class Scaled(jg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = jg.nn.Parameter(jg.ones(3))

        def forward(self, tokens: Any, scale: float = 2.0) -> Any:
            return tokens * self.weight * scale

    f = compiled(Scaled(), dynamic_shapes={"tokens": {0: "n"}})
    for count in (2, 3, 4):
        np.testing.assert_array_equal(f(tokens=np.ones((count, 3), np.float32)).detach().numpy(), 2)
    assert f.cache_info().misses == 1
    report = str(jg.explain(f, np.ones((2, 3), np.float32)))
    assert "tokens: f32[n, 3]" in report and "Scaled.weight: f32[3]" in report
    with pytest.raises(TypeError, match=r"Scaled.forward\(\) got an unexpected keyword argument 'token'"):
        f(token=np.ones((2, 3), np.float32))
    with pytest.raises(jg.TraceError, match=r"names 'x', which is no tensor argument[\s\S]*one of tokens"):
        compiled(Scaled(), dynamic_shapes={"x": {0: "n"}})(np.ones((2, 3), np.float32))


def _negated_below_one(z: Any) -> Any:
    if z > 1:
        return z
    return -z


def test_a_script_made_inside_a_script() -> None:
    def outer(x: Any) -> Any:
        def double(y: Any) -> Any:
            if y > 0:
                return y * 2
            return y

        @jg.script
        def halve(y: Any) -> Any:
            if y > 0:
                return y * 0.5
            return y

        return jg.script(double)(x) + halve(x) + jg.script(_negated_below_one)(x) + jg.script(lambda z: z * 3)(x)

    scripted = jg.script(outer)
    for value in (2.0, -1.0):
        assert float(scripted(jg.asarray(value))) == float(outer(jg.asarray(value)))
