"""A program made anew from its files, as a new process has it, with the traces of earlier ones on disk."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jitgraph as jg

X = np.array([1.5, -2.0], np.float32)


@dataclass
class Outcome:
    """What a call gave, whether its trace was on disk, and the state of the module after it."""

    result: Any
    found: bool
    state: dict[str, Any]


def module(folder: Path, name: str, text: str) -> types.ModuleType:
    """A module made of ``text``, which stands in a file of the folder."""
    path = folder / f"{name}.py"
    path.write_text(text)
    actual = types.ModuleType(name)
    actual.__file__ = str(path)
    sys.modules[name] = actual
    exec(compile(text, str(path), "exec"), vars(actual))
    return actual


def plain(value: Any) -> Any:
    """A result or state as values that compare."""
    if isinstance(value, jg.Tensor):
        return value.dtype.name, value.detach().numpy().tolist()
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.tolist()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, int | float | str | bool | None) else type(value).__name__


def outcome(folder: Path, files: dict[str, str], call: str = "program(jg.asarray(X))", wrap: Any = jg.trace) -> Outcome:
    """One call of ``program`` of the module ``main``; the other files are modules made before it."""
    for name, text in files.items():
        if name != "main":
            module(folder, name, text)
    main = module(folder, "main", files["main"])
    try:
        traced = main.program = wrap(main.program)
        result = plain(eval(call, {**vars(main), "X": X, "jg": jg, "np": np}))
        names = [name for name in vars(main) if name.isupper()]
        actual = bool(traced.cache_info().traces) if wrap is not eager else False
        return Outcome(result, actual, {name: plain(vars(main)[name]) for name in names})
    finally:
        for name in files:
            sys.modules.pop(name, None)


def eager(function: Any) -> Any:
    """The function as it is."""
    return function


def require_fresh(folder: Path, files: dict[str, str], call: str = "program(jg.asarray(X))") -> Outcome:
    """The outcome of the traced call, which is that of the plain one."""
    due = outcome(folder, files, call, eager)
    actual = outcome(folder, files, call)
    assert actual.result == due.result and actual.state == due.state
    return actual
