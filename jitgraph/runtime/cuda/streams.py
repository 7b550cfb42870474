"""Streams and events as users see them, and names of devices: "cuda" is the current one, "cuda:1" the second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from jitgraph.errors import DeviceError
from jitgraph.runtime.cuda.context import DeviceContext
from jitgraph.runtime.cuda.devices import KIND, Device, devices

# ----------------------------------------------------------------------
# Names of devices: "cuda" is the current one, "cuda:1" the second, and a number is one of CUDA's.


def ordinal_of(name: str | int | None) -> int | None:
    """The number in a device's name; None for the current one. DeviceError for what is no name of a CUDA device."""
    if name is None or (isinstance(name, int) and not isinstance(name, bool)):
        return name
    kind, colon, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind != KIND or (colon and not number.isdecimal()):
        raise DeviceError(f"{name!r} names no CUDA device", hint='"cuda", "cuda:0", or a number')
    return int(number) if colon else None


def device_named(name: str | int | None) -> Device:
    """The device of a name, number, or the current one; DeviceError where there is none."""
    return devices().device(ordinal_of(name))


# ----------------------------------------------------------------------
# Streams and events as users see them: the order of a device's work, and points in it.


class Stream:
    """A queue of a device's work, which runs in order; work of different streams may run in any order.

    Made for the current device, or the one given. A stream is one of 32 of the device, used in turn, and lives as long
    as the device is used.
    """

    def __init__(self, device: str | int | None = None) -> None:
        target_device = device_named(device)
        self._device = target_device
        self.cuda_stream = target_device.context.take_stream()

    @classmethod
    def _of(cls, device: Device, handle: int) -> Self:
        stream = object.__new__(cls)
        stream._device = device
        stream.cuda_stream = handle
        return stream

    cuda_stream: int
    """The driver's handle; 0 is the default stream."""

    @property
    def device(self) -> str:
        """The name of the device."""
        return self._device.name

    def synchronize(self) -> None:
        """Wait until all work of the stream so far is done."""
        self._context.enter().synchronize_stream(self.cuda_stream)
        self._device.look()

    def query(self) -> bool:
        """Whether all work of the stream so far is done."""
        return self._context.enter().is_stream_done(self.cuda_stream)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work of this stream come after all work of another so far."""
        event = Event()
        event.record(stream)
        event.wait(self)

    def wait_event(self, event: Event) -> None:
        """Let later work of this stream come after that for which an event stands."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """An event, a new one unless given, that stands for all work of the stream so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self._device, self.cuda_stream) == (other._device, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((id(self._device), self.cuda_stream))

    def __repr__(self) -> str:
        return f"<jitgraph.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    @property
    def _context(self) -> DeviceContext:
        return self._device.context


class Event:
    """A point in the work of a stream: what comes before it is done when the event is.

    ``enable_timing`` measures times, ``blocking`` lets a thread that waits sleep. It is of the device on whose stream
    it is first recorded.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self._timing = enable_timing
        self._blocking = blocking
        self._context: DeviceContext | None = None
        self._device: Device | None = None
        self._handle = 0

    def record(self, stream: Stream | None = None) -> None:
        """Stand for all work of a stream so far, the current one unless given; DeviceError for another device's."""
        on = current_stream() if stream is None else stream
        driver = on._context.enter()
        if self._context is None:
            self._handle = on._context.create_event(timing=self._timing, blocking=self._blocking)
            self._context, self._device = on._context, on._device
        elif self._context is not on._context:
            raise DeviceError(
                f"an event of {self._context.name} cannot be recorded on {on.device}", hint="one event for each device"
            )
        driver.record_event(self._handle, on.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of a stream, the current one unless given, come after a recorded event."""
        on = current_stream() if stream is None else stream
        if self._context is not None:
            on._context.enter().wait_event(on.cuda_stream, self._handle)

    def query(self) -> bool:
        """Whether the work for which it stands is done; True if it was never recorded."""
        return self._context is None or self._context.enter().is_event_done(self._handle)

    def synchronize(self) -> None:
        """Wait until the work for which it stands is done."""
        if self._context is not None and self._device is not None:
            self._context.enter().synchronize_event(self._handle)
            self._device.look()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another; both were made with ``enable_timing``, recorded, and are done."""
        for event in (self, end):
            if not event._timing or event._context is None:
                raise DeviceError(
                    "the time between events that measure none, or were never recorded",
                    hint="jg.cuda.Event(enable_timing=True), record() both, and end.synchronize()",
                )
        assert self._context is not None
        return self._context.enter().elapsed(self._handle, end._handle)

    def __del__(self) -> None:
        if self._context is not None:
            self._context.drop_event(self._handle)

    def __repr__(self) -> str:
        return f"<jitgraph.cuda.Event of {self._context.name if self._context else 'no device yet'}>"


def current_stream(device: str | int | None = None) -> Stream:
    """This thread's current stream of the current device, or of the one given."""
    target_device = device_named(device)
    return Stream._of(target_device, target_device.context.stream)


def default_stream(device: str | int | None = None) -> Stream:
    """The stream in which a device's work runs unless another is made current."""
    return Stream._of(device_named(device), 0)


@contextmanager
def stream(chosen: Stream | None) -> Iterator[None]:
    """A block in which this thread's work on the stream's device goes to that stream, and to that device.

    None changes nothing, as in PyTorch.
    """
    if chosen is None:
        yield
        return
    all_devices, context = devices(), chosen._context
    before, device = context.stream, all_devices.current
    all_devices.current = chosen._device.ordinal
    context.stream = chosen.cuda_stream
    try:
        yield
    finally:
        context.stream = before
        all_devices.current = device
