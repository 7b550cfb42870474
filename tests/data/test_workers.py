"""Loaders with worker processes: the same batches, errors, ends of every kind, and nothing left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.data import DataLoader, get_worker_info
from tests import processes

pytestmark = [
    pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory is looked at under /dev/shm"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # 3.12 warns where there are threads
]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No block of shared memory and no process outlives a test."""
    before = set(os.listdir("/dev/shm"))
    yield
    gc.collect()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and (set(os.listdir("/dev/shm")) - before or multiprocessing.active_children()):
        time.sleep(0.05)
    assert set(os.listdir("/dev/shm")) <= before
    assert not multiprocessing.active_children()


class Squares(jg.data.Dataset):
    """Items of every kind; some numbers make trouble."""

    def __init__(self, size: int, trouble: Any = None) -> None:
        self.size, self.trouble = size, trouble

    def __getitem__(self, index: int) -> Any:
        if self.trouble is not None and index == 5:
            self.trouble()
        return {"x": np.full((3, 2), index, np.float32), "y": jg.asarray([index, index**2]), "name": f"item {index}"}

    def __len__(self) -> int:
        return self.size


def seen(loader: DataLoader) -> list[Any]:
    return [(b["x"].numpy().tolist(), b["y"].numpy().tolist(), b["name"]) for b in loader]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_the_batches_are_those_of_no_workers(context: str) -> None:
    options: dict[str, Any] = {"batch_size": 3, "shuffle": True, "seed": 4}
    data = Squares(11)
    wanted = [seen(loader) for loader in [DataLoader(data, **options)] for _ in range(2)]
    loader = DataLoader(data, **options, num_workers=2, multiprocessing_context=context, persistent_workers=True)
    assert [seen(loader) for _ in range(2)] == wanted
    assert isinstance(next(iter(loader))["x"], jg.Tensor)


def test_large_arrays_and_few_items() -> None:
    data = jg.data.TensorDataset(np.arange(4_000_000, dtype=np.float64).reshape(4, -1), np.arange(4))
    batches = list(DataLoader(data, 3, num_workers=3, prefetch_factor=4))
    assert [y.tolist() for _, y in batches] == [[0, 1, 2], [3]] and batches[1][0].numpy()[0, -1] == 3_999_999
    assert list(DataLoader(jg.data.Subset(data, []), 2, num_workers=2)) == []


def test_an_error_comes_with_its_traceback() -> None:
    def trouble() -> None:
        raise KeyError("no such file")

    loader = DataLoader(Squares(20, trouble), 2, num_workers=2)
    results = []
    with pytest.raises(KeyError, match="no such file") as raised:
        results.extend(batch["name"] for batch in loader)
    (note,) = raised.value.__notes__[-1:]
    assert "in worker 0 of the loader" in note and "at item 5 of the dataset" in note and "in trouble" in note
    assert results == [["item 0", "item 1"], ["item 2", "item 3"]], "what came before is there"


def test_a_worker_that_dies_is_named() -> None:
    loader = DataLoader(Squares(20, lambda: os.kill(os.getpid(), signal.SIGKILL)), 2, num_workers=2)
    with pytest.raises(jg.JitgraphError, match=r"worker 0 of the loader \(process \d+\) was ended by signal 9"):
        list(loader)


def test_one_that_takes_too_long() -> None:
    loader = DataLoader(Squares(20, lambda: time.sleep(60)), 2, num_workers=2, timeout=0.5)
    with pytest.raises(jg.JitgraphError, match=r"no batch from worker 0 .* timeout=0\.5"):
        list(loader)


def test_a_loop_may_end_early() -> None:
    loader = DataLoader(Squares(100), 1, num_workers=2, persistent_workers=True)
    for _ in range(3):
        for number, _ in enumerate(loader):
            if number == 2:
                break
    assert len(seen(loader)) == 100
    del loader


def test_two_iterators_of_one_loader() -> None:
    loader = DataLoader(Squares(7), 2, num_workers=2, persistent_workers=True)
    pairs = [(a["name"], b["name"]) for a, b in zip(loader, loader, strict=True)]
    assert [a for a, _ in pairs] == [b for _, b in pairs] and len(pairs) == 4
    assert len(seen(loader)) == 4


@pytest.mark.parametrize("workers", [0, 2])
def test_no_batch_is_taken_for_the_end(workers: int) -> None:
    words = ["begin", "finished", "end"]
    assert list(DataLoader(words, None, num_workers=workers)) == words
    assert list(DataLoader(range(4), 2, num_workers=workers, collate_fn=lambda items: "finished")) == ["finished"] * 2


class Counted(jg.data.IterableDataset):
    def __init__(self, size: int, shared: bool) -> None:
        self.size, self.shared = size, shared

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        step = info.num_workers if info and self.shared else 1
        return iter(range(info.id if info and self.shared else 0, self.size, step))

    def __len__(self) -> int:
        return self.size


