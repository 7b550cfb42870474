"""The model: the entries of a file over one state."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from jitgraph.runtime.loader.artifact import AGAIN, WEIGHTS, Artifact
from jitgraph.runtime.loader.custom_calls import CustomCalls
from jitgraph.runtime.loader.entry import BoundParameters, Entry, as_array
from jitgraph.runtime.loader.errors import ArgumentError, JitgraphError, LoadError
from jitgraph.runtime.loader.host import Runtime
from jitgraph.runtime.loader.image import Image, cpu_levels, lacking
from jitgraph.runtime.loader.specs import Array, StateSpec, ValueSpec, dtype_named
from jitgraph.runtime.loader.state_files import dtype_names, is_constant, read_state, write_state
from jitgraph.runtime.loader.structures import first_fitting


class Model:
    """A saved model: callable, with its state. Calls may overlap; calls that write the state take turns.

    Such a call updates the state in place where nobody was shown its arrays: ``state`` gives them away, and the next
    call that writes makes new ones.
    """

    device = "cpu"

    def __init__(
        self,
        artifact: Artifact,
        *,
        runtime: Runtime | None = None,
        level: str | None = None,
        custom_ops: Mapping[str, Any] | None = None,
    ) -> None:
        """Load every entry of ``artifact`` for this machine's best level, or for ``level``."""
        levels = cpu_levels()
        if level is not None:
            if level not in levels:
                others = f"it runs {', '.join(levels)}" if levels else lacking()
                raise LoadError(f"this machine does not run {level!r}; {others}")
            levels = (level,)
        self.metadata = artifact.metadata()
        weights = artifact.weights()
        self._entries: dict[str, Entry] = {}
        self._choices = artifact.specialisations()
        for name, signature in artifact.signatures().items():
            self.target, data = artifact.image(name, levels)
            calls = CustomCalls(signature, custom_ops or {}) if signature.calls else None
            self._entries[name] = Entry(Image(data), signature, runtime=runtime, callback=calls)
            artifact.device_codes(name, signature, weights)
            for spec in signature.state:
                verify_state(spec, weights)
        self._dtypes = state_dtypes(artifact, self._entries.values())
        self._state: Mapping[str, Array] = MappingProxyType(weights)
        self._held: dict[
            str, tuple[Mapping[str, Array], BoundParameters]
        ] = {}  # by entry, of which snapshot of the state
        self._lock = threading.RLock()
        self._own: frozenset[str] = frozenset()  # the keys of arrays that calls made and nobody was shown
        self._in_place: int | None = None  # the thread of a call that may be overwriting them
        self._is_lost = False
        every = self._entries.values()
        self._donated = {id(entry): _donated(entry) for entry in every if all(e.signature.writes for e in every)}
        _models.add(self)
        self._default = self.main_entry()

    def main_entry(self) -> str:
        """The name of the entry that a call runs."""
        return "forward" if "forward" in self._entries else next(iter(self._entries))

    @property
    def inputs(self) -> tuple[ValueSpec, ...]:
        """What the main entry takes."""
        return self._entries[self._default].signature.inputs

    @property
    def outputs(self) -> tuple[ValueSpec, ...]:
        """What the main entry gives, without what it writes back to the state."""
        return self._entries[self._default].signature.results

    @property
    def state(self) -> Mapping[str, Array]:
        """The state by key as read-only arrays: a snapshot that later calls leave as it is."""
        if not self._donated:
            return self._state
        with self._lock:
            self._require_state()
            if self._in_place is not None:  # asked from inside a call, such as by what it prints to
                state = {key: array.copy() if key in self._own else array for key, array in self._state.items()}
            else:
                state, self._own = dict(self._state), frozenset()
            for array in state.values():
                array.flags.writeable = False
            return MappingProxyType(state)

    def set_state(self, values: Mapping[str, Any]) -> None:
        """Set the state under these keys: to copies of arrays of the dtypes and shapes that it has.

        Other keys keep their values; calls that run meanwhile use the old state, later ones the new. ArgumentError,
        and nothing is changed, for a key that the model does not have and for a dtype or shape that is not the state's.
        """
        with self._lock:
            state = self._state
            self._require_state()
            arrays = {key: state_copy(key, value, state) for key, value in values.items()}
            self._state = MappingProxyType({**state, **arrays})
            self._own -= arrays.keys()
            self._held.clear()

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file of safetensors, whole or not at all; OSError as ``open``.

        ``loader.c`` writes the same bytes.
        """
        state = self.state
        write_state(path, {key: state[key] for key in self._dtypes}, self._dtypes)

    def load_state(self, path: str | os.PathLike[str]) -> None:
        """Set the whole state from a file that ``save_state`` or ``loader.c`` wrote for this model.

        LoadError, and nothing is changed, for a file that is damaged or is of another model's state.
        """
        state = self.state
        specs = [ValueSpec(key, dtype, state[key].shape) for key, dtype in self._dtypes.items()]
        self.set_state(read_state(path, specs))

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the entries, each of which is an attribute, too: ``model.step(x)``."""
        return tuple(self._choices)

    @property
    def native_entries(self) -> tuple[str, ...]:
        """The names of the entries as the file has them: of one that was saved for several values, each."""
        return tuple(self._entries)

    def __getattr__(self, name: str) -> EntryPoint:
        choices = vars(self).get("_choices", {})
        if name in choices:
            return EntryPoint(self, name)
        raise AttributeError(f"there is no entry {name!r}; the model has {', '.join(choices)}")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the main entry on NumPy arrays (or DLPack tensors, Python scalars, lists); gives NumPy arrays."""
        return self._run(self._default, args, kwargs)

    def run(self, entry: str, /, *args: Any, **kwargs: Any) -> Any:
        """Run the entry of that name. Where it writes state, the state changes wholly, and after success only."""
        return self._run(entry, args, kwargs)

    def run_flat(self, entry: str, /, *values: Any) -> Any:
        """As ``run``, with one value for each of the entry's ``inputs``, whatever structure its arguments have."""
        native = self.entry_named(entry)
        if len(values) != len(native.signature.inputs):
            told = f"{len(native.signature.inputs)} inputs, got {len(values)}"
            raise ArgumentError(f"{native.signature.name} takes {told}")
        return self._run_native(entry, native, values)

    def entry_named(self, entry: str) -> Entry:
        """The entry of that name; ArgumentError where there is none."""
        native = self._entries.get(entry)
        if native is None:
            raise ArgumentError(f"no entry {entry!r}; the model has {', '.join(self._choices)}")
        return native

    def _run(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        native = self.entry_named(entry)
        values: Sequence[Any] = args
        if native.signature.arguments is not None:
            entry, values = self._chosen(entry, args, kwargs)
            native = self._entries[entry]
        elif kwargs or len(args) != len(native.signature.inputs):
            values = native.arguments(args, kwargs)
        return self._run_native(entry, native, values)

    def _chosen(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, list[Any]]:
        """The specialisation that is for these arguments, and its inputs."""
        names = self._choices.get(entry, (entry,))
        return first_fitting(names, lambda name: self._entries[name].arguments(args, kwargs))

    def _run_native(self, entry: str, native: Entry, values: Sequence[Any]) -> Any:
        if not native.signature.writes:
            return native.result(native.run(values, bound=self._state_for(entry, native)))
        with self._lock:
            self._require_state()
            state = self._state
            specs = native.signature.state
            keys = {specs[index].key for _, index in native.signature.writes}
            donated = self._donated.get(id(native), ()) if self._in_place is None and keys <= self._own else ()
            if donated:
                self._in_place = threading.get_ident()
            try:
                outputs = native.run([*values, *[state[spec.key] for spec in specs]], donated)
                self._state = MappingProxyType(
                    {**state, **{specs[index].key: outputs[output] for output, index in native.signature.writes}}
                )
            finally:
                if donated:
                    self._in_place = None
            self._own = self._own | keys if self._donated else frozenset()
            if not self._donated:
                for output, _ in native.signature.writes:
                    outputs[output].flags.writeable = False
            self._held.clear()
        return native.result(outputs)

    def _require_state(self) -> None:
        """JitgraphError in a child of a fork during which another thread was overwriting the state."""
        if self._is_lost:
            raise JitgraphError(
                "another thread was updating the state of this model in place when the process forked, so it is lost "
                "here; fork while no call is under way, or load the model again"
            )

    def after_fork(self) -> None:
        """In a forked child: another thread of the parent may have been in a call, which ends there alone."""
        self._is_lost = self._in_place not in (None, threading.get_ident())
        self._lock = threading.RLock()

    def _state_for(self, name: str, entry: Entry) -> BoundParameters:
        """The state as the entry of this name takes it, checked anew where a call has written state since."""
        state = self._state
        cached = self._held.get(name)
        if cached is None or cached[0] is not state:
            cached = self._held[name] = state, entry.hold([state[spec.key] for spec in entry.signature.state])
        return cached[1]


class EntryPoint:
    """An entry of a model, to be called: ``model.step(x)`` is ``model.run("step", x)``."""

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self.name = name

    @property
    def inputs(self) -> tuple[ValueSpec, ...]:
        """What the entry takes."""
        return self._model.entry_named(self.name).signature.inputs

    @property
    def outputs(self) -> tuple[ValueSpec, ...]:
        """What it gives, without what it writes back to the state."""
        return self._model.entry_named(self.name).signature.results

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run it, as ``model.run`` does."""
        return self._model.run(self.name, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<entry {self.name}({', '.join(map(str, self.inputs))})>"


_models: weakref.WeakSet[Model] = weakref.WeakSet()


def _renew_models() -> None:
    for model in list(_models):
        model.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_models)


def _donated(entry: Entry) -> tuple[int, ...]:
    """The parameters whose memory a call may overwrite: all the state that it writes, or none."""
    signature = entry.signature
    first = len(signature.inputs)
    pairs = {(output, first + index) for output, index in signature.writes}
    is_shown = _outputs_in(signature.structure) & {output for output, _ in pairs}
    return tuple(parameter for _, parameter in pairs) if pairs <= {*signature.aliases} and not is_shown else ()


def _outputs_in(structure: Any) -> set[int]:
    """The numbers of the outputs in the structure of a result."""
    if type(structure) is int:
        return {structure}
    if not isinstance(structure, Mapping):
        return set()
    ((kind, content),) = structure.items()
    if kind == "value":
        return set()
    children = content.values() if isinstance(content, Mapping) else content
    return {number for child in children for number in _outputs_in(child)}


def state_dtypes(artifact: Artifact, entries: Iterable[Entry]) -> dict[str, str]:
    """The names of the dtypes of the state, in the order of its keys; the graphs' constants are no state."""
    used = {spec.key: spec.dtype for entry in entries for spec in entry.signature.state}
    keys = [key for key in artifact.weights() if not is_constant(key)]
    if set(keys) <= used.keys():
        return {key: used[key] for key in sorted(keys)}
    names = dtype_names(artifact.read(WEIGHTS))
    return {key: names[key] for key in sorted(keys)}


def verify_state(spec: StateSpec, weights: Mapping[str, Array]) -> None:
    """LoadError where the weights hold no tensor that the state may be."""
    if spec.key not in weights:
        raise LoadError(f"the state {spec} is missing from {WEIGHTS} under {spec.key[:60]!r}; {AGAIN}")
    array = weights[spec.key]
    fits = array.ndim == len(spec.shape) and all(
        isinstance(size, str) or size == extent for size, extent in zip(spec.shape, array.shape, strict=True)
    )
    if array.dtype != dtype_named(spec.dtype) or not fits:
        raise LoadError(f"the state {spec} is {array.dtype.name}{list(array.shape)} in {WEIGHTS}; {AGAIN}")


def state_copy(key: str, value: Any, state: Mapping[str, Any]) -> Array:
    """``value`` as a read-only array of its own that may stand for ``state[key]``; ArgumentError where it may not."""
    old = state.get(key)
    if old is None:
        raise ArgumentError(f"there is no state {key!r:.60}; the model has {', '.join(sorted(state)):.400}")
    spec = ValueSpec(key, old.dtype.name, old.shape)
    new = as_array(value, spec, old.dtype, f"state {key!r:.60}")
    if new.shape != old.shape:
        raise ArgumentError(f"state {key!r:.60}: expected {spec}, got {spec.dtype}{list(new.shape)}")
    new = np.array(new, order="C", copy=True)
    new.flags.writeable = False
    return new


def requested_level() -> str | None:
    """The level that JITGRAPH_TARGET_CPU names, if it does."""
    return os.environ.get("JITGRAPH_TARGET_CPU") or None
