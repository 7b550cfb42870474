"""RNN, GRU and LSTM, by ``jg.scan`` over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx.ops.movement import reverse_sequence
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn
from jitgraph.tracing.record.control_flow import scan

# name: the function of x, alpha and beta; the defaults of both
_ACTIVATIONS: dict[str, tuple[Callable[[Any, float, float], Any], float, float]] = {
    "relu": (lambda x, a, b: fn.relu(x), 0, 0),
    "tanh": (lambda x, a, b: fn.tanh(x), 0, 0),
    "sigmoid": (lambda x, a, b: fn.sigmoid(x), 0, 0),
    "affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: F.leaky_relu(x, a), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: fn.where(x >= a, x, fn.zeros_like(x)), 1.0, 0),
    "scaledtanh": (lambda x, a, b: fn.tanh(x * b) * a, 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: fn.clip(x * a + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: F.elu(x, a), 1.0, 0),
    "softsign": (lambda x, a, b: F.softsign(x), 0, 0),
    "softplus": (lambda x, a, b: F.softplus(x), 0, 0),
}
_WITH_ALPHA = ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
_WITH_BETA = ("affine", "scaledtanh", "hardsigmoid")


def _activations(names: Any, alphas: Any, betas: Any, defaults: Sequence[str], directions: int) -> list[list[Any]]:
    """The functions of each direction."""
    own = [name.lower() for name in (names or [*defaults] * directions)][: len(defaults) * directions]
    if len(own) < len(defaults) * directions:
        raise UnsupportedOp(f"{len(own)} activations where {len(defaults) * directions} were expected")
    alpha, beta = iter(alphas or ()), iter(betas or ())
    functions = []
    for name in own:
        if name not in _ACTIVATIONS:
            raise UnsupportedOp(f"the activation {name!r}")
        function, a, b = _ACTIVATIONS[name]
        a = next(alpha, a) if name in _WITH_ALPHA else a
        b = next(beta, b) if name in _WITH_BETA else b
        functions.append(lambda x, function=function, a=a, b=b: function(x, a, b))
    count = len(defaults)
    return [functions[i * count : (i + 1) * count] for i in range(directions)]


def _recurrent(
    step: Callable[..., Any],
    x: Any,
    w: Any,
    r: Any,
    bias: Any,
    lengths: Any,
    states: Sequence[Any],
    size: Any,
    direction: str,
    layout: int,
    functions: list[list[Any]],
    extra: Sequence[Any] = (),
    joined_bias: bool = True,
    product: Callable[[Any, Any], Any] = fn.matmul,
) -> list[Any]:
    """Outputs Y [T, D, N, H] and the last of each state [D, N, H]; ``layout`` 1 has the batch first.

    ``w`` and ``r`` have for each direction what ``product`` multiplies rows with.
    """
    if layout:
        x = fn.permute_dims(x, (1, 0, 2))
        states = [None if state is None else fn.permute_dims(state, (1, 0, 2)) for state in states]
    batch = x.shape[1]
    outputs, lasts = [], []
    for d in range(len(functions)):
        backwards = direction == "reverse" or d == 1
        rows = x
        if backwards:
            rows = fn.flip(x, axis=0) if lengths is None else reverse_sequence(x, lengths, 1, 0)
        gates = product(rows, w[d])
        half = gates.shape[-1]
        input_bias: Any = None if bias is None else bias[d][:half]
        state_bias: Any = None if bias is None else bias[d][half:]
        if bias is not None:
            gates = gates + (input_bias + state_bias if joined_bias else input_bias)
        own = [None if each is None else each[d] for each in extra]
        first = tuple(fn.zeros((batch, size), dtype=x.dtype) if s is None else s[d] for s in states)

        def advance(
            carry: Any, row: Any, f: Any = functions[d], rw: Any = r[d], rb: Any = state_bias, e: Any = own
        ) -> Any:
            state, time = carry
            fresh = step(row, state, rw, None if joined_bias else rb, f, *e)
            out = fresh[0]
            if lengths is not None:
                live = fn.expand_dims(fn.less(time, lengths), axis=1)
                fresh = tuple(fn.where(live, new, old) for new, old in zip(fresh, state, strict=True))
                out = fn.where(live, out, fn.zeros_like(out))
            return (fresh, time + 1), out

        time = fn.zeros((), dtype="int32" if lengths is None else lengths.dtype)
        (last, _), y = scan(advance, (first, time), gates)
        if backwards:
            y = fn.flip(y, axis=0) if lengths is None else reverse_sequence(y, lengths, 1, 0)
        outputs.append(y)
        lasts.append(last)
    whole = fn.stack(outputs, axis=1)
    ends = [fn.stack([last[i] for last in lasts], axis=0) for i in range(len(states))]
    if layout:
        whole = fn.permute_dims(whole, (2, 0, 1, 3))
        ends = [fn.permute_dims(end, (1, 0, 2)) for end in ends]
    return [whole, *ends]


def _clipped(x: Any, clip: float | None) -> Any:
    return x if clip is None else fn.clip(x, -clip, clip)


@define("RNN")
def rnn(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    outputs: Any = (),
    **old: Any,
) -> Any:
    functions = _activations(activations, activation_alpha, activation_beta, ("Tanh",), w.shape[0])

    def step(row: Any, state: Any, rw: Any, rb: Any, f: Any) -> Any:
        return (f[0](_clipped(row + fn.matmul(state[0], rw), clip)),)

    own, size = (fn.matrix_transpose(w), fn.matrix_transpose(r)), r.shape[-1]
    result = _recurrent(step, x, *own, bias, lengths, [initial_h], size, direction, layout, functions)
    return tuple(result[: len(outputs)])


@define("GRU")
def gru(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    outputs: Any = (),
    **old: Any,
) -> Any:
    functions = _activations(activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh"), w.shape[0])
    size = r.shape[-1]

    def step(row: Any, state: Any, rw: Any, rb: Any, f: Any) -> Any:
        h = state[0]
        own_bias = 0 if rb is None else rb
        both = fn.matmul(h, rw[:, : 2 * size]) + (own_bias if rb is None else rb[: 2 * size])
        update = f[0](_clipped(row[:, :size] + both[:, :size], clip))
        reset = f[0](_clipped(row[:, size : 2 * size] + both[:, size:], clip))
        last = 0 if rb is None else rb[2 * size :]
        if linear_before_reset:
            inner = reset * (fn.matmul(h, rw[:, 2 * size :]) + last)
        else:
            inner = fn.matmul(reset * h, rw[:, 2 * size :]) + last
        fresh = f[1](_clipped(row[:, 2 * size :] + inner, clip))
        return ((1 - update) * fresh + update * h,)

    own = fn.matrix_transpose(w), fn.matrix_transpose(r)
    result = _recurrent(
        step, x, *own, bias, lengths, [initial_h], size, direction, layout, functions, joined_bias=False
    )
    return tuple(result[: len(outputs)])


@define("LSTM")
def lstm(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    peepholes: Any = None,
    outputs: Any = (),
    **how: Any,
) -> Any:
    states, weights = (initial_h, initial_c), (fn.matrix_transpose(w), fn.matrix_transpose(r))
    return lstm_by(fn.matmul, x, weights, bias, lengths, states, peepholes, r.shape[-1], **how)[: len(outputs)]


def lstm_by(
    product: Callable[[Any, Any], Any],
    x: Any,
    weights: tuple[Any, Any],
    bias: Any,
    lengths: Any,
    states: tuple[Any, Any],
    peepholes: Any,
    size: Any,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    **old: Any,
) -> tuple[Any, ...]:
    """An LSTM of ``size`` units with the weights of inputs and states, as ``product`` multiplies with them."""
    directions = 2 if direction == "bidirectional" else 1
    functions = _activations(activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh", "Tanh"), directions)

    def step(row: Any, state: Any, rw: Any, rb: Any, f: Any, peep: Any) -> Any:
        h, c = state
        sums = row + product(h, rw)
        enter, leave = sums[:, :size], sums[:, size : 2 * size]
        keep, fresh = sums[:, 2 * size : 3 * size], sums[:, 3 * size :]
        if peep is not None:
            enter, keep = enter + peep[:size] * c, keep + peep[2 * size :] * c
        enter = f[0](_clipped(enter, clip))
        keep = 1 - enter if input_forget else f[0](_clipped(keep, clip))
        cell = keep * c + enter * f[1](_clipped(fresh, clip))
        if peep is not None:
            leave = leave + peep[size : 2 * size] * cell
        return f[0](_clipped(leave, clip)) * f[2](cell), cell

    result = _recurrent(
        step, x, *weights, bias, lengths, states, size, direction, layout, functions, [peepholes], product=product
    )
    return tuple(result)
