"""RNN, LSTM, GRU and their cells: layers, directions, projections, states, lengths."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.models.case import LayerCase, normal

X, BATCH_FIRST, ALONE = normal(5, 3, 4), normal(3, 5, 4), normal(5, 4)
CELLS = ("RNNCell", "LSTMCell", "GRUCell")
SETTINGS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "bias": False},
    {"batch_first": True},
]


def made(name: str, options: dict[str, Any], *inputs: Any, call: Any = None, suffix: str = "") -> LayerCase:
    words = ", ".join([name, *(f"{key}={value}" for key, value in options.items())]) + suffix
    more = {} if call is None else {"call": call}
    return LayerCase(words, lambda lib: getattr(lib.nn, name)(4, 6, **options), inputs, **more)


def with_state(lib: Any, module: Any, x: Any, *state: Any) -> Any:
    return module(x, tuple(state) if len(state) > 1 else state[0])


def packed(lengths: list[int], **options: Any) -> Any:
    def call(lib: Any, module: Any, x: Any) -> Any:
        rnn = lib.nn.utils.rnn
        sizes = np.array(lengths) if lib.__name__ == "jitgraph" else lib.tensor(lengths)
        outputs, state = module(rnn.pack_padded_sequence(x, sizes, enforce_sorted=False, **options))
        return rnn.pad_packed_sequence(outputs, padding_value=-1.0, **options), state

    return call


def stepped(lib: Any, module: Any, x: Any) -> Any:
    state = module(x[0])
    return module(x[1], state)


CASES = [
    *(
        made(name, options, BATCH_FIRST if options.get("batch_first") else X)
        for name, options in product(("RNN", "LSTM", "GRU"), SETTINGS)
    ),
    made("RNN", {"nonlinearity": "relu"}, X),
    made("LSTM", {"proj_size": 2, "num_layers": 2}, X),
    made("LSTM", {"proj_size": 2, "bidirectional": True}, X),
    *(made(name, {}, ALONE, suffix=", one sequence") for name in ("RNN", "LSTM", "GRU")),
    made("GRU", {"num_layers": 2}, X, normal(2, 3, 6), call=with_state, suffix=", a state"),
    made("LSTM", {}, X, normal(1, 3, 6), normal(1, 3, 6, seed=1), call=with_state, suffix=", a state"),
    made("LSTM", {}, ALONE, normal(1, 6), normal(1, 6, seed=1), call=with_state, suffix=", one sequence, a state"),
    *(
        made(name, {"bidirectional": True, "num_layers": 2}, X, call=packed([2, 5, 3]), suffix=", lengths")
        for name in ("RNN", "LSTM", "GRU")
    ),
    made(
        "LSTM", {"batch_first": True}, BATCH_FIRST, call=packed([4, 1, 2], batch_first=True), suffix=", shorter lengths"
    ),
    *(made(name, {}, normal(3, 4)) for name in CELLS),
    *(
        made(name, {"bias": False}, normal(2, 3, 4), call=stepped, suffix=", two steps")
        for name in ("RNNCell", "LSTMCell", "GRUCell")
    ),
    made("RNNCell", {"nonlinearity": "relu"}, normal(4)),
    made("LSTMCell", {}, normal(4)),
]
