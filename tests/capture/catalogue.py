"""All rules, by kind of source."""

from __future__ import annotations

from capture.arguments import ARGUMENTS
from capture.attributes import ATTRIBUTES
from capture.calls import CALLS
from capture.class_effects import CLASS_EFFECTS
from capture.classes import CLASSES
from capture.container_effects import CONTAINER_EFFECTS
from capture.effects import EFFECTS
from capture.interruptions import INTERRUPTIONS
from capture.items import ITEMS
from capture.libraries import LIBRARIES
from capture.methods import METHODS
from capture.places import PLACES
from capture.rule import ANY, Rule
from capture.special import SPECIAL
from capture.statements import STATEMENTS
from capture.syntax import SYNTAX
from capture.tensors import TENSORS
from capture.uses import USES

KINDS: dict[str, tuple[Rule, ...]] = {
    "variable": PLACES,
    "attribute": ATTRIBUTES,
    "class": CLASSES,
    "item": ITEMS,
    "call": CALLS,
    "method": METHODS,
    "special method": SPECIAL,
    "use": USES,
    "effect": EFFECTS,
    "class effect": CLASS_EFFECTS,
    "container effect": CONTAINER_EFFECTS,
    "syntax": SYNTAX,
    "statement": STATEMENTS,
    "interruption": INTERRUPTIONS,
    "argument": ARGUMENTS,
    "tensor": TENSORS,
    "library": LIBRARIES,
}
RULES: tuple[Rule, ...] = tuple(rule for rules in KINDS.values() for rule in rules)
BY_NAME: dict[str, Rule] = {rule.name: rule for rule in RULES}
KIND_OF: dict[str, str] = {rule.name: kind for kind, rules in KINDS.items() for rule in rules}


def giving(kind: str) -> list[Rule]:
    """The rules that give a value of a type."""
    return [rule for rule in RULES if rule.gives in (kind, ANY)]
