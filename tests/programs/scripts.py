"""Random structured programs for the property test of jg.script: drawn by hypothesis, as source text.

Variables, elements and attributes keep their types; branches and loops nest, are left by break, continue and return,
have else clauses, change lists, dicts and objects in place, and compute with numbers by the table of ``numbers.py``. A
statement of one line is a text in ``SINGLE``; one with a block is a kind in ``nested``.
"""

from __future__ import annotations

import ast
import itertools
import re
from typing import Any, Final

from hypothesis import strategies as st

from tests.programs import indented, numbers

FLOATS = (
    "a + b", "a - b * 0.5", "a * 0.5", "b - 1", "a + n", "b * 0.25 + m", "helper(a, b)", "0.5 * (a if {} else b)",
    "box[0] + 1", "state['h'] * 0.5", "point.total - b", "w + a",
)  # fmt: skip
INTS = (
    "n + 1", "m - n", "n // 2", "m % 3", "n * 2 - m", "(n if {} else m + 1)", "3 - n", "box[1] + n", "state['n'] - 1",
    "point.count % 4", "i0 + m",
)  # fmt: skip
TESTS = (
    "a > b", "n % 2 == 0", "a < 1.5", "n < m", "not a > 0", "a > 0 and n < 3", "b < 0 or m > 1", "0 < n < 4",
    "-1 < a <= b", "n", "a > -9 and not (b > 2 or n > m)", "flag", "not flag and m > 0", "box[0] > state['h']",
    "box[1] % 3 == 1", "point.count < 3", "(w := a * 0.5) > 0 and (v := b + w) > -1", "n > 1 or (v := a - 1) > 0",
    "state['n'] > 2 and box[2][0] < 5",
)  # fmt: skip
LIST = (
    "box[0] = a * 1", "box[0] = box[0] * 0.5 + b", "box[1] += 1", "box[1] = box[1] + n % 3", "box[2][0] = b - 1",
    "box[2][0], box[0] = box[0], box[2][0]", "box[-2][1] = box[1] * 2",
)  # fmt: skip
DICT = (
    "state['h'] = state['h'] - a", "state['n'] += 2", "state['h'], a = a, state['h']", "state['deep']['b'] = b + 0.5",
    "state['n'] = state['n'] * 2 - n",
)  # fmt: skip
ATTRIBUTE = (
    "point.total = point.total + b * 0.25", "point.count += 1", "point.bump(a, n)", "setattr(point, 'count', n + 1)",
    "point.pair[0] = a - point.pair[0]",
)  # fmt: skip
BY_NUMBER = (
    "box[3][u % 3] = u + 1", "box[3][i0 % 3] += 2", "u = box[3][u % 3] + u % 5", "u += state['m'].get(u, 7)",
    "state['m'][u % 2] += 1", "state['m'][i1 % 2] = state['m'][u % 2] % 11", "r = r * 0.5 + (u in (1, 3, 2.0))",
    "u = u % 9 + (i0 in box[3])", "u = [5, 2, u % 7][i0 % 3]", "u = u % 9 + (u is not None and (u > 2) is True)",
    "u = sorted([u % 9, i0 % 4, 3])[-1]", "u = u % 6 + box[3].count(u % 6)", "box[3][u % 3], u = u % 8, box[3][0]",
    "u, box[3][u % 3] = box[3][u % 2], u % 5", "(box[3][i0 % 3], [box[1], u]) = (u % 7, [n, box[3][u % 3]])",
    "box[2 + i0 % 2][1] += 1", "box[3][u % 2 - 1] = u = box[1] = u % 4", "box[3][i1 % 3], *rest, u = u % 9, 1, i0, 2",
    "[point, point][u % 2].count += 1", "u = u % 7 + [[1], [2, 3, i0]][i0 % 2][0]", "state['m'][u % 2], u = u % 3, 4",
    "r = round(r * 0.37, 2)", "u = divmod(u, 5)[1] + (u << 2) % 7", "u = (u ** 3) % 101",
)  # fmt: skip
TABLES = (  # of NumPy, by numbers and tensors that the graph computes
    "r = r * 0.5 + float(RATES[u % 5])", "u = u % 7 + int(COUNTS[u % 4])", "a = a * 0.5 + RATES[i0 % 5]",
    "u = int(GRID[u % 2, i0 % 3]) - u % 4", "b = b * 0.25 + GRID[u % 2].sum()",
    "r = float(RATES[i1 % 3 - 5]) - r * 0.25", "b = b - GRID[i0 % 2][u % 3] * 0.5", "a = a - float(RATES[n % 5])",
    "box[1] += int(COUNTS[i0 % 4 - 4])", "state['h'] = state['h'] * 0.5 + RATES[u % 4]",
    "a = a + (GRID[u % 2] * xs).sum() * 0.5", "u = u % 9 + len(RATES)",
    "point.total = point.total - RATES[COUNTS[u % 4]]", "b = b * 0.5 + GRID[:, u % 3].max()",
    "k = k + int(COUNTS[m % 4])", "flag = RATES[u % 5] > a", "r = float(max(RATES[u % 5], RATES[i0 % 5]))",
    "u = int(COUNTS[COUNTS[u % 4] % 4]) + u % 3",
)  # fmt: skip
NUMBERS = ("r = weigh({})", "u = int(weigh({}) * 4)", "r = r * 0.5 + weigh({})")
AUGMENTED = ("a = a + 1", "last += 1.5", "last = last + a * 0.125", "n = n - 1", "k += 2", "k = k + n % 2")
RESULT = "(a, b, n, m, k, last, u, r, flag, w, v, i0, i1, i2, box, state, point.total, point.count, point.pair)"
HELPERS: Final = """import math
import numpy

RATES = numpy.array([0.5, -1.25, 2.0, 0.0, 3.5])
COUNTS = numpy.array([3, 0, 2, 1])
GRID = numpy.array([[0.25, -0.5, 1.0], [4.0, 0.125, -2.0]])

class Point:
    def __init__(self, total):
        self.total = total
        self.count = 0
        self.pair = [total, 1]

    def bump(self, x, n):
        if x > 0:
            self.total = self.total + x * 0.5
            self.count += n % 2
        elif n > 2:
            self.pair[1] += 1

def weigh(value):
    if value is None or isinstance(value, str):
        return 0.25
    if isinstance(value, dict):
        return weigh(list(value.values()))
    if isinstance(value, (tuple, list)):
        total = 0.0
        for part in value:
            total = total * 0.5 + weigh(part)
        return total
    value = float(value)
    if value != value:
        return 0.5
    return round(value, 3) if -900.0 < value < 900.0 else 1.5

def helper(x, y):
    if x > y:
        return x * 0.5
    if y > 3:
        y = y - 1
    return x - y

"""
HEAD: Final = (
    HELPERS
    + """def program(a, b, n, m, xs, flag, mode):
    k, last, w, v, i0, i1, i2, u, r = 0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0.5
    box, state = [a, 0, [b, 1], [4, 1, 2]], {"h": b, "n": 1, "deep": {"b": a}, "m": {0: 1, 1: 2}}
    point = Point(b - 1)
"""
)
COMPREHENSIONS = (
    "a = a + sum(x * 0.5 for x in xs)", "b = jg.stack([x + b for x in xs]).max()",
    "a = [a * j for j in range(11)][-1] - sum([b - j for j in range(10)])",
)  # fmt: skip
SCRATCH = ("", "", "[a]", "[a, b]", "(b, n)", "b", "n > 1", "'text'", "{'a': a}", "helper", "point")
SINGLE: Final = {
    "augmented": AUGMENTED, "list": LIST, "dict": DICT, "attribute": ATTRIBUTE, "by number": BY_NUMBER,
    "comprehension": COMPREHENSIONS, "table": TABLES,
}  # fmt: skip
SIMPLE = (
    "float", "int", "flag", "exit", "function", "grown", "nonlocal", "deleted", "scratch", "number", "number", *SINGLE,
)  # fmt: skip
NESTED = (
    "if", "if", "range", "step", "rows", "enumerate", "zip", "while", "while", "finally", "with", "match", "endless",
    "numbers",
)  # fmt: skip


