"""Which programs a run tries: three rules each, from a shuffled deck, so that every rule comes around."""

from __future__ import annotations

import os
import random
from functools import cache

from tests.capture.catalogue import RULES
from tests.capture.compose import compose
from tests.capture.program import Program
from tests.capture.rule import Rule

COUNT = int(os.environ.get("CAPTURE_PROGRAMS", "200"))
SEED = int(os.environ.get("CAPTURE_SEED", "0"))
PIECES = 3


@cache
def _deck(seed: int) -> tuple[Rule, ...]:
    deck = list(RULES)
    random.Random(seed).shuffle(deck)
    return tuple(deck)


def draw(index: int, seed: int = SEED) -> Program:
    """The program with this number."""
    deck = _deck(seed)
    rules = [deck[(PIECES * index + position) % len(deck)] for position in range(PIECES)]
    return compose(f"program_{index}", rules, random.Random(f"{seed} {index}"))
