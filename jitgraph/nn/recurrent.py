"""Recurrent layers: RNN, LSTM and GRU over sequences, and their cells. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn import functional, init
from jitgraph.nn.functional import recurrent
from jitgraph.nn.functional.arguments import fits, floats, lowered
from jitgraph.nn.module import Module, Parameter
from jitgraph.nn.utils.rnn import PackedSequence
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import zeros
from jitgraph.tensor.functions.manipulation import moveaxis
from jitgraph.tensor.functions.shapes import expand_dims
from jitgraph.tensor.lifting import repeated as repeated_value


def _set_weights(module: Any, end: str, input_size: int, out: int, *, bias: bool, projected: bool = False) -> None:
    """The parameters of one unit, as zeros; ``end`` stands behind each name."""
    rows = module.gates * module.hidden_size
    shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, input_size), "weight_hh": (rows, out)}
    if bias:
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
    if projected:
        shapes["weight_hr"] = (out, module.hidden_size)
    for name, shape in shapes.items():
        setattr(module, f"{name}{end}", Parameter(zeros(shape)))


def _begin(module: Any) -> None:
    """All parameters uniform between +-1 / sqrt(hidden_size)."""
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0.0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


class _Recurrent(Module):
    """Layers of a unit along x [T, N, F] (or [N, T, F] with ``batch_first``, or [T, F]), one behind the other.

    Parameters of layer k: ``weight_ih_lk`` [gates * hidden, inputs], ``weight_hh_lk``, ``bias_ih_lk``, ``bias_hh_lk``,
    and with ``_reverse`` behind those of the other direction. ``dropout`` acts between layers while training.
    """

    gates: int
    step: Any
    parts = 1  # of the state
    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if hidden_size < 1 or num_layers < 1:
            raise JitgraphError(f"{name}: hidden_size={hidden_size} and num_layers={num_layers} should be positive")
        if not 0 <= dropout <= 1:
            raise JitgraphError(f"{name}: dropout={dropout} is not a probability")
        if not 0 <= proj_size < hidden_size or (proj_size and name != "LSTM"):
            raise JitgraphError(f"{name}: proj_size={proj_size} belongs to LSTM, and is less than hidden_size")
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.proj_size = proj_size
        out = proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else out * self._directions()
            for end in self._endings(layer):
                _set_weights(self, end, width, out, bias=bias, projected=proj_size > 0)
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform between +-1 / sqrt(hidden_size)."""
        _begin(self)

    @property
    def mode(self) -> str:
        """The unit's name: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU"."""
        kind = next(kind.__name__ for kind in type(self).__mro__ if kind in (RNN, LSTM, GRU))
        return f"RNN_{self.nonlinearity.upper()}" if kind == "RNN" else kind

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        ends = [end for layer in range(self.num_layers) for end in self._endings(layer)]
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        by_end = [[getattr(self, f"{name}{end}", None) for name in names] for end in ends]
        return [[parameter for parameter in each if parameter is not None] for each in by_end]

    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _endings(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions()]

    def _weights(self, end: str) -> list[Any]:
        """W_ih, b_ih, W_hh, b_hh and the projection of one layer and direction."""
        parameters = [getattr(self, f"{name}{end}", None) for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
        return [*parameters, getattr(self, f"weight_hr{end}")] if self.proj_size else parameters

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs of the last layer, and the last state of every layer and direction; (h, c) for LSTM.

        ``input`` may be a ``PackedSequence``, as results are then. ``hx`` is the state before the first step, or zeros.
        """
        packed = input if isinstance(input, PackedSequence) else None
        sequence = lowered(wrap(floats(input if packed is None else packed.padded)[0]))
        lengths = None if packed is None else packed.lengths
        name = type(self).__name__
        alone = packed is None and sequence.ndim == 2
        if sequence.ndim != (2 if alone else 3) or sequence.shape[-1] != self.input_size:
            first = "N, T" if self.batch_first else "T, N"
            raise ShapeError(
                f"{name} with input_size={self.input_size} takes x[{first}, {self.input_size}] or "
                f"[T, {self.input_size}], not {sequence.value.type}",
                hint=None
                if packed is None or sequence.ndim != 2
                else "packed._replace(padded=f(packed.padded)), "
                "as a PackedSequence has the padded tensor here, not packed.data",
            )
        if alone:
            sequence = expand_dims(sequence, 1)
        elif packed is None and self.batch_first:
            sequence = moveaxis(sequence, 0, 1)
        state = self._state(hx, sequence, alone)
        outputs, last = self._layers(sequence, state, lengths)
        parts = tuple(part[:, 0] if alone else part for part in last)
        final = parts if self.parts > 1 else parts[0]
        if packed is not None:
            return type(packed)(outputs, packed.lengths), final
        if alone:
            return outputs[:, 0], final
        return (moveaxis(outputs, 0, 1) if self.batch_first else outputs), final

    def _state(self, hx: Any, x: Tensor, alone: bool) -> list[Tensor]:
        """Each part of the state before the first step, [layers * directions, N, size]."""
        batch = x.value.type.shape[1]
        count = self.num_layers * self._directions()
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][: self.parts]
        if hx is None:
            return [wrap(repeated_value(0.0, x.dtype, (count, batch, size))) for size in sizes]
        state_parts = tuple(hx) if self.parts > 1 else (hx,)
        if len(state_parts) != self.parts:
            raise ShapeError(f"{type(self).__name__}: the state has {self.parts} parts, (h, c)")
        states = []
        for part, size in zip((lowered(wrap(lifting.value_of(part))) for part in state_parts), sizes, strict=True):
            batched = expand_dims(part, 1) if alone else part
            if not fits(batched, (count, batch, size)):
                expected = (count, size) if alone else (count, batch, size)
                raise ShapeError(f"{type(self).__name__} takes a state {expected}, not {part.value.type}")
            states.append(batched)
        return states

    def _layers(self, x: Tensor, state: list[Tensor], lengths: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        return recurrent.stacked(
            self.step_of(),
            x,
            state,
            [self._weights(end) for layer in range(self.num_layers) for end in self._endings(layer)],
            directions=self._directions(),
            drop=self.dropout,
            training=self.training,
            lengths=lengths,
        )

    def step_of(self) -> recurrent.Step:
        """The step of the unit."""
        return type(self).step  # type: ignore[no-any-return]

    def flatten_parameters(self) -> None:
        """Nothing: the weights need no one buffer here."""

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        for name, plain in {**defaults, "bidirectional": False}.items():
            value = getattr(self, name)
            text += f", {name}={value}" if value != plain else ""
        return text


class RNN(_Recurrent):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with ``nonlinearity="relu"`` (Elman 1990)."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        settings = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        super().__init__(*settings, device=device, dtype=dtype)
        self.nonlinearity = _known(nonlinearity)

    def step_of(self) -> recurrent.Step:
        """The step with the nonlinearity that was asked for."""
        return _STEPS[self.nonlinearity]


_STEPS: dict[str, recurrent.Step] = {"tanh": recurrent.rnn_tanh_step, "relu": recurrent.rnn_relu_step}


def _known(nonlinearity: str) -> str:
    if nonlinearity not in _STEPS:
        raise JitgraphError(f"RNN: nonlinearity={nonlinearity!r} is neither 'tanh' nor 'relu'")
    return nonlinearity


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997): gates i, f, g, o; with ``proj_size`` h is projected."""

    gates, parts = 4, 2
    step = staticmethod(recurrent.lstm_step)


class GRU(_Recurrent):
    """The gated recurrent unit (Cho et al. 2014): gates r, z, n."""

    gates = 3
    step = staticmethod(recurrent.gru_step)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        settings = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        super().__init__(*settings, device=device, dtype=dtype)


class _Cell(Module):
    """One step of a unit on x [N, F] or [F]."""

    gates: int
    parts = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        _set_weights(self, "", input_size, hidden_size, bias=bias)
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform between +-1 / sqrt(hidden_size)."""
        _begin(self)

    def _stepped(self, step: recurrent.Step, x: Tensor, state: Any) -> tuple[Tensor, ...]:
        name = type(self).__name__
        x = lowered(wrap(floats(x)[0]))
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(f"{name} takes x[N, {self.input_size}] or [{self.input_size}], not {x.value.type}")
        alone = x.ndim == 1
        rows = expand_dims(x, 0) if alone else x
        batch = rows.value.type.shape[0]
        if state is None:
            state_parts = (wrap(repeated_value(0.0, x.dtype, (batch, self.hidden_size))),) * self.parts
        else:
            raw_parts = tuple(lowered(wrap(lifting.value_of(p))) for p in (state if self.parts > 1 else (state,)))
            state_parts = tuple(expand_dims(part, 0) if alone else part for part in raw_parts)
        for part in state_parts:
            if not fits(part, (batch, self.hidden_size)):
                raise ShapeError(f"{name} takes a state ({batch}, {self.hidden_size}), not {part.value.type}")
        bias_ih, bias_hh = (self.bias_ih, self.bias_hh) if self.bias else (None, None)  # type: ignore[attr-defined]
        gates = functional.linear(rows, self.weight_ih, bias_ih)  # type: ignore[attr-defined]
        fresh = step(gates, state_parts, [self.weight_hh, bias_hh])  # type: ignore[attr-defined]
        return tuple(part[0] for part in fresh) if alone else fresh

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of ``RNN``."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = _known(nonlinearity)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next h."""
        return self._stepped(_STEPS[self.nonlinearity], input, hx)[0]


class GRUCell(_Cell):
    """One step of ``GRU``."""

    gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next h."""
        return self._stepped(recurrent.gru_step, input, hx)[0]


class LSTMCell(_Cell):
    """One step of ``LSTM``."""

    gates, parts = 4, 2

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next (h, c)."""
        return self._stepped(recurrent.lstm_step, input, hx)  # type: ignore[return-value]
