"""One step of each recurrent unit, and its walk along time: the product with the inputs is made for all steps at once.

Time stands on the first axis. A walk is one ``jg.scan``, so that the code does not grow with the length. Where lengths
are given, a sequence that has ended keeps its state, and its outputs are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.eager import placement
from jitgraph.nn.functional.activation import dropout, relu, sigmoid, tanh
from jitgraph.nn.functional.layers import linear
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import arange
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import concat, stack
from jitgraph.tensor.functions.shapes import expand_dims

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Sequence[Any]], State]


def rnn_tanh_step(gates: Tensor, state: State, weights: Sequence[Any]) -> State:
    """tanh(W_ih x + b_ih + W_hh h + b_hh) (Elman 1990); ``gates`` holds the part of x."""
    return (tanh(gates + linear(state[0], weights[0], weights[1])),)


def rnn_relu_step(gates: Tensor, state: State, weights: Sequence[Any]) -> State:
    """As ``rnn_tanh_step``, with max(x, 0)."""
    return (relu(gates + linear(state[0], weights[0], weights[1])),)


def gru_step(gates: Tensor, state: State, weights: Sequence[Any]) -> State:
    """The gated recurrent unit (Cho et al. 2014), its reset gate behind the product with h as in PyTorch."""
    h = state[0]
    size = h.shape[-1]
    inner = linear(h, weights[0], weights[1])
    reset = sigmoid(gates[..., :size] + inner[..., :size])
    update = sigmoid(gates[..., size : 2 * size] + inner[..., size : 2 * size])
    fresh = tanh(gates[..., 2 * size :] + reset * inner[..., 2 * size :])
    return (fresh + update * (h - fresh),)


def lstm_step(gates: Tensor, state: State, weights: Sequence[Any]) -> State:
    """The long short-term memory (Hochreiter and Schmidhuber 1997) with a forget gate: gates i, f, g, o.

    A third weight projects the output (Sak et al. 2014).
    """
    h, c = state
    size = c.shape[-1]
    gate_sums = gates + linear(h, weights[0], weights[1])
    enter, keep = sigmoid(gate_sums[..., :size]), sigmoid(gate_sums[..., size : 2 * size])
    fresh, leave = tanh(gate_sums[..., 2 * size : 3 * size]), sigmoid(gate_sums[..., 3 * size :])
    cell = keep * c + enter * fresh
    out = leave * tanh(cell)
    return (out if len(weights) < 3 else linear(out, weights[2])), cell


def walk(
    step: Step, x: Tensor, state: State, weights: Sequence[Any], *, reverse: bool, lengths: Tensor | None
) -> tuple[Tensor, State]:
    """The outputs [T, N, H] of a unit along x [T, N, F], or backwards, and the last state.

    ``weights``: W_ih, b_ih, and what the step takes. ``lengths`` [N]: steps of each sequence, the rest is padding.
    """
    scan: Any = imports.module("jitgraph.tracing.record.control_flow").scan
    if lengths is None:
        gates = linear(x, weights[0], weights[1])

        def every(carry: State, step_gates: Tensor) -> tuple[State, Tensor]:
            fresh = step(step_gates, carry, weights[2:])
            return fresh, fresh[0]

        last, outputs = scan(every, state, gates, reverse=reverse)
        return outputs, last

    with placement.beside(x.value):
        steps = arange(x.value.type.shape[0], dtype=lengths.dtype)
        present = expand_dims(expand_dims(steps, 1) < lengths, 2)
    gates = linear(where(present, x, 0.0), weights[0], weights[1])  # NaN in the padding would reach the gradients

    def masked(carry: State, row: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
        here, inside = row
        fresh = step(here, carry, weights[2:])
        next_carry = tuple(where(inside, new, old) for new, old in zip(fresh, carry, strict=True))
        return next_carry, where(inside, fresh[0], 0.0)

    last, outputs = scan(masked, state, (gates, present), reverse=reverse)
    return outputs, last


def stacked(
    step: Step,
    x: Tensor,
    state: Sequence[Tensor],
    weights: Sequence[Sequence[Any]],
    *,
    directions: int = 1,
    drop: float = 0.0,
    training: bool = False,
    lengths: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """The outputs [T, N, H] of the last of several layers, and the last state of each layer and direction.

    ``weights`` has those of ``walk`` for every layer and direction, the parts of ``state`` [layers * directions, N, H]
    the states before the first step. Between layers outputs are dropped with probability ``drop`` while training.
    """
    last: list[tuple[Tensor, ...]] = []
    for layer in range(len(weights) // directions):
        outputs = []
        for reverse in range(directions):
            first = tuple(part[len(last)] for part in state)
            own = weights[len(last)]
            walked, final = walk(step, x, first, own, reverse=bool(reverse), lengths=lengths)
            outputs.append(walked)
            last.append(final)
        x = outputs[0] if directions == 1 else concat(outputs, axis=-1)
        if layer < len(weights) // directions - 1:
            x = dropout(x, drop, training)
    return x, [stack(parts, axis=0) for parts in zip(*last, strict=True)]
