"""Data classes and named tuples of the package are what the standard library's are."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

from jitgraph import records
from jitgraph.tracing.call.plan import Input

DECORATORS = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, records.dataclass])


def point(dataclass: Any, **options: Any) -> Any:
    @dataclass(**options)
    class Point:
        x: int
        y: int = 2
        names: list[str] = dataclasses.field(default_factory=list)
        note: str = dataclasses.field(default="", compare=False)

    return Point


@DECORATORS
@pytest.mark.parametrize("options", [{}, {"frozen": True, "slots": True}], ids=str)
def test_what_follows_the_init_is_run(dataclass: Any, options: dict[str, Any]) -> None:
    @dataclass(**options)
    class Even:
        x: int

        def __post_init__(self) -> None:
            if self.x % 2:
                raise ValueError(self.x)
            object.__setattr__(self, "x", self.x // 2)

    assert Even(4).x == 2
    with pytest.raises(ValueError, match="3"):
        Even(3)


@records.dataclass(frozen=True, slots=True)
class Pickled:
    x: int
    below: Pickled | None = None


def outcome(run: Callable[[], Any]) -> object:
    try:
        return run()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"frozen": True, "slots": True}, {"eq": False}], ids=str)
@pytest.mark.parametrize("kw_only", [False, True])
def test_same_as_the_standard_library(options: dict[str, Any], kw_only: bool) -> None:
    theirs, ours = (point(d, **options, kw_only=kw_only) for d in (dataclasses.dataclass, records.dataclass))
    for calls in (
        lambda kind: repr(kind(x=1)),
        lambda kind: repr(kind(1, 5, ["a"])),
        lambda kind: kind(),
        lambda kind: kind(x=1, z=2),
        lambda kind: kind(x=1) == kind(x=1, note="other"),
        lambda kind: kind(x=1) == kind(x=1, y=3),
        lambda kind: kind(x=1) == 1,
        lambda kind: kind(x=1).names is kind(x=1).names,
        lambda kind: setattr(kind(x=1), "x", 2),
        lambda kind: delattr(kind(x=1), "x"),
        lambda kind: options.get("slots") or setattr(kind(x=1), "other", 2),
        lambda kind: repr(dataclasses.replace(kind(x=1), y=7)),
        lambda kind: repr(copy.deepcopy(kind(x=1, y=7))),
        lambda kind: kind.__match_args__,
        lambda kind: [field.name for field in dataclasses.fields(kind)],
        lambda kind: hash(kind(x=1)) if options.get("frozen") else kind.__hash__ is None,
    ):
        expected = outcome(lambda calls=calls: calls(theirs))  # type: ignore[misc]
        for _ in range(2):  # the first call compiles the method
            assert outcome(lambda calls=calls: calls(ours)) == expected  # type: ignore[misc]


def test_hash_of_a_frozen_class() -> None:
    @records.dataclass(frozen=True)
    class Pair:
        left: int
        right: str

    assert hash(Pair(1, "a")) == hash(Pair(1, "a")) == hash((1, "a"))
    assert len({Pair(1, "a"), Pair(1, "a"), Pair(2, "a")}) == 2


@DECORATORS
def test_methods_that_the_class_has_stay(dataclass: Any) -> None:
    @dataclass(frozen=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    assert (Own(1) == 3, hash(Own(1)), repr(Own(1))) == (True, 7, "own")


@pytest.mark.parametrize("dataclass", [dataclasses.dataclass, records.dataclass])
def test_a_subclass_has_the_fields_of_its_base_first(dataclass: Any) -> None:
    @records.dataclass(frozen=True)
    class Base:
        x: int
        y: int = 2

    @dataclass(frozen=True, kw_only=True)
    class Derived(Base):
        z: int

    assert repr(Derived(1, z=3)).endswith("Derived(x=1, y=2, z=3)")
    assert Derived(1, z=3) == Derived(1, 2, z=3) != Base(1)
    if dataclass is dataclasses.dataclass:
        with pytest.raises(TypeError, match="frozen"):
            dataclass(type("Thawed", (Base,), {}))


def test_a_field_without_a_default_comes_before_those_that_have_one() -> None:
    @records.dataclass
    class Wrong:
        x: int = 1
        y: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="'y' of Wrong has no default"):
        Wrong(1, 2)


def test_pickle_and_recursion() -> None:
    value = Pickled(1, Pickled(2))
    assert pickle.loads(pickle.dumps(value)) == value
    object.__setattr__(value, "below", value)
    assert repr(value) == "Pickled(x=1, below=...)"


def test_a_subclass_calls_the_constructor_of_its_base() -> None:
    @records.dataclass()
    class Base:
        x: int

    class Derived(Base):
        def __init__(self) -> None:
            super().__init__(5)

    assert (Derived().x, Derived().x, Base(3).x) == (5, 5, 3)


def named_tuples(base: Any) -> list[Any]:
    """The same class of tuples over this base, made twice, and one of a single field."""

    class Point(base):  # type: ignore[misc]
        """A place."""

        x: int
        y: int = 2
        name: str = "here"

        @property
        def total(self) -> int:
            return self.x + self.y

    class Alone(base):  # type: ignore[misc]
        only: list[int]

    return [Point, Alone]


def test_named_tuples_are_those_of_the_standard_library() -> None:
    for result, known in zip(named_tuples(records.NamedTuple), named_tuples(typing.NamedTuple), strict=True):
        for name in ("_fields", "_field_defaults", "__match_args__", "__slots__", "__mro__", "__doc__", "__module__"):
            if name == "__mro__":
                assert result.__mro__[1:] == known.__mro__[1:]
            elif result.__name__ == "Point" or name != "__doc__":
                assert getattr(result, name) == getattr(known, name)
    own, theirs = (named_tuples(base)[0] for base in (records.NamedTuple, typing.NamedTuple))
    for args, keywords in (((1,), {}), ((1, 3), {"name": "a"}), ((), {"y": 5, "x": 4}), ((1, 2, "b"), {})):
        a, b = own(*args, **keywords), theirs(*args, **keywords)
        assert a == b == tuple(a) and repr(a) == repr(b) and hash(a) == hash(b)
        assert (a.x, a.y, a.name, a.total) == (b.x, b.y, b.name, b.total)
        assert a._asdict() == b._asdict() and a._replace(y=9) == b._replace(y=9) and type(a._replace(y=9)) is own
    match own(7):
        case (x, 2, "here"):
            assert x == 7
    for wrong in (lambda c: c(), lambda c: c(1, 2, "a", 3), lambda c: c(1, z=2), lambda c: c(1, x=2)):
        for kind in (own, theirs):
            with pytest.raises(TypeError):
                wrong(kind)
    for kind in (own, theirs):
        with pytest.raises((TypeError, ValueError), match="z"):  # before Python 3.13 the library's was a ValueError
            kind(1)._replace(z=1)
        with pytest.raises(TypeError):
            kind._make([1])
        with pytest.raises(AttributeError):
            kind(1).x = 2
        with pytest.raises(AttributeError):
            kind(1).other = 2


def test_a_named_tuple_of_the_package_is_pickled() -> None:
    result = Input("handle", 3)
    assert pickle.loads(pickle.dumps(result)) == result and type(copy.deepcopy(result)) is Input
