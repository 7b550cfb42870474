"""``torch.device`` and ``torch.Size``: a str and a tuple with PyTorch's attributes, so that jitgraph takes them."""

# mypy: disable-error-code="override"

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Self

from jitgraph.eager import placement


class device(str):  # noqa: N801 - PyTorch's name
    """Where a tensor lies: ``device("cuda:0")``, ``device("cuda", 0)``, ``device(0)``; RuntimeError for others."""

    __slots__ = ()

    def __new__(cls, type: Any, index: int | None = None) -> Self:
        """``type`` is "cpu", "cuda", either with an index behind a colon, or the number of a GPU."""
        if isinstance(type, int):
            type, index = "cuda", type
        kind, _, number = str(type).partition(":")
        if number and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        if kind not in ("cpu", "cuda", "meta") or (number and not number.isdigit()):
            raise RuntimeError(f"Expected one of cpu, cuda device type at start of device string: {type}")
        if index is None and number:
            index = int(number)
        return super().__new__(cls, kind if index is None or (kind == "cpu" and not index) else f"{kind}:{index}")

    @property
    def type(self) -> str:
        """ "cpu" or "cuda"."""
        return str.__str__(self).partition(":")[0]

    @property
    def index(self) -> int | None:
        """The number of the GPU, or None."""
        number = str.__str__(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"
        )

    def __str__(self) -> str:
        return str.__str__(self)

    def __enter__(self) -> Self:
        _defaults.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _defaults.pop()


_device = device
_defaults: Final[list[device | None]] = [None]
"""Where tensors are made that name no device: the last one, None for the CPU. ``with device`` adds one for a block."""


def set_default_device(device: Any) -> None:
    """Make tensors that name no device on this one; None is the CPU."""
    _defaults[-1] = None if device is None else _device(device)


def get_default_device() -> device:
    """Where tensors are made that name no device."""
    return _defaults[-1] or device("cpu")


class Size(tuple[Any, ...]):
    """The sizes of a tensor's axes."""

    __slots__ = ()

    def numel(self) -> Any:
        """The number of elements."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other: Iterable[Any]) -> Size:
        return Size((*self, *other))

    def __radd__(self, other: Iterable[Any]) -> Size:
        return Size((*other, *self))


def target(where: Any) -> str | None:
    """What jitgraph takes for the ``device=`` of a function that makes tensors: the default one for None."""
    return canonical(_defaults[-1] if where is None else where)


def canonical(where: Any) -> str | None:
    """What jitgraph takes for PyTorch's ``device=``: a name or None."""
    if where is None:
        return None
    return placement.canonical(str(where if isinstance(where, device) else device(where)))
