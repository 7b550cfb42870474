"""``torch.nn.attention``: which implementation of attention computes; there is one, which the compiler chooses."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgraph.torch import module_reasons, settings

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """PyTorch's implementations of scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | list[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """A block that asks for implementations, of which the compiler takes no notice: results are the same."""
    asked: Any = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not asked or not all(isinstance(backend, SDPBackend) for backend in asked):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    names = {"flash": SDPBackend.FLASH_ATTENTION, "mem_efficient": SDPBackend.EFFICIENT_ATTENTION}
    names |= {"math": SDPBackend.MATH, "cudnn": SDPBackend.CUDNN_ATTENTION}
    before = dict(settings.attention)
    settings.attention.update({name: backend in asked for name, backend in names.items()})
    try:
        yield
    finally:
        settings.attention.update(before)


__getattr__ = module_reasons.refusal("torch.nn.attention")
