"""Why a specialisation does not fit a call, in words for the ledger and for errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.ir import dims
from jitgraph.ir.context import Context
from jitgraph.ir.dims import Dim
from jitgraph.tracing.arguments import Arguments, LeafKey
from jitgraph.tracing.guards import Guard, brief, same_float
from jitgraph.tracing.program import Program
from jitgraph.tracing.specialisation import Specialisation
from jitgraph.tracing.symbolic.places import is_numeric
from jitgraph.tracing.symbolic.questions import first_broken
from jitgraph.tracing.typed import typed


def reason(known: Sequence[Specialisation], arguments: Arguments, ambient: Context) -> str:
    """Why none of the specialisations ``known``, the last used first, fits a call."""
    if not known:
        return "the first call"
    same = [s for s in known if s.ambient.fingerprint == ambient.fingerprint]
    if not same:
        return "the surroundings differ (gradient mode, autocast, anomaly detection, device or random stream)"
    return difference(same[0], arguments)


def difference(specialisation: Specialisation, arguments: Arguments) -> str:
    """The first thing in which a call differs from what a specialisation assumes."""
    if specialisation.structure != arguments.structure:
        return f"the structure of the arguments is {arguments.structure}, not {specialisation.structure}"
    found: dict[str, int] = {}
    for leaf, text, key, expected in zip(
        arguments.leaves, arguments.texts, arguments.keys, specialisation.keys, strict=True
    ):
        if key.kind == "float" and expected.kind == "static float":
            key = LeafKey("static float", value=leaf)
        if (difference := _key_difference(key, expected, found)) is not None:
            return f"{text} {difference}{_why_held(specialisation.program, text, key, expected)}"
    failing = first_failing(specialisation.program.guards)
    program = specialisation.program
    if failing is not None:
        now = failing.place.get_or(None)
        found_at = f"{failing} (read at {failing.location}), but now it is {brief(now)}"
        return found_at + (_why_held(program, failing.place.identity) if is_numeric(failing) else "")
    if (broken := first_broken(program.numbers, program.questions, arguments.leaves)) is not None:
        return broken
    for constraint in specialisation.program.graph.constraints:
        if dims.names(constraint.left) | dims.names(constraint.right) <= found.keys() and not constraint.holds(found):
            lines = [pin.location for pin in specialisation.program.pins if pin.constraint == constraint]
            where = f" (assumed at {lines[0]})" if lines and lines[0] else ""
            return f"the sizes break {constraint}{where}"
    read = [guard.place.text for _, guard in specialisation.program.attributes]
    other = f", or {', '.join(read)} another value" if read else ""
    return f"a captured tensor has another shape, dtype, gradient or identity{other}"


def _why_held(program: Program, which: Any, key: LeafKey | None = None, expected: LeafKey | None = None) -> str:
    """Why a number (a place by its identity, or an argument by its text) is part of the key, where that is known.

    Of a tensor that is its size where that differs.
    """
    texts = {which}
    if key is not None and expected is not None and len(key.shape) == len(expected.shape):
        pairs = enumerate(zip(key.shape, expected.shape, strict=True))
        texts |= {f"{which}.shape[{axis}]" for axis, (size, known) in pairs if size != known}
    for origin, what, location in program.held:
        if (origin.text if origin.place is None else origin.place.identity) in texts:
            return f"; {what} needs its value ({location}): a tensor, as jg.asarray(...), varies freely"
    return ""


def first_failing(guards: Sequence[Guard]) -> Guard | None:
    """The first guard that does not hold, or None."""
    return next((guard for guard in guards if not guard.holds()), None)


def _key_difference(key: LeafKey, expected: LeafKey, sizes: dict[str, int]) -> str | None:
    if expected.kind == "number" and key.kind == "equal" and type(key.value) is int:
        return None
    if key.kind != expected.kind:
        return f"is {_kind_text(key)}, not {_kind_text(expected)}"
    if key.kind in ("tensor", "array"):
        if key.dtype != expected.dtype:
            return f"has dtype {key.dtype}, not {expected.dtype}"
        if len(key.shape) != len(expected.shape):
            return f"has rank {len(key.shape)}, not {len(expected.shape)}"
        for axis, (size, known) in enumerate(zip(key.shape, expected.shape, strict=True)):
            assert isinstance(size, int)
            if isinstance(known, Dim):
                name = known.as_name
                assert name is not None
                if sizes.setdefault(name, size) != size:
                    return f"has size {size} on axis {axis}, where {name} is {sizes[name]}"
            elif size != known:
                return f"has size {size} on axis {axis}, not {known}"
        if key.requires_grad != expected.requires_grad:
            return "requires a gradient" if key.requires_grad else "does not require a gradient"
        if key.first != expected.first:
            return "is the same tensor as another argument, or no longer is"
        return None
    if key.kind == "float":
        return None
    if key.kind == "static float":
        return None if same_float(key.value, expected.value) else f"is {brief(key.value)}, not {brief(expected.value)}"
    same = key.value is expected.value if key.kind == "identity" else typed(key.value) == typed(expected.value)
    return None if same else f"is {brief(key.value)}, not {brief(expected.value)}"


def _kind_text(key: LeafKey) -> str:
    names = {"tensor": "a tensor", "array": "a NumPy array", "float": "a float", "number": "an int"}
    return names.get(key.kind) or brief(key.value)
