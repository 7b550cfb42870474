"""What a trace refuses stays refused where the user's code catches the error: eagerly there is none to catch."""

from __future__ import annotations

import contextlib
import copy
import math
import reprlib
import time
from collections.abc import Callable, Iterable, Sized
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

X = np.arange(1, 7, dtype=np.float32)
HELD = jg.asarray(X)


def caught(question: Callable[[Any], Any], x: Any) -> Any:
    """x + 1 where the question is answered, x where it raises."""
    try:
        question(x)
    except Exception:
        return x * 1
    return x + 1


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "bool": lambda x: bool(x.sum() > 0),
    "if": lambda x: 1 if x.sum() > 0 else 2,
    "index": lambda x: [1] * 50 and list(range(100))[x[0].astype(jg.int64)],
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "NumPy's function": lambda x: np.array_equal(x, x),
    "math": lambda x: math.floor(x[0]),
    "round to text": lambda x: f"{x[0]:.2f}",
    "in a list": lambda x: x[0] in [x[1], 2.0],
    "sorted": lambda x: sorted([x[1], x[0]]),
    "mask": lambda x: x[x > 2].shape,
    "captured": lambda x: float(HELD.sum()),
    "random": lambda x: np.random.random(),
    "clock": lambda x: time.time(),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_refusal_that_is_caught_fails_the_trace(name: str) -> None:
    question = QUESTIONS[name]
    np.testing.assert_array_equal(caught(question, jg.asarray(X)).numpy(), X + 1)
    traced = jg.trace(lambda x: caught(question, x))
    for _ in range(2):
        with pytest.raises(jg.JitgraphError) as refused:
            traced(X)
        with pytest.raises(jg.JitgraphError) as plain:
            jg.trace(lambda x: (question(x), x)[1])(X)
        assert type(refused.value) is type(plain.value)
        assert str(refused.value).split("\n  at ")[0] == str(plain.value).split("\n  at ")[0]
        assert "test_refusals.py" in str(refused.value)


def _nested(x: Any) -> Any:
    return jg.trace(lambda y: caught(QUESTIONS["float"], y))(x)


def _suppressed(x: Any) -> Any:
    with contextlib.suppress(Exception):
        return x + float(x.sum())
    return x


class _Shown:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __repr__(self) -> str:
        return f"total {float(self.x.sum())}"


def _lost_in_a_library(x: Any) -> Any:
    return x + (1 if reprlib.repr(_Shown(x)) else 2)


def _finally(x: Any) -> Any:
    for _ in range(1):
        try:
            x = x * float(x[0])
        finally:
            break  # noqa: B012 - the error is lost here, which is the point
    return x


def _in_another(x: Any) -> Any:
    try:
        try:
            float(x[0])
        except Exception as error:
            raise KeyError("x") from error
    except KeyError:
        return x
    return x + 1


def float_of(x: Any) -> Any:
    return caught(QUESTIONS["float"], x)


PLACES: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: jg.cond(x.sum() > 0, lambda y: float_of(y), lambda y: y * 1, x),
    "while": lambda x: jg.while_loop(lambda c: c.sum() < 100, float_of, x),
    "condition of a while": lambda x: jg.while_loop(lambda c: float_of(c).sum() < 100, lambda c: c * 2, x),
    "scan": lambda x: jg.scan(lambda c, r: (float_of(c), r), x, jg.ones((3,)))[0],
    "grad": lambda x: jg.grad(lambda y: float_of(y).sum())(x),
    "vjp": lambda x: jg.vjp(float_of, x)[0],
    "nested": _nested,
    "suppressed": _suppressed,
    "lost in a library": _lost_in_a_library,
    "finally": _finally,
    "another error": _in_another,
}


@pytest.mark.parametrize("name", PLACES)
def test_a_refusal_is_noted_wherever_it_happens(name: str) -> None:
    with pytest.raises(jg.TraceError, match="needs the value of a traced tensor"):
        jg.trace(PLACES[name])(X)


@jg.script
def _scripted(x: jg.Tensor) -> Any:
    try:
        scale = math.floor(x[0])
    except Exception:
        scale = 0
    return x * scale


@jg.script
def _scripted_loop(x: jg.Tensor) -> Any:
    for _ in range(20):
        x = float_of(x) * 0.5
    return x


