"""Loops of the entry function: small kernels are inlined, small buffers are values, and nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.cpu import entry
from jitgraph.codegen.llvm import machine
from jitgraph.compiler import compile
from jitgraph.ir.parser import parse
from jitgraph.ir.target import Target
from jitgraph.runtime.executable import Executable
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.processes import in_child
from tests.scripted import collatz


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")


def newton(shape: str) -> str:
    """x -> (x + a / x) / 2, n times; beside it the number of turns."""
    return f"""graph @newton(%x: f64{shape}, %a: f64{shape}, %n: i64[]) -> f64{shape}, i64[] {{
  %0: i64[] = full() {{dtype=i64, shape=[], value=0}}
  %1: f64{shape}, %2: i64[] = while(%x, %0, %a, %n) {{num_carries=2}} [
    graph @test(%0: f64{shape}, %1: i64[], %2: f64{shape}, %3: i64[]) -> bool[] {{
      %4: bool[] = lt(%1, %3)
      return %4
    }}
    graph @turn(%0: f64{shape}, %1: i64[], %2: f64{shape}, %3: i64[]) -> f64{shape}, i64[] {{
      %4: f64{shape} = div(%2, %0)
      %5: f64{shape} = add(%0, %4)
      %6: f64{shape} = full() {{dtype=f64, shape={shape}, value=0.5}}
      %7: f64{shape} = mul(%5, %6)
      %8: i64[] = full() {{dtype=i64, shape=[], value=1}}
      %9: i64[] = add(%1, %8)
      return %7, %9
    }}
  ]
  return %1, %2
}}"""


def made(text: str, **options: Any) -> Executable:
    compiled = compile(parse(text), **options)
    assert isinstance(compiled, Executable)
    return compiled


def check(compiled: Executable, arrays: Sequence[Any]) -> None:
    """Native code and the executor give the same bits, twice."""
    expected = execute_schedule(compiled.stages.schedule, [np.array(x) for x in arrays])
    for _ in range(2):
        for actual, wanted in zip(compiled.run(arrays), expected, strict=True):
            assert actual.tobytes() == np.asarray(wanted).tobytes()


def entry_of(compiled: Executable) -> str:
    """The entry function after LLVM's passes."""
    text = machine.optimise(compiled.llvm_ir, Target.host())
    matched = re.search(r"^define .*@jg_entry\(.*?^}", text, re.MULTILINE | re.DOTALL)
    assert matched is not None
    return matched[0]


@pytest.mark.parametrize("turns", [-1, 0, 1, 2, entry.POLL_TURNS - 1, entry.POLL_TURNS, 5000])
def test_turns(turns: int) -> None:
    compiled = made(newton("[]"))
    check(compiled, [np.array(3.0), np.array(2.0), np.array(turns)])


@pytest.mark.parametrize("shape", ["[]", "[1]", "[3]", "[8]", "[9]", "[2, 2]", "[100]", "[0]"])
def test_carries_of_any_size(shape: str) -> None:
    extents = tuple(int(extent) for extent in re.findall(r"\d+", shape))
    x = np.random.default_rng(0).random(extents) + 0.5
    check(made(newton(shape)), [x, np.full(extents, 7.0), np.array(20)])


def test_a_scalar_loop_has_no_calls_and_no_memory() -> None:
    text = entry_of(made(newton("[]")))
    loop = text[text.index(" fdiv ") :]
    loop = loop[: loop.index("br ")]
    assert not re.search(r"\b(load|store|call)\b", loop)
    assert "call i32 @k_" not in text and re.search(r"phi double", text) and text.count("call i32 @jg_poll") == 1
    assert "alloca" not in text


def test_a_buffer_that_is_more_than_a_register_stays_in_memory() -> None:
    compiled = made(newton("[9]"))
    text = entry_of(compiled)
    assert "phi i64" in text and not re.search(r"phi <\d+ x double>", text)


