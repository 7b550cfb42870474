"""Values that Python takes for equal and that are not the same: 1, True and 1.0, the two zeros, and what holds them."""

from __future__ import annotations

from typing import Any


def typed(value: Any) -> Any:
    """What is equal for two values only where they are of one type and print the same, all the way down."""
    kind = type(value)
    if kind is float:
        return kind, value.hex()  # NaN is NaN, and -0.0 is not 0.0
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if issubclass(kind, tuple | list):
        return kind, *map(typed, value)
    if issubclass(kind, set | frozenset):
        return kind, frozenset(map(typed, value))
    if kind in (slice, range):
        return kind, typed(value.start), typed(value.stop), typed(value.step)
    return kind, value


def are_names(keys: Any) -> bool:
    """Whether all of these keys are texts, which compare as they are."""
    return all(type(key) is str for key in keys)
