"""Modules that load late: what stands for them until then, and what the cyclic collector makes of them."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from jitgraph.runtime import imports
from tests.processes import in_child

ages = pytest.mark.skipif(
    sys.version_info[:2] == (3, 12), reason="Python 3.12 begins with frozen objects, which aging would thaw"
)


def test_a_late_module_takes_the_place_of_what_stood_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    place, late = ModuleType("place"), ModuleType("late")
    late.answer = 42  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "place", place)
    place.late = place.other_name = imports.late("place", "late")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "late", late)
    assert place.late.answer == 42
    assert place.late is late and place.other_name is late
    with pytest.raises(AttributeError, match="question"):
        _ = place.late.question
    assert imports.late("place", "late") is late  # it is there already


@ages
def test_what_is_imported_is_old_at_once() -> None:
    """So that no collection of young objects walks through it; the program's own garbage is found as ever."""
    in_child("""
import gc, weakref
class Node: pass
node = Node(); node.own = node; seen = weakref.ref(node)
gc.collect()
import jitgraph as jg
jg.ones(3)
old = {id(each) for each in gc.get_objects(generation=2)}
assert {id(jg.Tensor), id(vars(jg.tensor)), id(jg.ones)} <= old
young = [len(gc.get_objects(generation=generation)) for generation in (0, 1)]
assert sum(young) < 2000 < len(old), young
assert gc.get_freeze_count() == 0 and gc.isenabled()
del node
gc.collect()
assert seen() is None
""")


def test_what_a_program_froze_stays_frozen() -> None:
    in_child("""
import gc
frozen = [[]]
gc.freeze()
import jitgraph as jg
jg.ones(3)
assert not any(each is frozen for each in gc.get_objects())
""")


@ages
def test_nothing_ages_while_something_is_traced() -> None:
    """What a recording makes is dropped after it."""
    in_child("""
import gc, sys, types
from jitgraph.runtime import imports, shared
def import_another(name):
    made = [object()]
    with imports.importing():
        sys.modules[name] = types.ModuleType(name)
    return any(each is made for each in gc.get_objects(generation=0))
assert not import_another("one")
with shared.PAUSED.inside():
    assert import_another("another")
""")


def test_the_operands_of_a_first_call_go_with_their_last_name() -> None:
    """Its recording and its compilation load much; the first collection afterwards, of young objects, finds their
    garbage."""
    in_child("""
import weakref
import numpy as np
import jitgraph as jg
x, y = jg.asarray(np.ones(3, np.float32)), np.ones(3, np.float32)
seen = weakref.ref(x), weakref.ref(y)
f = jg.trace(lambda x, y: (x * 2 + 1 + y).sum())
f(x, y)
del x, y
young = [[number] for number in range(2000)]
assert seen[0]() is seen[1]() is None
""")


@ages
def test_the_compiler_of_a_first_trace_is_old() -> None:
    """It is imported while nothing is recorded: what a recording leaves was collected before, and is not among it."""
    in_child("""
import gc, os
os.environ["JITGRAPH_CACHE_DIR"] = "off"
import jitgraph as jg
jg.trace(lambda x: x * 2 + 1)(jg.ones(3))
from jitgraph import compilation
assert id(vars(compilation)) in {id(each) for each in gc.get_objects(generation=2)}
young = [len(gc.get_objects(generation=generation)) for generation in (0, 1)]
assert sum(young) < 3000, young
""")


def test_the_collector_waits_while_a_module_is_executed_however_it_is_imported() -> None:
    """A finaliser that it ran meanwhile would find the module without its names."""
    told = in_child(
        """
        import gc, importlib.machinery, sys
        import jitgraph
        waits, execute = {}, importlib.machinery.SourceFileLoader.exec_module
        def watched(self, module):
            waits[module.__name__] = not gc.isenabled()
            execute(self, module)
        importlib.machinery.SourceFileLoader.exec_module = watched
        from jitgraph.tracing.report.run_html import page
        import jitgraph.nn
        __import__("jitgraph.onnx.library")
        own = {name for name in waits if name.startswith("jitgraph.")}
        assert len(own) > 50 and gc.isenabled()
        print([name for name in own if not waits[name]])
        importlib.machinery.SourceFileLoader.exec_module = execute
        import colorsys
        assert gc.isenabled() and not hasattr(colorsys.__spec__.loader, "_is_whole")
        """.replace("\n        ", "\n")
    )
    assert told == "[]\n"
