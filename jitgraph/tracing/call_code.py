"""The Python code of a call, written from its plan: the check, the epilogue, and the way into native code.

``match(p)`` looks at the bound arguments and the state: it gives the handles, the operands, and what the epilogue
needs besides, or None where a guard does not hold. ``epilogue(h, i, o, n)`` makes the effects and the result from the
handles, the operands, the values of the outputs and that. Each source is read once; where a guard holds an object to
its identity, the code goes on from that object itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from jitgraph.eager.value import EagerValue
from jitgraph.records import NamedTuple
from jitgraph.tracing.check_code import CHECK_NAMES, CheckWriter
from jitgraph.tracing.epilogue_code import EPILOGUE_NAMES, Epilogue
from jitgraph.tracing.guard import Guard
from jitgraph.tracing.plan import CallPlan
from jitgraph.tracing.python_code import PythonCode
from jitgraph.tracing.source import Source, World

Match: TypeAlias = "tuple[tuple[Any, ...], list[EagerValue], tuple[Any, ...]]"


class CallCode(NamedTuple):
    """The functions of a call."""

    match: Callable[[tuple[Any, ...]], Match | None]
    epilogue: Callable[[Sequence[Any], Sequence[EagerValue], Sequence[EagerValue], Sequence[Any]], Any]
    extra: tuple[Source, ...]
    """Where that which the epilogue needs besides is found."""


def call_code(plan: CallPlan, function: Any) -> CallCode:
    """The functions of a plan for the function that was traced."""
    code = PythonCode({**CHECK_NAMES, **EPILOGUE_NAMES})
    check = CheckWriter(code, plan, World(function, (), plan.objects))
    check.write()
    Epilogue(code, plan, check).write()
    names = code.compiled()
    return CallCode(names["match"], names["epilogue"], tuple(check.sources_of_extra))


def first_failing(plan: CallPlan, function: Any, arguments: tuple[Any, ...]) -> Guard | None:
    """The first guard that does not hold for bound arguments and the state now; None where all do."""
    code = PythonCode(CHECK_NAMES)
    CheckWriter(code, plan, World(function, (), plan.objects), explains=True).write()
    number: int = code.compiled()["match"](arguments)
    return plan.guards[number] if number >= 0 else None
