"""A tensor's value as a hashable attribute of a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.ir.types import TensorType
from jitgraph.once import cached_property


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