@st.composite
def blocks(draw: Any, depth: int, in_loop: bool) -> list[str]:
    """The lines of a block."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, in_loop))
    return lines


def _filled(draw: Any, text: str) -> str:
    return text.format(draw(st.sampled_from(TESTS))) if "{}" in text else text


@st.composite
def statements(draw: Any, depth: int, in_loop: bool) -> list[str]:
    """The lines of a statement."""
    kind = draw(st.sampled_from((*SIMPLE, *(NESTED if depth else ()))))
    if kind in SIMPLE:
        lines: list[str] = draw(simple(kind, in_loop))
        return lines
    return list(draw(nested(kind, depth, in_loop)))


@st.composite
def simple(draw: Any, kind: str, in_loop: bool) -> list[str]:
    """The lines of a statement without a block."""
    test = draw(st.sampled_from(TESTS))
    match kind:
        case "float":
            expression = draw(st.sampled_from(FLOATS))
            return [f"{draw(st.sampled_from('ab'))} = {_filled(draw, expression)}"]
        case "int":
            return [f"{draw(st.sampled_from('nm'))} = {_filled(draw, draw(st.sampled_from(INTS)))}"]
        case "flag":
            return [f"flag = {draw(st.sampled_from(['a > 1', 'not flag', 'n > 2 or flag']))}"]
        case "exit":
            leave = draw(st.sampled_from([f"return {RESULT}", *(["break", "continue"] if in_loop else [])]))
            return [f"if {test}:", f"    {leave}"]
        case "grown":
            last = draw(st.sampled_from(["a", "a + out[-1] * 0.25", "out[-1] - out[0] * 0.5"]))
            head = ["out = [b]", f"for j in range({draw(st.sampled_from([3, 11, 40]))}):", "    a = a * 0.5 + j"]
            tail = [f"    if {test}:", "        a = a - 0.25", f"    out.append({last})"]
            return [*head, *tail, "b = out[-1] + sum(out) * 0.125 + out[1] + jg.stack(out).min() + len(out)"]
        case "nonlocal":
            name = f"count_{draw(st.integers(0, 999))}"
            body = ["    nonlocal k", f"    if {test.replace(':=', '==')}:", "        k = k + 1", "    return y * 0.5"]
            return [f"def {name}(y):", *body, f"b = {name}(b)"]
        case "deleted":
            return ["gone = a * 0.5", "b = b - gone", "del gone"]
        case "scratch":  # a variable of any type, which is set again before each read
            kept = draw(st.sampled_from(SCRATCH))
            return [f"scratch = {kept}"] if kept else ["scratch = a * 0.5 + n", "b = b - scratch"]
        case "number":
            return [draw(operation_statements())]
        case "function":
            body = ["    if x > y + last:", "        return x * 0.5 + n * 0.25", "    return y - k"]
            name = f"inner_{draw(st.integers(0, 999))}"
            return [f"def {name}(x, y):", *body, f"a = {name}(a, b)"]
    return [draw(st.sampled_from(SINGLE[kind]))]


_SMALL: Final[tuple[dict[str, tuple[tuple[Any, ...], tuple[str, ...]]], ...]] = (
    {
        "i": ((0, 1, 2, 3), ("(u % 4)", "(i0 % 4)", "(int(n) % 4)", "(abs(int(m)) % 4)")),
        "j": ((1, 2, 3), ("(u % 3 + 1)", "(i1 % 3 + 1)")),
        "f": ((0.25, 0.6, 1.2), ("(r % 4.0 * 0.25 + 0.25)", "(float(a) % 1.0 + 0.25)", "((u % 4) * 0.25 + 0.3)")),
        "g": ((0.25, 0.5, 1.5), ("((u % 3) * 0.5 + 0.5)", "(i1 % 2 + 0.25)")),
        "b": ((False, True), ("(u > 2)", "(r > 0.5)", "bool(n)")),
        "c": ((False, True), ("(i0 == 1)", "(u % 2 == 0)")),
    },
    *(
        {
            "i": ((i,), (f"(u * 0 + {i})",)),
            "j": ((1, 2), ("(u % 2 + 1)",)),
            "f": ((f,), (f"(r * 0.0 + {f})",)),
            "g": ((0.5, 1.0), ("((u % 2) * 0.5 + 0.5)",)),
            "b": ((True,), ("(u == u)",)),
            "c": ((True,), ("(r == r)",)),
        }
        for i, f in ((1, 0.5), (3, 1.0))
    ),
)
"""Small operands that a program makes of its variables: their values, and the expressions; the later ones for
operations that raise for some of the others."""


def _operands_of(operation: numbers.Operation) -> dict[str, tuple[tuple[Any, ...], tuple[str, ...]]]:
    """Operands for which an operation never raises; none where there are none."""
    for small in _SMALL:
        grid = [small[name][0] for name in operation.operands]
        every = [dict(zip(operation.operands, values, strict=True)) for values in itertools.product(*grid)]
        if not any(isinstance(numbers.plain(operation.text, values), Exception | complex) for values in every):
            return small
    return {}


OPERATIONS: Final = {operation: small for operation in numbers.OPERATIONS if (small := _operands_of(operation))}
_LISTED: Final = list(OPERATIONS)


def _of_variables(number: int, choice: int) -> str:
    """An operation of the table with small numbers of the program's in place of its operands."""
    operation = _LISTED[number]
    texts = {name: result for name, (_, result) in OPERATIONS[operation].items()}
    return re.sub(r"\b[ijfgbc]\b", lambda found: texts[found[0]][choice % len(texts[found[0]])], operation.text)


