"""``torch.autograd.profiler``: the older names of ``torch.profiler``."""

from __future__ import annotations

from typing import Any

from jitgraph.torch import profiler
from jitgraph.torch.profiler import record_function as record_function


class profile(profiler.profile):  # noqa: N801 - PyTorch's name
    """``torch.profiler.profile`` of a block; not measured where ``enabled`` is False."""

    def __init__(self, enabled: bool = True, **settings: Any) -> None:
        never = None if enabled else lambda step: profiler.ProfilerAction.NONE
        super().__init__(schedule=never)
