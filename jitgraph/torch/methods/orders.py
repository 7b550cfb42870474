"""Methods whose tensor is not the first operand of the function."""

from __future__ import annotations

from typing import Any

from jitgraph.torch.functions import indexing, pointwise
from jitgraph.torch.tensors import Tensor
from jitgraph.torch.writing import overwritten


def where(self: Tensor, condition: Any, other: Any) -> Any:
    """This tensor where the condition holds, else ``other``."""
    return indexing.where(condition, self, other)


def polygamma(self: Tensor, n: int) -> Any:
    """The n-th derivative of the digamma function."""
    return pointwise.polygamma(n, self)


def polygamma_(self: Tensor, n: int) -> Tensor:
    """``polygamma`` in place."""
    return overwritten(self, polygamma(self, n))
