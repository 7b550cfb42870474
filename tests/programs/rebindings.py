"""Random programs that write tensors in place through names that branches and loops rebind: drawn as source text.

Tensors are int64 of three elements, so that results are exact. They stand in arguments, variables, lists, a tuple, an
attribute and in variables of the module, and several names may mean one tensor.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from tests.programs import indented

TENSORS: Final = ("a", "b", "c", "x", "y", "z")
PLACES: Final = (
    *TENSORS, *TENSORS, "box[0]", "box[1]", "spare[0]", "pair[0]", "pair[1]", "point.total", "first", "last",
    "box[k % 2]", "spare[i % 2]", "state['rows'][0]", "state['rows'][1]",
)  # fmt: skip
SETTABLE: Final = (
    *TENSORS, *TENSORS, "box[0]", "box[1]", "spare[1]", "point.total", "x, y", "box[0], a", "b, point.total",
    "box[i % 2]", "spare[1], box[k % 2]", "state['rows'][0]", "state['rows'][1], x",
)  # fmt: skip
EXCHANGES: Final = (
    "a, b = b, a", "x, y, z = y, z, x", "a, x = x, a", "box[0], box[1] = box[1], box[0]", "box, spare = spare, box",
    "box = spare", "spare = [x, b]", "box = [box[1], z]", "pair = pair[1], pair[0]", "pair = (x, a)",
    "point.total, a = a, point.total", "x = y = z", "box = [y, y]", "pair = (box[0], c)", "z = spare[1]",
    "state['rows'] = box", "state['rows'] = [x, c]", "spare = state['rows']",
    "box, state['rows'] = state['rows'], spare",
)  # fmt: skip
TESTS: Final = (
    "x.sum() > 9", "a[0] > b[1]", "n > 1", "n % 2 == 0", "y[i % 3] > 4", "point.total.sum() < 12", "z[0] < c[2]",
    "box[0][1] % 2 == 0", "first[0] > 3", "i % 2 == 1", "i > 1 and last[2] > 5", "k < 2 or b[0] > 6",
    "x is y", "a is not point.total", "box is spare or z is x",
)  # fmt: skip
RESULT: Final = "(a, b, c, x, y, z, box, spare, pair, point.total, state)"
HEAD: Final = """class Point:
    def __init__(self, total):
        self.total = total

def grown(v, w):
    if v[0] > w[0]:
        v[1] = 5
        return v
    return w

def program(a, b, c, n):
    x, y, z, i, k = a, b * 1, c + 1, 0, 0
    box, spare, pair, point = [x, z], [b, y], (a, y), Point(z)
    state = {"rows": [c, x]}
"""


@st.composite
def statements(draw: Any, depth: int, in_loop: bool) -> list[str]:
    """The lines of a statement."""
    kinds = ["bind", "bind", "new", "exchange", "exchange", "choose", "call", *["write"] * 5]
    kind = draw(st.sampled_from(kinds + (["if", "if", "for", "for", "while", "leave"] if depth else [])))
    test, other = draw(st.sampled_from(TESTS)), draw(st.sampled_from(TESTS))
    source, second = draw(st.sampled_from(PLACES)), draw(st.sampled_from(PLACES))
    target = draw(st.sampled_from(SETTABLE))
    twice = "," in target
    match kind:
        case "bind":
            return [f"{target} = {source}, {second}" if twice else f"{target} = {source}"]
        case "new":
            return [f"{target} = {source} * 1, {second} + 1" if twice else f"{target} = ({source} + {second}) % 13"]
        case "exchange":
            return [draw(st.sampled_from(EXCHANGES))]
        case "choose":
            return [f"{target.split(',')[0]} = {source} if {test} else {second}"]
        case "call":
            return [f"{target.split(',')[0]} = grown({source}, {second})"]
        case "write":
            slot = draw(st.sampled_from(PLACES))
            return [
                draw(
                    st.sampled_from(
                        (
                            f"{slot}[{draw(st.sampled_from(('0', 'i % 3', '-1', 'n % 3')))}] = {source}[1] % 11 + 1",
                            f"{slot}[:2] = {source}[1:]",
                            f"{slot}[:] = {source} % 7 + i",
                            f"{slot}[{source} > 5] = 3",
                        )
                    )
                )
                if slot.startswith(("pair", "first", "last")) or draw(st.booleans())
                else f"{slot} {draw(st.sampled_from(('+=', '-=', '%=')))} {draw(st.sampled_from(('2', '7', 'n + 5')))}"
            ]
        case "leave":
            return [
                f"if {test}:",
                f"    {draw(st.sampled_from(['return ' + RESULT] + ['break', 'continue'] * in_loop))}",
            ]
    inner = indented(draw(blocks(depth - 1, in_loop or kind != "if")))
    match kind:
        case "if":
            lines = [f"if {test}:", *inner]
            if draw(st.booleans()):
                lines += [f"elif {other}:", *indented(draw(blocks(depth - 1, in_loop)))]
            if draw(st.booleans()):
                lines += ["else:", *indented(draw(blocks(depth - 1, in_loop)))]
            return lines
        case "for":
            return [f"for i in range({draw(st.sampled_from(('3', '9', 'n', 'n % 3', 'n + 1')))}):", *inner, "i = 1"]
    count = f"k{depth}"
    return [f"{count} = 0", f"while {count} < 3 and ({test}):", f"    {count} = {count} + 1", *inner]


@st.composite
def blocks(draw: Any, depth: int, in_loop: bool) -> list[str]:
    """The lines of a block."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        lines += draw(statements(depth, in_loop))
    return lines


programs = blocks(3, False).map(lambda lines: HEAD + "\n".join([*indented([*lines, f"return {RESULT}"]), ""]))
"""Functions of tensors a, b, c and an int tensor n, of modules that have tensors ``first`` and ``last``."""
