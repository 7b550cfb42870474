"""``torch.distributed``: whether several processes compute, which programs ask before they use them: they do not."""

from __future__ import annotations

from typing import NoReturn


def is_available() -> bool:
    """Whether processes can compute together: no, one process computes."""
    return False


is_initialized = is_nccl_available = is_gloo_available = is_mpi_available = is_torchelastic_launched = is_available


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module 'torch.distributed' has no attribute '{name}': one process computes here; is_available() is False"
    )
