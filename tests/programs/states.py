"""Random programs that write parts of state, rebind it and read what was there before: drawn as source text.

They run as plain Python on an object that holds NumPy arrays of int64, whose results are exact, and compiled on a
module of tensors. Where two names are one array in NumPy they are one tensor in the module; so branches write parts and
rebind no name, as which tensor a name is after the call would then depend on numbers.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.programs import indented

PARTS = ("row", "row", "row", "add", "element", "slice", "slice", "rows")
STATES = ("m.a", "m.b", "m.c")
ROWS = ("i", "i + 1", "i - 1", "j", "j - 2", "i + j", "0", "2", "-1")
COLUMNS = ("1", "i % 4", "j % 4", "-1")
TESTS = ("v[0] > 40", "m.a[j, 1] > m.b[0, 2]", "i > j")
RESULT_COUNT = 3


@st.composite
def values(draw: Any, names: tuple[str, ...]) -> str:
    """An expression for a row of four numbers, in memory of its own."""
    one, other = draw(st.sampled_from(STATES)), draw(st.sampled_from(STATES))
    row, next_row = draw(st.sampled_from(ROWS)), draw(st.sampled_from(ROWS))
    forms = (
        f"{one}[{row}] * 1",
        f"({one}[{row}] + {other}[{next_row}] * 3) % 97",
        f"{one}[2:5].sum(0) % 97",
        f"{one}.max(0)",
        "v * 1",
        *(f"({name} + 1) % 97" for name in names),
    )
    return draw(st.sampled_from(forms))


@st.composite
def statements(draw: Any, names: tuple[str, ...], kinds: tuple[str, ...]) -> list[str]:
    """The lines of a statement of one of ``kinds``, which reads ``names``."""
    kind = draw(st.sampled_from(kinds))
    one, other = draw(st.sampled_from(STATES)), draw(st.sampled_from(STATES))
    row, next_row, column = (draw(st.sampled_from(some)) for some in (ROWS, ROWS, COLUMNS))
    match kind:
        case "row":
            return [f"{one}[{row}] = {draw(values(names))}"]
        case "add":
            return [f"{one}[{row}] += {draw(values(names))}"]
        case "element":
            return [f"{one}[{row}, {column}] = {draw(st.sampled_from(('7', 'v[2]', f'{other}[{next_row}, 1]')))}"]
        case "slice":
            cuts = f"{one}[1:4] = {other}[2:5]", f"{one}[3:6] = {draw(values(names))}", f"{one}[:] = {other}"
            return [draw(st.sampled_from(cuts))]
        case "swap":
            return [draw(st.sampled_from((f"{one}, {other} = {other}, {one}", f"{one} = {other}")))]
        case "rows":
            return [f"{one}[{row}], {other}[{next_row}] = {other}[{next_row}] * 1, {one}[{row}] * 1"]
        case "whole":
            changed = f"{one} * 1", f"({other} + 1) % 97", f"{other}[::-1] * 1", f"{one} + {other} % 5"
            return [f"{one} = {draw(st.sampled_from(changed))}"]
    lines = [f"if {draw(st.sampled_from(TESTS))}:", *indented(draw(statements(names, PARTS)))]
    if draw(st.booleans()):
        lines += ["else:", *indented(draw(statements(names, PARTS)))]
    return lines


@st.composite
def programs(draw: Any) -> str:
    """A function of m with arrays a, b and c of four columns and at least 6 rows, two row numbers, and a row."""
    lines: list[str] = []
    names: tuple[str, ...] = ()
    for number in range(draw(st.integers(2, 7))):
        lines += draw(statements(names, (*PARTS, "swap", "whole", "whole", "if")))
        if draw(st.integers(0, 3)) == 0:
            lines.append(f"t{number} = {draw(values(names))}")
            names += (f"t{number}",)
    results = [draw(values(names)) for _ in range(RESULT_COUNT - 1)] + [f"{draw(st.sampled_from(STATES))} * 1"]
    return "\n".join(["def program(m, i, j, v):", *indented([*lines, f"return {', '.join(results)}"]), ""])
