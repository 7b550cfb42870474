"""The notes of which public functions a run of the tests calls."""

from __future__ import annotations

import sys

import pytest

from tests import public_calls
from tests.processes import in_child

NOTING = """
from tests import public_calls
public_calls.watch()
before = set(public_calls.never_called())
import jitgraph as jg
jg.sin(jg.ones(3)), jg.ones(3).cos(), jg.nn.AvgPool2d(2), jg.roll(jg.ones(3), 1)
print(*sorted(before - set(public_calls.never_called())))
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python tells from 3.12 on")
def test_a_call_is_noted_of_the_name_that_is_called() -> None:
    """Not of others that the same factory made, and not of a class's siblings."""
    noted = set(in_child(NOTING).split())
    assert {"sin", "Tensor.cos", "nn.AvgPool2d", "roll", "ones"} <= noted
    assert not noted & {"tan", "Tensor.tan", "nn.AvgPool1d", "nn.MaxPool2d", "flip"}


def test_nearly_every_public_name_can_be_watched() -> None:
    """All but exceptions and records without an ``__init__`` of their own, and what is a value."""
    unseen = {name: value for name, value in public_calls.public_callables().items() if not public_calls.running(value)}
    others = [name for name, value in unseen.items() if not (isinstance(value, type) and issubclass(value, Exception))]
    assert len(public_calls.public_callables()) > 1200 and len(others) < 10, others


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python tells from 3.12 on")
def test_an_older_python_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"3\.12"):
        public_calls.watch()
