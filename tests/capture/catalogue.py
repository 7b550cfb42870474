"""All rules, by kind of source."""

from __future__ import annotations

from tests.capture.arguments import ARGUMENTS
from tests.capture.attributes import ATTRIBUTES
from tests.capture.calls import CALLS
from tests.capture.class_effects import CLASS_EFFECTS
from tests.capture.classes import CLASSES
from tests.capture.container_effects import CONTAINER_EFFECTS
from tests.capture.effects import EFFECTS
from tests.capture.interruptions import INTERRUPTIONS
from tests.capture.items import ITEMS
from tests.capture.libraries import LIBRARIES
from tests.capture.methods import METHODS
from tests.capture.places import PLACES
from tests.capture.rule import ANY, Rule
from tests.capture.special import SPECIAL
from tests.capture.statements import STATEMENTS
from tests.capture.syntax import SYNTAX
from tests.capture.tensors import TENSORS
from tests.capture.uses import USES

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
