"""Constants of PyTorch that say how a tensor lies in memory, which is always in row-major order here."""

from __future__ import annotations

from typing import Final


class layout:  # noqa: N801 - PyTorch's name
    """The layout of a tensor's memory; there is one, ``torch.strided``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class memory_format(layout):  # noqa: N801 - PyTorch's name
    """The order of the axes in memory, which functions accept and which has no effect."""

    __slots__ = ()


strided: Final = layout("strided")
contiguous_format: Final = memory_format("contiguous_format")
preserve_format: Final = memory_format("preserve_format")
channels_last: Final = memory_format("channels_last")
channels_last_3d: Final = memory_format("channels_last_3d")
