"""The driver as pycuda has it: the primary context and streams are pycuda's own objects, which its users can work with.

``JITGRAPH_PYCUDA=1`` chooses it, where the extra ``pycuda`` is installed. pycuda shows the handles of contexts and
streams, but of no events and kernels, which emitted host code needs, and it knows no graphs: all of those are reached
in the library that pycuda has loaded, by the same table of addresses as without it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from jitgraph.errors import DeviceError
from jitgraph.runtime import imports
from jitgraph.runtime.cuda import driver as libcuda
from jitgraph.runtime.cuda.driver import Driver

_NON_BLOCKING: Final = 1


class PycudaDriver(Driver):
    """A driver whose contexts and streams pycuda makes; it keeps them for as long as they are in use."""

    def __init__(self, library: Driver, pycuda: Any) -> None:
        """``library`` is the one that pycuda has loaded, ``pycuda`` its module ``pycuda.driver``."""
        super().__init__(library.addresses, f"{library.name}, by pycuda")
        self._pycuda = pycuda
        self._contexts: dict[int, Any] = {}  # by device
        self._streams: dict[int, tuple[Any, Any]] = {}  # with their contexts

    def initialise(self) -> None:
        with _refusals("the start of the CUDA driver"):
            self._pycuda.init()

    def retain_context(self, ordinal: int) -> int:
        with _refusals(f"the primary context of cuda:{ordinal}"):
            context = self._contexts[ordinal] = self._pycuda.Device(ordinal).retain_primary_context()
        return int(context.handle)

    def release_context(self, ordinal: int) -> None:
        context = self._contexts.pop(ordinal)
        with _refusals(f"the end of the primary context of cuda:{ordinal}"):
            context.push()
            context.detach()

    def create_stream(self) -> int:
        with self._active() as context, _refusals("a stream"):
            stream = self._pycuda.Stream(_NON_BLOCKING)
        self._streams[int(stream.handle)] = stream, context
        return int(stream.handle)

    def destroy_stream(self, stream: int) -> None:
        with self._active():
            del self._streams[stream]  # pycuda destroys it

    def stream_object(self, stream: int) -> Any:
        """pycuda's own object of a stream, for kernels of pycuda's on it; None for the default stream."""
        return self._streams[stream][0] if stream else None

    @contextmanager
    def _active(self) -> Iterator[Any]:
        """A block in which pycuda, too, knows this thread's current context.

        No longer than that: pycuda ends the process where a thread ends with a context on its stack.
        """
        now = ctypes.c_uint64()
        self.call("cuCtxGetCurrent", ctypes.addressof(now), action="the context of this thread")
        context = next(context for context in self._contexts.values() if int(context.handle) == now.value)
        context.push()
        try:
            yield context
        finally:
            context.pop()


def load() -> PycudaDriver:
    """The driver by pycuda; DeviceError where pycuda is not installed, or finds no driver."""
    try:
        pycuda = imports.module("pycuda.driver")
    except ModuleNotFoundError as error:
        raise DeviceError(
            f"JITGRAPH_PYCUDA asks for pycuda, which is not installed: {error}",
            hint="pip install 'jitgraph[pycuda]', or leave JITGRAPH_PYCUDA out, as jitgraph needs the driver alone",
        ) from None
    except ImportError as error:
        raise DeviceError(
            f"CUDA is not available: pycuda finds no driver on this machine ({error})",
            hint='compute on device="cpu"; jg.cuda.is_available() tells whether there is a GPU',
        ) from None
    return PycudaDriver(libcuda.load(), pycuda)


@contextmanager
def _refusals(action: str) -> Iterator[None]:
    """A block in which pycuda's errors become this package's."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("pycuda"):
            raise
        raise DeviceError(f"{action}: {error}", hint="pycuda's text above names the driver's function") from error
