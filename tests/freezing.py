"""Collections of cycles that leave out what earlier tests have left: many tests collect, and would walk through all."""

from __future__ import annotations

import gc
from typing import Any, TypeVar

T = TypeVar("T")

_times = 0
_frozen: dict[type[Any], tuple[int, list[Any]]] = {}


def freeze() -> None:
    """Later collections leave out what there is now, and so does ``gc.get_objects``."""
    global _times
    gc.collect()
    gc.freeze()
    _times += 1


def instances(kind: type[T]) -> list[T]:
    """All objects of a class, the frozen ones included; those are kept alive."""
    if _frozen.get(kind, (-1, []))[0] != _times:
        gc.unfreeze()
        _frozen[kind] = _times, [held for held in gc.get_objects() if isinstance(held, kind)]
        gc.freeze()
    return [*_frozen[kind][1], *(held for held in gc.get_objects() if isinstance(held, kind))]
