"""What Python asks of a number that varies, or of a size that is a name, is answered as of the plain number."""

from __future__ import annotations

import copy
import decimal
import enum
import fractions
import functools
import itertools
import json
import math
import operator
import pickle
import struct
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgraph as jg

functional = jg.nn.functional


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


class Level(enum.IntEnum):
    LOW = 2


class Thing:
    """An object that a traced function makes."""


def made(n: Any) -> Any:
    thing = Thing()
    thing.n = n * 2  # type: ignore[attr-defined]
    return thing


def swallowed(function: Callable[..., Any], *args: Any) -> Any:
    """What ``function`` gives, or the kind of error it raises, of which the user takes no notice."""
    try:
        return function(*args)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError, AttributeError) as error:
        return type(error).__name__


def matched(n: Any) -> str:
    match n:
        case True:
            return "true"
        case 2:
            return "two"
        case int(k) if k > 4:
            return "large"
        case int():
            return "int"
        case float(value) if value < 0:
            return "negative"
        case _:
            return "other"


ANY = [operator.add, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.eq, operator.lt]
PLAIN = [operator.sub, divmod, operator.ne, operator.le, operator.gt, operator.ge]
INTEGERS = [operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor]
OTHERS = [
    3,
    2.5,
    Level.LOW,
    True,
    -0.0,
    fractions.Fraction(1, 3),
    decimal.Decimal(2),
    1j,
    np.float32(2.0),
    "a",
    [1, 2],
    None,
]
PAIRS = [
    *itertools.product(ANY, OTHERS),
    *itertools.product(PLAIN, OTHERS[:4]),
    *itertools.product(INTEGERS, [3, True]),
]
USES: dict[str, Callable[[Any], Any]] = {
    **{
        f"{f.__name__} {other!r}": functools.partial(lambda f, other, n: swallowed(f, n, other), f, other)
        for f, other in PAIRS
    },
    **{
        f"{other!r} {f.__name__}": functools.partial(lambda f, other, n: swallowed(f, other, n), f, other)
        for f, other in PAIRS
    },
    **{
        f"power of {other!r}": functools.partial(lambda o, n: (swallowed(pow, n, o), swallowed(pow, o, n)), other)
        for other in (2, -1, 0.5, True, 1j)
    },
    "power with a modulus": lambda n: (swallowed(pow, n, 2, 5), swallowed(pow, 2, n, 5)),
    "unary": lambda n: (-n, +n, abs(n), swallowed(operator.invert, n), not n),
    "rounding": lambda n: (round(n), round(n, 1), round(n / 3, 2), math.floor(n), math.ceil(n), math.trunc(n), n // 1),
    "rounding by it": lambda n: swallowed(round, 12.3456, n),
    "bool": lambda n: (bool(n), 1 if n else 2, n and 5, n or 6, any([n]), all([n])),
    "int": lambda n: (int(n), int(n / 2), swallowed(int, n, 10)),
    "float": lambda n: (float(n), float(n / 3), complex(n)),
    "index": lambda n: (swallowed(operator.index, n), swallowed(list, range(5))),
    "hash": lambda n: (hash(n), hash(n + 1), hash((n, 1))),
    "repr": lambda n: (repr(n), str(n), f"{n}", f"{n!r:>8}", f"{n / 2:.3f}", "%s %r" % (n, n), "%5.1f" % n),  # noqa: UP031
    "format": lambda n: (
        format(n),
        "{0!r} {0:08.2f}".format(*[n]),
        swallowed(format, n, "d"),
        swallowed(format, n, "x"),
    ),
    "text of a container": lambda n: (str([n, (n,)]), repr({"n": n}), f"{[n]}"),
    "type": lambda n: (type(n).__name__, type(n) is int, type(n) in (int, float), n.__class__.__name__, type(n)(3)),
    "isinstance": lambda n: (
        *(isinstance(n, kind) for kind in (int, float, bool, complex, str, jg.Tensor)),
        isinstance(n, int | float),
        issubclass(type(n), int),
    ),
    "is": lambda n: (n is None, n is n, n is True, n is not None),
    "get": lambda n: ({2: "a", 3: "b", 2.5: "c", True: "d"}.get(n), {n: 5}.get(3), {n + 1: 5}.get(3)),
    "key": lambda n: ({n: "a"}, {n + 1: "b"}, {(n, 1): 2}, list({n: 1, 2: 3})),
    "keys by assignment": lambda n: _filled(n),
    "set": lambda n: ({n, 2}, frozenset([n, 1]), len({n, n + 0, 2.0}), {n + 1}),
    "in": lambda n: (n in (1, 2), n in [2, 3.0], n in {2, 5}, 3 in {n: 1}, n in range(4), 2 in [n]),
    "list": lambda n: (swallowed(lambda: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9][n]), swallowed(lambda: (1, 2)[n])),
    "list methods": lambda n: (swallowed([1, 2, 3].index, n), [1, 2, 2].count(n), swallowed([1, 2, 3].pop, n)),
    "slice": lambda n: swallowed(lambda: ([1, 2, 3, 4][:n], "abcdef"[n:], (1, 2, 3)[n::-1])),
    "slice object": lambda n: (slice(n).stop, swallowed(slice(n).indices, 10)),
    "range": lambda n: swallowed(lambda: (list(range(n)), range(1, n), len(range(n)), list(range(0, 10, n)))),
    "repeated": lambda n: (swallowed(lambda: [1] * n), swallowed(lambda: n * "ab"), swallowed(lambda: (0,) * n)),
    "match": matched,
    "order": lambda n: (min(n, 3), max(2, n), sorted([n, 3, 1.5]), max([n, n + 1]), min(n, 2.0)),
    "sums": lambda n: (sum([n, n, 1]), sum([n / 2, 0.1, 0.2]), sum([0.1] * 10, n), math.prod([n, 2]), math.prod([])),
    "iteration": lambda n: (list(enumerate([5], n)) if isinstance(n, int) else 0, list(zip([n], [1], strict=True))),
    "itertools": lambda n: (list(itertools.accumulate([n, n])), list(itertools.chain([n], (n + 1,)))),
    "islice": lambda n: swallowed(lambda: list(itertools.islice(range(20), n))),
    "reduce": lambda n: functools.reduce(operator.mul, [n, n, 2]),
    "partial": lambda n: functools.partial(operator.add, n)(3),
    "operator": lambda n: (operator.add(n, 1), operator.neg(n), operator.truth(n), operator.eq(n, 2)),
    "map": lambda n: (list(map(abs, [n])), list(filter(None, [n, 0]))),
    **{
        f"math.{name}": functools.partial(lambda f, n: (swallowed(f, n), swallowed(f, n / 4)), getattr(math, name))
        for name in (
            *("sin", "sqrt", "exp", "log", "log2", "log10", "floor", "ceil", "trunc", "isnan", "isfinite", "fabs"),
            *("frexp", "modf", "factorial", "isqrt", "radians", "erf", "gamma", "expm1", "atan", "cbrt", "ulp"),
        )
        if hasattr(math, name)
    },
    **{
        f"math.{name} of two": functools.partial(
            lambda f, n: (swallowed(f, n, 2), swallowed(f, 3, n), swallowed(f, 1.5, n)), getattr(math, name)
        )
        for name in (
            *("atan2", "copysign", "fmod", "pow", "hypot", "gcd", "lcm", "comb", "perm", "ldexp", "remainder"),
            *("isclose", "log", "nextafter"),
        )
    },
    "math of many": lambda n: (math.fsum([n, 0.1]), math.dist([n, 1], [0, n]), math.hypot(n, n, 1)),
    "builtins of ints": lambda n: tuple(
        swallowed(f, n) for f in (bin, oct, hex, chr, bytes, ord, len, iter, bytearray)
    ),
    "attributes": lambda n: (n.real, n.imag, n.conjugate(), swallowed(lambda: n.numerator), n.as_integer_ratio()),
    "methods of ints": lambda n: (swallowed(lambda: n.bit_length()), swallowed(lambda: n.to_bytes(2, "big"))),
    "methods of floats": lambda n: ((n / 2).is_integer(), (n / 2).hex(), swallowed(lambda: n.is_integer())),
    "no such attribute": lambda n: (
        swallowed(lambda: n.shape),
        hasattr(n, "dtype"),
        hasattr(n, "__dict__"),
        getattr(n, "mro", 7),
    ),
    "dunders": lambda n: (n.__add__(1), n.__mul__(2), n.__eq__(2), hasattr(n, "__index__"), n.__float__()),
    "methods of a class": lambda n: (swallowed(lambda: int.__add__(1, n)), swallowed(lambda: float.__mul__(2.0, n))),
    "json": lambda n: (json.dumps(n), json.dumps({"n": n}), json.dumps(obj=n)),
    "json swallowed": lambda n: swallowed(lambda: json.dumps(n)),
    "struct": lambda n: (struct.pack("d", n), swallowed(struct.pack, "q", n)),
    "pickle": lambda n: (pickle.loads(pickle.dumps(n)), copy.copy(n), copy.deepcopy([n])),
    "fraction": lambda n: (fractions.Fraction(n), swallowed(fractions.Fraction, n, 3), fractions.Fraction(1, 2) + n),
    "decimal": lambda n: (decimal.Decimal(n), swallowed(lambda: decimal.Decimal(2) * n), decimal.Decimal(3) == n),
    "numpy": lambda n: (np.sin(n), np.add(n, 1), np.float32(2) * n, n * np.float32(3), np.multiply(2.5, n)),
    "numpy arrays": lambda n: (np.array([n, 1]), np.full(2, n), np.asarray(n), np.arange(3) * n, n - np.ones(2)),
    "numpy in place": lambda n: _in_place(n),
    "numpy dtypes": lambda n: (
        np.array(n).dtype.name,
        np.asarray([n, n]).dtype.name,
        np.result_type(n, np.float32).name,
        np.where([True], n, np.float32(1)).dtype.name,
        (np.ones(2, np.float32) * n).dtype.name,
        np.array([n], dtype=object)[0],
    ),
    "numpy sizes": lambda n: (swallowed(np.zeros, n), swallowed(np.arange, n), np.linspace(0, n, 3)),
    "numpy comparison": lambda n: (np.arange(4) == n, np.arange(4) < n, n >= np.arange(4), np.float64(2) == n),
    "numpy index": lambda n: swallowed(lambda: (np.arange(10)[n], np.arange(10)[:n], np.take([5, 6, 7, 8], n % 4))),
    "numpy predicates": lambda n: (np.isscalar(n), np.isfinite(n), np.maximum(n, 2), np.clip(n, 0, 3), np.sum([n, n])),
    "comparison with a complex": lambda n: (n == 2 + 0j, 2 + 0j == n, n != 2j),  # noqa: SIM300
    "containers compare": lambda n: ([n, 1] == [2, 1], (n,) < (3,), {"a": n} == {"a": 2}, [n] == [n]),
    "an object": made,
    "a closure": lambda n: lambda: n * 2,
    "a default": lambda n: (lambda k=n: k + 1)(),
    "a bound method": lambda n: (3).__add__,
    "a dict": lambda n: {"n": n, "list": [n / 2, (n,)]},
    "a static list": lambda n: [n, n + 1, n * 0.5],
    "sizes": lambda n: sys.getsizeof(n),
    "callable": lambda n: (callable(n), swallowed(lambda: n())),
    "tuple keys": lambda n: ({(2, 3): 1}.get((n, 3)), (n, 1) in {(2, 1)}, _of_pairs(n)),
}


