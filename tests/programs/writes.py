"""Random programs that write elements, rows, slices and masks of arrays in loops and branches: drawn as source text.

They run as plain Python on NumPy arrays of int64, whose results are exact, and as scripts on tensors.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.programs import indented

PLACES = ("i", "j", "(i + 1) % 6", "(j + i) % 6", "n % 6", "-1", "2", "a[i] % 6", "-1 - j")
ROW_PLACES = ("i % 3", "j % 3", "0", "-1", "b[j] % 3")
COLUMN_PLACES = ("i % 4", "j % 4", "1", "-2", "n % 4")
TESTS = (
    "a[i] > b[j]",
    "i % 2 == 0",
    "n > 3",
    "a[j] % 3 == 1",
    "c[i % 3, j % 4] < 9",
    "i > j and b[i] > 2",
    "s % 2 < 1",
)
SWAPS = (
    "a, b = b, a",
    "a, b = b, a * 1",
    "a, b, d = b, d, a",
    "d, a = a + i, b",
    "d = d - b[j]",
    "b = a * 1",
    "a = a * (a > b) + b * (a <= b)",
    "a = a + b % 3",
    "n = n + s % 5",
    "a = w * 1",
    "d = w * 1",
    "c = c * 1",
)
LEAVES = ("break", "continue")
RESULT = "a, b, c, d, n, s"


@st.composite
def scalars(draw: Any) -> str:
    """An expression for one number, bounded by what writes take of it."""
    position, row, column = (draw(st.sampled_from(some)) for some in (PLACES, ROW_PLACES, COLUMN_PLACES))
    reads = f"a[{position}]", f"b[{position}]", f"c[{row}, {column}]"
    leaves = (*reads, "i", "n", "s", "a.sum()", "c[1].sum()", "(b - a).max()")
    first, second = draw(st.sampled_from(leaves)), draw(st.sampled_from(leaves))
    return draw(st.sampled_from((first, f"{first} + {second}", f"{first} * 3 - {second}", f"{second} + 1")))


@st.composite
def statements(draw: Any, depth: int, loops: int) -> list[str]:
    """The lines of a statement."""
    kinds = [
        "element",
        "element",
        "element",
        "add",
        "swap",
        "row",
        "slice",
        "column",
        "mask",
        "scalar",
        "whole",
        "whole",
        "whole",
    ]
    kind = draw(st.sampled_from(kinds + (["if", "if", "for", "while", "leave"] if depth else [])))
    value = f"({draw(scalars())}) % 97"
    position, other = draw(st.sampled_from(PLACES)), draw(st.sampled_from(PLACES))
    row, column = draw(st.sampled_from(ROW_PLACES)), draw(st.sampled_from(COLUMN_PLACES))
    name, source = draw(st.sampled_from("ab")), draw(st.sampled_from("ab"))
    match kind:
        case "element":
            return [draw(st.sampled_from((f"{name}[{position}] = {value}", f"c[{row}, {column}] = {value}")))]
        case "add":
            return [f"{name}[{position}] += {value}"]
        case "swap":
            return [f"{name}[{position}], {source}[{other}] = {source}[{other}], {name}[{position}]"]
        case "row":
            new = draw(st.sampled_from((f"{source}[1:5]", f"c[{draw(st.sampled_from(ROW_PLACES))}] + 1", value)))
            return [f"c[{row}] = {new}"]
        case "column":
            return [f"c[:, {column}] = {draw(st.sampled_from((f'{source}[2:5]', 'c[:, 0] - 1', value)))}"]
        case "slice":
            cuts = f"{name}[1:4] = {source}[2:5]", f"c[{row}, 1:3] = {source}[0:2]", f"{name}[::2] = 5"
            return [draw(st.sampled_from(cuts))]
        case "mask":
            return [f"{name}[{source} > {value}] = 4"]
        case "scalar":
            return [f"s = {value}"]
        case "whole":
            return [draw(st.sampled_from(SWAPS))]
        case "leave":
            return [f"if {draw(st.sampled_from(TESTS))}:", f"    {draw(st.sampled_from(LEAVES))}"] if loops else []
        case "if":
            lines = [f"if {draw(st.sampled_from(TESTS))}:", *indented(draw(blocks(depth - 1, loops)))]
            if draw(st.booleans()):
                lines += ["else:", *indented(draw(blocks(depth - 1, loops)))]
            return lines
    inner = indented(draw(blocks(depth - 1, loops + 1)))
    if kind == "for":
        return [f"for j in range({draw(st.sampled_from(('3', '6', 'n % 5')))}):", *inner, "j = 1"]
    count = f"k{depth}"
    return [f"{count} = 0", f"while {count} < 3 and a[{count}] < 60:", f"    {count} = {count} + 1", *inner]


@st.composite
def blocks(draw: Any, depth: int, loops: int) -> list[str]:
    """The lines of a block."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, loops))
    return lines or ["pass"]


@st.composite
def programs(draw: Any) -> str:
    """A function of arrays a and b of at least 6, a matrix c of 3 by 4, and an int n."""
    lines = [
        "a, b, c, d, s, j = a * 1, b * 1, c * 1, a + 1, 0, 0",
        "w = (b[::-1] + a) % 31",
    ]  # w is read in loops alone
    for _ in range(draw(st.integers(1, 2))):
        lines += ["for i in range(6):", *indented(draw(blocks(2, 1)))]
    lines += [f"return {RESULT}"]
    return "\n".join(["def program(a, b, c, n):", *indented(lines), ""])
