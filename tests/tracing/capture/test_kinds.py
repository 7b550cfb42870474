"""What kind of object it is that a traced function meets, and whose code it is."""

from __future__ import annotations

import collections
import ctypes
import enum
import functools
import io
import itertools
import json
import queue
import threading
import time
import types
from array import array
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import TraceError
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.kinds import (
    OPERATOR_FUNCTIONS,
    SPECIAL,
    hides_state,
    is_constant,
    is_followed,
    is_iterator,
    is_library_module,
    is_plain_key,
    is_users_class,
    may_change,
    slots_of,
)
from jitgraph.tracing.guards.storage import (
    MISSING,
    attributes_of,
    class_entry,
    contents_of,
    is_by_base,
    is_container,
    same_extent,
)


class Mode(enum.Enum):
    TRAIN = 1


class Slotted:
    __slots__ = ("a", "b")


class Child(Slotted):
    __slots__ = ("c",)


class Hashed:
    def __hash__(self) -> int:
        return 1


FUNCTION = ctypes.CFUNCTYPE(None)


class Failure(Exception):
    pass


class Readable(list[Any]):
    pass


class Reading(list[Any]):
    def __getitem__(self, key: Any) -> Any:
        return 0


def test_keys_that_run_no_code_are_plain() -> None:
    for key in (
        1,
        "a",
        b"b",
        1.5,
        None,
        (1, ("a", None)),
        int,
        len.__class__,
        Hashed,
        test_keys_that_run_no_code_are_plain,
    ):
        assert is_plain_key(key), key
    for key in (Hashed(), (1, Hashed()), Mode.TRAIN):
        assert not is_plain_key(key), key


def test_classes_of_the_user_may_change() -> None:
    for kind in (Mode, Slotted, Hashed):
        assert may_change(kind) and is_users_class(kind), kind
    for kind in (int, list, np.ndarray, collections.OrderedDict, json.JSONDecoder, jg.Tensor):
        assert not may_change(kind), kind
    exec("class Made: pass", space := {})  # type: ignore[var-annotated]
    assert may_change(space["Made"])


def test_constants_do_not_change() -> None:
    for value in (1, "a", range(3), Mode.TRAIN, np.float32(1), len, json, bytearray(), array("i")):
        assert is_constant(type(value)), value
    for kind in (Hashed, io.StringIO, ValueError, type("Numbers", (array,), {})):
        assert not is_constant(kind), kind


def test_classes_written_in_c_hide_state() -> None:
    for kind in (array, type("Numbers", (array,), {}), queue.SimpleQueue, ctypes.c_double * 2, ValueError, Failure):
        assert hides_state(kind), kind
    local = type("L", (threading.local,), {})
    for kind in (Hashed, Slotted, Child, types.SimpleNamespace, threading.local, local, np.ufunc, FUNCTION):
        assert not hides_state(kind), kind


def test_iterators_whose_position_is_not_seen() -> None:
    class Counting:
        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            return 1

    for value in (iter([1]), (x for x in ()), itertools.count(), map(int, ())):
        assert is_iterator(value)
        with pytest.raises(TraceError, match="what an iterator gives"):
            impure.refuse_iterator(value, "it", None)
    for value in ([1], Counting(), range(3)):
        assert not is_iterator(value)
        impure.refuse_iterator(value, "it", None)


def test_slots_are_those_of_all_bases() -> None:
    assert sorted(slots_of(Child)) == ["a", "b", "c"] and slots_of(Hashed) == []


def test_attributes_and_entries_are_found_without_code_of_the_user() -> None:
    class Loud:
        kept = 1

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    own = Loud()
    assert attributes_of(own) == {} and attributes_of(Slotted()) is None and attributes_of(3) is None
    assert class_entry(Loud, "kept") == 1 and class_entry(Loud, "other", MISSING) is MISSING
    assert class_entry(Child, "a") is vars(Slotted)["a"]


def test_containers_are_the_built_in_ones_and_what_derives_from_them() -> None:
    for value in ([], (), {}, set(), frozenset(), collections.deque(), collections.OrderedDict(), Readable()):
        assert is_container(value) and not is_by_base(value) and contents_of(value) is value, value
    for value in ("text", b"b", array("i"), np.zeros(1), types.MappingProxyType({})):
        assert not is_container(value) and contents_of(value) is value, value
    reading = Reading([1, 2])
    assert is_container(reading) and is_by_base(reading) and reading[1] == 0
    assert type(contents_of(reading)) is list and contents_of(reading) == [1, 2]


def test_extents_are_lengths_keys_in_order_and_members() -> None:
    assert same_extent([1, 2], [3, 4]) and not same_extent([1], [1, 2])
    assert same_extent({"a": 1, "b": 2}, {"a": 3, "b": 4}) and not same_extent({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert same_extent({1, 2}, {2, 1}) and not same_extent({1}, {2})


def test_code_is_the_users_or_a_librarys() -> None:
    assert is_followed(__file__) and is_followed(jg.nn.module.__file__) and is_followed("<string>")
    for file in (json.__file__, np.__file__, jg.tensor.__file__, "<frozen importlib._bootstrap>"):
        assert not is_followed(file), file
    assert is_library_module("json") and is_library_module("sys") and not is_library_module(__name__)


@pytest.mark.parametrize(
    "value",
    [time.time, time.perf_counter, np.random.default_rng().normal, input],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_gives_something_new_at_each_call_is_refused(value: Any) -> None:
    with pytest.raises(TraceError, match="would be the same at every later call"):
        impure.refuse(value, "it", None)


@pytest.mark.parametrize(
    "value",
    [len, functools.reduce, [], 1, Hashed(), Hashed],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_gives_the_same_is_not(value: Any) -> None:
    impure.refuse(value, "it", None)


def test_what_asks_of_the_world_outside() -> None:
    import os

    assert impure.outside_state(open) == "a file" and impure.outside_state(os.listdir) is not None
    assert impure.outside_state(np.loadtxt) == "a file"
    for value in (len, os.path.join, np.sum, Hashed, 3):
        assert impure.outside_state(value) is None, value


def test_functions_that_do_what_an_operator_does_name_one_that_is_known() -> None:
    assert {name for name in OPERATOR_FUNCTIONS.values() if name not in SPECIAL} <= {"contains"}
