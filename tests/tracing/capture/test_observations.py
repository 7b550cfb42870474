"""The objects of capture, each alone: what was met, read and changed, and the guards that follow."""

from __future__ import annotations

import ast
import gc
import types
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.location import Location
from jitgraph.tracing import capture
from jitgraph.tracing.call.undo_log import UndoLog
from jitgraph.tracing.capture.capture import GuardCollection
from jitgraph.tracing.capture.object_guards import CaptureRule, ObjectGuards
from jitgraph.tracing.capture.observations import IdentityTable, Observations, Observer
from jitgraph.tracing.capture.writes import Writes
from jitgraph.tracing.guards.guard import Absent
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.guards.storage import MISSING


class Plain:
    """An object of the user's."""


class Loud:
    """An object whose own methods must not run."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __hash__(self) -> int:
        raise AssertionError("hashed")

    def __bool__(self) -> bool:
        raise AssertionError("asked")

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("read")


def assumptions(seen: Observations, lifted: frozenset[int] = frozenset()) -> dict[str, Any]:
    return {assumption.slot.text: assumption.predicate for assumption in GuardCollection(seen).assumptions(lifted)}


# --- identities -----------------------------------------------------------------------------------------------------


def test_an_entry_holds_its_object() -> None:
    """An id is that of one object for as long as the table lives, so nothing that is made later is taken for it."""
    table = IdentityTable([], [])
    for mark in (table.mark_guarded, table.mark_created, table.mark_defined, table.mark_mutated):
        value = Plain()
        alive = weakref.ref(value)
        mark(value)
        del value
        gc.collect()
        assert alive() is not None
        assert not any(table.known(Plain()) for _ in range(100))


def test_asking_adds_no_entry_and_runs_no_code_of_the_object() -> None:
    table, value = IdentityTable([], []), Loud()
    questions = (table.is_guarded, table.is_argument, table.is_reachable, table.is_outside, table.is_created)
    for question in (*questions, table.is_own, table.is_defined, table.is_mutated, table.is_whole, table.is_namespace):
        assert not question(value)
    assert table.owner_of(value) is value and table.known(value) is None
    table.mark_guarded(value)
    table.mark_created(value)
    assert table.is_guarded(value) and table.is_own(value)
    assert [actual is value for actual in table.outside()] == [True]


def test_where_an_object_comes_from() -> None:
    guarded, argument, both, created, other = (Plain() for _ in range(5))
    table = IdentityTable([guarded, both], [argument, both])
    table.mark_created(created)
    values = (guarded, argument, both, created, other)
    assert [table.is_reachable(value) for value in values] == [True, True, True, False, False]
    assert [table.is_outside(value) for value in values] == [True, False, False, False, False]
    assert [table.is_own(value) for value in values] == [False, True, True, True, False]
    assert list(table.guarded()) == [guarded, both]
    assert [table.outside().count(value) for value in values] == [1, 1, 2, 0, 0]


def test_arrays_that_numpy_read_are_not_kept_alive_and_not_confused() -> None:
    table, array = IdentityTable([], []), np.zeros(1000)
    table.mark_read_by_numpy(array)
    assert table.is_read_by_numpy(array)
    alive, number = weakref.ref(array), id(array)
    del array
    assert alive() is None
    later = [np.zeros(1000) for _ in range(50)]
    assert not any(map(table.is_read_by_numpy, later))
    assert table.known(later[0]) is None and number > 0


# --- reads ----------------------------------------------------------------------------------------------------------


def test_the_first_read_of_a_place_counts_and_reaches_its_value() -> None:
    seen, box, inner = Observations(), types.SimpleNamespace(), Plain()
    box.n, box.inner = 1, inner
    seen.reads.record(Slot("attribute", box, "n", "box.n"), 1)
    seen.reads.record(Slot("attribute", box, "n", "box.n"), 2)
    seen.reads.record(Slot("attribute", box, "inner", "box.inner"), inner)
    seen.reads.record(Slot("own", box, "gone", "box.gone"), MISSING)
    assert [(read.slot.text, read.value) for read in seen.reads] == [
        ("box.n", 1),
        ("box.inner", inner),
        ("box.gone", MISSING),
    ]
    assert seen.identities.is_guarded(inner) and seen.reads.text_of(inner) == "box.inner"
    assert isinstance(assumptions(seen)["box.gone"], Absent)
    box.n = 3  # not by a write that was seen
    with pytest.raises(jg.TraceError, match=r"box\.n was changed"):
        assumptions(seen)


def test_what_was_written_is_not_read_from_outside() -> None:
    seen, box = Observations(), types.SimpleNamespace(n=1)
    slot = Slot("attribute", box, "n", "box.n")
    seen.effects.record_write(slot, 1)
    box.n = 2
    seen.reads.record(slot, 2)
    assert list(seen.reads) == [] and assumptions(seen) == {}


def test_a_place_that_is_an_input_is_guarded_where_the_user_reads_it() -> None:
    seen, table = Observations(), {"rate": 0.5, "shown": 0.5}
    seen.position.for_package = True
    for key in table:
        seen.reads.record(Slot("item", table, key, key), 0.5)
        seen.reads.release(table, key)
    seen.position.for_package = False
    seen.reads.record(Slot("item", table, "shown", "shown"), 0.5)
    assert list(assumptions(seen)) == ["shown"]


def test_arrays_are_inputs_unless_numpy_read_them() -> None:
    seen, box = Observations(), types.SimpleNamespace(a=np.arange(3), b=np.arange(3))
    for name in "ab":
        seen.reads.record(Slot("attribute", box, name, name), getattr(box, name))
    seen.identities.mark_read_by_numpy(box.b)
    lifted = frozenset({id(box.a), id(box.b)})
    names = [assumption.slot.text for assumption in GuardCollection(seen).assumptions(lifted)]
    assert names == ["a", "b", "b"]  # that it is this array; of the other one its elements, too


# --- effects --------------------------------------------------------------------------------------------------------


def test_effects_are_undone_and_done_again() -> None:
    items, box = [1], types.SimpleNamespace(n=1)
    seen = Observations([items, box])
    seen.effects.record_write(Slot("attribute", box, "n", "box.n"), 1)
    box.n = 2
    seen.effects.touch(items, "items")
    items.append(2)
    assert [(write.text, after) for write, after in seen.effects.assigned()] == [("box.n", 2)]
    assert [(entry.text, [c.operation for c in changes]) for entry, changes in seen.effects.changes()] == [
        ("items", ["append"])
    ]
    seen.effects.undo()
    assert items == [1] and box.n == 1


def test_a_mapping_is_saved_as_it_was_before_its_keys_were_assigned() -> None:
    table = {"a": 1, "b": 2}
    seen = Observations([table])
    seen.effects.record_write(Slot("item", table, "a", "table['a']"), 1)
    seen.effects.record_write(Slot("item", table, "c", "table['c']"), MISSING)
    table |= {"a": 5, "c": 6}
    assert seen.effects.touch(table, "table").before == {"a": 1, "b": 2}


def test_a_watch_forgets_what_was_made_meanwhile() -> None:
    older, newer = types.SimpleNamespace(n=1), types.SimpleNamespace(n=1)
    seen, log = Observations([older]), UndoLog()
    with seen.effects.watching(log):
        seen.identities.mark_created(newer)
        for owner in (older, newer):
            seen.effects.record_write(Slot("attribute", owner, "n", "n"), 1)
            owner.n = 2
    assert [entry.target.owner is older for entry in log] == [True]


# --- limits and rules -----------------------------------------------------------------------------------------------


def test_reasons_have_the_line_that_gave_them_first() -> None:
    seen = Observations()
    for number in (1, 2):
        seen.limits.cannot_guard("what", Location("a.py", number))
    seen.limits.bind_to_process("")
    seen.limits.bind_to_process("an address")
    assert seen.limits.unguarded == {"what": Location("a.py", 1)} and list(seen.limits.bound) == ["an address"]


def test_a_class_that_is_changed_is_looked_up_again() -> None:
    class Base:
        rate = 1

    seen = Observations()
    guards = ObjectGuards(seen)
    cache = guards.classes.cache()
    cache["known"] = 1
    assert guards.classes.find(Base, "rate") == (Base, 1)
    Writes(seen, guards).set_attribute(Base, "rate")
    Base.rate = 2
    assert guards.classes.find(Base, "rate") == (Base, 2) and not cache
    assert [write.text for write in seen.effects.writes.values()] == [f"{Base.__qualname__}.rate"]


def test_a_container_is_guarded_as_a_whole_once() -> None:
    inner: list[int] = [1]
    outer = {"a": inner}
    seen = Observations([outer])
    guards = ObjectGuards(seen)
    containers, writes = guards.containers, Writes(seen, guards)
    containers.guard_extent(outer)
    containers.guard_contents(outer, "outer")
    writes.mutate(inner, "append")
    inner.append(2)
    containers.guard_contents(outer, "outer")
    assert [used.text for used in seen.reads.contents] == ["outer", "outer['a']"]
    assert seen.identities.is_whole(inner) and seen.reads.contents[1].before == (1,)
    [(entry, changes)] = seen.effects.changes()
    assert entry.target is inner and [change.operation for change in changes] == ["append"]


# --- composition ----------------------------------------------------------------------------------------------------

FOLDER = Path(capture.__file__).parent
OWNERS = frozenset({"self", "functools", "sys", "typing", "_bootstrap", "_bootstrap_external"})
FROM_OUTSIDE = frozenset({"_value", "_replace", "_get_spec", "_varname_from_oparg"})  # of tensors, tuples and Python


def test_no_object_of_capture_is_part_of_another_or_looks_into_it() -> None:
    """They are composed: none derives from another, and each asks the others by their public methods.

    What all are built on they share by two bases, which have nothing but that.
    """
    trees = {path.stem: ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}
    classes = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    bases, private = [], []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases += [(node.name, base.id) for base in node.bases if isinstance(base, ast.Name)]
            elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
                private += [] if isinstance(node.value, ast.Name) and node.value.id in OWNERS else [(name, node.attr)]
    derived = {pair for pair in bases if pair[1] in classes - {"Observer", "CaptureRule"}}
    assert derived == {("Capture", "Sink"), ("_RawWords", "Activation")}
    for base in (Observer, CaptureRule):
        assert {name for name, value in vars(base).items() if callable(value)} == {"__init__"}
    assert {attribute for _, attribute in private} <= FROM_OUTSIDE, private