def _filled(n: Any) -> Any:
    results: dict[Any, Any] = {}
    results[n] = 1
    results[n + 1] = results.get(n)
    results.setdefault(n * 2, 5)
    return results


def _in_place(n: Any) -> Any:
    array = np.arange(4.0)
    array *= n
    array[1] = n
    return array


def _of_pairs(n: Any) -> Any:
    results: dict[Any, Any] = {(2, 3): 4}
    results[n, 1] = 2
    return results, results[n, 1]


def shown(value: Any) -> Any:
    """A value with the types of all that is in it, such that only what is the same is equal."""
    if isinstance(value, jg.Tensor | np.ndarray | np.generic):
        return type(value).__name__, str(value.dtype), repr(value.tolist())
    if isinstance(value, Thing):
        return "thing", {name: shown(x) for name, x in vars(value).items()}
    if isinstance(value, types.FunctionType):
        return "function", shown(value())
    if isinstance(value, dict):
        return "dict", [(shown(key), shown(x)) for key, x in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        results = [shown(x) for x in value]
        return type(value).__name__, sorted(results, key=repr) if isinstance(value, set | frozenset) else results
    assert type(value).__name__ != "SymbolicNumber"
    return type(value), repr(value)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return shown(function(*args))
    except Exception as error:
        return type(error).__name__ if not isinstance(error, jg.JitgraphError) else "refused"


X = jg.asarray([1.0, 2.0])
INTS: Sequence[int] = (2, 3, 0, 7)
FLOATS: Sequence[float] = (2.0, -1.5, -0.0, 0.0, 3.0)


def check(use: Callable[[Any], Any], way: str) -> None:
    """``use`` of a number that varies gives at each call what it gives for the plain number."""
    box = types.SimpleNamespace(n=0)
    if way == "size":
        traced: Any = jg.trace(lambda x: (use(x.shape[0]), x * 2))
        calls = [(jg.ones((n,)), n) for n in INTS]
    elif way.startswith("argument"):
        traced = jg.trace(lambda n, x: (use(n), x * 2))
        calls = [(n, n) for n in (INTS if way == "argument int" else FLOATS)]
    else:
        traced = jg.trace(lambda x: (use(box.n), x * 2))
        calls = [(X, n) for n in (INTS if way == "captured int" else FLOATS)]
    for argument, n in calls:
        box.n = n
        due = outcome(use, n)
        result = outcome(lambda: traced(*((argument, X) if way.startswith("argument") else (argument,)))[0])  # noqa: B023
        assert result == due, n
        assert type(box.n) is type(n)


WAYS = ["captured int", "captured float", "argument int", "argument float", "size"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", USES)
def test_each_use_gives_what_it_gives_for_the_plain_number(name: str, way: str) -> None:
    check(USES[name], way)


def test_a_cache_that_outlives_the_recording_keeps_plain_numbers() -> None:
    @functools.lru_cache(maxsize=32)
    def doubled(n: Any) -> Any:
        return n * 2

    seen: list[Any] = []
    box = types.SimpleNamespace(n=0, failures=0)

    def f(x: Any) -> Any:
        try:
            y = x * doubled(box.n) + doubled(box.n + 1)
        except BaseException:
            box.failures += 1
            raise
        return y

    traced = jg.trace(f)
    for box.n in (3, 4, 5, 3):
        assert traced(X).tolist() == [box.n * 2 + box.n * 2 + 2, box.n * 4 + box.n * 2 + 2]
        seen += [doubled(box.n), doubled(box.n + 1)]
    assert all(type(n) is int for n in seen) and box.failures == 0


# --- random programs ------------------------------------------------------------------------------------------------

STEPS = [
    *(f"{{0}} {symbol} {{1}}" for symbol in ("+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", "and", "or", "&")),
    *("-{0}", "not {0}", "~{0}", "abs({0})", "bool({0})", "int({0})", "float({0})", "round({0})", "round({0}, {1})"),
    *("str({0})", "repr({0})", "format({0})", "f'{{{0}}}'", "'%s' % ({0},)", "hash({0})", "{0}.__class__.__name__"),
    *("math.floor({0})", "math.trunc({0})", "math.sqrt({0})", "math.cos({0})", "math.copysign({0}, {1})"),
    *("math.atan2({0}, {1})", "math.ldexp(1.5, {0})", "math.fsum([{0}, {1}])", "math.prod([{0}, {1}, 2])"),
    *("max({0}, {1})", "min({0}, {1}, {2})", "sorted([{0}, {1}, 2])", "sum([{0}, {1}, 1])", "divmod({0}, {1})"),
    *("{0} if {1} else {2}", "{0} if {1} < {2} else {1}", "{0} ** {1} if abs({1}) < 4 else 1"),
    *("{{1: 5, 2.0: {0}, 'x': 1}}.get({1}, 7)", "{{{0}: 1, {1}: 2}}", "{{{0}, {1}, 1}}", "len({{{0}, {1}}})"),
    *("[{0}, 4, 5][{1}]", "'abcdef'[{0}:]", "[1, 2][:{0}]", "{0} in (1, {1}, 3)", "[{0}].count({1})", "({0}, {1})"),
    *("{0} is {1}", "{0} is not {1}", "{0} is None", "isinstance({0}, int)", "isinstance({0}, float)"),
    *("type({0}).__name__", "type({0}) is type({1})", "len(range({0} % 5))", "list(range({0}))[-3:]"),
    *("json.dumps({0})", "struct.pack('d', {0})", "np.add({0}, {1})", "np.float32({0}) * {1}", "np.full(2, {0})"),
]
STATEMENTS = st.lists(st.tuples(st.sampled_from(STEPS), *[st.integers(0, 9)] * 3), min_size=1, max_size=6)
STATES = st.lists(
    st.tuples(st.integers(-2, 6), st.integers(1, 5), st.sampled_from([0.0, -0.0, -0.5, 2.5, 3.0])),
    min_size=2,
    max_size=5,
)


def written(statements: list[tuple[str, int, int, int]], caught: bool) -> str:
    """The lines of a function of ``a``, ``b`` and ``f``, each of which names what it makes."""
    names = ["a", "b", "f", "zero"]
    lines = ["zero = -0.0"]
    for step, *chosen in statements:
        name = f"v{len(names)}"
        line = f"{name} = {step.format(*[names[i % len(names)] for i in chosen])}"
        errors = "(ArithmeticError, TypeError, ValueError, LookupError)"
        lines += (
            ["try:", f"    {line}", f"except {errors} as e:", f"    {name} = type(e).__name__"] if caught else [line]
        )
        names.append(name)
    return "\n    ".join([*lines, f"found = ({', '.join(names)},)"])


@settings(max_examples=150, deadline=None)
@given(STATEMENTS, STATES, st.booleans())
def test_random_programs_mean_what_they_mean_in_python(
    statements: list[tuple[str, int, int, int]], states: list[tuple[int, int, float]], caught: bool
) -> None:
    """``a`` is captured or an argument, ``b`` is a size, ``f`` is a float among the arguments."""
    box = types.SimpleNamespace(a=0)
    names: dict[str, Any] = {"box": box, "math": math, "json": json, "struct": struct, "np": np}
    body = written(statements, caught)
    exec(f"def plain(a, b, f):\n    {body}\n    return found\n", names)
    exec(f"def captured(x, f):\n    a, b = box.a, x.shape[0]\n    {body}\n    return found, x * 2\n", names)
    exec(f"def given(a, x, f):\n    b = x.shape[0]\n    {body}\n    return found, x * 2\n", names)
    captured, arguments = jg.trace(names["captured"]), jg.trace(names["given"])
    for a, b, f in states:
        box.a, x = a, jg.ones((b,))
        due = outcome(names["plain"], a, b, f)
        assert outcome(lambda: captured(x, f)[0]) in (due, "refused"), body  # noqa: B023
        assert outcome(lambda: arguments(a, x, f)[0]) in (due, "refused"), body  # noqa: B023
        assert type(box.a) is int


# --- sizes that are declared ----------------------------------------------------------------------------------------

NEEDED: dict[str, Callable[[Any], Any]] = {
    "key": lambda n: {n: 1},
    "look-up": lambda n: {3: 1}.get(n),
    "text": lambda n: f"{n}",
    "type": lambda n: type(n) is int,
    "range": lambda n: list(range(n)),
    "math": lambda n: math.sqrt(n),
    "numpy": lambda n: np.ones(n),
    "json": lambda n: json.dumps(n),
    "expression": lambda n: int(n / 2),
    "bits": lambda n: hex(n << 1),
}


@pytest.mark.parametrize("name", NEEDED)
def test_a_declared_size_that_python_needs_raises_with_the_line(name: str) -> None:
    use = NEEDED[name]

    def f(x: Any) -> Any:
        return use(x.shape[0]), x

    def caught(x: Any) -> Any:
        try:
            use(x.shape[0])
        except Exception:
            return x
        return x + 1

    for function in (f, caught):
        with pytest.raises(jg.TraceError, match=r"declared dynamic[\s\S]*test_symbolic_numbers\.py:\d+"):
            jg.trace(function, dynamic_shapes={"x": {0: "n"}})(jg.ones(3))


@pytest.mark.parametrize("name", NEEDED)
def test_a_size_seen_to_vary_that_python_needs_is_held_and_named(name: str) -> None:
    use = NEEDED[name]
    traced = jg.trace(lambda x: (use(x.shape[0]), x))
    for size in (3, 4, 5, 6):
        assert shown(traced(jg.ones(size))[0]) == shown(use(size))
    if name != "expression":
        assert "x.shape[0]" in str(jg.explain(traced, jg.ones(3))) or name == "bits"
        assert "x.shape[0]" in str(traced.ledger[-1]), traced.ledger[-1]


def test_arithmetic_with_declared_sizes_stays_open() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        scale = (n + 1) ** -0.5 * 2 if isinstance(n, int) and n * 0.5 > 1 else n / 2
        return x * scale + round(n) - math.floor(n), n // 2, n * 0.5

    traced = jg.trace(f, dynamic_shapes={"x": {0: "n"}})
    for size in (4, 5, 9, 1):
        x = jg.random.normal((size,))
        (actual, *numbers), (due, *expected) = traced(x), f(x)
        np.testing.assert_array_equal(actual.numpy(), due.numpy())
        assert shown(numbers) == shown(expected)
    assert traced.cache_info().misses == 2


# --- floats among the arguments -------------------------------------------------------------------------------------


def test_defaults_that_the_caller_does_not_pass() -> None:
    x, y = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32), np.array([0, 2, 1, 1])
    traced = jg.trace(functional.cross_entropy)
    for options in ({}, {"label_smoothing": 0.1}, {"label_smoothing": 0.2}, {}):
        np.testing.assert_allclose(
            traced(x, y, **options).numpy(), functional.cross_entropy(x, y, **options).numpy(), rtol=1e-6
        )
    assert traced.cache_info().misses <= 3

    def f(x: Any, p: float = 0.3, q: float = 0.5) -> Any:
        return x * q if p > 0.2 else -x

    traced = jg.trace(f)
    for arguments in ((), (0.1,), (0.25, 2.0), (0.3, 3.0), (0.1, 1.0)):
        assert traced(X, *arguments).tolist() == f(X, *arguments).tolist()
    assert traced.cache_info().misses == 2


def test_a_float_that_meets_tensors_alone_stays_an_input() -> None:
    traced = jg.trace(lambda x, p: x * p + p**2 / 3)
    for p in (0.1, 0.7, -1.5, float("inf")):
        np.testing.assert_array_equal(traced(X, p).numpy(), (X * p + p**2 / 3).numpy())
    assert traced.cache_info().misses == 1


TAKES_A_NUMBER: dict[str, Callable[[Any, float], Any]] = {
    "pad": lambda x, p: functional.pad(x, (1, 2), value=p),
    "linspace": lambda x, p: jg.linspace(0, p, 4),
    "arange": lambda x, p: jg.arange(0, p, p / 4),
    "arange to it": lambda x, p: jg.arange(p),
    "full": lambda x, p: jg.full((2,), p),
    "clip": lambda x, p: jg.clip(x, -p, p),
    "leaky_relu": lambda x, p: functional.leaky_relu(-x, p),
    "dropout": lambda x, p: functional.dropout(x, min(p, 0.5), training=False),
    "asarray of a list": lambda x, p: jg.asarray([p, 1.0]),
    "layer_norm": lambda x, p: functional.layer_norm(x, (2,), eps=p),
    "float": lambda x, p: x * float(p),
}


@pytest.mark.parametrize("name", TAKES_A_NUMBER)
def test_functions_take_a_traced_float(name: str) -> None:
    use = TAKES_A_NUMBER[name]
    traced = jg.trace(use)
    for p in (0.5, 2.0, 3.25, 0.5):
        due, actual = use(X, p), traced(X, p)
        assert actual.dtype == due.dtype
        np.testing.assert_allclose(actual.numpy(), due.numpy(), rtol=1e-6)


def test_a_float_that_python_needs_is_part_of_what_is_lowered(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("JITGRAPH_INTERPRET")

    def f(x: Any, p: float, q: float) -> Any:
        return x * (q / 2 + 1) if p > 1 else -x

    x = np.asarray([1.0, 2.0], np.float32)
    lowered = jg.trace(f).lower(x, 2.0, 3.0)
    assert [value.hint for value in lowered.graph.inputs if value.dtype == jg.float64] == ["q"]
    compiled = lowered.compile()
    assert compiled(x, 2.0, 5.0).tolist() == f(x, 2.0, 5.0).tolist()
    with pytest.raises(jg.JitgraphError, match=r"p is 0\.5, not 2\.0"):
        compiled(x, 0.5, 5.0)
    jg.save(jg.trace(f), tmp_path / "f.jg", example_inputs=(x, 2.0, 3.0))
    loaded = jg.load(tmp_path / "f.jg")
    for result in (loaded(x, 2.0, 5.0), loaded(x, q=5.0, p=2.0)):
        np.testing.assert_array_equal(np.asarray(result), f(x, 2.0, 5.0))
    with pytest.raises(jg.ArgumentError, match=r"p is 2\.0 in the file, got 0\.5"):
        loaded(x, 0.5, 5.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):  # q is behind p and has no default
        loaded(x, 5.0)


# --- names of parameters --------------------------------------------------------------------------------------------


class Net(jg.nn.Module):
    def forward(self, x: Any, scale: float = 0.5) -> Any:
        return x * scale if scale > 0.2 else -x


class Caller:
    def __call__(self, x: Any, y: Any = 2.0) -> Any:
        return x * y

    def method(self, x: Any, y: Any) -> Any:
        return x * y


def plain(a: Any, b: Any, /, c: Any = 1, *, d: Any) -> Any:
    return a


@pytest.mark.parametrize(
    "function",
    [Net(), Net().forward, Caller(), functools.partial(Caller().method, y=2.0)],
    ids=lambda f: type(f).__name__,
)
def test_names_of_parameters_are_known(function: Any) -> None:
    traced = jg.trace(function, dynamic_shapes={"x": {0: "n"}})
    for size in (2, 3, 5):
        x = np.arange(size, dtype=np.float32)
        assert traced(x).tolist() == function(x).tolist()
    assert traced.cache_info().misses == 1


@pytest.mark.parametrize(
    "function",
    [Net(), Net().forward, Caller(), Caller().method, functools.partial(Caller().method, y=2.0), plain, lambda x: x],
    ids=lambda f: getattr(f, "__name__", type(f).__name__),
)
@pytest.mark.parametrize(
    "args, kwargs", [((), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"z": 3}), ((1, 2), {"x": 1, "a": 1})]
)
def test_arguments_that_do_not_fit_raise_what_python_raises(function: Any, args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError) as due:
        function(*args, **kwargs)
    with pytest.raises(TypeError) as actual:
        jg.trace(function)(*args, **kwargs)
    assert str(actual.value) == str(due.value)


# --- what only compares equal ---------------------------------------------------------------------------------------

ALIKE = [
    *(1, True, 1.0, 0, False, 0.0, -0.0),
    *((1, 2), (True, 2), (1.0, 2), ((0.0,),), ((-0.0,),)),
    *(frozenset({1}), frozenset({True}), frozenset({1.0})),
    *(0j, complex(0.0, -0.0), complex(-0.0, 0.0), range(0, 3, 2), range(0, 4, 2)),
]
CAPTURED = [slice(1), slice(True), slice(1.0), {1: 2}, {True: 2}, {1.0: 2}, {1}, {True}, [1], [True], [1.0]]


@pytest.mark.parametrize("way", ["argument", "static", "captured", "key"])
def test_values_that_compare_equal_are_told_apart(way: str) -> None:
    box = types.SimpleNamespace(v=0)
    if way == "key":
        traced: Any = jg.trace(lambda d, x: (list(d), x * 2))
    elif way == "captured":
        traced = jg.trace(lambda v, x: (box.v, repr(box.v), x * 2))
    else:
        traced = jg.trace(lambda v, x: (v, repr(v), x * 2), static_argnames=["v"] if way == "static" else ())
    values = {"argument": ALIKE[:7], "static": ALIKE, "captured": [*ALIKE, *CAPTURED], "key": ALIKE}[way]
    for value in [*values, *reversed(values)]:
        box.v = value
        inputs = {value: 1} if way == "key" else 0 if way == "captured" else value
        actual = traced(inputs, X)[0]
        assert shown(actual) == shown([value] if way == "key" else value)


# --- what capture tells ---------------------------------------------------------------------------------------------


def test_calls_that_look_behind_a_number_hold_it() -> None:
    from jitgraph.tracing.record.trace import Trace

    trace = Trace("f")
    with jg.ir.context.using(emitter=trace, trace=trace, constraints=trace.constraints):
        for function in (np.sin, json.dumps, int.__add__, (5).__add__, decimal.Decimal, math.ldexp, sys.getsizeof, id):
            for argument in (lambda n: n, lambda n: [n], lambda n: {"a": (n,)}):
                number = trace.numbers.at_leaf(0, "n", 3)
                trace.numbers.passed_to(function, [argument(number)])
                assert trace.numbers.held, function
                trace.numbers.held.clear()
        for function in (len, [].append, {}.get, isinstance, max, functools.reduce, check, X.reshape, Thing, map):
            trace.numbers.passed_to(function, [trace.numbers.at_leaf(0, "n", 3)])
            assert not trace.numbers.held, function
        number = trace.numbers.at_leaf(0, "n", 3)
        for other in (None, True, "a", number, jg.Tensor):
            trace.numbers.compared(number, other)
        assert not trace.numbers.held
        trace.numbers.compared(3, number)
        assert trace.numbers.held


def test_what_python_itself_asks_for_is_a_plain_number_also_where_errors_are_caught() -> None:
    state = types.SimpleNamespace(n=1)

    class Place:
        def __index__(self) -> int:
            return state.n

    def f(x: Any) -> Any:
        try:
            return x * (7, 8, 9, 10)[Place()]
        except TypeError:
            return x * 0

    traced = jg.trace(f)
    for n in (1, -1, 2):
        state.n = n
        assert traced(jg.asarray([1.0])).tolist() == f(jg.asarray([1.0])).tolist()
