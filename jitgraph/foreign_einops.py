"""What einops asks of an array library, for tensors: einops finds this class among those derived from its own."""

from __future__ import annotations

import sys
from typing import Any


def register(backends: Any) -> None:
    """Derive the class from ``AbstractBackend`` of einops' module of backends, which is loaded."""

    class JitgraphBackend(backends.AbstractBackend):  # type: ignore[misc]
        framework_name = "jitgraph"

        def __init__(self) -> None:
            self._jg = sys.modules["jitgraph"]

        def is_appropriate_type(self, tensor: Any) -> bool:
            tensors = sys.modules.get("jitgraph.tensor.tensor")  # where that is not loaded, there is no tensor
            return tensors is not None and isinstance(tensor, tensors.Tensor)

        def from_numpy(self, x: Any) -> Any:
            return self._jg.asarray(x)

        def to_numpy(self, x: Any) -> Any:
            return x.detach().numpy()

        def arange(self, start: Any, stop: Any) -> Any:
            return self._jg.arange(start, stop)

        def transpose(self, x: Any, axes: Any) -> Any:
            return x.permute_dims(axes)

        def reduce(self, x: Any, operation: str, axes: Any) -> Any:
            return getattr(self._jg, operation)(x, axis=tuple(axes))

        def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
            return self._jg.stack(tensors)

        def tile(self, x: Any, repeats: Any) -> Any:
            return self._jg.tile(x, repeats)

        def concat(self, tensors: Any, axis: int) -> Any:
            return self._jg.concat(tensors, axis=axis)

        def is_float_type(self, x: Any) -> bool:
            return bool(self._jg.isdtype(x.dtype, ("real floating", "complex floating")))

        def add_axis(self, x: Any, new_position: int) -> Any:
            return self._jg.expand_dims(x, new_position)

        def einsum(self, pattern: str, *x: Any) -> Any:
            return self._jg.einsum(pattern, *x)

    backends.JitgraphBackend = JitgraphBackend  # einops knows its classes by weak references alone
