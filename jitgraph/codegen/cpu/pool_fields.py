"""Fields of the structs that the native runtime is given, and waiting on them, as lines of LLVM IR."""

from __future__ import annotations

from typing import Final

from jitgraph.runtime.loader import offsets


def field(result: str, base: str, offset: int) -> str:
    """The line that makes ``result`` the address ``offset`` bytes behind ``base``."""
    return f"  {result} = getelementptr i8, ptr {base}, i64 {offset}\n"


POOL_FIELDS: Final = (
    field("%busy", "%pool", offsets.POOL_BUSY)
    + field("%stop", "%pool", offsets.POOL_STOP)
    + field("%workers", "%pool", offsets.POOL_WORKERS)
    + field("%syscall.at", "%pool", offsets.POOL_SYSCALL)
    + field("%patience.at", "%pool", offsets.POOL_PATIENCE)
    + field("%epoch", "%pool", offsets.POOL_EPOCH)
    + field("%sleepers", "%pool", offsets.POOL_SLEEPERS)
    + field("%unwoken", "%pool", offsets.POOL_UNWOKEN)
    + field("%spin", "%pool", offsets.POOL_SPIN)
    + field("%function", "%pool", offsets.POOL_FUNCTION)
    + field("%context", "%pool", offsets.POOL_CONTEXT)
    + field("%chunks.at", "%pool", offsets.POOL_CHUNKS)
    + field("%parts.at", "%pool", offsets.POOL_PARTS)
    + field("%open", "%pool", offsets.POOL_OPEN)
    + field("%next", "%pool", offsets.POOL_NEXT)
    + field("%entered", "%pool", offsets.POOL_ENTERED)
    + field("%waiting", "%pool", offsets.POOL_WAITING)
    + field("%seats", "%pool", offsets.POOL_SEATS)
    + field("%failure", "%pool", offsets.POOL_FAILURE)
    + field("%ended.at", "%pool", offsets.POOL_ENDED)
    + field("%gap.at", "%pool", offsets.POOL_GAP)
    + field("%soon.at", "%pool", offsets.POOL_SOON)
    + field("%wake.cost", "%pool", offsets.POOL_WAKE_COST)
)

_FUTEX: Final = 202
_WAIT: Final = 128  # FUTEX_WAIT_PRIVATE
_WAKE: Final = 129
_SCHED_YIELD: Final = 24


def futex_wait(result: str, address: str, expected: str) -> str:
    """Sleep on ``address`` while it holds the i64 ``expected``."""
    return f"""  {result} = call i64 (i64, ...)
    %syscall(i64 {_FUTEX}, ptr {address}, i64 {_WAIT}, i64 {expected}, ptr null, ptr null, i64 0)"""


def futex_wake(result: str, address: str, count: str) -> str:
    """Wake so many that sleep on ``address``."""
    return f"""  {result} = call i64 (i64, ...)
    %syscall(i64 {_FUTEX}, ptr {address}, i64 {_WAKE}, i64 {count}, ptr null, ptr null, i64 0)"""


def yield_processor(result: str) -> str:
    """Let any other thread that waits for this processor have it."""
    return f"  {result} = call i64 (i64, ...) %syscall(i64 {_SCHED_YIELD})"
