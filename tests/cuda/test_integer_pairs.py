"""Pairs of integer ops give the CPU's numbers: 1,760 under ``TEST_GPU=1``, some of each dtype on a simulated machine.

Each pair is a trace of its own, so that an op stands directly behind the other: what an assembler assumes of the upper
half of a register shows only there.
"""

from __future__ import annotations

import random

import pytest

import jitgraph as jg
from tests.cuda.integer_pairs import DTYPES, FIRST, SECOND, edges, of_one_dtype, pair
from tests.cuda.places import IS_GPU, Machine
from tests.graphs import needs_native

pytestmark = needs_native


@pytest.mark.parametrize("dtype", DTYPES)
def test_pairs_of_integer_ops_give_the_bits_of_the_processor(here: Machine, dtype: str) -> None:
    pairs = [(first, second) for first in FIRST for second in SECOND]
    if not IS_GPU:
        pairs = [("neg", "floor_divide"), ("abs", "int32"), *random.Random(DTYPES.index(dtype)).sample(pairs, 3)]
    x = edges(dtype)
    inputs = jg.asarray(x, device="cuda")
    wrong = []
    for first, second in pairs:
        expected = pair(first, second)(jg.asarray(x))
        traced = jg.trace(pair(first, second))(inputs).cpu()
        if traced.dtype != expected.dtype or traced.numpy().tobytes() != expected.numpy().tobytes():
            wrong.append((first, second))
    assert not wrong


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_pairs_at_once_give_the_bits_of_the_processor(here: Machine, dtype: str) -> None:
    """As outputs of one kernel, whose values others of its threads' registers are beside."""
    firsts, seconds = list(FIRST), list(SECOND)
    if not IS_GPU:
        firsts, seconds = ["neg", "abs"], ["floor_divide", "shift_right", "int64"]
    x = edges(dtype)
    expected = of_one_dtype(firsts, seconds)(jg.asarray(x))
    traced = jg.trace(of_one_dtype(firsts, seconds))(jg.asarray(x, device="cuda"))
    assert [y.cpu().numpy().tobytes() for y in traced] == [y.numpy().tobytes() for y in expected]
