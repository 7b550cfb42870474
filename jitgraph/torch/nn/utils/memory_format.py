"""``torch.nn.utils.memory_format``: orders of axes in memory, of which there is one here."""

from __future__ import annotations

from typing import Any


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The module as it is: the compiler chooses how weights of convolutions lie in memory."""
    return module


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The module as it is: the compiler chooses how weights of convolutions lie in memory."""
    return module