COUNTED = """
graph @counted(%x: f64[], %y: f64[20]) -> f64[], f64[20] {{
  %0: f64[], %1: f64[20] = scan(%x, %y) {{length={outer}, num_carries=2, num_xs=0, reverse=false}} [
    graph @turn(%x: f64[], %y: f64[20]) -> f64[], f64[20] {{
      %0: f64[] = scan(%x) {{length={inner}, num_carries=1, num_xs=0, reverse=false}} [
        graph @inner(%x: f64[]) -> f64[] {{
          %0: f64[] = sin(%x)
          return %0
        }}
      ]
      {more}
    }}
  ]
  return %0, %1
}}
"""
PASSED_ON, SCALED = "return %0, %y", "%1: f64[20] = mul(%y, %y)\n      return %0, %1"


@pytest.mark.parametrize(
    ("outer", "inner", "more", "polls"),
    [(10, 100, PASSED_ON, 0), (10, 10**8, PASSED_ON, 1), (10**8, 10, PASSED_ON, 1), (10, 100, SCALED, 1)],
)
def test_loops_that_last_some_milliseconds_ask_nothing(outer: int, inner: int, more: str, polls: int) -> None:
    """Those whose turns are counted and of scalars; any other, and each around one of these, asks the host."""
    compiled = made(COUNTED.format(outer=outer, inner=inner, more=more))
    assert entry_of(compiled).count("call i32 @jg_poll") == polls
    if outer * inner < 10**6:
        check(compiled, [np.array(3.0), np.linspace(0.0, 1.0, 20)])


def test_a_long_kernel_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "MOST_LINES", 5)
    monkeypatch.setattr(entry, "MOST_STRAIGHT_LINES", 5)
    compiled = made(newton("[]"))
    assert "alwaysinline" not in compiled.llvm_ir and "call i32 @k_" in entry_of(compiled)
    check(compiled, [np.array(3.0), np.array(2.0), np.array(40)])
    monkeypatch.undo()
    monkeypatch.setattr(entry, "MOST_LINES_TOGETHER", 5)
    assert "alwaysinline" not in made(newton("[]")).llvm_ir


def test_an_output_in_the_memory_of_an_input_is_no_value() -> None:
    compiled = made(newton("[]"), donate=[(0, 0)])
    assert compiled.stages.plan is not None
    x, a, n = np.array(3.0), np.array(2.0), np.array(30)
    expected = made(newton("[]")).run([x, a, n])
    donated = np.array(3.0)
    result = compiled.run([donated, a, n], donate=(0,) if compiled.stages.plan.donations else ())
    assert result[0].tobytes() == expected[0].tobytes()


CHECKED = """graph @walk(%x: f32[5], %n: i64[]) -> f32[], i64[] {
  %0: i64[] = full() {dtype=i64, shape=[], value=0}
  %1: f32[] = full() {dtype=f32, shape=[], value=0.0}
  %2: f32[], %3: i64[] = while(%1, %0, %x, %n) {num_carries=2} [
    graph @test(%0: f32[], %1: i64[], %2: f32[5], %3: i64[]) -> bool[] {
      %4: bool[] = lt(%1, %3)
      return %4
    }
    graph @turn(%0: f32[], %1: i64[], %2: f32[5], %3: i64[]) -> f32[], i64[] {
      %4: f32[] = gather(%2, %1) {axis=0}
      %5: f32[] = add(%0, %4)
      %6: i64[] = full() {dtype=i64, shape=[], value=1}
      %7: i64[] = add(%1, %6)
      return %5, %7
    }
  ]
  return %2, %3
}"""


def test_a_check_that_fails_inside_of_a_loop_is_reported() -> None:
    compiled = made(CHECKED)
    assert "alwaysinline" in compiled.llvm_ir
    x = np.arange(5, dtype=np.float32)
    total, turns = compiled.run([x, np.array(5)])
    assert (total, turns) == (10, 5)
    with pytest.raises(IndexError, match="5"):
        compiled.run([x, np.array(6)])
    assert compiled.run([x, np.array(3)])[0] == 3


