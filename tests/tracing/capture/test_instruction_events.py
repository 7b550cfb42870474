"""The engine of capture: what handlers read from the value stack are the very objects that instructions use."""

from __future__ import annotations

import dis
import importlib
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import pytest

import jitgraph as jg
from jitgraph.runtime.cpython import frames
from jitgraph.tracing.capture import handlers
from jitgraph.tracing.capture.events import (
    CLASSES,
    NULL,
    Activation,
    InstructionSite,
    depths,
    follow,
    run_watched,
    table_of,
)


class Told:
    """A sink that keeps what it is told, and the results of reads."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def tell(view: Activation, *values: Any) -> Any:
            site = next((v for v in values if isinstance(v, InstructionSite)), None)
            entry = [name, *(v for v in values if v is not site)]
            if site is not None and name in ("global_", "cell", "store_global", "store_cell"):
                entry.append(site.value)
            self.told.append(tuple(entry))

            def finish(after: Activation | None) -> None:
                self.told[index] += ("failed",) if after is None else ("gave", after.at(-1))

            index = len(self.told) - 1
            return finish if name in ("attribute", "item", "global_", "cell", "inherited", "called") else None

        return tell

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != __file__ and not frame.f_code.co_filename.startswith("<test"):
            return None
        return follow(frame, Activation(frame, self))  # type: ignore[arg-type]


def run(function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[tuple[Any, ...]]]:
    told = Told()
    return run_watched(told.on_call, function, *arguments), told.told


class Box:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    @property
    def doubled(self) -> Any:
        return self.inner.v * 2

    def __matmul__(self, other: Any) -> Any:
        return self.k * other.k

    def method(self, x: Any, *, by: Any = 1) -> Any:
        return x * by


A = Box(v=7, k=3, inner=Box(v=5))
CONFIG = {"a": A, "name": "v"}


def test_every_instruction_of_this_python_has_a_class() -> None:
    assert not dis.opmap.keys() - CLASSES.keys()
    assert not handlers.HANDLERS.keys() - CLASSES.keys()
    assert {CLASSES[name] for name in handlers.HANDLERS} <= {"read", "write", "call", "move"}
    without = {n for n, kind in CLASSES.items() if kind in ("read", "write", "call") and n not in handlers.HANDLERS}
    assert not {n for n in without if not n.startswith("INSTRUMENTED_")} - {
        *("PRINT_EXPR", "WITH_EXCEPT_START", "LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_ATTR", "LOAD_ZERO_SUPER_METHOD"),
    }, "they are never met in a function, or the call is of what was read before"


def test_an_instruction_without_a_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compile("a.b", "<test refused>", "eval")
    monkeypatch.delitem(CLASSES, "LOAD_ATTR")
    with pytest.raises(jg.TraceError, match="LOAD_ATTR"):
        table_of(code)


def test_known_answers_hold_and_a_wrong_layout_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert handlers.differing() == []
    right = frames.layout()
    monkeypatch.setattr("jitgraph.tracing.capture.events.layout", lambda: right._replace(locals=right.locals + 8))
    assert handlers.differing()


def test_operands_of_indirect_reads() -> None:
    def get(key: str) -> Any:
        return CONFIG[key]

    def pick(i: int) -> Any:
        return [Box(v=1), Box(v=11)][i]

    def gen(b: Any) -> Any:
        for i in range(2):
            yield b.v + i

    def f(x: Any) -> Any:
        s = x * getattr(get("a"), get("name"))
        s += operator.getitem([pick(0), pick(1)], 1).v
        s += (CONFIG["a"] @ CONFIG["a"]) + CONFIG["a"].doubled
        (first,) = [c.v for c in (CONFIG["a"],)]
        s += sum(gen(CONFIG["a"])) + first
        CONFIG["a"].count = s
        CONFIG["last"] = s
        return A.method(s, by=2) + A.method(*[1], **{"by": 3})  # noqa: PIE804 - what is tested

    (result, told), total = run(f, 1), 7 + 11 + 9 + 10 + 15 + 7
    assert result == 2 * total + 3
    for expected in [
        ("called", getattr, [A, "v"], (), "gave", 7),
        ("attribute", A.inner, "v", "gave", 5),
        ("item", CONFIG, "name", "gave", "v"),
        ("attribute", A, "k", "gave", 3),
        ("operate", "@", (A, A)),
        ("attribute", A, "v", "gave", 7),
        ("store_attribute", A, "count"),
        ("store_item", CONFIG, "last"),
        ("cell", None, "get", "gave", get),
        ("called", Box.method, [A, total, 2], ("by",), "gave", 2 * total),
    ]:
        assert expected in told, expected
    assert next(entry for entry in told if entry[0] == "call_unpacked")[1:4] == (A.method, [1], {"by": 3})
    for entry in told:
        if (
            entry[0] == "attribute"
            and entry[-2] == "gave"
            and entry[2] in getattr(entry[1], "__dict__", ())
            and entry[2] != "count"
        ):
            assert vars(entry[1])[entry[2]] is entry[-1]


def test_a_read_that_fails_says_so() -> None:
    def f() -> Any:
        try:
            return A.nothing  # type: ignore[attr-defined]
        except AttributeError:
            pass
        try:
            return CONFIG["nothing"]
        except KeyError:
            return 1

    result, told = run(f)
    assert result == 1
    assert ("attribute", A, "nothing", "failed") in told and ("item", CONFIG, "nothing", "failed") in told


def test_long_jumps_and_many_names() -> None:
    """Instructions behind EXTENDED_ARG are told once."""
    names = [f"name_{i}" for i in range(300)]
    body = "".join(f"    x = x + BOX.{name}\n" for name in names)
    space: dict[str, Any] = {"BOX": SimpleNamespace(**dict.fromkeys(names, 1))}
    exec(compile(f"def f(x):\n  for i in range(2):\n{body}  return x\n", "<test names>", "exec"), space)
    result, told = run(space["f"], 0)
    assert result == 600
    read = [entry[2] for entry in told if entry[0] == "attribute"]
    assert read == names * 2
    assert all(entry[1] is space["BOX"] and entry[-1] == 1 for entry in told if entry[0] == "attribute")


class Base:
    def m(self, x: Any) -> Any:
        return ("base", x)


class Child(Base):
    def m(self, x: Any) -> Any:
        return super().m(x)


def test_the_method_of_a_base_class() -> None:
    child = Child()
    result, told = run(lambda: child.m(3))
    assert result == ("base", 3)
    called = [entry[1:3] for entry in told if entry[0] == "called"]
    assert (Base.m, [child, 3]) in called or any(f == Base.m.__get__(child) and args == [3] for f, args in called)
    if sys.version_info >= (3, 12):
        assert any(entry[:4] == ("inherited", Child, child, "m") for entry in told)


def test_the_function_and_the_cells_of_a_frame() -> None:
    functions = []

    class Seen(Told):
        def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
            actual = super().on_call(frame, event, argument)
            if actual is not None:
                functions.append(Activation(frame, self).function)  # type: ignore[arg-type]
            return actual

    def make(k: int) -> Callable[[], int]:
        return lambda: k

    one, two = make(1), make(2)
    told = Seen()
    assert run_watched(told.on_call, lambda: one() + two()) == 3
    assert functions[1:] == [one, two]
    assert frames.cell_of(two, "k").cell_contents == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("module", ["dataclasses", "enum", "inspect", "typing", "contextlib", "asyncio.tasks", "ast"])
def test_depths_agree_with_the_code_of_the_standard_library(module: str) -> None:
    """Every reachable instruction has one depth, whichever way leads there, and never more than the code says."""
    file = importlib.import_module(module).__file__
    assert file is not None
    pending, seen = [compile(Path(file).read_text(), file, "exec")], 0
    while pending:
        code = pending.pop()
        pending += [const for const in code.co_consts if isinstance(const, CodeType)]
        actual = depths(code, list(dis.get_instructions(code)))
        assert all(0 <= depth <= code.co_stacksize for depth in actual.values()), code
        seen += len(actual)
    assert seen > 1000


def test_nothing_is_read_below_the_stack_of_a_function_without_variables() -> None:
    def empty() -> None:
        return None

    seen: list[Any] = []

    def on_call(frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code is empty.__code__:
            view = Activation(frame, Told())  # type: ignore[arg-type]
            view.stack = view._base
            seen.extend([view.at(-1), view.at(-2)])

    run_watched(on_call, empty)
    assert seen == [NULL, NULL]
