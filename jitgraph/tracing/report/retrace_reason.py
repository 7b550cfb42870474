"""Why a specialisation does not fit a call, for the ledger, for errors, and for the report on a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.ir.context import Context
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.arguments import Arguments
from jitgraph.tracing.call.code import first_failing
from jitgraph.tracing.call.plan import CallPlan, PinnedSource
from jitgraph.tracing.call.specialisation import Cause, Specialisation
from jitgraph.tracing.guards.guard import Guard, Layout, Predicate, Relation
from jitgraph.tracing.guards.storage import EXPECTED_ERRORS

_FINGERPRINT: Final = ("gradient mode", "anomaly detection", "autocast", "device", "random stream", "default dtype")
"""What the fields of ``Context.fingerprint`` are called."""


def cause(known: Sequence[Specialisation], arguments: Arguments, values: Sequence[Any], ambient: Context) -> Cause:
    """Why none of the specialisations ``known``, the last used first and at least one, fits a call."""
    fingerprint = ambient.fingerprint
    same = [s for s in known if s.ambient.fingerprint == fingerprint]
    if same:
        return mismatch(same[0], arguments, values)
    pairs = zip(_FINGERPRINT, known[0].ambient.fingerprint, fingerprint, strict=True)
    what = ", ".join(name for name, expected, actual in pairs if expected != actual)
    return Cause(f"the surroundings differ ({what})", "context", what)


def mismatch(specialisation: Specialisation, arguments: Arguments, values: Sequence[Any]) -> Cause:
    """The first thing in which a call differs from what a specialisation assumes."""
    if specialisation.structure != arguments.structure:
        expected, actual = str(specialisation.structure), str(arguments.structure)
        text = f"the structure of the arguments is {actual}, not {expected}"
        return Cause(text, "structure", expected=expected, actual=actual)
    plan = specialisation.plan
    guard = first_failing(plan, specialisation.function, tuple(values))
    if guard is None:
        return Cause("an operand of the graph cannot be made from what is found", "operand")
    where = f" (needed at {guard.location})" if guard.location is not None else ""
    if isinstance(guard.predicate, Relation):
        shown = guard.predicate.shown
        return Cause(f"{shown}{where} no longer holds", "relation", shown, expected="holds", read_at=guard.location)
    if guard.source is None:
        return Cause(f"{guard} no longer holds", "relation", str(guard), expected="holds")
    try:
        actual = specialisation.world(values).find(guard.source)
    except EXPECTED_ERRORS:
        return _of_guard(f"{guard}{where}, but now nothing is there", guard, "nothing is there")
    differs, pinned = guard.predicate.mismatch(actual), _pinned(plan, guard, actual)
    if differs == str(guard.predicate):  # another object of that description
        differs = "is another"
    why = ""
    if pinned is not None:
        why = f"; {pinned.what} needs its value ({pinned.location}): a tensor, as jg.asarray(...), varies freely"
    if guard.location is not None:
        text = f"{guard} (read at {guard.location}), but now it {differs}{why}"
    elif type(guard.predicate).mismatch is Predicate.mismatch:  # which says what the value is, and not what it is not
        text = f"{guard}, but now it {differs}{why}"
    else:
        text = f"{guard.source.text} {differs}{why}"
    return _of_guard(text, guard, differs, pinned)


def _of_guard(text: str, guard: Guard, actual: str, pinned: PinnedSource | None = None) -> Cause:
    assert guard.source is not None
    what, at = ("", None) if pinned is None else (pinned.what, pinned.location)
    predicate, expected = type(guard.predicate).__name__, str(guard.predicate)
    return Cause(text, "guard", guard.source.text, predicate, expected, actual, guard.location, what, at)


def _pinned(plan: CallPlan, guard: Guard, actual: Any) -> PinnedSource | None:
    """What needs the very value of a number, or of a size of a tensor, where that is known."""
    assert guard.source is not None
    sources, predicate = {guard.source}, guard.predicate
    if (
        isinstance(predicate, Layout)
        and isinstance(actual, Tensor | np.ndarray)
        and actual.ndim == len(predicate.shape)
    ):
        shape = guard.source.then("attribute", "shape")
        pairs = enumerate(zip(actual.shape, predicate.shape, strict=True))
        sources |= {shape.then("item", axis) for axis, (size, known) in pairs if size != known}
    return next((pinned for pinned in plan.pinned if pinned.source in sources), None)
