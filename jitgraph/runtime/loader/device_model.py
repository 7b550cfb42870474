"""The model on a device: its state lies there, and calls take and give arrays of the host or of the device."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jitgraph.runtime.loader.artifact import Artifact
from jitgraph.runtime.loader.cuda import CudaDevice
from jitgraph.runtime.loader.device_arrays import DeviceArray, host_copy
from jitgraph.runtime.loader.device_entry import DeviceEntry
from jitgraph.runtime.loader.device_memory import DevicePool
from jitgraph.runtime.loader.dtypes import Array
from jitgraph.runtime.loader.entry import Entry
from jitgraph.runtime.loader.errors import ArgumentError, LoadError
from jitgraph.runtime.loader.model import Model, requested_level, state_copy, verify_state


class DeviceResources:
    """What a model has on a device. Its calls take turns on one stream.

    The context and the memory of results that others hold outlive it.
    """

    def __init__(self, name: str) -> None:
        """LoadError where there is no such device."""
        self.device = CudaDevice(name)
        self.pool = DevicePool(self.device)
        self.entries: dict[str, DeviceEntry] = {}
        self._process = os.getpid()

    def close(self) -> None:
        """Give everything back; a child of a fork leaves it to its parent."""
        if os.getpid() != self._process:
            return
        with self.device.current():
            for entry in self.entries.values():
                entry.close()
        self.entries.clear()
        self.pool.close()


class Fetched(Sequence[Any]):
    """Arrays of a device, each copied to the host where it is asked for."""

    def __init__(self, arrays: Sequence[DeviceArray]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, number: Any) -> Any:
        return self._arrays[number].numpy()


class DeviceModel(Model):
    """A model on a device. Calls wait for their results; those of several threads take turns."""

    def __init__(self, artifact: Artifact, device: str, *, results: str = "numpy") -> None:
        """Load every entry and the state to ``device``; ``results`` is "numpy", or "device" for arrays there."""
        if results not in ("numpy", "device"):
            raise ArgumentError(f"results={results!r:.40} is neither 'numpy' nor 'device'")
        self.metadata = artifact.metadata()
        weights = artifact.weights()
        resources = self._resources = DeviceResources(device)
        # Not at the end of the process: the driver may be gone then.
        self._end = weakref.finalize(self, resources.close)
        self._end.atexit = False
        self.device = resources.device.name
        self._fetches = results == "numpy"
        self._entries: dict[str, Entry] = {}
        try:
            with resources.device.current():
                for name, signature in artifact.signatures().items():
                    for spec in signature.state:
                        verify_state(spec, weights)
                    loaded = resources.entries[name] = DeviceEntry(artifact, name, signature, resources.pool, weights)
                    self._entries[name] = loaded.entry
                    self.target = loaded.code.generation
                keys = {spec.key for entry in self._entries.values() for spec in entry.signature.state}
                self._placed = {key: host_copy(weights[key], resources.pool) for key in keys}
                resources.device.wait()
        except BaseException:
            self._end()
            raise
        self._unused = {key: array for key, array in weights.items() if key not in keys}
        self._lock = threading.RLock()
        self._default = self.main_entry()

    @property
    def state(self) -> Mapping[str, Array]:
        """The state by key as read-only arrays of the host: a copy that later calls leave as it is."""
        with self._lock:
            state = {**self._unused, **{key: array.numpy() for key, array in self._placed.items()}}
        for array in state.values():
            array.flags.writeable = False
        return MappingProxyType(state)

    def set_state(self, values: Mapping[str, Any]) -> None:
        """As ``Model.set_state``; the arrays are copied to the device."""
        with self._lock, self._resources.device.current():
            state = {**self._unused, **self._placed}
            arrays = {key: state_copy(key, value, state) for key, value in values.items()}
            uploaded = {key: host_copy(new, self._resources.pool) for key, new in arrays.items() if key in self._placed}
            self._resources.device.wait()
            self._placed |= uploaded
            self._unused |= {key: new for key, new in arrays.items() if key not in uploaded}

    def _run(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        native = self.entry_named(entry)
        device_entry = self._resources.entries[entry]
        signature = native.signature
        values = native.arguments(args, kwargs)
        with self._lock, self._resources.device.current():
            arguments = [device_entry.argument(value, index) for index, value in enumerate(values)]
            outputs = device_entry.run([*arguments, *(self._placed[spec.key] for spec in signature.state)])
            for output, index in signature.writes:
                self._placed[signature.state[index].key] = outputs[output]
            return native.result(Fetched(outputs) if self._fetches else outputs)


def load(
    path: str | os.PathLike[str], *, level: str | None = None, device: str = "cpu", results: str = "numpy"
) -> Model:
    """The model in the file ``path``. It runs the file's native code; LoadError where the file is not sound.

    ``level`` (or JITGRAPH_TARGET_CPU) picks a level below this machine's best. The model takes arrays (or lists and
    numbers) of the dtypes and sizes that ``inputs`` lists, else ArgumentError, and gives arrays.

    ``device`` is "cpu", or a GPU such as "cuda:0" for a file with code for it: then the state lies there, arguments
    may be arrays of other libraries there (DLPack, ``__cuda_array_interface__``), and with ``results="device"`` so are
    the results, which others take by the same protocols. LoadError where there is no driver, no such device, or no code
    that it runs.
    """
    try:
        artifact = Artifact(path)
        if device != "cpu":
            return DeviceModel(artifact, device, results=results)
        return Model(artifact, level=level or requested_level())
    except LoadError as error:
        raise LoadError(f"{os.fspath(path)}: {error}") from None
