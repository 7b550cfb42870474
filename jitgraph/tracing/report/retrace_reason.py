"""Why a specialisation does not fit a call, in words for the ledger and for errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph.ir.context import Context
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.arguments import Arguments
from jitgraph.tracing.call.code import first_failing
from jitgraph.tracing.call.plan import CallPlan
from jitgraph.tracing.call.specialisation import Specialisation
from jitgraph.tracing.guards.guard import Guard, Layout, Predicate, Relation
from jitgraph.tracing.guards.storage import EXPECTED_ERRORS


def reason(known: Sequence[Specialisation], arguments: Arguments, values: Sequence[Any], ambient: Context) -> str:
    """Why none of the specialisations ``known``, the last used first and at least one, fits a call."""
    same = [s for s in known if s.ambient.fingerprint == ambient.fingerprint]
    if not same:
        what = "gradient mode, autocast, anomaly detection, device, default dtype, hooks or random stream"
        return f"the surroundings differ ({what})"
    return mismatch(same[0], arguments, values)


def mismatch(specialisation: Specialisation, arguments: Arguments, values: Sequence[Any]) -> str:
    """The first thing in which a call differs from what a specialisation assumes."""
    if specialisation.structure != arguments.structure:
        return f"the structure of the arguments is {arguments.structure}, not {specialisation.structure}"
    plan = specialisation.plan
    guard = first_failing(plan, specialisation.function, tuple(values))
    if guard is None:
        return "an operand of the graph cannot be made from what is found"
    where = f" (needed at {guard.location})" if guard.location is not None else ""
    if isinstance(guard.predicate, Relation):
        return f"{guard.predicate.shown}{where} no longer holds"
    if guard.source is None:
        return f"{guard} no longer holds"
    try:
        actual = specialisation.world(values).find(guard.source)
    except EXPECTED_ERRORS:
        return f"{guard}{where}, but now nothing is there"
    differs, why = guard.predicate.mismatch(actual), _why_pinned(plan, guard, actual)
    if differs == str(guard.predicate):  # another object of that description
        differs = "is another"
    if guard.location is not None:
        return f"{guard} (read at {guard.location}), but now it {differs}{why}"
    if type(guard.predicate).mismatch is Predicate.mismatch:  # which says what the value is, and not what it is not
        return f"{guard}, but now it {differs}{why}"
    return f"{guard.source.text} {differs}{why}"


def _why_pinned(plan: CallPlan, guard: Guard, actual: Any) -> str:
    """Why the value of a number, or of a size of a tensor, is part of the key, where that is known."""
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
    for source, what, location in plan.pinned:
        if source in sources:
            return f"; {what} needs its value ({location}): a tensor, as jg.asarray(...), varies freely"
    return ""
