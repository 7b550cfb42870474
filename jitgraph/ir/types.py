"""Types of values: tensors, the token that orders effects, stacks for residuals of loops; and constants as
attributes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from jitgraph.dtypes import BY_SHORT_NAME, SHORT_NAMES, DType, is_inexact
from jitgraph.errors import GraphError
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike, parse_dim
from jitgraph.once import cached_property
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Types of values: tensors, the token that orders effects, and stacks of tensors for residuals of unbounded loops.

Shape: TypeAlias = tuple[DimLike, ...]


@dataclass(frozen=True)
class TensorType:
    """A dense tensor: prints as ``f32[batch, 10]``, a 0-d one as ``f32[]``. Types carry no device."""

    dtype: DType
    shape: Shape

    @cached_property
    def text(self) -> str:
        return f"{SHORT_NAMES.get(self.dtype, self.dtype)}[{', '.join(map(str, self.shape))}]"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> DimLike:
        """The number of elements."""
        return dims.product(self.shape)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TokenType:
    """The type of the value that ordered effects thread from one to the next; it holds no data."""

    def __str__(self) -> str:
        return "token"


@dataclass(frozen=True, slots=True)
class StackType:
    """A growable stack of tensors of one type."""

    element: TensorType

    def __str__(self) -> str:
        return f"stack<{self.element}>"


Type: TypeAlias = TensorType | TokenType | StackType


def is_inexact_tensor(type: Type) -> bool:
    """Whether values of this type are tensors of floats or complex numbers, which have cotangents."""
    return isinstance(type, TensorType) and is_inexact(type.dtype)


def parse_type(text: str) -> Type:
    """The type that ``str(type)`` printed; GraphError for anything else."""
    text = text.strip()
    if text == "token":
        return TokenType()
    if text.startswith("stack<") and text.endswith(">"):
        element = parse_type(text[len("stack<") : -1])
        if isinstance(element, TensorType):
            return StackType(element)
    short, bracket, rest = text.partition("[")
    if bracket and rest.endswith("]") and short in BY_SHORT_NAME:
        inside = rest[:-1].strip()
        shape = tuple(parse_dim(part) for part in inside.split(",")) if inside else ()
        if all(not isinstance(dim, int) or dim >= 0 for dim in shape):
            return TensorType(BY_SHORT_NAME[short], shape)
    raise GraphError(f"{text!r} is not a type; expected one such as f32[batch, 10], token or stack<f32[2]>")


# ----------------------------------------------------------------------
# A tensor's value as a hashable attribute of a node.


class Constant:
    """An immutable tensor value; equal by dtype, shape and bytes (so -0.0 differs from 0.0, and NaN equals itself)."""

    def __init__(self, value: np.ndarray[Any, np.dtype[Any]]) -> None:
        """Copies ``value`` to a contiguous read-only array of its own."""
        copied = np.array(value, order="C", copy=True)
        copied.flags.writeable = False
        self.value = copied

    @property
    def type(self) -> TensorType:
        return TensorType(self.value.dtype, self.value.shape)

    @cached_property
    def digest(self) -> str:
        """sha256 of dtype, shape and bytes, in hexadecimal."""
        import hashlib  # here, since it brings OpenSSL, which most eager programs never need

        return hashlib.sha256(f"{self.type}:".encode() + self.value.tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Constant({self.type}, {self.digest[:12]})"
