"""Every op of the table is spread over a GPU's threads: no launch walks through a large operand in few of them.

An element of ``scatter_add`` of floats adds its own updates one after another, however many there are, as their order
is part of the op's meaning; how many that is no table knows. All else is here.
"""

from __future__ import annotations

import pytest

from tests.codegen.cuda.parallelism import APART, LARGE, names, rows_of

THREADS = 1 << 11
"""Of a launch that walks through what is large."""

STEPS = 512
"""Of a thread where there are fewer: of what parts gave, or the totals of chunks."""


@pytest.mark.parametrize("first", range(8))
def test_no_launch_has_long_work_for_few_threads(first: int) -> None:
    for name in names()[first::8]:
        rows = list(rows_of(name))
        assert rows, name
        assert not [row for row in rows if row.threads < THREADS and row.steps > STEPS]
        assert max(row.threads for row in rows) >= THREADS, name


def test_the_table_has_every_op() -> None:
    assert len(names()) > 130
    assert not set(LARGE) & set(APART)
