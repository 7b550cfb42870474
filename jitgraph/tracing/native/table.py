"""CallTable: one specialisation at known sizes, as the dispatcher reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.eager.dispatch.program import Program, Unsupported
from jitgraph.eager.dispatch.runtime import NativeRuntime
from jitgraph.eager.dispatch.table import NativeTable, check_context, require_plain
from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Graph
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.executable import Executable
from jitgraph.tracing.cost import cost
from jitgraph.tracing.fixed import FixedSources
from jitgraph.tracing.native.checking import Checker
from jitgraph.tracing.native.outcome import CallOutcome
from jitgraph.tracing.native.reading import Reader
from jitgraph.tracing.specialisation import Specialisation

_LONG: Final = 2_000_000
"""Operations of a call, bytes moved included, beside which Python's part counts for nothing."""


class CallTable(NativeTable):
    """The records of one specialisation, for operands of these shapes; they live as long as this does."""

    def __init__(
        self, runtime: NativeRuntime, specialisation: Specialisation, values: Sequence[Any], shapes: Sequence[Any],
        parameters: int, variadic: int | None,
    ) -> None:  # fmt: skip
        """``values`` are the bound arguments of a call that fits. Unsupported where Python has to serve such calls."""
        executable = specialisation.forward
        if not isinstance(executable, Executable):
            raise Unsupported("it is not native code")
        if any(alias.is_replaced for alias in specialisation.in_place):
            raise Unsupported("it takes over the memory of large tensors that it replaces")
        entry = executable.entry
        plan = entry.plan(tuple(shapes))
        require_plain(entry, plan)
        self.specialisation = specialisation
        self.key = (id(specialisation), tuple(shapes))
        self.hits_seen = 0  # by who asks which tables were used of late
        program = Program(parameters)
        check_context(program, specialisation.ambient)
        world = specialisation.world(values)
        reader = Reader(program, world, FixedSources(specialisation.plan, world), variadic)
        sizes = dict(zip(executable.signature.dims, plan.dims, strict=False))
        Checker(reader, specialisation.plan, runtime, sizes).write()
        outcome = CallOutcome(reader, specialisation, plan)
        unlocked = _is_unbounded(specialisation.plan.graph, sizes)
        if unlocked and not outcome.is_pure:
            raise Unsupported("its code may run for long, and changes tensors")
        if len(outcome.values) > layout.MOST_VALUES:
            raise Unsupported(f"it has {len(outcome.values)} outputs")
        super().__init__(program, entry, plan, outcome, len(specialisation.plan.inputs), unlocked=unlocked)


def _is_unbounded(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether the code may run for as long as a loop likes; Unsupported where it is known to take long."""
    loops = [structure for node in graph.walk() if isinstance(structure := structure_of(node), CarriedLoop)]
    if any(loop.condition is not None for loop in loops):
        return True
    work = cost(graph, sizes)
    if work.flops + work.bytes_in + work.bytes_out > _LONG:
        raise Unsupported("it takes so long that Python's part counts for nothing")
    return False
