"""Views under threads, and who keeps whom alive."""

from __future__ import annotations

import gc
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import jitgraph.torch as torch
from jitgraph.tensor import indexing


def test_threads_write_to_parts_of_one_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(8, 4)
    put = indexing.put

    def slow(*args: Any) -> Any:
        time.sleep(1e-3)  # another thread runs between the read of the whole and its new value
        return put(*args)

    monkeypatch.setattr(indexing, "put", slow)

    def fill(part: int) -> None:
        for number in range(1, 6):
            if part % 2:
                x[part].fill_(number)
            else:
                x[part, :] = number
            assert x[part].tolist() == [number] * 4

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, range(8)))
    assert x.tolist() == [[5.0] * 4] * 8


def test_threads_read_a_view_of_what_another_writes() -> None:
    x, n = torch.zeros(4, 8), 150
    row = x[1]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:

        def write(_: int) -> None:
            for number in range(1, n + 1):
                x.fill_(number)

        def read(_: int) -> None:
            last = 0.0
            while last < n:
                numbers = row.tolist()
                assert len(set(numbers)) == 1 and numbers[0] >= last
                last = numbers[0]

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda task: task(0), [write, read, read, read]))
    finally:
        sys.setswitchinterval(before)


def test_a_view_keeps_its_base_alive_and_a_base_none_of_its_views() -> None:
    def alive(reference: Any) -> bool:
        gc.collect()
        return reference() is not None

    base = torch.zeros(3)
    view = base.view(3, 1)[1:]
    kept, gone = weakref.ref(base), weakref.ref(view)
    del base
    assert alive(kept) and view.tolist() == [[0.0], [0.0]]
    del view
    assert not alive(kept) and not alive(gone)
    base = torch.zeros(3)
    gone = weakref.ref(base[1:])
    base[1:].add_(1)
    assert gone() is None and base.tolist() == [0, 1, 1]  # by its count of references, before any collection
