"""The line that an error names is the user's, whatever library stands between it and jitgraph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.location import Location


def line_of(function: Callable[..., Any]) -> Location:
    """The line of ``function`` that says "here"."""
    lines, first = inspect.getsourcelines(function)
    return Location(__file__, first + next(i for i, line in enumerate(lines) if "# here" in line))


def test_the_standard_library_is_passed_over() -> None:
    def added() -> Any:
        return functools.reduce(jg.add, [jg.ones((2, 3)), jg.ones((4, 3))])  # here

    def located() -> Any:
        return next(iter(functools.partial(Location.of_user), None))  # here

    with pytest.raises(jg.ShapeError) as error:
        added()
    assert error.value.location == line_of(added)
    assert located() == line_of(located)


def test_numpy_is_passed_over() -> None:
    def spread(x: jg.Tensor) -> Any:
        return np.linspace(0, x[0], 3)  # here

    with pytest.raises(jg.TraceError) as error:
        jg.trace(spread)(jg.ones(2))
    assert error.value.location == line_of(spread)
