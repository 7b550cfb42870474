"""The state that the entries of a file share: its tensors by key, whichever entry reaches them, and by which path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from jitgraph import tree
from jitgraph.eager import placement, streams
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.runtime.atomic_file import replacing
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.loader.specs import ValueSpec
from jitgraph.runtime.loader.state_files import is_constant, read_state, state_content
from jitgraph.tensor import Tensor

RANDOM: Final = "random.state"
"""The key of the stream that ``jg.random`` draws from, in files whose entries use it."""


class StateKeys:
    """The keys of state among the weights of one file: a tensor has one key, in all entries."""

    def __init__(self, declared: Mapping[str, Tensor] | None = None) -> None:
        """``declared`` are tensors that have a key already; the rest get one by how an entry first reaches them."""
        self.declared = dict(declared or {})
        self._items: list[Any] = list(self.declared.values())  # so that no other object gets their ids
        self._keys = {id(item): key for key, item in self.declared.items()}
        self._taken = dict.fromkeys(self.declared, 0)

    def key_of(self, item: Any, text: str) -> str:
        """The key of a tensor or array that an entry reaches as ``text``."""
        key = self._keys.get(id(item))
        if key is None:
            stem = RANDOM if item is streams.default() else re.sub(r"[^\w.]+", ".", text).strip(".")
            key = self._keys[id(item)] = unique(f"{stem}_" if is_constant(stem) else stem, self._taken)
            self._items.append(item)
        return key


def unique(stem: str, names: dict[str, int]) -> str:
    """``stem``, or with a number behind it a name that ``names`` does not have; it gets it, in order."""
    name, count = stem or "x", 1
    while name in names:
        count += 1
        name = f"{stem}_{count}"
    names[name] = len(names)
    return name


def tensors_of(state: Any) -> dict[str, Tensor]:
    """The tensors of a state by key: those of a module by their names in it, of an optimiser as ``state.0.exp_avg``.

    ``state`` is a module, an optimiser, a generator, a tensor, or a pytree of these, whose keys stand before. A tensor
    that is reached twice has its first key. JitgraphError for anything else, and for a state without tensors.
    """
    result: dict[str, Tensor] = {}
    known: set[int] = set()
    for path, tensor in _walk(state, ()):
        key = ".".join(path) or "state"
        if id(tensor) in known:
            continue
        if key in result or is_constant(key):
            raise JitgraphError(f"two tensors of the state are called {key!r}\n  hint: rename one of the dict's keys")
        known.add(id(tensor))
        result[key] = tensor
    if not result:
        raise JitgraphError(f"the state, a {type(state).__name__}, has no tensors\n  {_HINT}")
    return result


_HINT: Final = "hint: modules, optimisers, generators, tensors, and dicts, lists and tuples of them"


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif (named := getattr(type(value), "_named_state", None)) is not None:
        for name, tensor in named(value):
            yield (*path, name), tensor
    elif (container := tree.container_of(value)) is not None:
        parts = container.take_apart(value)
        for step, child in zip(parts.steps, parts.children, strict=True):
            yield from _walk(child, (*path, re.sub(r"[^\w.]+", ".", str(step[0])).strip(".") or "x"))
    elif not isinstance(value, bool | int | float | str):
        where = f" under {'.'.join(path)!r}" if path else ""
        raise JitgraphError(f"the state has a {type(value).__name__}{where}, which holds no tensors\n  {_HINT}")


def write_state_file(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write a file of this state, whole or not at all, in the bytes of both loaders."""
    dtypes = {key: array.dtype.name for key, array in arrays.items()}
    with replacing(path) as file:
        for part in state_content(arrays, dtypes):
            file.write(part)


def load_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], *, may_have_more: bool = False) -> None:
    """Set tensors by key from a file of a state; LoadError, and nothing is changed, where it does not fit.

    Where the file ``may_have_more``, it may be of a larger state, and the stream of ``jg.random`` is set from it.
    """
    targets = dict(tensors)
    stream = streams.default()
    if may_have_more and stream is not None and all(stream is not each for each in targets.values()):
        targets.setdefault(RANDOM, stream)
    specs = [ValueSpec(key, each.dtype.name, tuple(each.shape)) for key, each in targets.items()]
    arrays = read_state(path, specs, optional=[RANDOM] if may_have_more else (), may_have_more=may_have_more)
    with context.using(grad_enabled=False):
        for key, array in arrays.items():
            targets[key]._rebind(value_on(np.array(array), targets[key].device))


def value_on(array: Any, device: str) -> Any:
    """The value of an array that nobody else has, on a device."""
    return EagerValue(array) if device == CPU else placement.of_array(array, device)
