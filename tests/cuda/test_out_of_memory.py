"""A call on a GPU that finds no memory for its results leaves its state as it was, and can be made again."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import OutOfMemoryError
from tests.graphs import needs_native
from tests.runtime.cuda.machines import machine

MIB = 1 << 20
COUNT = MIB // 4 // 4  # float32 in a quarter of a MiB

pytestmark = needs_native


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same stream", "another stream"])
@pytest.mark.parametrize("seen", [False, True], ids=["in place", "seen elsewhere"])
def test_state_outlives_a_call_without_memory(seen: bool, elsewhere: bool) -> None:
    with machine(memory=8 * MIB):
        state, step = jg.zeros(COUNT, device="cuda"), jg.ones(1, device="cuda")

        @jg.trace
        def update() -> jg.Tensor:
            state[...] = state + step
            return jg.concat([state, state])

        stream = jg.cuda.Stream() if elsewhere else jg.cuda.current_stream()
        update()
        address, count = state._value.buffer.address, update.cache_info().misses
        with jg.cuda.stream(stream):
            kept = state + 0 if seen else None
            alias = state.detach() if seen else None
            filling: list[jg.Tensor] = []
            with pytest.raises(OutOfMemoryError):
                filling.extend(jg.zeros(COUNT, device="cuda") for _ in range(64))
            for _ in range(2):
                with pytest.raises(OutOfMemoryError, match="cuda:0 has no"):
                    update()
            filling.clear()
            gc.collect()  # the errors' frames refer to each other, and to what the calls took
            assert state._value.buffer.address == address
            np.testing.assert_array_equal(state.cpu().numpy(), np.full(COUNT, 1, np.float32))
            for number in (2, 3):
                result = update()
                np.testing.assert_array_equal(result.cpu().numpy(), np.full(2 * COUNT, number, np.float32))
                del result
                assert seen or state._value.buffer.address == address, "it is still overwritten in place"
            np.testing.assert_array_equal(state.cpu().numpy(), np.full(COUNT, 3, np.float32))
            for other in (kept, alias):
                if other is not None:
                    np.testing.assert_array_equal(other.cpu().numpy(), np.full(COUNT, 1, np.float32))
        assert update.cache_info().misses == count
