"""Random array programs in NumPy, eager, traced, scripted and under vmap against calls one by one.

``ARRAY_PROGRAMS=5000 python -m pytest tests/programs/test_array_texts.py`` tries more of them, others for each commit,
``python -m tests.programs.array_check SEED`` one. A program that fails is shown as a text with the fewest lines that
still fail.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import pytest

from jitgraph.tracing.call import backend
from tests.conftest import commit
from tests.programs.array_check import failure, shortest

COUNT = int(os.environ.get("ARRAY_PROGRAMS", "40"))
GROUPS = 8 if COUNT <= 40 else 80
FIRST = 0 if COUNT <= 40 else zlib.crc32(commit().encode())  # the seed of the first one


@pytest.fixture
def small_heap() -> Iterator[None]:
    """Compiled programs are forgotten, none of which comes back: collections of cycles would walk through them."""
    yield
    backend._process_cache().clear()


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_array_programs(group: int, small_heap: None) -> None:
    for seed in range(FIRST + group, FIRST + COUNT, GROUPS):
        result = failure(seed)
        if result is not None:
            pytest.fail(shortest(seed, result))


def test_programs_hold_what_they_are_for() -> None:
    """The sample has every family of steps, empty and 0-d values, special numbers and many dtypes."""
    from tests.programs.array_texts import Builder

    texts = [Builder(seed).build() for seed in range(200)]
    source = "\n".join(text.source() for text in texts)
    for word in ("where", "astype", "sort", "@", "::", "reshape", "sum", "max", "concat", "take", "exp", "cumulative"):
        assert word in source, word
    arrays = [array for text in texts for array in text.arguments.values()]
    assert len({str(array.dtype) for array in arrays}) == 14
    assert any(array.size == 0 for array in arrays) and any(array.ndim == 0 for array in arrays)
    assert sum(len(text.lines) for text in texts) > 1000
