"""Small structured programs for the tests of jg.script: drawn by hypothesis, as source text."""

from __future__ import annotations

import functools
import itertools
import linecache
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import jitgraph as jg

_numbers = itertools.count()
FLOATS = ("a + b", "a - b * 0.5", "a * 0.5", "b - 1", "a + n", "b * 0.25 + m", "helper(a, b)", "0.5 * (a if {} else b)")
INTS = ("n + 1", "m - n", "n // 2", "m % 3", "n * 2 - m", "(n if {} else m + 1)", "3 - n")
TESTS = (
    "a > b", "n % 2 == 0", "a < 1.5", "n < m", "not a > 0", "a > 0 and n < 3", "b < 0 or m > 1", "0 < n < 4",
    "-1 < a <= b", "n", "a > -9 and not (b > 2 or n > m)", "flag", "not flag and m > 0",
)  # fmt: skip
HEAD = """
def helper(x, y):
    if x > y:
        return x * 0.5
    if y > 3:
        y = y - 1
    return x - y

def program(a, b, n, m, xs, flag):
    k = 0
    last = 0.0
"""


@st.composite
def blocks(draw: Any, depth: int, in_loop: bool) -> list[str]:
    """The lines of a block."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, in_loop))
    return lines


@st.composite
def statements(draw: Any, depth: int, in_loop: bool) -> list[str]:
    """The lines of a statement; variables keep their types."""
    test = draw(st.sampled_from(TESTS))
    kinds = ["float", "int", "aug", "flag", "exit"] + (["if", "if", "range", "rows", "while"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "float":
        return [f"{draw(st.sampled_from('ab'))} = {draw(st.sampled_from(FLOATS)).format(test)}"]
    if kind == "int":
        return [f"{draw(st.sampled_from('nm'))} = {draw(st.sampled_from(INTS)).format(test)}"]
    if kind == "aug":
        return [draw(st.sampled_from(["a = a + 1", "last += 1.5", "last = last + a * 0.125", "n = n - 1", "k += 2"]))]
    if kind == "flag":
        return [f"flag = {draw(st.sampled_from(['a > 1', 'not flag', 'n > 2 or flag']))}"]
    if kind == "exit":
        leave = draw(st.sampled_from(["return a, b, n, k, last", *(["break", "continue"] if in_loop else [])]))
        return [f"if {test}:", f"    {leave}"]
    inner = _indented(draw(blocks(depth - 1, in_loop or kind != "if")))
    if kind == "if":
        lines = [f"if {test}:", *inner]
        if draw(st.booleans()):
            other = draw(st.sampled_from(TESTS))
            lines += [f"elif {other}:", *_indented(draw(blocks(depth - 1, in_loop)))]
        if draw(st.booleans()):
            lines += ["else:", *_indented(draw(blocks(depth - 1, in_loop)))]
        return lines
    if kind == "range":
        i = f"i{depth}"
        bound = draw(st.sampled_from(["3", "11", "n % 4", "1, m % 5"]))
        use = draw(st.sampled_from([f"    a = a + {i} * 0.5", f"    n = n + {i}", f"    k = k + {i} % 2"]))
        lines = [f"for {i} in range({bound}):", use, *inner]
    elif kind == "rows":
        lines = ["for row in xs:", "    b = b * 0.5 + row", *inner]
    else:
        count = f"c{depth}"
        lines = [f"{count} = 0", f"while {count} < 4 and ({test}):", f"    {count} += 1", *inner]
    if draw(st.integers(0, 3)) == 0:
        lines += ["else:", "    m = m + 1"]
    return lines


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


programs = blocks(2, False).map(lambda lines: HEAD + "\n".join([*_indented(lines), "    return a, b, n, k, last", ""]))


def define(source: str, name: str = "program", *, shared: str = "") -> Callable[..., Any]:
    """The function ``name`` of a module made of ``source``, of which all programs have the start ``shared`` in common:
    what that defines is rewritten once."""
    space = {**_module(shared)}
    _run(source.removeprefix(shared), space)
    actual: Callable[..., Any] = space[name]
    return actual


@functools.cache
def _module(source: str) -> dict[str, Any]:
    space: dict[str, Any] = {"jg": jg, "__name__": "program"}
    _run(source, space)
    return space


def _run(source: str, space: dict[str, Any]) -> None:
    file = f"/programs/program_{next(_numbers)}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), space)
