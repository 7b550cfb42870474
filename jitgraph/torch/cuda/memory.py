"""``torch.cuda.memory``: memory of GPUs. Without a GPU all amounts are 0, as in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgraph import cuda
from jitgraph.cuda import empty_cache as empty_cache
from jitgraph.runtime.cuda.streams import device_named


def _amount(function: Callable[[Any], int]) -> Callable[..., int]:
    @functools.wraps(function)
    def call(device: Any = None) -> int:
        return function(device) if cuda.is_available() else 0

    return call


memory_allocated = _amount(cuda.memory_allocated)
max_memory_allocated = _amount(cuda.max_memory_allocated)
memory_reserved = _amount(cuda.memory_reserved)
max_memory_reserved = _amount(cuda.max_memory_reserved)
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks be the current values; nothing without a GPU."""
    if cuda.is_available():
        cuda.reset_peak_memory_stats(device)


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing: the numbers of allocations count from the start of the process."""


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The memory of a device as a table."""
    return cuda.memory_summary(device)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Amounts by PyTorch's names, those that are counted here; empty without a GPU."""
    if not cuda.is_available():
        return {}
    stats = device_named(device).memory.statistics()
    return {
        "allocated_bytes.all.current": stats.allocated,
        "allocated_bytes.all.peak": stats.most_allocated,
        "reserved_bytes.all.current": stats.reserved,
        "reserved_bytes.all.peak": stats.most_reserved,
        "allocation.all.current": stats.blocks,
        "allocation.all.allocated": stats.allocations,
        "segment.all.current": stats.segments,
        "num_alloc_retries": stats.retries,
    }


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of a device that are free for all processes, and in all."""
    free, total = device_named(device).context.enter().memory_info()
    return free, total


def get_allocator_backend() -> str:
    """The kind of allocator: a cache of the process's own, PyTorch's "native"."""
    return "native"