@st.composite
def nested(draw: Any, kind: str, depth: int, in_loop: bool) -> list[str]:
    """The lines of a statement with a block."""
    test, loops = draw(st.sampled_from(TESTS)), kind not in ("if", "finally", "with", "match", "numbers")
    inner = indented(draw(blocks(depth - 1, in_loop or loops)))
    i, head = f"i{depth - 1}", []
    use = draw(st.sampled_from([f"    a = a + {i} * 0.5", f"    n = n + {i}", f"    k = k + {i} % 2", "    pass"]))
    match kind:
        case "if":
            head = [f"if {test}:", *inner]
            if draw(st.booleans()):
                other = draw(st.sampled_from(TESTS))
                head += [f"elif {other}:", *indented(draw(blocks(depth - 1, in_loop)))]
        case "finally":
            return ["try:", *inner, "finally:", "    m = m + 1"]
        case "with":
            return ["with jg.no_grad():", *inner]
        case "match":
            return ["match mode:", '    case "x":', *indented(inner), "    case _:", "        b = b - 0.5"]
        case "endless":
            count, word = f"e{depth}", f"found{depth}"
            head = [f"{count} = 0", "while True:", f"    {count} += 1", f"    if {count} > 5:"]  # also by continue
            head += [f"        {word} = a - {count}", "        break", *inner]
            head += [f"    if {count} > 3 or ({test}):", f"        {word} = a + {count}", "        break"]
            return [*head, f"b = b + {word} * 0.5"]
        case "numbers":
            other = indented(indented(draw(blocks(depth - 1, in_loop))))
            head = ["match n:", "    case 0 | 2:", *indented(inner), f"    case q if q > 3 and ({test}):"]
            return [*head, "        a = a - q", "    case q:", "        m = m + q % 2", *other]
        case "range":
            head = [f"for {i} in range({draw(st.sampled_from(['3', '11', 'n % 4', '1, m % 5']))}):", use, *inner]
        case "step":
            bounds = draw(
                st.sampled_from(
                    ["0, n % 9, 2", "n % 9, -2, -1", "n % 3, m % 9, n % 2 + 1", "m % 9, n % 7, 1 - n % 2 * 2"]
                )
            )
            head = [f"for {i} in range({bounds}):", use, *inner]
        case "rows":
            head = ["for row in xs:", "    b = b * 0.5 + row", *inner]
        case "enumerate":
            head = [f"for {i}, row in enumerate(xs, 1):", "    b = b * 0.5 + row", use, *inner]
        case "zip":
            head = [f"for {i}, row in zip(range(n % 5), xs):", "    b = b - row * 0.5", use, *inner]
        case "while":
            count = f"c{depth}"
            head = [f"{count} = 0", f"while {count} < 4 and ({test}):", f"    {count} += 1", *inner]
    if draw(st.integers(0, 2)) == 0:
        head += ["else:", *indented(draw(blocks(depth - 1, in_loop)))]
    return head


