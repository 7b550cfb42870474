"""NativeTable: the records of one kind of call, as the dispatcher reads them, and chains of such tables."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph.eager.dispatch.program import Program, Unsupported
from jitgraph.ir import context
from jitgraph.ir.context import Context
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime import loader

LARGEST_BLOCK: Final = 64 << layout.SIZE_CLASSES - 1
"""Bytes of the largest result whose memory native code takes from its own lists."""


@dataclass(slots=True)
class TableOutcome:
    """What comes of a call: its values, new tensors, written slots and result as records, or what Python makes of it.

    ``held`` are the registers that are needed after the entry has run. No entry runs where there is a ``view``, which
    says what part of the first operand the one output is.
    """

    values: Sequence[bytes]
    handles: Sequence[bytes] = ()
    effects: Sequence[bytes] = ()
    results: Sequence[bytes] = ()
    held: Sequence[int] = ()
    kind: int = layout.RESULT_FINISH
    finish: Callable[..., Any] | None = None
    view: bytes = b""


def value_record(
    program: Program, type: TensorType, size: int, make: Callable[[], Any], donor: int = -1, handle: int = 0
) -> bytes:
    """The record of an output of ``size`` bytes, -1 where the memory is another value's; ``make`` makes a large one."""
    size_class = min(max(0, (max(size, 1) - 1).bit_length() - 6), layout.SIZE_CLASSES - 1) if size >= 0 else -1
    maker = program.refer(make) if size > LARGEST_BLOCK else 0
    return struct.pack("<6q", donor, handle, size_class, size, program.refer(type), maker)


class NativeTable:
    """The records of one kind of call; they live as long as this does."""

    def __init__(
        self, program: Program, entry: loader.Entry | None, plan: loader.ShapePlan | None, outcome: TableOutcome,
        inputs: int, *, unlocked: bool = False,
    ) -> None:  # fmt: skip
        """``inputs`` counts the operands; ``unlocked``: the interpreter's lock is released while the entry runs."""
        self._kept = program.keep
        self._words = (ctypes.c_int64 * len(layout.TABLE))()
        records = {
            "ops": program.text(), "values": b"".join(outcome.values), "handles": b"".join(outcome.handles),
            "effects": b"".join(outcome.effects), "results": b"".join(outcome.results),
            "held": b"".join(register.to_bytes(8, "little") for register in outcome.held),
        }  # fmt: skip
        for name, data in records.items():
            self._put(name, self._kept_bytes(data))
        fields = {
            "value_count": len(outcome.values), "handle_count": len(outcome.handles),
            "effect_count": len(outcome.effects), "result_count": len(outcome.results),
            "held_count": len(outcome.held), "input_count": inputs,
            "result_kind": outcome.kind, "owner": id(self), "finish": self._refer(outcome.finish),
            "view": self._kept_bytes(outcome.view) if outcome.view else 0,
            **self._running(entry, plan, unlocked),
        }  # fmt: skip
        for name, value in fields.items():
            self._put(name, value)

    def _running(self, entry: loader.Entry | None, plan: loader.ShapePlan | None, unlocked: bool) -> dict[str, int]:
        """The words of what runs."""
        if entry is None or plan is None:
            host = loader.Host()
            self._pin(host)
            return {"host": ctypes.addressof(host)}
        state, quiet = loader.CallState(entry.threads), loader.Host.from_buffer_copy(entry.runtime.host)
        state.prepare(plan.arena_bytes)
        quiet.poll = None
        self._pin(entry, plan, state, quiet)
        parallel = entry.is_parallel and bool(entry.runtime.host.pool)
        return {
            "entry": entry.address, "host": ctypes.addressof(entry.runtime.host),
            "quiet_host": ctypes.addressof(quiet), "call": state.address, "dims": plan.dims_address,
            "fail": self._refer(_failure(entry, state)),
            "flags": layout.UNLOCKED * unlocked | layout.PARALLEL * parallel,
        }  # fmt: skip

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

    def follow_with(self, following: NativeTable | None) -> None:
        """Say which table is asked next."""
        self._put("next", 0 if following is None else following.address)

    def _get(self, name: str) -> int:
        return int(self._words[layout.TABLE[name] // layout.WORD])

    def _put(self, name: str, value: int) -> None:
        self._words[layout.TABLE[name] // layout.WORD] = value

    def _pin(self, *objects: Any) -> None:
        self._kept.extend(objects)

    def _refer(self, obj: Any) -> int:
        self._pin(obj)
        return id(obj)

    def _kept_bytes(self, data: bytes) -> int:
        buffer = ctypes.create_string_buffer(data, len(data) + 1)
        self._pin(buffer)
        return ctypes.addressof(buffer)


def require_plain(entry: loader.Entry, plan: loader.ShapePlan) -> None:
    """Unsupported for code that calls Python, or needs more memory than a table may keep."""
    if not entry.is_plain:
        raise Unsupported("its code prints, or calls Python")
    if plan.arena_bytes > loader.MOST_ARENA:
        raise Unsupported("its temporaries are large")


def check_context(program: Program, ambient: Context, *, exactly: bool = False) -> None:
    """Write the check that calls are made under this context. What stands for those who have set none may have been
    replaced (``set_everywhere``): ``exactly`` refuses that."""
    outermost: list[Any] = context.OUTERMOST if exactly else [ambient if context.is_outermost(ambient) else None]
    program.op(
        "context",
        a=program.refer(context.VARIABLE),
        b=program.refer(ambient),
        expected=program.refer(outermost),
    )


def _failure(entry: loader.Entry, state: loader.CallState) -> Any:
    """What raises what the entry's code stands for."""

    def fail(code: int) -> None:
        entry.fail(code, state)

    return fail
