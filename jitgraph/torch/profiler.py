"""``torch.profiler`` over ``jitgraph.profiler``: which kernels and ops ran, from which lines, and for how long."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jitgraph.profiler
from jitgraph.torch import cuda, module_reasons
from jitgraph.torch.autograd.modes import Mode


class record_function(Mode):  # noqa: N801 - PyTorch's name
    """A block or decorator with a name. Profiles tell works apart by the lines of the program, which need none."""

    def __init__(self, name: str, args: str | None = None) -> None:
        super().__init__()
        self.name, self.args = name, args

    def clone(self) -> Mode:
        """Another such block."""
        return record_function(self.name, self.args)


class ProfilerActivity(enum.Enum):
    """Where work is measured; always both, as one program has both."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Where work can be measured."""
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda.is_available() else [])}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """The action of each step: after ``skip_first`` steps cycles of waiting, warming up and recording."""
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if (repeat and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < wait + warmup + active - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


class _Averages:
    """The rows of a profile, as ``key_averages()`` gives them: an iterable of ``jitgraph.profiler.ProfileRow``."""

    def __init__(self, measured: jitgraph.profiler.profile) -> None:
        self._measured = measured

    def __iter__(self) -> Any:
        return iter(self._measured.rows())

    def __len__(self) -> int:
        return len(self._measured.rows())

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """The rows as text, the longest first, or the most frequent with ``sort_by="count"``."""
        return self._measured.table(row_limit if row_limit > 0 else 10**9, "runs" if sort_by == "count" else "seconds")

    def __str__(self) -> str:
        return self.table()


class profile:  # noqa: N801 - PyTorch's name
    """A block whose kernels and ops are measured: ``key_averages().table()``, ``export_chrome_trace(path)``.

    With a ``schedule``, ``step()`` ends a step, and ``on_trace_ready(self)`` is called after the last of those that it
    records. The other arguments say what PyTorch notes beside, and change nothing.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        self.schedule = schedule if schedule is not None else lambda step: ProfilerAction.RECORD
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._measured = jitgraph.profiler.profile()
        self._recording = False

    def start(self) -> None:
        """Begin."""
        self._go_on(self.schedule(self.step_num))

    def stop(self) -> None:
        """End; what is recorded is given to ``on_trace_ready``."""
        recorded = self._recording
        self._pause()
        if recorded and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """The step is over."""
        if self.current_action is ProfilerAction.RECORD_AND_SAVE:
            self.stop()
        self.step_num += 1
        self._go_on(self.schedule(self.step_num))

    def _go_on(self, action: ProfilerAction) -> None:
        self.current_action = action
        if action not in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._pause()
        elif not self._recording:
            self._measured = jitgraph.profiler.profile()
            self._measured.__enter__()
            self._recording = True

    def _pause(self) -> None:
        if self._recording:
            self._recording = False
            self._measured.__exit__(None, None, None)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any) -> _Averages:
        """What ran, with times, by kernels and ops and their lines."""
        return _Averages(self._measured)

    def events(self) -> _Averages:
        """As ``key_averages``: what ran is noted by lines."""
        return self.key_averages()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """As ``key_averages().table``."""
        return self.key_averages().table(sort_by, row_limit)

    def export_chrome_trace(self, path: str) -> None:
        """Write what ran, and when, as JSON for chrome://tracing."""
        self._measured.export_chrome_trace(path)

    def add_metadata(self, key: str, value: str) -> None:
        """Taken and not used."""

    add_metadata_json = add_metadata


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Any:
    """What ``on_trace_ready`` takes to write each trace to a file of its own in a folder, as JSON of Chrome's."""

    def handle(measured: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or os.getpid()}.{measured.step_num}.pt.trace.json"
        measured.export_chrome_trace(os.path.join(dir_name, name))

    return handle


__getattr__ = module_reasons.refusal("torch.profiler")