NESTED = """graph @nested(%x: f64[], %n: i64[]) -> f64[] {
  %0: i64[] = full() {dtype=i64, shape=[], value=0}
  %1: f64[], %2: i64[] = while(%x, %0, %n) {num_carries=2} [
    graph @test(%0: f64[], %1: i64[], %2: i64[]) -> bool[] {
      %3: bool[] = lt(%1, %2)
      return %3
    }
    graph @turn(%0: f64[], %1: i64[], %2: i64[]) -> f64[], i64[] {
      %3: i64[] = full() {dtype=i64, shape=[], value=0}
      %4: f64[], %5: i64[] = while(%0, %3, %1) {num_carries=2} [
        graph @test(%0: f64[], %1: i64[], %2: i64[]) -> bool[] {
          %3: bool[] = lt(%1, %2)
          return %3
        }
        graph @turn(%0: f64[], %1: i64[], %2: i64[]) -> f64[], i64[] {
          %3: f64[] = full() {dtype=f64, shape=[], value=1.25}
          %4: f64[] = mul(%0, %3)
          %5: i64[] = full() {dtype=i64, shape=[], value=1}
          %6: i64[] = add(%1, %5)
          return %4, %6
        }
      ]
      %6: f64[] = full() {dtype=f64, shape=[], value=100.0}
      %7: bool[] = gt(%4, %6)
      %8: f64[] = cond(%7, %4) [
        graph @then(%0: f64[]) -> f64[] {
          %1: f64[] = sqrt(%0)
          return %1
        }
        graph @otherwise(%0: f64[]) -> f64[] {
          %1: f64[] = add(%0, %0)
          return %1
        }
      ]
      %9: i64[] = full() {dtype=i64, shape=[], value=1}
      %10: i64[] = add(%1, %9)
      return %8, %10
    }
  ]
  return %1
}"""


def test_loops_and_branches_inside_of_loops() -> None:
    compiled = made(NESTED)
    for turns in (0, 1, 2, 17):
        check(compiled, [np.array(1.5), np.array(turns)])


def test_all_outputs_are_stored_when_the_call_ends() -> None:
    """Also one that is an input as it was, and one that stands twice."""
    text = newton("[]").replace("-> f64[], i64[] {\n  %0", "-> f64[], i64[], f64[], f64[] {\n  %0", 1)
    text = text.replace("return %1, %2\n}", "return %1, %2, %a, %1\n}")
    check(made(text), [np.array(3.0), np.array(2.0), np.array(9)])


FOREVER = """
import os, signal, sys, threading, time
import numpy as np
import jitgraph.ops
from jitgraph.compiler import compile
from jitgraph.ir.parser import parse
made = compile(parse({text!r}))
assert "alwaysinline" in made.llvm_ir
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    made.run([np.array(3.0), np.array(2.0), np.array(2**62)])
except KeyboardInterrupt:
    assert time.monotonic() - start < 20, "late"
    print("interrupted")
time.sleep(0.01)
"""


def test_a_loop_without_end_stops_where_the_user_asks() -> None:
    assert in_child(FOREVER.format(text=newton("[]")), timeout=60) == "interrupted\n"


@pytest.mark.parametrize("nested", [False, True])
def test_a_loop_with_a_branch_asks_the_host_once_in_many_turns(nested: bool) -> None:
    """Reading the clock at each turn takes longer than the turn."""

    def longest(m: Any) -> Any:
        i, most = jg.asarray(1), jg.asarray(0)
        while i < m:
            n, steps = i, jg.asarray(0)
            while n != 1:
                if n % 2 == 0:
                    n = n // 2
                else:
                    n = 3 * n + 1
                steps = steps + 1
            most = jg.maximum(most, steps)
            i = i + 1
        return most

    function = jg.script(longest if nested else collatz)
    assert int(function(jg.asarray(27))) == (23 if nested else 111)
    text = str(function.lower(jg.asarray(27)).compile().llvm_ir)
    entry_text = text[text.index("@jg_entry(") :]
    requested = re.findall(rf"= and i64 %\w+, {entry.POLL_TURNS - 1}$", entry_text, re.MULTILINE)
    assert len(requested) == entry_text.count("call i32 @jg_poll") == 1 + nested
