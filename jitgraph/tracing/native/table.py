"""CallTable: one specialisation at known sizes, as the dispatcher reads it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.ir import context
from jitgraph.ir.context import Context
from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Graph
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable
from jitgraph.tracing.cost import cost
from jitgraph.tracing.fixed import FixedSources
from jitgraph.tracing.native.checking import Checker
from jitgraph.tracing.native.outcome import CallOutcome
from jitgraph.tracing.native.program import Program, Unsupported
from jitgraph.tracing.native.reading import Reader
from jitgraph.tracing.native.runtime import NativeRuntime
from jitgraph.tracing.specialisation import Specialisation

_LONG: Final = 2_000_000
"""Operations of a call, bytes moved included, beside which Python's part counts for nothing."""


class CallTable:
    """The records of one specialisation, for operands of these shapes; they live as long as this does."""

    def __init__(
        self, runtime: NativeRuntime, specialisation: Specialisation, values: Sequence[Any], shapes: Sequence[Any],
        parameters: int, variadic: int | None,
    ) -> None:  # fmt: skip
        """``values`` are the bound arguments of a call that fits. Unsupported where Python has to serve such calls."""
        made = specialisation.forward
        if not isinstance(made, Executable):
            raise Unsupported("it is not native code")
        if not made.entry.is_plain:
            raise Unsupported("its code prints, or calls Python")
        entry = made.entry
        plan = entry.plan(tuple(shapes))
        if plan.arena_bytes > loader.MOST_ARENA:
            raise Unsupported("its temporaries are large")
        self.specialisation = specialisation
        self.key = (id(specialisation), tuple(shapes))
        self.hits_seen = 0  # by who asks which tables were used of late
        program = Program(parameters)
        _check_context(program, specialisation.ambient)
        world = specialisation.world(values)
        reader = Reader(program, world, FixedSources(specialisation.plan, world), variadic)
        sizes = dict(zip(made.signature.dims, plan.dims, strict=False))
        Checker(reader, specialisation.plan, runtime, sizes).write()
        outcome = CallOutcome(reader, specialisation, plan)
        unlocked = _is_unbounded(specialisation.plan.graph, sizes)
        if unlocked and not outcome.is_pure:
            raise Unsupported("its code may run for long, and changes tensors")
        if len(outcome.values) > layout.MOST_VALUES:
            raise Unsupported(f"it has {len(outcome.values)} outputs")
        self._kept = program.keep
        self._state = loader.CallState(entry.threads)
        self._state.prepare(plan.arena_bytes)
        self._quiet = loader.Host.from_buffer_copy(entry.runtime.host)
        self._quiet.poll = None
        self._words = (ctypes.c_int64 * len(layout.TABLE))()
        records = {
            "ops": program.text(), "values": b"".join(outcome.values), "handles": b"".join(outcome.handles),
            "effects": b"".join(outcome.effects), "results": b"".join(outcome.results),
            "held": b"".join(register.to_bytes(8, "little") for register in outcome.held),
        }  # fmt: skip
        for name, data in records.items():
            self._put(name, self._kept_bytes(data))
        parallel = entry.is_parallel and bool(entry.runtime.host.pool)
        fields = {
            "value_count": len(outcome.values), "handle_count": len(outcome.handles),
            "effect_count": len(outcome.effects), "result_count": len(outcome.results),
            "held_count": len(outcome.held), "input_count": len(specialisation.plan.inputs),
            "result_kind": outcome.kind, "entry": entry.address,
            "host": ctypes.addressof(entry.runtime.host), "quiet_host": ctypes.addressof(self._quiet),
            "call": self._state.address, "dims": plan.dims_address, "owner": id(self),
            "finish": self._refer(outcome.finish), "fail": self._refer(_failure(entry, self._state)),
            "flags": layout.UNLOCKED * unlocked | layout.PARALLEL * parallel,
        }  # fmt: skip
        for name, value in fields.items():
            self._put(name, value)
        self._keep(entry, plan)

    @property
    def address(self) -> int:
        """Where the table lies."""
        return ctypes.addressof(self._words)

    @property
    def hits(self) -> int:
        """How many calls it has served."""
        return self._get("hits")

    @property
    def used(self) -> int:
        """The dispatcher's clock when it last served one."""
        return self._get("used")

    def follow_with(self, following: CallTable | None) -> None:
        """Say which table is asked next."""
        self._put("next", 0 if following is None else following.address)

    def _get(self, name: str) -> int:
        return int(self._words[layout.TABLE[name] // layout.WORD])

    def _put(self, name: str, value: int) -> None:
        self._words[layout.TABLE[name] // layout.WORD] = value

    def _keep(self, *held: Any) -> None:
        self._kept.extend(held)

    def _refer(self, held: Any) -> int:
        self._keep(held)
        return id(held)

    def _kept_bytes(self, data: bytes) -> int:
        buffer = ctypes.create_string_buffer(data, len(data) + 1)
        self._keep(buffer)
        return ctypes.addressof(buffer)


def _check_context(program: Program, ambient: Context) -> None:
    program.op(
        "context", flags=int(context.is_outermost(ambient)), a=program.refer(context.VARIABLE), b=program.refer(ambient)
    )


def _is_unbounded(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether the code may run for as long as a loop likes; Unsupported where it is known to take long."""
    loops = [found for node in graph.walk() if isinstance(found := structure_of(node), CarriedLoop)]
    if any(loop.condition is not None for loop in loops):
        return True
    work = cost(graph, sizes)
    if work.flops + work.bytes_in + work.bytes_out > _LONG:
        raise Unsupported("it takes so long that Python's part counts for nothing")
    return False


def _failure(entry: loader.Entry, state: loader.CallState) -> Any:
    """What raises what the entry's code stands for."""

    def fail(code: int) -> None:
        entry.fail(code, state)

    return fail
