"""Random programs that write parts of state mean what they mean in NumPy, call after call.

``STATE_PROGRAMS=1000 python -m pytest tests/codegen/test_state_programs.py`` tries more of them.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import jitgraph as jg
from jitgraph.tracing.call import invocation
from tests.graphs import needs_native
from tests.programs import states
from tests.tracing.script.scripts import define

COUNT = int(os.environ.get("STATE_PROGRAMS", "12"))
ROWS = 40  # enough for memory of its own, and for parts
STATE = ("a", "b", "c")
LARGE = 1 << 18


class Compiled(jg.nn.Module):
    """The program on state of tensors, compiled."""

    def __init__(self, program: Callable[..., Any], arrays: SimpleNamespace) -> None:
        super().__init__()
        for name in STATE:
            setattr(self, name, jg.asarray(getattr(arrays, name)))
        self.call = jg.script(lambda i, j, v: program(self, i, j, v))

    def arrays(self) -> list[np.ndarray]:
        """Copies, which leave the memory to the module alone."""
        return [np.asarray(getattr(self, name) * 1) for name in STATE]


def outcome(program: Callable[..., Any], arrays: SimpleNamespace, inputs: tuple[Any, ...]) -> Any:
    """What a call gives on copies of the state, and they; no results where an index is out of range."""
    after = copy.deepcopy(arrays)
    try:
        return program(after, *inputs), after
    except IndexError:
        return None, arrays


@needs_native
def test_random_programs_write_state_as_numpy_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")
    failed = written = 0

    @settings(
        max_examples=COUNT,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=(Phase.generate,),
    )
    @given(states.programs(), st.integers(0, 1000))
    def run(source: str, seed: int) -> None:
        nonlocal failed, written
        program, rng = define(source), np.random.default_rng(seed)
        monkeypatch.setattr(
            invocation, "_LEAST_REPLACED", seed % 2 * LARGE
        )  # also of tensors that names are bound to anew
        arrays = SimpleNamespace(**{name: rng.integers(0, 97, (ROWS, 4)) for name in STATE})
        compiled = Compiled(program, arrays)
        given_out: list[tuple[Any, Any]] = []
        for call, last in enumerate((9, 9, 9, ROWS + 4, 9)):
            inputs = int(rng.integers(0, last)), int(rng.integers(2, last)), rng.integers(0, 97, 4)
            due, after = outcome(program, arrays, inputs)
            before = compiled.arrays()
            try:
                result = compiled.call(*map(jg.asarray, inputs))
            except IndexError:
                failed += 1
                assert due is None, source
                for x, y in zip(compiled.arrays(), before, strict=True):
                    np.testing.assert_array_equal(x, y, err_msg=source)
                continue
            if due is None:  # what nobody uses is not computed, and its indices are not checked
                break
            written += 1
            arrays = after
            given_out += zip(result, due, strict=True)
            for x, name in zip(compiled.arrays(), STATE, strict=True):
                np.testing.assert_array_equal(x, getattr(arrays, name), err_msg=source)
            if call % 2:  # calls whose state others see come between those that have it to themselves
                given_out += [(getattr(compiled, name).detach(), getattr(arrays, name)) for name in STATE]
        for x, y in given_out:  # later calls have not written to them
            np.testing.assert_array_equal(np.asarray(x), y, err_msg=source)

    run()
    assert failed
    assert written > 2 * COUNT
