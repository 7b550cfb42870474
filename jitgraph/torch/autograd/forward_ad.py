"""``torch.autograd.forward_ad``: dual tensors, whose tangents are found by two gradients.

A dual is the tensor plus a zero that is a leaf of the tape. The tangent of a result y is the derivative of its
gradient, which is linear in its cotangent v: d/dv of the sum of tangents times d(v y)/d(leaves).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import jitgraph as jg
from jitgraph import autograd
from jitgraph.torch.tensors import adopted

_levels: Final[list[list[tuple[Any, Any]]]] = []  # of a level the leaves of its duals, each with its tangent


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, None where it has none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Begin a level; RuntimeError where one is open, as they do not nest."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append([])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level; its duals have no tangents any more."""
    if not _levels:
        raise RuntimeError("Trying to exit a forward AD level when none was entered")
    if level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created.")
    _levels.pop()


class dual_level:  # noqa: N801 - PyTorch's name
    """A block that is a level of forward mode."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *failure: object) -> None:
        exit_dual_level()

    def clone(self) -> Self:
        """Another such block."""
        return type(self)()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """The tensor with a tangent of its shape and dtype."""
    if not _levels:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            f"Expected tangent to have the same size as primal: {tuple(tensor.shape)}, not {tuple(tangent.shape)}"
        )
    leaf = jg.zeros_like(tensor).detach().requires_grad_()
    _levels[-1].append((leaf, tangent))
    with jg.enable_grad():
        return adopted(jg.add(tensor, leaf))


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor and its tangent, which is None outside of levels and for what depends on no dual."""
    if not _levels or not _levels[-1] or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    leaves, tangents = zip(*_levels[-1], strict=True)
    with jg.enable_grad():
        v = jg.zeros_like(tensor).detach().requires_grad_()
        rows = autograd.grad(tensor, leaves, v, create_graph=True, retain_graph=True, allow_unused=True)
        used = [jg.sum(row * t) for row, t in zip(rows, tangents, strict=True) if row is not None]
        if not used:
            return UnpackedDualTensor(tensor, None)
        (tangent,) = autograd.grad(used, v, retain_graph=True, allow_unused=True)
    return UnpackedDualTensor(tensor.detach(), adopted(jg.zeros_like(tensor) if tangent is None else tangent))
