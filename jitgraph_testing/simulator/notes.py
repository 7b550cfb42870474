"""The accesses that a block made, as they were noted one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph.records import NamedTuple
from jitgraph_testing.simulator.native_text import ATOMIC, WRITE
from jitgraph_testing.simulator.state import MOST_THREADS, SHARED_BYTES, STACK_BYTES, WARP, NotedAccess, memory


class Accesses(NamedTuple):
    """One entry an access, in the order of time."""

    address: NDArray[np.int64]
    size: NDArray[np.int64]
    writes: NDArray[np.bool_]
    atomic: NDArray[np.bool_]
    site: NDArray[np.int64]
    thread: NDArray[np.int64]
    clock: NDArray[np.int64]
    block: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.address)

    def chosen(self, which: NDArray[Any]) -> Accesses:
        """Some of them, or all in another order."""
        return Accesses(*[column[which] for column in self])

    @property
    def warp(self) -> NDArray[np.int64]:
        """The warp of each thread in its block."""
        return self.thread // WARP

    @property
    def shared(self) -> NDArray[np.bool_]:
        """Which are to shared memory."""
        begin = memory().shared_at
        return (self.address >= begin) & (self.address < begin + SHARED_BYTES)


def taken() -> Accesses:
    """Those that were noted since they were taken last, without threads' own stacks."""
    here = memory()
    count = int(here.launch.log_length)
    here.launch.log_length = 0
    entries: Any = np.ctypeslib.as_array((NotedAccess * count).from_address(here.log_at)).copy()
    address = entries["address"].astype(np.int64)
    own = (address >= here.stacks_at) & (address < here.stacks_at + MOST_THREADS * STACK_BYTES)
    retained = entries[~own]
    columns = [retained[name].astype(np.int64) for name in ("site", "thread", "clock", "block")]
    kind = retained["kind"]
    sizes = retained["size"].astype(np.int64)
    return Accesses(address[~own], sizes, (kind & WRITE) != 0, (kind & ATOMIC) != 0, *columns)


def joined(parts: list[Accesses]) -> Accesses:
    """Several, one behind another; at least one."""
    return Accesses(*[np.concatenate(columns) for columns in zip(*parts, strict=True)])
