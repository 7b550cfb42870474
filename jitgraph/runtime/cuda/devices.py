"""The devices of this process: the driver, found when it is first needed, and what each device has."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

from jitgraph import config
from jitgraph.errors import CudaError, DeviceError
from jitgraph.runtime import forks, imports
from jitgraph.runtime.cuda import driver as libcuda
from jitgraph.runtime.cuda import pycuda_driver
from jitgraph.runtime.cuda.context import AFTER, FORKED, DeviceContext
from jitgraph.runtime.cuda.cublas import CublasProducts
from jitgraph.runtime.cuda.deferred_errors import ErrorReports
from jitgraph.runtime.cuda.driver import Driver
from jitgraph.runtime.cuda.memory import DeviceAllocator
from jitgraph.runtime.cuda.modules import Modules
from jitgraph.runtime.cuda.pinned import PinnedMemory, Staging
from jitgraph.runtime.cuda.replay import Capturing

KIND: Final = "cuda"


class Device:
    """One device: its context, memory, code, and pinned memory for copies."""

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.ordinal = ordinal
        self.name = f"{KIND}:{ordinal}"
        self.context = DeviceContext(driver, ordinal)
        self.memory = DeviceAllocator(self.context)
        self.modules = Modules(self.context)
        self.staging = Staging(self.context)
        self.reports = ErrorReports()
        self.pinned = PinnedMemory(self.context)
        self.capturing = Capturing(self.context)
        self.loaded: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        """What executables have on this device, for as long as they live (``executable.py``)."""

        self._products: CublasProducts | None = None
        self._has_asked = False
        self._lock = forks.lock()

        self.emitter: Any = None
        """Who applies ops at once on this device, once one was."""

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def synchronize(self) -> None:
        """Wait for all work of the device, and raise what a check in it has found."""
        self.context.synchronize()
        self.look()

    @property
    def products(self) -> CublasProducts | None:
        """The library for large products; None where it is not installed, or does not serve this device."""
        if not self._has_asked:
            with self._lock:
                if not self._has_asked:
                    self._products, self._has_asked = self._find_products(), True
        return self._products

    def _find_products(self) -> CublasProducts | None:
        library = self.context.enter().cublas()
        if library is None:
            return None
        try:
            return CublasProducts(library)
        except CudaError as error:
            why = f"{library.name} does not serve {self.name} ({error.message})"
            warnings.warn(f"{why}: kernels of jitgraph's own take its place", RuntimeWarning, stacklevel=2)
            return None

    def look(self) -> None:
        """Raise what a check has found in work that is done by now."""
        self.reports.look(self.context.enter())

    def close(self) -> None:
        """Give everything back, also what is still held; a context where a kernel failed keeps what it has."""
        if self.context.end:
            return
        try:
            self.context.synchronize()
        except CudaError:
            self.context.abandon()
            return
        self.loaded.clear()
        self.emitter = None
        self.capturing.close()
        if self._products is not None:
            self._products.close()
        self.reports.close(self.context.driver)
        self.pinned.close()
        self.modules.close()
        self.staging.close()
        self.memory.close()
        self.context.close()


class _ThreadDevice(threading.local):
    """The number of this thread's current device."""

    ordinal: int = 0


