"""Padding of the last one, two or three axes, as modules."""

from __future__ import annotations

from jitgraph.errors import JitgraphError
from jitgraph.nn import functional
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor
from jitgraph.tensor.scalars import for_each


class _Pad(Module):
    """``padding`` on every side, or (before, after) of the last axis, then of the one before."""

    spatial: int
    mode: str

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        sizes = for_each(padding, 2 * self.spatial)
        if len(sizes) != 2 * self.spatial:
            raise JitgraphError(f"{type(self).__name__}: padding={padding} is neither a number nor {2 * self.spatial}")
        self.padding = sizes

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return functional.pad(input, self.padding, mode=self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Padding with one number."""

    mode = "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return functional.pad(input, self.padding, value=self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    """Padding with zeros."""

    mode = "constant"


def _padded(base: type[_Pad], name: str, spatial: int) -> type[_Pad]:
    axes = ("x[..., L]", "x[..., H, W]", "x[..., D, H, W]")[spatial - 1]
    members = {
        "spatial": spatial,
        "__doc__": f"{(base.__doc__ or '').removesuffix('.')}, of {axes}.",
        "__module__": __name__,
    }
    return type(name, (base,), members)


class _ReflectionPad(_Pad):
    """Padding with what stands behind each edge, mirrored."""

    mode = "reflect"


class _ReplicationPad(_Pad):
    """Padding with the elements at the edges."""

    mode = "replicate"


class _CircularPad(_Pad):
    """Padding with what stands at the other end."""

    mode = "circular"


ConstantPad1d, ConstantPad2d, ConstantPad3d = (_padded(_ConstantPad, f"ConstantPad{n}d", n) for n in (1, 2, 3))
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_padded(_ZeroPad, f"ZeroPad{n}d", n) for n in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (
    _padded(_ReflectionPad, f"ReflectionPad{n}d", n) for n in (1, 2, 3)
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    _padded(_ReplicationPad, f"ReplicationPad{n}d", n) for n in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (_padded(_CircularPad, f"CircularPad{n}d", n) for n in (1, 2, 3))
