"""Programs of one rule, with plain operands, and of its edits one: the named cases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.capture.catalogue import BY_NAME, KIND_OF
from tests.capture.compose import NUMBERS_GIVEN, Composer, Fragment, drawn
from tests.capture.program import Edit, Program, Step
from tests.capture.rule import ANY, FN, INDEX, NAME, NUM, OBJ, SEQ, SLOT, TABLE, Rule
from tests.capture.worlds import run

TRIES = 40
_USES = {
    OBJ: "sum of attributes",
    SEQ: "sum",
    TABLE: "sum of values",
    FN: "call of a function",
    NAME: "name looked up",
    INDEX: "range",
}


@dataclass(frozen=True)
class Case:
    """A rule, what its place holds, and which edit is made between the calls; no edit where the argument varies."""

    rule: Rule
    kind: str
    edit: int | None

    def __str__(self) -> str:
        if self.edit is None:
            return self.rule.name.replace(" ", "_")
        kind = "" if self.kind == NUM else f"-{self.kind}"
        return f"{self.rule.name}{kind}-{self.edit}".replace(" ", "_")


class Plain(Composer):
    """Takes a global for each operand and wraps nothing."""

    def operand(self, kind: str, depth: int) -> Fragment:
        return super().instance(BY_NAME["global"], kind, 0)

    def use_of(self, kind: str) -> Rule:
        return BY_NAME[_USES[kind]]

    def wrapped(self, part: Fragment) -> Fragment:
        return part


def cases() -> Iterator[Case]:
    """Every rule with every edit."""
    for rule in BY_NAME.values():
        if KIND_OF[rule.name] == "argument":
            yield Case(rule, rule.gives, None)
            continue
        operands = {match[0] for match in SLOT.finditer(f"{rule.lines}\n{rule.text}")}
        for edit in range(len(rule.edits) + len(operands)):
            yield Case(rule, NUM if rule.gives == ANY else rule.gives, edit)
        if rule.gives == ANY and rule.path:
            yield Case(rule, OBJ, len(rule.edits))


def telling(case: Case, folder: Path) -> Program:
    """The first program of the case whose edits change what plain calls give."""
    for seed in range(TRIES):
        program = alone(f"program_{seed}", case, seed)
        inner = folder / program.name
        inner.mkdir()
        if "effect" in KIND_OF[case.rule.name] or run(program, inner, ()).changed:
            return program
    raise AssertionError(f"{case} changes no result:\n{program.script()}")


def alone(name: str, case: Case, seed: int) -> Program:
    """The program of a case: two calls as it is, two after the edit, then the rule's other edits and this one again."""
    rng = random.Random(f"{case} {seed}")
    composer = Plain(rng, 0, name)
    part = composer.brought_to_number(case.rule, case.kind, 0)
    body = "\n".join([*part.lines, f"t = {part.text}"])
    piece = composer.finished(body, ())
    chosen, others = _chosen(case, composer.edits, rng)
    edits = [None, None, chosen, None, *others, chosen] if chosen is not None else [None] * 6
    steps = []
    for edit in edits:
        texts = ((0, drawn(edit, rng)),) if edit is not None else ()
        steps.append(Step(texts, rng.choice(NUMBERS_GIVEN) if case.edit is None else "2"))
    return Program(name, {0: piece}, True, tuple(steps))


def _chosen(case: Case, edits: list[Edit], rng: random.Random) -> tuple[Edit | None, list[Edit]]:
    """The edit of the case, one of the rule's own or of the operand with that number, and the rule's other ones."""
    if case.edit is None:
        return None, []
    own = [edit for edit in edits if edit.rule == case.rule.name]
    if case.edit < len(own):
        return own[case.edit], [edit for edit in own[: len(case.rule.edits)] if edit is not own[case.edit]]
    of_operands = [edit for edit in edits if edit.rule != case.rule.name]
    starts = [at for at, edit in enumerate(of_operands) if edit.template.endswith(" = $new")]
    at = case.edit - len(own)
    return rng.choice(of_operands[starts[at] : [*starts, len(of_operands)][at + 1]]), []
