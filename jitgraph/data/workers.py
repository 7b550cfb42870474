"""The worker processes of a loader: what runs in one, and how batches come back through shared memory."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import random as python_random
import secrets
import signal
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph import random
from jitgraph.errors import JitgraphError
from jitgraph.runtime import forks
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray

# ----------------------------------------------------------------------
# Batches through shared memory, from the process that makes them to the one that reads them.
#
# A batch is pickled with its arrays out of band (protocol 5), and everything is copied into one block of shared memory;
# only the block's name and sizes go through a pipe.
#
# Python notes each block in a process of its own (``multiprocessing.resource_tracker``), whose client has a lock. A
# worker that is forked while another thread has that lock could never send a batch: no fork cuts our own use of it in
# two, and in a child the lock is free again.

_ALIGNMENT: Final = 64


def _renew_tracker() -> None:
    """Free the lock of the tracker's client in a child, where the thread that has it does not exist."""
    forks.renew(getattr(getattr(resource_tracker, "_resource_tracker", None), "_lock", None))


forks.in_child(_renew_tracker)


class SharedBatch(NamedTuple):
    """A batch in shared memory: the name, and the sizes of what was pickled and of the arrays behind it."""

    name: str
    sizes: tuple[int, ...]


def _tensor(array: Any) -> Tensor:
    return asarray(array)


class _Pickler(pickle.Pickler):
    """Tensors go as their arrays."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return _tensor, (np.ascontiguousarray(obj.detach().cpu().numpy()),)
        return NotImplemented


def _offsets(sizes: tuple[int, ...]) -> tuple[list[int], int]:
    """Where each part of a block begins, and the size of the whole."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return starts, max(end, 1)


