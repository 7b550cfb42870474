"""``torch.multiprocessing``: Python's own ``multiprocessing``, and ``spawn``. Tensors that go to another process are
copies there."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403 - as PyTorch does
from typing import Any


def get_all_sharing_strategies() -> set[str]:
    """The ways in which PyTorch shares memory; here tensors are copied."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The default of PyTorch's on Linux."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Taken and not used: tensors are copied. AssertionError for what is no strategy."""
    assert new_strategy in get_all_sharing_strategies()


class ProcessException(Exception):
    """A process of ``spawn`` failed: ``error_index`` is its number, ``error_pid`` its id."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.error_index, self.error_pid = error_index, pid


class ProcessExitedException(ProcessException):
    """A process ended with an exit code that is not 0."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code


class ProcessContext:
    """The processes of ``spawn``, for which ``join()`` waits."""

    def __init__(self, processes: list[Any]) -> None:
        self.processes = processes

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for all; True when they have ended. ProcessExitedException where one failed; the others are ended."""
        for number, process in enumerate(self.processes):
            process.join(timeout)
            if process.exitcode:
                for other in self.processes:
                    other.terminate()
                text = f"process {number} terminated with exit code {process.exitcode}"
                raise ProcessExitedException(text, number, process.pid, process.exitcode)
        return all(process.exitcode is not None for process in self.processes)


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in ``nprocs`` processes; gives their context unless it waits for them (``join``)."""
    starting = multiprocessing.get_context(start_method)
    processes = [starting.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]  # type: ignore[attr-defined]
    for process in processes:
        process.start()
    running = ProcessContext(processes)
    if not join:
        return running
    running.join()
    return None
