"""``torch.autograd.profiler``: the older names of ``torch.profiler``."""

from __future__ import annotations

from typing import Any

from jitgraph.torch import profiler
from jitgraph.torch.profiler import record_function as record_function


def profile(enabled: bool = True, **settings: Any) -> profiler.profile:
    """``torch.profiler.profile`` of a block, whatever the settings; nothing is measured where ``enabled`` is False."""
    return profiler.profile(schedule=None if enabled else lambda step: profiler.ProfilerAction.NONE)
