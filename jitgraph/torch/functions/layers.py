"""Layers that are functions of ``torch`` and whose Python signatures differ from ATen's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jitgraph as jg
from jitgraph.torch.adapters import torch_function
from jitgraph.torch.aten_ops import layers, movement
from jitgraph.torch.tensors import Tensor


def _recurrent(name: str, operator: Callable[..., Any]) -> Any:
    """A recurrent layer of a batch of sequences of one length, by its parameters."""

    def function(
        input: Any,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        return operator(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The outputs and the last state of the layer {name.upper()}."
    return torch_function(function)


lstm, gru = _recurrent("lstm", layers.lstm_input), _recurrent("gru", layers.gru_input)
rnn_tanh = _recurrent("rnn_tanh", layers.rnn_tanh_input)
rnn_relu = _recurrent("rnn_relu", layers.rnn_relu_input)


@torch_function
def native_channel_shuffle(input: Any, groups: int) -> Any:
    """As ``channel_shuffle``."""
    return movement.channel_shuffle(input, groups)


def embedding_renorm_(input: Tensor, indices: Any, max_norm: float, norm_type: float) -> Tensor:
    """The rows that indices name, scaled in place to this norm where theirs is greater."""
    norms = jg.linalg.vector_norm(input, ord=norm_type, axis=1, keepdims=True)
    named = jg.isin(jg.arange(input.shape[0]), jg.reshape(indices, (-1,)))
    scale = jg.where((norms > max_norm) & jg.expand_dims(named, 1), max_norm / (norms + 1e-7), 1.0)
    return input.copy_(input.detach() * Tensor._of(scale.value))
