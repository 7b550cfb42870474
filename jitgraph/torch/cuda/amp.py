"""``torch.cuda.amp``: mixed precision in its older signatures, for GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph.torch.amp import autocast_mode, grad_scaler
from jitgraph.torch.scalar_types import float16


class CudaAutocast(autocast_mode.autocast):
    """``torch.amp.autocast("cuda", ...)``."""

    def __init__(self, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)

    def __reduce__(self) -> Any:
        return type(self), (self._dtype is not None, self.fast_dtype)


class CudaGradScaler(grad_scaler.GradScaler):
    """``torch.amp.GradScaler("cuda", ...)``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


autocast = CudaAutocast
GradScaler = CudaGradScaler


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None) -> Callable[..., Any]:
    """``torch.amp.custom_fwd`` for GPUs."""
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """``torch.amp.custom_bwd`` for GPUs."""
    return autocast_mode.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU to run in 16 bits on."""
    from jitgraph import cuda

    return not cuda.is_available()
