"""``torch.cuda.streams``: streams and events with PyTorch's parameters."""

from __future__ import annotations

from typing import Any

from jitgraph import cuda


class Stream(cuda.Stream):
    """A queue of a device's work; ``priority`` changes nothing."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        super().__init__(device)


class Event(cuda.Event):
    """A point in the work of a stream; RuntimeError for one that other processes are to see."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        if interprocess or external:
            raise RuntimeError("an event is seen by this process alone: interprocess and external are not there")
        super().__init__(enable_timing, blocking)


class StreamContext:
    """A block in which this thread's work goes to a stream, as ``torch.cuda.stream``."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self._block = cuda.stream(self.stream)
        self._block.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._block.__exit__(*raised)