def test_iterable_datasets() -> None:
    assert [x.tolist() for x in DataLoader(Counted(5, True), 2)] == [[0, 1], [2, 3], [4]]
    shared = DataLoader(Counted(11, True), 2, num_workers=3)
    results = [x.tolist() for x in shared]
    assert sorted(i for batch in results for i in batch) == list(range(11)) and results[0] == [0, 3]
    with pytest.warns(UserWarning, match=r"get_worker_info\(\)"):
        assert len(list(DataLoader(Counted(4, False), 2, num_workers=2))) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert len(list(DataLoader(Counted(5, True), 2, num_workers=2, drop_last=True))) == 2
    assert list(DataLoader(Counted(3, True), None, num_workers=1)) == [0, 1, 2]


def test_workers_know_who_they_are() -> None:
    class Who(jg.data.Dataset):
        def __getitem__(self, index: int) -> Any:
            info: Any = get_worker_info()
            return info.id, info.num_workers, info.seed, float(np.random.rand()), jg.random.uniform(()).item()

        def __len__(self) -> int:
            return 4

    begun: list[int] = []
    loader = DataLoader(Who(), 1, num_workers=2, seed=1, worker_init_fn=begun.append)
    rows = [tuple(x[0].item() for x in batch) for batch in loader]
    assert [row[:2] for row in rows] == [(0, 2), (1, 2)] * 2 and rows[1][2] == rows[0][2] + 1
    assert len({row[3] for row in rows}) == len({row[4] for row in rows}) == 4
    again = [tuple(x[0].item() for x in batch) for batch in DataLoader(Who(), 1, num_workers=2, seed=1)]
    assert again == rows and get_worker_info() is None and not begun


def test_an_error_while_it_begins() -> None:
    def refuse(number: int) -> None:
        raise RuntimeError(f"worker {number} has no disk")

    with pytest.raises(RuntimeError, match="worker 0 has no disk"):
        list(DataLoader(Squares(4), 1, num_workers=2, worker_init_fn=refuse))


def test_beside_compiled_code() -> None:
    """Workers are forked while threads of compiled code are there, and compute in the dataset."""

    class Computed(Squares):
        def __getitem__(self, index: int) -> Any:
            x = jg.full((300, 300), float(index))
            return (x @ x).sum()

    step = jg.trace(lambda x: (x @ x.T).sum())
    big = jg.ones((400, 400))
    total = 0.0
    for batch in DataLoader(Computed(6), 2, num_workers=2):
        step(big)
        total += batch.sum().item()
    assert total == pytest.approx(sum(300.0 * 300 * 300 * i * i for i in range(6)), rel=1e-6)


def test_workers_that_died_between_epochs_are_named_and_replaced() -> None:
    loader = DataLoader(Squares(6), 2, num_workers=2, persistent_workers=True)
    first = seen(loader)
    assert loader._workers is not None
    for process in loader._workers._processes:
        process.kill()
        process.join()
    with pytest.raises(jg.JitgraphError, match="was ended by signal 9"):
        list(loader)
    assert seen(loader) == first


def test_a_full_shared_memory_is_named() -> None:
    with pytest.raises(jg.JitgraphError, match="hint: shared memory may be full"):
        list(DataLoader(Squares(6, lambda: os.kill(os.getpid(), signal.SIGBUS)), 2, num_workers=1))


class Nested(Squares):
    def __getitem__(self, index: int) -> Any:
        return len(list(DataLoader(Squares(2), num_workers=1)))


def test_a_worker_starts_no_workers() -> None:
    with pytest.raises(jg.JitgraphError, match="num_workers=1 in a worker of another loader"):
        list(DataLoader(Nested(2), num_workers=1))


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_datasets_of_pytorch_take_their_share(workers: int) -> None:
    torch_data = pytest.importorskip("torch.utils.data")

    class Numbers(torch_data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[int]:
            info = torch_data.get_worker_info()
            return iter(range(7)) if info is None else iter(range(info.id, 7, info.num_workers))

    results = [x for batch in DataLoader(Numbers(), 2, num_workers=workers) for x in batch.tolist()]
    assert sorted(results) == list(range(7))


SIX_THREADS = """
import threading
import numpy as np
import jitgraph as jg

data = jg.data.TensorDataset(np.arange(400, dtype=np.float32).reshape(100, 4), np.arange(100))
sums = []

def passes():
    for _ in range(2):
        loader = jg.data.DataLoader(data, 9, num_workers=2)
        sums.append(sum(int(y.numpy().sum()) for _, y in loader))

threads = [threading.Thread(target=passes) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sums == [4950] * 12)
"""


def test_six_threads_with_two_workers_each_end() -> None:
    """Workers are forked while other threads import modules and share memory."""
    assert processes.in_child(SIX_THREADS, *processes.FORKS, timeout=60) == "True\n"
