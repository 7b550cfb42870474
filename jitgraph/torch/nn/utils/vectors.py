"""``vector_to_parameters``, after which parameters share the elements of a vector."""

from __future__ import annotations

from collections.abc import Iterable

from jitgraph.torch.tensors import Tensor


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let parameters share the elements of a vector, in the order of ``parameters_to_vector``.

    TypeError where it is no tensor, RuntimeError where it is too short.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view_as(parameter).data
        start = stop
