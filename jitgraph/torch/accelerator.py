"""``torch.accelerator``: the GPUs by names that are of no maker."""

from __future__ import annotations

from typing import Any

from jitgraph.torch import cuda, module_reasons
from jitgraph.torch.metadata import device

current_device_index = current_device_idx = cuda.current_device
current_stream = cuda.current_stream
device_count = cuda.device_count
device_index = cuda.device
empty_cache = cuda.empty_cache
get_device_capability = cuda.get_device_capability
get_memory_info = cuda.mem_get_info
is_available = cuda.is_available
max_memory_allocated = cuda.max_memory_allocated
max_memory_reserved = cuda.max_memory_reserved
memory_allocated = cuda.memory_allocated
memory_reserved = cuda.memory_reserved
memory_stats = cuda.memory_stats
reset_accumulated_memory_stats = cuda.reset_accumulated_memory_stats
reset_peak_memory_stats = cuda.reset_peak_memory_stats
set_device_index = set_device_idx = cuda.set_device
set_stream = cuda.set_stream
synchronize = cuda.synchronize

__getattr__ = module_reasons.refusal("torch.accelerator")


def current_accelerator(check_available: bool = False) -> Any:
    """``torch.device("cuda")`` where there is a GPU, else None."""
    return device("cuda") if cuda.is_available() else None
