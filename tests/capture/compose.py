"""Random composition of rules: operands, helpers around helpers, loops, branches, and what changes between calls."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.capture.catalogue import giving
from tests.capture.program import Edit, Piece, Program, Step
from tests.capture.rule import ANY, NUM, SLOT, TYPES, Rule, fill, indented, number, value
from tests.capture.uses import USES

_SCOPES = ("module", "cells", "program")
NUMBERS_GIVEN = ("1", "2", "3", "0", "2.5", "-0.0", "True", "-1", "0.5", "4", "5")
_UPDATES = (
    "t = t + {}",
    "t = t * 0.5 + {}",
    "t = {} - t",
    "x = x * {} + t",
    "x = x + {}",
    "t += {}",
    "if {} > 1:\n    t = t + 2\nelse:\n    x = x - 1",
    "if {}:\n    x = x * 2",
)
_AROUND = (
    "for i{n} in range(2):\n{body}",
    "if {test} > 1:\n{body}\nelse:\n    t = t + 3",
    "try:\n{body}\nfinally:\n    t = t + 1",
    "try:\n{body}\nexcept (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):\n    t = t + 4",
    "with contextlib.nullcontext():\n{body}",
    "while t < 3:\n{body}\n    break",
)


@dataclass
class Fragment:
    """An expression with the lines that go before it, and where its names are known."""

    text: str
    lines: list[str] = field(default_factory=list)
    scope: str = "module"


class Composer:
    """Builds one piece: collects state, cells and edits on the way."""

    def __init__(self, rng: random.Random, first: int, name: str) -> None:
        self.rng = rng
        self.next = first
        self.names = {"main": name, "other": name + "_other"}
        self.state: list[str] = []
        self.cells: list[str] = []
        self.parameters: list[str] = []
        self.edits: list[Edit] = []
        self.rules: list[str] = []

    def number(self) -> str:
        self.next += 1
        return str(self.next)

    def operand(self, kind: str, depth: int) -> Fragment:
        """A value of a type from anywhere."""
        if depth <= 0 and self.rng.random() < 0.6:
            return Fragment(value(kind, self.rng).text)
        rules = giving(kind)
        if depth <= 0:
            rules = [rule for rule in rules if not SLOT.search(f"{rule.lines}\n{rule.text}")]
        return self.wrapped(self.instance(self.rng.choice(rules), kind, depth))

    def instance(self, rule: Rule, kind: str, depth: int) -> Fragment:
        """A rule with operands, its state and its edits."""
        self.rules.append(rule.name)
        n = self.number()
        held, other = value(kind, self.rng), value(kind, self.rng)
        words = {**self.names, "n": n, "old": held.text, "new": other.text, "v": number(self.rng)}
        scope, lines, operands = rule.scope, [], {}
        for match in SLOT.finditer(rule.lines + "\n" + rule.text):
            if match[0] not in operands:
                operand = self.operand(match[1], depth - 1)
                operands[match[0]] = operand.text
                lines += operand.lines
                scope = max(scope, operand.scope, key=_SCOPES.index)

        def put(template: str) -> str:
            return fill(SLOT.sub(lambda match: operands[match[0]], template), **words)

        if rule.lines:
            lines.append(put(rule.lines))
        self.state += [fill(rule.state, **words)] if rule.state else []
        self.cells += [fill(rule.cells, **words)] if rule.cells else []
        self.parameters += [fill(rule.parameter, **words)] if rule.parameter else []
        fixed = {**self.names, "n": n}
        inner = [edit.replace("$p", rule.path) for edit in held.edits if rule.path]
        self.edits += [Edit(_partly(edit, fixed), kind, rule.name) for edit in (*rule.edits, *inner)]
        return Fragment(put(rule.text), lines, scope)

    def wrapped(self, part: Fragment) -> Fragment:
        """The same value by way of a helper, an inner function, a lambda or a comprehension, or as it is."""
        if any(re.search(r"\bx\b", line) for line in part.lines):  # it works on the tensor of the program itself
            return part
        n = self.number()
        body = indented("\n".join([*part.lines, f"return {part.text}"]))
        way = self.rng.choice(("as it is",) * 6 + ("helper", "method", "outer", "inner", "lambda", "comprehension"))
        if way == "helper" and part.scope == "module":
            self.state.append(f"def helper{n}():\n{body}")
            return Fragment(f"helper{n}()")
        if way == "method" and part.scope == "module":
            self.state.append(f"class Helper{n}:\n    def get(self):\n{indented(body)}\nhelper{n} = Helper{n}()")
            return Fragment(f"helper{n}.get()")
        if way == "outer" and part.scope != "program":
            self.cells.append(f"def outer{n}():\n{body}")
            return Fragment(f"outer{n}()", scope="cells")
        if way == "inner":
            return Fragment(f"inner{n}()", [f"def inner{n}():\n{body}"], "program")
        if way == "lambda" and not part.lines:
            return Fragment(f"(lambda: {part.text})()", scope=part.scope)
        if way == "comprehension" and not part.lines:
            return Fragment(f"[{part.text} for _ in range(2)][-1]", scope=part.scope)
        return part

    def brought_to_number(self, rule: Rule, kind: str, depth: int) -> Fragment:
        """An instance of a rule, and what makes a number of it where it gives something else."""
        part = self.wrapped(self.instance(rule, kind, depth))
        if kind != NUM:
            part = self.used(self.use_of(kind), kind, part, depth)
        return part

    def use_of(self, kind: str) -> Rule:
        """A rule that makes a number of such a value."""
        return self.rng.choice([use for use in USES if f"${kind}" in use.lines + use.text and use.gives == NUM])

    def used(self, use: Rule, kind: str, part: Fragment, depth: int) -> Fragment:
        """A use whose first operand of the type is ``part``."""
        mark = f"part{self.number()}_"
        template = use.lines + "\n" + use.text
        slot = next(match[0] for match in SLOT.finditer(template) if match[1] == kind)

        def replaced(text: str) -> str:
            return SLOT.sub(lambda match: mark if match[0] == slot else match[0], text)

        result = self.instance(Rule(use.name, replaced(use.text), use.gives, replaced(use.lines)), NUM, depth)
        scope = max(part.scope, result.scope, "program" if result.lines else "module", key=_SCOPES.index)
        lines = [*part.lines, *(line.replace(mark, part.text) for line in result.lines)]
        return Fragment(result.text.replace(mark, part.text), lines, scope)

    def piece(self, rule: Rule) -> Piece:
        """A piece around a rule."""
        kind = self.rng.choice((NUM, NUM, *TYPES)) if rule.gives == ANY else rule.gives
        part = self.brought_to_number(rule, kind, self.rng.choice((0, 1, 1, 2)))
        update = self.rng.choice(_UPDATES).format(part.text)
        body = "\n".join([*part.lines, update])
        while self.rng.random() < 0.25:
            test = self.operand(NUM, 0)
            around = self.rng.choice(_AROUND)
            if "{test}" in around and not test.lines:
                body = around.format(n=self.number(), body=indented(body), test=test.text)
            else:
                lines = [*test.lines, f"t = t + {test.text}"] if "{test}" in around else []
                around = _AROUND[0] if "{test}" in around else around
                body = "\n".join([*lines, around.format(n=self.number(), body=indented(body))])
        return self.finished(body, tuple(self.edits))

    def finished(self, body: str, edits: tuple[Edit, ...]) -> Piece:
        """A piece with what was collected."""
        state, cells = "\n".join(self.state), "\n".join(self.cells)
        return Piece(body, state, cells, tuple(self.parameters), edits, tuple(self.rules))


def _partly(template: str, words: dict[str, str]) -> str:
    """A template of which only some words are filled in."""
    kept = {word: f"${word}" for word in ("old", "new", "v", *TYPES)}
    return fill(template, **words, **kept)


def drawn(edit: Edit, rng: random.Random) -> str:
    """The text of an edit, with new values."""
    text = SLOT.sub(lambda match: value(match[1], rng).text, edit.template)
    return fill(text, new=value(edit.kind, rng).text, v=number(rng))


def compose(name: str, rules: Sequence[Rule], rng: random.Random, calls: int = 5) -> Program:
    """A program of one piece for each rule, with edits between its calls."""
    pieces: dict[int, Piece] = {}
    first = 0
    for location, rule in enumerate(rules):
        composer = Composer(rng, first, name)
        pieces[location] = composer.piece(rule)
        first = composer.next
    if rng.random() < 0.2:  # state that nothing reads
        location = rng.randrange(len(rules))
        pieces[location] = replace(pieces[location], body="pass")
    every = [(location, edit) for location, piece in pieces.items() for edit in piece.edits]
    steps = []
    for call in range(calls):
        chosen = rng.sample(every, min(len(every), rng.choice((0, 1, 1, 2, 3)))) if call else []
        edits = tuple((location, drawn(edit, rng)) for location, edit in chosen)
        steps.append(Step(edits, rng.choice(NUMBERS_GIVEN) if rng.random() < 0.5 else "2"))
    return Program(name, pieces, rng.random() < 0.5, tuple(steps))