@jg.script
def _scripted_branch(x: jg.Tensor) -> Any:
    if x.sum() > 0:
        x = caught(QUESTIONS["numpy"], x)
    return x


@pytest.mark.parametrize("function", [_scripted, _scripted_branch])
def test_a_script_refuses_as_a_trace_does(function: Any) -> None:
    with pytest.raises((jg.TraceError, jg.ScriptError), match="needs the value of a traced tensor"):
        function(X)


def test_a_script_tries_another_way_without_a_refusal() -> None:
    @jg.script
    def f(x: jg.Tensor) -> Any:
        total = x
        for i in range(20):
            total = total + ([0.5] * 20)[i]  # a list takes Python ints: the loop is unrolled
        return total

    np.testing.assert_allclose(f(X).numpy(), X + 10)
    assert _scripted_loop(jg.asarray(X)).shape == X.shape  # in a script float of a tensor stands for a number


SIZES: dict[str, Callable[[Any], Any]] = {
    "range": lambda x: range(x.shape[0])[0],
    "len": len,
    "int": lambda x: int(x.shape[0]),
    "float": lambda x: math.sqrt(x.shape[0]),
    "rows": lambda x: list(x),
    "shape of NumPy": lambda x: np.ones(x.shape[0]),
    "pieces": lambda x: x.split(2),
    "reversed with bounds": lambda x: x[4::-1],
}


@pytest.mark.parametrize("name", SIZES)
def test_a_declared_size_that_is_refused_and_caught_fails_the_trace(name: str) -> None:
    traced = jg.trace(dynamic_shapes={"x": {0: "n"}})(lambda x: caught(SIZES[name], x))
    with pytest.raises(jg.JitgraphError, match=r"\bn\b") as actual:
        traced(X)
    assert isinstance(actual.value, jg.TraceError | jg.ShapeError)


def test_a_size_that_varies_is_answered_where_it_would_be_refused() -> None:
    def shape_or_not(x: Any, y: Any) -> Any:
        try:
            return x + y
        except jg.ShapeError:
            return x

    for function, arguments in (
        (lambda x, y: caught(lambda z: z.reshape(4, -1), x), lambda n: (n, n)),
        (shape_or_not, lambda n: (n, n if n % 2 else 3)),
        (lambda x, y: caught(lambda z: z.split(2), x), lambda n: (n, n)),
    ):
        traced = jg.trace(function)
        for n in (8, 6, 4, 3, 5, 12, 7, 8):
            inputs = [np.ones(m, np.float32) for m in arguments(n)]
            np.testing.assert_array_equal(traced(*inputs).numpy(), function(*map(jg.asarray, inputs)).numpy())


def test_a_number_that_varies_and_does_not_fit_is_known_to_the_guards() -> None:
    def f(x: Any, n: int) -> Any:
        try:
            return x + n
        except jg.NumberError:
            return x

    traced, x = jg.trace(f), jg.asarray([1], dtype=jg.int8)
    for n in (1, 300, 2, 400, 3, 5, 300):
        assert traced(x, n).tolist() == f(x, n).tolist() == [1 if n > 127 else n + 1]


def test_questions_that_ask_for_no_value_are_harmless() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: Any) -> Any:
        assert isinstance(x, jg.Tensor) and isinstance(x, Iterable) and isinstance(x, Sized)
        for name in ("__array__", "__len__", "__float__", "__index__", "__dlpack__", "no_such_name", "shape", "T"):
            with contextlib.suppress(jg.ShapeError):
                hasattr(x, name)
        assert callable(getattr(x, "sum", None)) and getattr(x, "nothing", 3) == 3
        assert np.ndim(x) == 1 and len(np.shape(x)) == 1 and not np.isscalar(x)
        assert repr(x)
        y = copy.deepcopy(copy.copy(x))
        with contextlib.suppress(AttributeError, KeyError, TypeError):
            y.nothing  # noqa: B018
        with contextlib.suppress(jg.DTypeError):
            x & x
        return y + 1

    assert f(X).tolist() == (X + 1).tolist()


def test_an_error_that_eager_code_catches_too_is_no_refusal() -> None:
    def f(x: Any) -> Any:
        try:
            return x + jg.ones((5,))
        except jg.ShapeError:
            return x + 1

    assert jg.trace(f)(X).tolist() == f(jg.asarray(X)).tolist() == (X + 1).tolist()