def sent(batch: Any, name: str) -> SharedBatch:
    """A batch in a new block of shared memory of this name."""
    stream, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(batch)
    parts = [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = tuple(part.nbytes for part in parts)
    starts, total = _offsets(sizes)
    memory = SharedMemory(name=name, create=True, size=total)
    block = SharedBatch(memory.name, sizes)
    try:
        view: Any = memory.buf
        for part, start in zip(parts, starts, strict=True):
            view[start : start + part.nbytes] = part
    except BaseException:
        _give_back(memory)
        raise
    memory.close()
    return block


def received(block: SharedBatch) -> Any:
    """The batch of a block, which is given back."""
    with forks.whole():
        memory = SharedMemory(name=block.name)
    try:
        starts, _ = _offsets(block.sizes)
        view: Any = memory.buf
        parts = [bytearray(view[start : start + size]) for start, size in zip(starts, block.sizes, strict=True)]
    finally:
        _give_back(memory)
    return pickle.loads(bytes(parts[0]), buffers=parts[1:])


def discard(message: Any) -> None:
    """Give back a block that will not be read."""
    if isinstance(message, SharedBatch):
        with forks.whole():
            try:
                memory = SharedMemory(name=message.name)
            except FileNotFoundError:
                return
        _give_back(memory)


def _give_back(memory: SharedMemory) -> None:
    memory.close()
    with forks.whole():
        memory.unlink()


# ----------------------------------------------------------------------
# The worker processes of a loader: what runs in one, and how the process sees them that reads their batches.
#
# A worker answers each request with a batch, or with what went wrong. Only names and sizes of blocks of shared memory
# come through the pipes, so that neither side ever waits to send. Batch k is made by worker k modulo their number, so
# that batches come in the order of the sampler.
#
# Threads start their workers one after the other: a process that was forked between the making of another one's pipes
# and the closing of their far ends would inherit these, and hide the other one's end from whoever waits for it.


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
    """The worker in which it is called; None in the main process."""
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


_starting: Final = forks.lock()
_NO_ROOM: Final = getattr(signal, "SIGBUS", None) or 0
"""What ends a process that writes to a block of shared memory for which there is no room."""


def reraised(failure: Failure) -> BaseException:
    """The error that was raised, with the worker's traceback as a note; JitgraphError where it cannot be sent."""
    if failure.raised is None:
        return JitgraphError(f"{failure.kind} {failure.text}")
    error: BaseException = pickle.loads(failure.raised)
    error.add_note(failure.text)
    return error


class Workers:
    """The processes of one loader, and what was asked of them."""

    def __init__(
        self,
        count: int,
        start: Callable[[Any], Any],
        dataset: Any,
        init: Callable[[int], Any] | None,
        context: Any,
        timeout: float,
    ) -> None:
        with forks.whole():
            resource_tracker.ensure_running()  # one for all, so that a block given back here is not missed there
        self.count, self.timeout = count, timeout
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        self._asked, self._answered = [0] * count, [0] * count
        self._prefix = f"jg-{os.getpid()}-{secrets.token_hex(4)}-"
        state = (self._pipes, self._processes, self._asked, self._answered)
        self._finalizer = weakref.finalize(self, _end, *state, self._prefix, os.getpid())
        try:
            for number in range(count):
                info = WorkerInfo(number, count, 0, dataset)
                with _starting:
                    ours, theirs = context.Pipe()
                    args = (theirs, info, f"{self._prefix}{number}-", start, init)
                    process = context.Process(target=work, args=args, daemon=True)
                    process.start()
                    theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
        except BaseException:
            self.end()
            raise

    def begin(self, seed: int) -> None:
        """Let every worker begin a new pass over the dataset."""
        for number in range(self.count):
            self._send(number, (seed, None))

    def ask(self, number: int, request: Any) -> None:
        """Ask a worker for a batch."""
        self._send(number, (None, request))
        self._asked[number] += 1

    def _send(self, number: int, message: Any) -> None:
        try:
            self._pipes[number].send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended(number) from None

    def answer(self, number: int) -> Any:
        """The next answer of a worker: a batch, or None where its dataset has ended; its error is raised here."""
        pipe, process = self._pipes[number], self._processes[number]
        ready = wait([pipe, process.sentinel], self.timeout or None)
        if not ready:
            raise JitgraphError(
                f"no batch from worker {number} of the loader within timeout={self.timeout} seconds\n"
                "  hint: a longer timeout=, or more workers"
            )
        if pipe not in ready and not pipe.poll():
            raise self._ended(number)
        try:
            message = pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._ended(number) from None
        self._asked[number] -= 1
        if isinstance(message, Failure):
            raise reraised(message)
        self._answered[number] += 1
        return None if isinstance(message, Ended) else (received(message),)

    def _ended(self, number: int) -> JitgraphError:
        process = self._processes[number]
        process.join(5)
        code = process.exitcode
        how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        hint = "it may have run out of memory; num_workers=0 loads in this process"
        if _NO_ROOM and code == -_NO_ROOM:
            hint = "shared memory may be full: make /dev/shm larger (docker run --shm-size=8g), or batches smaller"
        return JitgraphError(f"worker {number} of the loader (process {process.pid}) {how}\n  hint: {hint}")

    def end(self) -> None:
        """End the processes, and give back what they have sent."""
        self._finalizer()


def _end(
    pipes: list[Connection],
    processes: list[Any],
    requested: list[int],
    answered: list[int],
    prefix: str,
    owner: int,
) -> None:
    """End workers; nothing in a process that was forked from their owner."""
    if os.getpid() != owner:
        return
    for process in processes:
        if process.is_alive():
            process.terminate()
    for number, (pipe, process) in enumerate(zip(pipes, processes, strict=True)):
        process.join(10)
        if process.is_alive():  # in native code that does not come back
            process.kill()
            process.join()
        for batch in range(answered[number], answered[number] + requested[number] + 1):
            discard(SharedBatch(f"{prefix}{number}-{batch}", ()))  # also of one that was killed before it told
        pipe.close()


def batches(workers: Workers, requests: Iterator[Any], ahead: int) -> Iterator[Any]:
    """The answers to ``requests`` in their order, with ``ahead`` of them asked of each worker before they are needed.

    A worker whose dataset has ended is asked no more; the others go on.
    """
    pending: list[int] = []  # the worker of each request, in order
    live = list(range(workers.count))  # those whose dataset has not ended, the next one to be asked first

    def ask() -> bool:
        if not live:
            return False
        try:
            request = next(requests)
        except StopIteration:
            return False
        number = live.pop(0)
        workers.ask(number, request)
        live.append(number)
        pending.append(number)
        return True

    for _ in range(ahead * workers.count):
        if not ask():
            break
    while pending:
        number = pending.pop(0)
        answer = workers.answer(number)
        if answer is None and number in live:
            live.remove(number)
        ask()
        if answer is not None:
            yield answer[0]
