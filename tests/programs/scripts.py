"""Random structured programs for the property test of jg.script: drawn by hypothesis, as source text.

Variables, elements and attributes keep their types; branches and loops nest, are left by break, continue and return,
have else clauses, and change lists, dicts and objects in place.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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
    "box[2][0], box[0] = box[0], box[2][0]", "box[-1][1] = box[1] * 2",
)  # fmt: skip
DICT = (
    "state['h'] = state['h'] - a", "state['n'] += 2", "state['h'], a = a, state['h']", "state['deep']['b'] = b + 0.5",
    "state['n'] = state['n'] * 2 - n",
)  # fmt: skip
ATTRIBUTE = (
    "point.total = point.total + b * 0.25", "point.count += 1", "point.bump(a, n)", "setattr(point, 'count', n + 1)",
    "point.pair[0] = a - point.pair[0]",
)  # fmt: skip
AUGMENTED = ("a = a + 1", "last += 1.5", "last = last + a * 0.125", "n = n - 1", "k += 2", "k = k + n % 2")
RESULT = "(a, b, n, m, k, last, flag, w, v, i0, i1, i2, box, state, point.total, point.count, point.pair)"
HEAD = """
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

def helper(x, y):
    if x > y:
        return x * 0.5
    if y > 3:
        y = y - 1
    return x - y

def program(a, b, n, m, xs, flag, mode):
    k, last, w, v, i0, i1, i2 = 0, 0.0, 0.0, 0.0, 0, 0, 0
    box, state = [a, 0, [b, 1]], {"h": b, "n": 1, "deep": {"b": a}}
    point = Point(b - 1)
"""
COMPREHENSIONS = (
    "a = a + sum(x * 0.5 for x in xs)", "b = jg.stack([x + b for x in xs]).max()",
    "a = [a * j for j in range(11)][-1] - sum([b - j for j in range(10)])",
)  # fmt: skip
SIMPLE = (
    "float", "int", "augmented", "flag", "exit", "list", "dict", "attribute", "function", "grown", "comprehension",
    "nonlocal", "deleted",
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
        case "comprehension":
            return [draw(st.sampled_from(COMPREHENSIONS))]
        case "nonlocal":
            name = f"count_{draw(st.integers(0, 999))}"
            body = ["    nonlocal k", f"    if {test.replace(':=', '==')}:", "        k = k + 1", "    return y * 0.5"]
            return [f"def {name}(y):", *body, f"b = {name}(b)"]
        case "deleted":
            return ["gone = a * 0.5", "b = b - gone", "del gone"]
        case "function":
            body = ["    if x > y + last:", "        return x * 0.5 + n * 0.25", "    return y - k"]
            name = f"inner_{draw(st.integers(0, 999))}"
            return [f"def {name}(x, y):", *body, f"a = {name}(a, b)"]
    return [draw(st.sampled_from({"augmented": AUGMENTED, "list": LIST, "dict": DICT, "attribute": ATTRIBUTE}[kind]))]


@st.composite
def nested(draw: Any, kind: str, depth: int, in_loop: bool) -> list[str]:
    """The lines of a statement with a block."""
    test, loops = draw(st.sampled_from(TESTS)), kind not in ("if", "finally", "with", "match")
    inner = _indented(draw(blocks(depth - 1, in_loop or loops)))
    i, head = f"i{depth - 1}", []
    use = draw(st.sampled_from([f"    a = a + {i} * 0.5", f"    n = n + {i}", f"    k = k + {i} % 2", "    pass"]))
    match kind:
        case "if":
            head = [f"if {test}:", *inner]
            if draw(st.booleans()):
                other = draw(st.sampled_from(TESTS))
                head += [f"elif {other}:", *_indented(draw(blocks(depth - 1, in_loop)))]
        case "finally":
            return ["try:", *inner, "finally:", "    m = m + 1"]
        case "with":
            return ["with jg.no_grad():", *inner]
        case "match":
            return ["match mode:", '    case "x":', *_indented(inner), "    case _:", "        b = b - 0.5"]
        case "endless":
            count, word = f"e{depth}", f"found{depth}"
            head = [f"{count} = 0", "while True:", f"    {count} += 1", *inner]
            head += [f"    if {count} > 3 or ({test}):", f"        {word} = a + {count}", "        break"]
            return [*head, f"b = b + {word} * 0.5"]
        case "numbers":
            other = _indented(_indented(draw(blocks(depth - 1, in_loop))))
            head = ["match n:", "    case 0 | 2:", *_indented(inner), f"    case q if q > 3 and ({test}):"]
            return [*head, "        a = a - q", "    case q:", "        m = m + q % 2", *other]
        case "range":
            head = [f"for {i} in range({draw(st.sampled_from(['3', '11', 'n % 4', '1, m % 5']))}):", use, *inner]
        case "step":
            bounds = draw(st.sampled_from(["0, n, 2", "n, -2, -1", "n % 3, m, n % 2 + 1", "m, n, 1 - n % 2 * 2"]))
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
        head += ["else:", *_indented(draw(blocks(depth - 1, in_loop)))]
    return head


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


programs = blocks(2, False).map(lambda lines: HEAD + "\n".join([*_indented(lines), f"    return {RESULT}", ""]))


def parts(source: str) -> set[str]:
    """What a program consists of, for the count of what was covered."""
    body = source.removeprefix(HEAD)
    words = {
        "if": "if ", "elif": "elif ", "else": "else:", "for": "for ", "while": "while ", "break": "break",
        "continue": "continue", "early return": f"    return {RESULT}\n    ", "finally": "finally:", "with": "with ",
        "match": "match ", "list": "box[", "dict": "state[", "attribute": "point.", ":=": ":=", "closure": "def inner",
        "grown": "out.append", "comprehension": "for x in xs", "nonlocal": "nonlocal", "endless": "while True",
        "pattern": "match n:", "deleted": "del gone", "step": "range(n", "zip": "zip(", "enumerate": "enumerate(",
    }  # fmt: skip
    return {part for part, word in words.items() if word in body}
