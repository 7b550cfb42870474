"""What a rule is: one way of reading, or changing, Python state, as a fragment of source with its state and its edits.

A template says ``$n`` for the number of its instance, ``$num``, ``$obj``, ... for an operand of that type (``$num2``
for a second one), ``$old`` for the value that a place holds at first, and in an edit ``$new`` for another value of the
same type and ``$v`` for a number. ``$main`` and ``$other`` are the names of the program's two modules.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

NUM, NAME, INDEX, OBJ, FN, SEQ, TABLE = "num", "name", "index", "obj", "fn", "seq", "table"
TYPES = (NUM, NAME, INDEX, OBJ, FN, SEQ, TABLE)
ANY = "any"  # what a place gives: whatever it was made to hold
SLOT = re.compile(rf"\$({'|'.join(TYPES)})\d?\b")
_WORD = re.compile(r"\$(\w+)")

NUMBERS = ("0", "1", "2", "3", "7", "-1", "0.5", "2.5", "-0.25", "-0.0", "True", "False", "1e6")
RARE_NUMBERS = ("10**6", "1e30", "float('nan')", "-5", "100", "1e-30", "2**20")


@dataclass(frozen=True)
class Value:
    """Source of a value, with statements that change something inside it where it is found at ``$p``."""

    text: str
    edits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One way of reading state: ``lines`` go before the statement that uses the expression ``text``.

    ``state`` goes to the top of the module, ``cells`` into the function that makes the program; ``edits`` are run
    between calls. ``path`` finds the value of a place from the module. ``scope`` is where ``text`` has its names.
    """

    name: str
    text: str
    gives: str = NUM
    lines: str = ""
    state: str = ""
    cells: str = ""
    parameter: str = ""  # of the program itself
    edits: tuple[str, ...] = ()
    path: str = ""
    scope: str = "module"
    refuses: str = ""  # why a trace may refuse it


def rule(name: str, text: str, *edits: str, gives: str = NUM, **parts: str) -> Rule:
    """A rule with its edits by position."""
    if parts.get("cells"):
        parts.setdefault("scope", "cells")
    if parts.get("lines"):
        parts["scope"] = "program"
    return Rule(name, text, gives, edits=edits, **parts)


def place(name: str, text: str, *edits: str, **parts: str) -> Rule:
    """A rule for a place, which may hold a value of any type."""
    return rule(name, text, *edits, gives=ANY, **parts)


def fill(template: str, **words: str) -> str:
    """``template`` with its ``$words``."""

    def put(match: re.Match[str]) -> str:
        best = max((known for known in words if match[1].startswith(known)), key=len)
        return words[best] + match[1][len(best) :]

    return _WORD.sub(put, template)


def indented(text: str, levels: int = 1) -> str:
    """Each line of ``text`` further in."""
    return "\n".join("    " * levels + line if line else line for line in text.splitlines())


def number(rng: random.Random) -> str:
    """The source of a number."""
    return rng.choice(RARE_NUMBERS if rng.random() < 0.03 else NUMBERS)


def value(kind: str, rng: random.Random) -> Value:
    """A value of a type."""
    a, b, c = (number(rng) for _ in range(3))
    if kind == NUM:
        return Value(a)
    if kind == NAME:
        return Value(rng.choice(['"a"', '"bb"']))
    if kind == INDEX:
        return Value(rng.choice(["0", "1", "2", "-1"]))
    if kind == OBJ:
        inner = ("$p.a = $v", "$p.bb = $v", "$p.c = $v")
        if rng.random() < 0.2:
            return Value(f"types.SimpleNamespace(a={a}, bb={b})", inner)
        return Value(f"Box(a={a}, bb={b})", (*inner, "$p.__dict__ = {'a': $v, 'bb': $v}"))
    if kind == FN:
        return rng.choice(FUNCTIONS)
    if kind == SEQ:
        texts = [
            f"[{a}, {b}, {c}]",
            f"deque([{a}, {b}, {c}])",
            f"UserList([{a}, {b}, {c}])",
            f"({a}, {b}, {c})",
            "[0, 0, 0]",
            "[]",
        ]
        inner = ("if $p:\n    $p[-1] = $v", "$p.append($v)", "$p.reverse()", "$p.insert(0, $v)", "$p.clear()")
        pick = rng.choice([0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 5])
        return Value(texts[pick], inner if pick != 3 else ())
    kinds = ["{}", "{}", "defaultdict(int, {})", "OrderedDict({})", "UserDict({})", "ChainMap({{}}, {})"]
    entries = "{" + f'"a": {a}, "bb": {b}' + "}"
    return Value(
        rng.choice(kinds).format(entries), ('$p["a"] = $v', '$p["bb"] = $v', "$p.update(a=$v)", '$p["c"] = $v')
    )


FUNCTIONS = (
    Value("one"),
    Value("two"),
    Value("(lambda p: p + 3)"),
    Value("(lambda p, q=2: p + q)", ("$p.__defaults__ = ($v,)",)),
    Value("Caller(2)", ("$p.k = $v",)),
    Value("functools.partial(plus, 2)"),
    Value("Caller(3).scaled"),
    Value("abs"),
    Value("operator.neg"),
)

HEAD = """\
import abc, builtins, collections, contextlib, copy, ctypes, dataclasses, decimal, enum, functools, inspect, io
import itertools, math, operator, queue, sys, threading, types, typing, weakref
import jitgraph as jg
import numpy as np
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
import $other as other


class Box:
    def __init__(self, **fields):
        for name in fields:
            setattr(self, name, fields[name])


class Caller:
    def __init__(self, k):
        self.k = k

    def __call__(self, p):
        return p * self.k

    def scaled(self, p):
        return p - self.k


def one(p):
    return p + 1


def two(p):
    return p * 2


def plus(p, q=1):
    return p + q


def echo(value=0):
    return value
"""
