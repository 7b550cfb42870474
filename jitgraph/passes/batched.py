"""Lane: the value that represents one of a graph's values when the graph is run on many samples at once."""

from __future__ import annotations

from typing import Any

from jitgraph import ops
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.dims import DimLike
from jitgraph.ir.types import TensorType, TokenType, Type
from jitgraph.passes.batching import repeated
from jitgraph.records import NamedTuple


class Lane(NamedTuple):
    """A value; where it ``varies``, its first axis has an element for each sample.

    In a region that some samples run, a ``raw`` lane has for the others what they have themselves, of which nothing may
    be computed. With an ``origin`` that is what they have at the input of the region with this number.
    """

    value: Any
    varies: bool
    raw: bool = False
    origin: int | None = None


def each(sample: Lane, size: DimLike) -> Lane:
    """The sample with an axis of its own; tokens have none."""
    if sample.varies or isinstance(sample.value.type, TokenType):
        return sample
    return Lane(repeated(sample.value, size), True)


def batched_type(type: Type, size: DimLike) -> TensorType:
    """The type of ``size`` values of a type."""
    if not isinstance(type, TensorType):
        raise UnsupportedOp(f"vmap over {type}")
    return TensorType(type.dtype, (size, *type.shape))


def over(mask: Any, like: Any) -> Any:
    """A mask of samples as one of all their elements."""
    return mask if len(like.shape) == 1 else ops.broadcast(mask, shape=like.shape, axes=(0,))


def chosen(mask: Any, yes: Any, no: Any) -> Any:
    """For each sample, ``yes`` where the mask is true, else ``no``."""
    return ops.select(over(mask, yes), yes, no)


def any_of(mask: Any) -> Any:
    """Whether the mask is true for a sample."""
    return ops.reduce_max(mask, axes=(0,))
