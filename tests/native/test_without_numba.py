"""Without numba and SciPy, what needs them says so."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.native.function import native_function
from tests.graphs import needs_native

pytestmark = needs_native


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("numba", "scipy"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "jitgraph.native.numba_calls", raising=False)


def test_what_is_absent_is_named_with_how_to_get_it(absent: Any) -> None:
    native = native_function(lambda t: t * 2, 1.0)
    with pytest.raises(
        jg.JitgraphError, match=r"numba's, which is not installed\n  hint: pip install jitgraph\[numba\]"
    ):
        _ = native.njit
    with pytest.raises(jg.JitgraphError, match=r"SciPy's, which is not installed\n  hint: pip install scipy"):
        native.low_level_callable("quad")
    assert float(native(np.float64(2))) == 4.0


def test_a_signature_that_is_unknown_or_does_not_fit() -> None:
    number, vector = native_function(lambda t: t * 2, 1.0), native_function(lambda v: v * 2, np.ones(3))
    single = native_function(lambda t: t, jg.TensorSpec((), jg.float32))
    with pytest.raises(jg.ArgumentError, match=r"no callback has the signature 'void \(\)'\n  hint: one of double"):
        number.low_level_callable("void ()")
    for function, signature in (
        (vector, "quad"),
        (vector, "nquad"),
        (single, "quad"),
        (number, "generic_filter"),
        (vector, "generic_filter"),
        (number, "generic_filter1d"),
    ):
        with pytest.raises(jg.ArgumentError, match=r"is not of the signature .*\n  hint: it takes"):
            function.low_level_callable(signature)
