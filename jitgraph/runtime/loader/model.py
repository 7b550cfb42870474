"""The model: the entries of a file over one state."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from jitgraph.runtime.loader.artifact import AGAIN, WEIGHTS, Artifact
from jitgraph.runtime.loader.entry import BoundParameters, Entry, as_array
from jitgraph.runtime.loader.errors import ArgumentError, JitgraphError, LoadError
from jitgraph.runtime.loader.host import Runtime
from jitgraph.runtime.loader.image import Image, cpu_levels, lacking
from jitgraph.runtime.loader.specs import Array, StateSpec, ValueSpec, dtype_named


class Model:
    """A saved model: callable, with its state. Calls may overlap; calls that write the state take turns.

    Such a call updates the state in place where nobody was shown its arrays: ``state`` gives them away, and the next
    call that writes makes new ones.
    """

    device = "cpu"

    def __init__(self, artifact: Artifact, *, runtime: Runtime | None = None, level: str | None = None) -> None:
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
        for name, signature in artifact.signatures().items():
            self.target, data = artifact.image(name, levels)
            self._entries[name] = Entry(Image(data), signature, runtime=runtime)
            artifact.device_codes(name, signature, weights)
            for spec in signature.state:
                verify_state(spec, weights)
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

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the entries."""
        return tuple(self._entries)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the main entry on NumPy arrays (or DLPack tensors, Python scalars, lists); gives NumPy arrays."""
        return self._run(self._default, args, kwargs)

    def run(self, entry: str, /, *args: Any, **kwargs: Any) -> Any:
        """Run the entry of that name. Where it writes state, the state changes wholly, and after success only."""
        return self._run(entry, args, kwargs)

    def entry_named(self, entry: str) -> Entry:
        """The entry of that name; ArgumentError where there is none."""
        native = self._entries.get(entry)
        if native is None:
            raise ArgumentError(f"no entry {entry!r}; the model has {', '.join(self._entries)}")
        return native

    def _run(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        native = self.entry_named(entry)
        values = native.arguments(args, kwargs) if kwargs or len(args) != len(native.signature.inputs) else args
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