class Devices:
    """All devices of one driver; safe from several threads."""

    def __init__(self, load: Callable[[], Driver]) -> None:
        """``load`` finds the driver when it is first needed; DeviceError where there is none."""
        self._load = load
        self._lock = forks.lock()
        self._driver: Driver | None = None
        self._count = 0
        self._devices: dict[int, Device] = {}
        self._thread = _ThreadDevice()
        self._has_begun = self._is_lost = False

    @property
    def driver(self) -> Driver:
        """The driver, initialised; DeviceError where there is none, and in a child of a process that had begun."""
        if self._is_lost:
            raise DeviceError(f"the CUDA driver {FORKED}", hint=AFTER[FORKED])
        driver = self._driver
        if driver is None:
            with self._lock:
                driver = self._driver
                if driver is None:
                    driver = self._begin(self._load())
        return driver

    def _begin(self, driver: Driver) -> Driver:
        self._has_begun = True  # for children, also of a fork in the middle of this
        try:
            driver.initialise()
            self._count = driver.device_count()
        except DeviceError:
            self._has_begun = False
            raise
        self._driver = driver
        return driver

    @property
    def count(self) -> int:
        """The number of devices; 0 where there is no driver, or none that this process can use."""
        try:
            return self._count if self.driver else 0
        except DeviceError:
            return 0

    @property
    def current(self) -> int:
        """The number of this thread's current device."""
        return self._thread.ordinal

    @current.setter
    def current(self, ordinal: int) -> None:
        self._require(ordinal)
        self._thread.ordinal = ordinal

    def device(self, ordinal: int | None = None) -> Device:
        """The device of this number, else the current one; DeviceError where there is none."""
        number = self._thread.ordinal if ordinal is None else ordinal
        device = self._devices.get(number)
        if device is None or self._is_lost:
            self._require(number)
            with self._lock:
                device = self._devices.get(number)
                if device is None:
                    device = self._devices[number] = Device(self.driver, number)
        return device

    def used(self) -> list[Device]:
        """Those that this process has used so far."""
        return list(self._devices.values())

    def close(self) -> None:
        """Give everything back."""
        with self._lock:
            for device in self._devices.values():
                device.close()
            self._devices.clear()

    def lose(self) -> None:
        """Be of no use any more, in a child of the process that used them; those that had not begun may begin there."""
        self._is_lost = self._has_begun

    def _require(self, ordinal: int) -> None:
        driver = self.driver
        if not 0 <= ordinal < self._count:
            available = ", ".join(f"{KIND}:{number}" for number in range(self._count)) or "none"
            raise DeviceError(f"there is no {KIND}:{ordinal}; the devices of {driver.name} are: {available}")


_DRIVERS: Final[dict[str, Callable[[], Driver]]] = {}  # by the value of JITGRAPH_CUDA that asks for them
_PACKAGES: Final = {"simulated": "jitgraph_testing"}  # outside of jitgraph: each registers a driver when imported


def register_driver(name: str, load: Callable[[], Driver]) -> None:
    """Let ``JITGRAPH_CUDA=name`` ask for the driver that ``load`` gives, in place of this machine's."""
    _DRIVERS[name] = load


def _of_this_machine() -> Driver:
    """The driver that the flags ask for."""
    setting = config.CUDA.text()
    if not setting:
        return pycuda_driver.load() if config.PYCUDA.is_on() else libcuda.load()
    if setting not in _DRIVERS and setting in _PACKAGES:
        _register_from(_PACKAGES[setting], setting)
    if setting not in _DRIVERS:
        raise DeviceError(f"JITGRAPH_CUDA={setting!r} is no kind of GPU", hint="simulated, or leave it out")
    return _DRIVERS[setting]()


def _register_from(package: str, setting: str) -> None:
    try:
        imports.module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise DeviceError(
            f"JITGRAPH_CUDA={setting!r} needs the package {package}, which cannot be imported",
            hint=f"{package} is in the source repository and not in an installed jitgraph: run from the folder of a "
            "checkout, or put that folder on PYTHONPATH",
        ) from None


_installed: list[Devices] = [Devices(_of_this_machine)]


def devices() -> Devices:
    """The devices in force: this machine's, unless a block has put others in their place."""
    return _installed[-1]


@contextmanager
def replaced(driver: Driver) -> Iterator[Devices]:
    """A block in which the devices of another driver, such as a simulator's, stand in for this machine's.

    Everything that was made in it is given back at its end; nothing of it may be used after it.
    """
    devices = Devices(lambda: driver)
    _installed.append(devices)
    try:
        yield devices
    finally:
        _installed.remove(devices)
        devices.close()


def _lose() -> None:
    for devices in _installed:
        devices.lose()


forks.in_child(_lose)
