"""Functions, attributes and enum members are to a script the objects that they are to Python, call after call."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import os
import pickle
import random
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

import jitgraph as jg


def helper(x: Any, scale: float = 2.0, *, shift: float = 0.0) -> Any:
    """Doubles."""
    return x * scale + shift


def other(x: Any) -> Any:
    return x + 1


class Holder:
    def __init__(self, function: Any) -> None:
        self.function = function


@dataclasses.dataclass(frozen=True)
class Frozen:
    function: Any


@dataclasses.dataclass
class Counted:
    function: Any
    calls: int = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return self.function(x)


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(x: Any) -> Any:
        return function(x) + wrapper.bonus  # type: ignore[attr-defined]

    wrapper.bonus = 3  # type: ignore[attr-defined]
    return wrapper


wrapped = decorated(other)
TABLE: dict[Any, int] = {helper: 3, other: 5}
LIST = [other, helper, helper]
WEAK = weakref.ref(helper)

Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {
    "getattr": lambda x: x * getattr(helper, "k", 2),
    "getattr without a default": lambda x: x * helper.k if hasattr(helper, "k") else x,  # type: ignore[attr-defined]
    "setattr": lambda x: (setattr(helper, "n", getattr(helper, "n", 0) + 1), x * helper.n)[1],  # type: ignore[attr-defined]
    "delattr": lambda x: (setattr(other, "t", 4), x * other.t, delattr(other, "t"), x + hasattr(other, "t"))[3],  # type: ignore[attr-defined]
    "vars": lambda x: x + len(vars(helper)) + vars(helper).get("k", 7),
    "a key": lambda x: x * TABLE[helper] + TABLE.get(other, 100) + (helper in TABLE) + TABLE.get(len, 9),  # type: ignore[call-overload]
    "a set": lambda x: x + ({helper, other} == set(LIST)) + len({helper, helper}),
    "a list": lambda x: x + LIST.index(helper) * 10 + LIST.count(helper) * 100 + (other in LIST),
    "identity": lambda x: x + (LIST[1] is helper) + (helper == LIST[1]) + (id(helper) == id(LIST[2])),
    "hash": lambda x: x + (hash(helper) == hash(LIST[1])),
    "kind": lambda x: x + isinstance(helper, FunctionType) + callable(helper) + (type(helper) is FunctionType),
    "signature": lambda x: x * len(inspect.signature(helper).parameters) + len(inspect.signature(wrapped).parameters),
    "names": lambda x: x + len(helper.__name__) + len(helper.__qualname__) + (helper.__module__ == __name__),
    "documentation": lambda x: x + len(inspect.getdoc(helper) or ""),
    "defaults": lambda x: x * (helper.__defaults__ or (0,))[0] + len(helper.__kwdefaults__ or {}),
    "unwrapped": lambda x: x + (wrapped.__wrapped__ is other) + wrapped(x) + (inspect.unwrap(wrapped) is other),
    "pickled": lambda x: x + (pickle.loads(pickle.dumps(helper)) is helper),
    "copied": lambda x: x + (copy.copy(helper) is helper) + (copy.deepcopy([helper])[0] is helper),
    "weak": lambda x: x + (WEAK() is helper) + (weakref.ref(helper) == WEAK),
    "partial": lambda x: functools.partial(helper, scale=3.0)(x) + (functools.partial(helper).func is helper),
    "held": lambda x: Holder(helper).function(x) + (Holder(helper).function is helper),
    "frozen": lambda x: Frozen(helper).function(x) + (Frozen(helper).function is helper),
    "equal": lambda x: x + (Frozen(helper) == Frozen(LIST[1])) + (Frozen(helper) == Frozen(other)),
    "replaced": lambda x: dataclasses.replace(Frozen(helper), function=other).function(x),
    "containers": lambda x: x + (tuple(LIST)[1] is helper) + (list(filter(callable, LIST))[1] is helper),
    "a mapping": lambda x: x + (dict(zip("ab", LIST, strict=False))["b"] is helper),
    "chosen": lambda x: max(LIST, key=lambda f: f.__name__)(x) + sorted(LIST, key=lambda f: f.__name__)[0](x),
    "called by C": lambda x: sum(map(helper, [x, x])) + functools.reduce(lambda a, b: a + helper(b), [x, x]),
    "chained": lambda x: sum(itertools.starmap(helper, [(x, 2.0), (x, 3.0)])),
    "conditional": lambda x: x + (helper if x.sum() > 0 else other)(x) if isinstance(x, float) else helper(x),
}  # fmt: skip


def changes(call: int) -> None:
    """What stands in the functions before the call of that number."""
    helper.k = (5, 5, 8, -1)[call]  # type: ignore[attr-defined]
    helper.__defaults__ = ((2.0,), (2.0,), (4.0,), (2.0,))[call]
    TABLE[helper] = (3, 3, 4, 4)[call]
    if call == 3:
        del helper.k  # type: ignore[attr-defined]


def clean() -> None:
    for function in (helper, other):
        vars(function).clear()
    helper.__defaults__ = (2.0,)


def results_of(call: Callable[..., Any]) -> list[Any]:
    clean()
    outputs = []
    for number in range(4):
        changes(number)
        result = call(jg.asarray([1.0, 2.0]))
        outputs.append((result.tolist(), dict(vars(helper)), dict(vars(other))))
    clean()
    return outputs


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*recorded anew")
def test_a_function_is_the_same_object(name: str) -> None:
    program = PROGRAMS[name]
    expected = results_of(program)
    assert results_of(jg.script(program)) == expected
    assert results_of(jg.trace(program)) == expected


def test_what_a_script_stores_is_the_users_function() -> None:
    stored: list[Any] = []
    table: dict[Any, Any] = {}

    @jg.script
    def f(x: Any) -> Any:
        if x.sum() > 0:
            y = helper(x)
        else:
            y = other(x)
        stored.append(helper)
        stored.extend([other, Frozen(helper)])
        table.setdefault("first", helper)
        table["last"] = functools.partial(helper, scale=1.0)
        return y

    for _ in range(3):
        stored.clear()
        assert f(jg.asarray([1.0])).tolist() == [2.0]
        assert stored[0] is helper and stored[1] is other and stored[2].function is helper
        assert table["first"] is helper and table["last"].func is helper


def test_a_script_knows_itself_by_its_name() -> None:
    for call in range(3):
        assert counting(jg.asarray([1.0])).tolist() == [call + 1.0]
    assert counting.calls == 3  # type: ignore[attr-defined]


@jg.script
def counting(x: Any) -> Any:
    counting.calls = getattr(counting, "calls", 0) + 1  # type: ignore[attr-defined]
    return x * counting.calls  # type: ignore[attr-defined]


# --- members of enums -----------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1
    LISTED = [2.0]  # noqa: RUF012
    NAMED = "scale"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


ENUMS: dict[str, Program] = {
    "value": lambda x: x * Colour.RED.value,
    "stored value": lambda x: x * Colour.RED._value_,
    "branch": lambda x: x * 2 if Colour.RED.value > 10 else x * 3,
    "contents": lambda x: x * Colour.LISTED.value[0],
    "name": lambda x: x + len(Colour.NAMED.value) + len(Colour.NAMED.name),
    "members": lambda x: x + sum(len(str(member.value)) for member in Colour),
    "an int": lambda x: x * Level.HIGH + Level.LOW.value,
}


@pytest.mark.parametrize("name", ENUMS)
def test_what_a_member_of_an_enum_holds_is_read_at_each_call(name: str) -> None:
    def results(call: Callable[..., Any]) -> list[Any]:
        outputs = []
        for red, listed, named in (
            (1, 2.0, "scale"),
            (1, 2.0, "scale"),
            (12, 3.0, "longer"),
            (30, 3.0, "s"),
            (2, -1.0, ""),
        ):
            Colour.RED._value_, Colour.NAMED._value_ = red, named
            Colour.LISTED.value[0] = listed
            outputs.append(call(jg.asarray([1.0])).tolist())
        return outputs

    program = ENUMS[name]
    expected = results(program)
    assert results(jg.trace(program)) == results(jg.script(program)) == expected


# --- attributes that are set and deleted ----------------------------------------------------------------------------


class Base:
    a: Any = 9
    b: Any = 2.5


class Slotted(Base):
    __slots__ = ("c",)


class Thing(Base):
    a = 7

    def __init__(self) -> None:
        self.c = 1


STATEMENTS = (
    "o.a = {n}", "o.b = {n}", "o.c = o.a + {n}", "o.a = o.b", "del o.a", "del o.b", "del o.c",
    "y = y * o.a", "y = y + o.b",
    "y = y + hasattr(o, 'a') * {n}", "y = y + len(vars(o))", "y = y + getattr(o, 'c', {n})",
    "o.a, o.b = o.b, o.a",
    "setattr(o, 'b', {n})", "delattr(o, 'a')", "vars(o)['a'] = {n}", "vars(o).pop('b', None)",
    "y = y + ('a' in vars(o))",
)  # fmt: skip


def program_of(source: random.Random, count: int) -> str:
    lines = [source.choice(STATEMENTS).format(n=source.randint(1, 5)) for _ in range(count)]
    return "def f(y):\n" + "".join(f"    {line}\n" for line in lines) + "    return y\n"


def run(text: str, how: Callable[..., Any]) -> Any:
    """Results and state of four calls; None where a call raises, as Python's own does."""
    namespace: dict[str, Any] = {"o": Thing()}
    exec(compile(text, "<program>", "exec"), namespace)
    call = how(namespace["f"])
    outputs = []
    for number in range(4):
        try:
            outputs.append((call(jg.asarray([1.0])).tolist(), dict(vars(namespace["o"]))))
        except (AttributeError, KeyError):
            outputs.append((None, dict(vars(namespace["o"]))))
            return None
        if number == 1:
            namespace["o"].b = 0.5
        if number == 2:
            vars(namespace["o"]).pop("a", None)
            namespace["o"].c = 4
    return outputs


@pytest.mark.filterwarnings("ignore:.*recorded anew")
def test_attributes_that_are_set_and_deleted() -> None:
    """``ATTRIBUTE_PROGRAMS`` says how many."""
    source, left = (
        random.Random(int(os.environ.get("ATTRIBUTE_SEED", "0"))),
        int(os.environ.get("ATTRIBUTE_PROGRAMS", "25")),
    )
    texts = ["def f(y):\n    o.a = 4\n    o.c = o.a + 1\n    del o.a\n    return y * o.c + hasattr(o, 'a') + o.a\n"]
    texts += [program_of(source, source.randint(2, 6)) for _ in range(4 * left)]
    compared = 0
    for text in texts:
        expected = run(text, lambda f: f)
        if expected is None:
            continue
        assert run(text, jg.trace) == expected, text
        compared += 1
        if compared > left:
            break
    assert compared > left
