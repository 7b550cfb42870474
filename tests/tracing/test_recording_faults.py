"""Faults of the package's own while it records are reported, however a recording with plain numbers would go."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tracing.record import recorder
from jitgraph.tracing.symbolic.number import SymbolicNumber


def use(x: Any, n: Any) -> Any:
    return x * n  # here


def broken(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """A package that fails where a number that varies becomes a value."""

    code = compile("def fail(self, dtype): raise error('planted')", recorder.__file__, "exec")
    scope = {"error": error, "__name__": recorder.__name__}
    exec(code, scope)
    monkeypatch.setattr(SymbolicNumber, "value_in", scope["fail"])


@pytest.mark.parametrize("error", [KeyError, TypeError, AttributeError, AssertionError, ZeroDivisionError])
def test_a_fault_with_numbers_that_vary_is_reported(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    broken(monkeypatch, error)
    function = jg.trace(use)
    with pytest.raises(jg.InternalError, match=rf"failed to record use: {error.__name__}: .*planted") as caught:
        function(np.ones(2, np.float32), 2.5)
    assert caught.value.location is not None
    assert "# here" in linecache.getline(__file__, caught.value.location.line)
    assert type(caught.value.__cause__) is error
    report = re.search(r"report it with (\S+), which holds the traceback", str(caught.value))
    assert report is not None
    text = Path(report[1]).read_text()
    Path(report[1]).unlink()
    assert "planted" in text
    assert "return x * n" in text


def test_what_the_users_code_raises_with_numbers_that_vary_is_no_fault() -> None:
    def of_users(x: Any, n: Any) -> Any:
        assert type(n) is float, "a stand-in"
        return x * n

    assert jg.trace(of_users)(np.ones(2, np.float32), 2.5).tolist() == [2.5, 2.5]
    with pytest.raises(IndexError, match="list index"):
        jg.script(lambda x, n: x * [1.0, 2.0][n])(np.ones(2, np.float32), 7)
