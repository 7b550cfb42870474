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


class Late:
    total = functools.cached_property(jg.sum)  # functools calls jg.sum(self), in Python


def test_the_standard_library_is_passed_over() -> None:
    def read() -> Any:
        return Late().total  # here

    with pytest.raises(jg.DTypeError) as error:
        read()
    assert error.value.location == line_of(read)


def test_numpy_is_passed_over() -> None:
    def applied() -> Any:
        return np.apply_along_axis(jg.reshape, 0, np.ones((2, 3)), (3, 3))  # here

    with pytest.raises(jg.ShapeError) as error:
        applied()
    assert error.value.location == line_of(applied)
