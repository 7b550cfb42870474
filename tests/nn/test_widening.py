"""The warning where float64, NumPy's default, meets narrower parameters: once a line, and in no other case."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests import ROOT

ROWS = np.arange(8.0).reshape(2, 4)


def model() -> jg.nn.Module:
    return jg.nn.Sequential(jg.nn.Linear(4, 3), jg.nn.ReLU(), jg.nn.Linear(3, 2))


def warned(function: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """What ``function`` warns of, as Python shows it by default: once for each line."""
    with warnings.catch_warnings(record=True) as actual:
        warnings.simplefilter("default")
        function()
    return actual


LAYERS = {
    "Linear": (jg.nn.Linear(4, 3), (2, 4)),
    "Conv1d": (jg.nn.Conv1d(2, 3, 2), (1, 2, 5)),
    "ConvTranspose2d": (jg.nn.ConvTranspose2d(2, 3, 2), (1, 2, 4, 4)),
    "LayerNorm": (jg.nn.LayerNorm(4), (2, 4)),
    "BatchNorm1d": (jg.nn.BatchNorm1d(4), (2, 4)),
    "InstanceNorm1d": (jg.nn.InstanceNorm1d(3, affine=True), (2, 3, 4)),
    "GroupNorm": (jg.nn.GroupNorm(2, 4), (3, 4)),
    "RMSNorm": (jg.nn.RMSNorm(4), (2, 4)),
    "PReLU": (jg.nn.PReLU(), (2, 4)),
    "LSTM": (jg.nn.LSTM(4, 3), (3, 2, 4)),
    "GRUCell": (jg.nn.GRUCell(4, 3), (2, 4)),
    "TransformerEncoderLayer": (jg.nn.TransformerEncoderLayer(4, 2, batch_first=True), (1, 3, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_warns_of_its_line_and_says_the_ways_out(name: str) -> None:
    layer, shape = LAYERS[name]
    result = warned(lambda: [layer(np.ones(shape)) for _ in range(3)])
    assert [each.category for each in result] == [jg.PrecisionWarning]
    assert result[0].filename == __file__
    line = inspect.getsourcelines(test_each_layer_warns_of_its_line_and_says_the_ways_out)[1]
    assert line < result[0].lineno < line + 6
    text = str(result[0].message)
    assert f"float32 parameters of {name} meet float64" in text
    assert "x.astype(jg.float32)" in text
    assert "model.double()" in text
    assert not warned(lambda: layer(np.ones(shape, np.float32)))


@pytest.mark.parametrize("capture", [jg.trace, jg.script])
def test_what_captures_a_call_warns_with_the_name_of_the_module(capture: Any) -> None:
    net = model()

    def f(x: Any) -> Any:
        return net(x)

    (actual,) = warned(lambda: capture(f)(ROWS))
    assert "float32 parameters of Sequential meet float64" in str(actual.message)
    assert actual.lineno == inspect.getsourcelines(f)[1] + 1


def test_one_line_that_calls_a_whole_model_warns_once() -> None:
    net = model()
    assert len(warned(lambda: [net(ROWS) for _ in range(2)])) == 1


def test_a_trace_warns_while_it_is_recorded() -> None:
    net = model()
    traced = jg.trace(lambda x: net(x))
    assert len(warned(lambda: traced(ROWS))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert traced(ROWS).dtype == jg.float64  # a warm call asks nothing
        assert traced(ROWS.astype(np.float32)).dtype == jg.float32


def test_parameters_used_without_a_layer_warn_too() -> None:
    scale = jg.nn.Parameter(jg.ones(4))
    for use in (
        lambda: scale * ROWS,
        lambda: ROWS * scale,
        lambda: scale * np.float64(2),
        lambda: jg.matmul(jg.asarray(ROWS), scale),
        lambda: jg.einsum("ij,j->i", ROWS, scale),
        lambda: jg.maximum(scale, ROWS),
        lambda: jg.where(ROWS > 1, scale, ROWS),
        lambda: jg.concat([scale, ROWS[0]]),
        lambda: scale * np.ones(4, np.complex128),
    ):
        assert [each.category for each in warned(use)] == [jg.PrecisionWarning]


def test_what_is_no_mistake_does_not_warn() -> None:
    scale = jg.nn.Parameter(jg.ones(4))
    double = model().double()
    plain = jg.ones(4, requires_grad=True)

    def uses() -> None:
        plain * ROWS
        plain * np.float64(2)
        scale * 2.5
        scale * np.arange(4)
        double(ROWS)
        double(ROWS.astype(np.float32))
        jg.result_type(scale, ROWS)
        with jg.no_grad():
            scale[...] = ROWS[0]
        net = model()
        net.load_state_dict({name: np.asarray(value, np.float64) for name, value in net.state_dict().items()})

    assert not warned(uses)


def test_the_filters_of_python_say_what_becomes_of_it() -> None:
    net = model()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=jg.PrecisionWarning)
        with pytest.raises(jg.PrecisionWarning):
            net(ROWS)
        warnings.filterwarnings("ignore", category=jg.PrecisionWarning)
        assert net(ROWS).dtype == jg.float64


def test_a_later_process_warns_although_traces_are_cached_on_disk(tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import numpy as np
            import jitgraph as jg
            model = jg.nn.Linear(4, 3)

            @jg.trace
            def predict(x):
                return model(x)

            predict(np.ones((2, 4)))
            """
        )
    )
    for _ in range(2):
        environment = {**os.environ, "JITGRAPH_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=120)
        assert done.stderr.count("PrecisionWarning") == 1, done.stderr
        assert "program.py:8" in done.stderr