@st.composite
def operation_statements(draw: Any) -> str:
    """An operation of the table, marked by its number."""
    number = draw(st.sampled_from(range(len(_LISTED))))
    text = _of_variables(number, draw(st.integers(0, 3)))
    return f"{draw(st.sampled_from(NUMBERS)).format(text)}  # op {number}"


def _program(lines: list[str], last: list[str]) -> str:
    """A program that ends with a loop over operations of numbers."""
    loop = ["for i2 in range(n % 3):", *indented(last)]
    return HEAD + "\n".join([*indented([*lines, *loop]), f"    return {RESULT}", ""])


programs = st.builds(_program, blocks(2, False), st.lists(operation_statements(), min_size=3, max_size=5))


def parts(source: str) -> set[str]:
    """What a program consists of, for the count of what was covered."""
    body = source.removeprefix(HEAD)
    words = {
        "if": "if ", "elif": "elif ", "else": "else:", "for": "for ", "while": "while ", "break": "break",
        "continue": "continue", "early return": f"    return {RESULT}\n    ", "finally": "finally:", "with": "with ",
        "match": "match ", "list": "box[", "dict": "state[", "attribute": "point.", ":=": ":=", "closure": "def inner",
        "grown": "out.append", "comprehension": "for x in xs", "nonlocal": "nonlocal", "endless": "while True",
        "pattern": "match n:", "deleted": "del gone", "step": "range(n % 9, -2", "zip": "zip(",
        "enumerate": "enumerate(", "by number": "box[3]", "scratch": "b - scratch", "rates": "RATES[", "grid": "GRID[",
    }  # fmt: skip
    return {part for part, word in words.items() if word in body}


def statements_of(source: str) -> set[int]:
    """The lines of the statements of a program, without the functions around it and those inside of it."""
    program = next(node for node in ast.parse(source).body if getattr(node, "name", "") == "program")
    inner = (node for node in ast.walk(program) if isinstance(node, ast.stmt))
    return {node.lineno for node in inner if not isinstance(node, ast.FunctionDef | ast.Pass | ast.Nonlocal)}


def operations(source: str) -> set[str]:
    """The operations of the table that a program has."""
    return {_LISTED[int(number)].text for number in re.findall(r"# op (\d+)", source)}
