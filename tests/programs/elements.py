"""Random functions of two numbers: arithmetic without overflow, branches, bounded loops, helpers, several results."""

from __future__ import annotations

import random
from typing import Final

_ATOMS: Final = ("a", "b", "t", "u", "0.5", "-1.25", "2", "k")
_TESTS: Final = ("{} > {}", "{} <= {}", "{} < 1 and {} > -2", "not {} > {}", "{} >= 0 or {} < 0.25")


class ElementProgram:
    """The source of a function ``f(a, b)`` of floats."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines: list[str] = ["import math", "def helper(x, y):", "    return x - y if x > y else 0.5 * y", ""]
        self._lines += ["def f(a, b):", "    t, u, k = a - b, b * 0.5, 0"]
        for _ in range(self._random.randint(2, 4)):
            self._statement(1, 2)
        self._lines.append(f"    return {self._number(2)}, t + u, k, {self._test()}")
        self.source = "\n".join(self._lines) + "\n"

    def _atom(self) -> str:
        return self._random.choice(_ATOMS)

    def _number(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.25:
            return self._atom()
        left, right = self._number(depth - 1), self._number(depth - 1)
        forms = (
            *(f"({left} + {right})", f"({left} - {right})", f"(0.5 * {left} * math.tanh({right}))", f"abs({left})"),
            *(f"min({left}, {right})", f"max({left}, {right})", f"math.sqrt(abs({left}))", f"helper({left}, {right})"),
            *(f"math.floor({left} * 0.5)", f"({left} if {self._test()} else {right})", f"({left} % 3)"),
        )
        return self._random.choice(forms)

    def _test(self) -> str:
        return f"({self._random.choice(_TESTS).format(self._atom(), self._atom())})"

    def _assignment(self, indent: int) -> None:
        self._lines.append(f"{'    ' * indent}{self._random.choice('tu')} = 1.0 * {self._number(2)}")

    def _statement(self, indent: int, depth: int) -> None:
        space = "    " * indent
        kind = self._random.choice(("assign", "if", "if", "for", "while") if depth else ("assign",))
        if kind == "assign":
            self._assignment(indent)
        elif kind == "if":
            self._lines.append(f"{space}if {self._test()}:")
            self._statement(indent + 1, depth - 1)
            if self._random.random() < 0.5:
                self._lines.append(f"{space}else:")
                self._statement(indent + 1, depth - 1)
        elif kind == "for":
            self._lines.append(f"{space}for _ in range({self._random.choice((2, 3, 12))}):")
            self._statement(indent + 1, depth - 1)
            self._leave(indent + 1)
            self._lines.append(f"{space}    t = 0.5 * t")
        else:
            counter = f"n{len(self._lines)}"
            self._lines += [f"{space}{counter} = 0", f"{space}while {counter} < 5 and {self._test()}:"]
            self._lines += [f"{space}    {counter} += 1", f"{space}    k += 1"]
            self._statement(indent + 1, depth - 1)
            self._leave(indent + 1)

    def _leave(self, indent: int) -> None:
        if self._random.random() < 0.4:
            space = "    " * indent
            self._lines += [f"{space}if {self._test()}:", f"{space}    break"]
