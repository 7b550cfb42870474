"""What runs in a worker process of a loader: it answers each request with a batch, or with what went wrong."""

from __future__ import annotations

import multiprocessing
import pickle
import random as python_random
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph import random
from jitgraph.data.shared_batches import discard, sent
from jitgraph.runtime import forks


class WorkerInfo(NamedTuple):
    """Which worker this is: its ``id`` below ``num_workers``, its ``seed``, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def _renew_streams() -> None:
    """Free the lock of NumPy's global stream in a child: the thread of the parent that drew from it is not there."""
    forks.renew(np.random.get_bit_generator().lock)  # type: ignore[attr-defined]


forks.in_child(_renew_streams)


def get_worker_info() -> WorkerInfo | None:
    """In a worker process what it is; None elsewhere."""
    return _info


class Ended(NamedTuple):
    """The dataset has no more items."""


ENDED: Final = Ended()


class Failure(NamedTuple):
    """What went wrong in a worker."""

    kind: str
    raised: bytes | None
    text: str


def work(
    pipe: Connection,
    info: WorkerInfo,
    prefix: str,
    start: Callable[[Any], Any],
    init: Callable[[int], Any] | None,
) -> None:
    """Answer each request with a batch until the pipe ends or the parent does; ``start(dataset)`` gives the maker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    signal.signal(signal.SIGTERM, _stop)
    try:
        _serve(pipe, info, prefix, start, init)
    except _Stopped:
        return


class _Stopped(BaseException):
    """The parent asks for no more batches."""


class _Sending:
    """A block within which a worker is not stopped, so that the parent learns of all shared memory that it holds."""

    active = stopped = False

    def __enter__(self) -> None:
        _Sending.active = True

    def __exit__(self, *raised: object) -> None:
        _Sending.active = False
        if _Sending.stopped:
            raise _Stopped


def _stop(*_: Any) -> None:
    _Sending.stopped = True
    if not _Sending.active:
        raise _Stopped


def _serve(
    pipe: Connection, info: WorkerInfo, prefix: str, start: Callable[[Any], Any], init: Callable[[int], Any] | None
) -> None:
    global _info
    parent: Any = multiprocessing.parent_process()
    number = 0  # of the batch, by which the parent knows the name of its block
    problem: Failure | None = None
    make: Any = None
    while pipe in wait([pipe, parent.sentinel]):
        try:
            seed, request = pipe.recv()
        except EOFError:
            return
        try:
            if problem is None and seed is not None:
                _info = info._replace(seed=seed + info.id)
                _seed(_info.seed)
                _tell_torch(_info)
                if make is None and init is not None:
                    init(info.id)
                make = start(info.dataset)
            if request is None:
                continue
            if problem is not None:
                pipe.send(problem)
                continue
            batch = make(request)
            with _Sending():
                answer = batch if batch is ENDED else sent(batch, f"{prefix}{number}")
                number += 1
                try:
                    pipe.send(answer)
                except BaseException:
                    discard(answer)
                    raise
        except (_Stopped, BrokenPipeError, ConnectionResetError):
            return
        except BaseException as error:
            failure = _failure(error, info.id)
            problem = failure if make is None else None
            if request is not None:
                pipe.send(failure)


def _seed(seed: int) -> None:
    python_random.seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def _tell_torch(info: WorkerInfo) -> None:
    """Let PyTorch's ``get_worker_info`` say the same, by which its iterable datasets take their share."""
    there: Any = sys.modules.get("torch.utils.data._utils.worker")
    if hasattr(there, "WorkerInfo") and hasattr(there, "_worker_info"):
        there._worker_info = there.WorkerInfo(**info._asdict())


def _failure(error: BaseException, number: int) -> Failure:
    text = f"in worker {number} of the loader:\n{traceback.format_exc()}"
    try:
        raised = pickle.dumps(error)
        pickle.loads(raised)
    except Exception:
        raised = None
    return Failure(type(error).__name__, raised, text)
