"""``torch.amp.GradScaler``: loss scaling for float16."""

from __future__ import annotations

import warnings
from typing import Any

import jitgraph as jg
from jitgraph.torch.tensors import adopted


class GradScaler(jg.amp.GradScaler):
    """Scales the loss so that small gradients stay above float16's smallest numbers; see ``jitgraph.amp.GradScaler``.

    For "cuda" without a GPU it warns and does nothing.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda" and not jg.cuda.is_available():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    def scale(self, outputs: Any) -> Any:
        """A loss, or a tuple or list of them, times the scale."""
        return adopted(super().scale(outputs))
