"""Programs of PyTorch as files of ``jg.save``: the models and modules that tests export and script.

    python -m tests.torch.saved_programs [exported|archives] [NAME ...]

Each is saved, and run by the loader in Python and by the one in C. A line says how far their results are from
PyTorch's, or why the program cannot be saved; exits with 1 where another error occurs or results differ. Needs PyTorch
and gcc.
"""

from __future__ import annotations

import io
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

import jitgraph as jg
from jitgraph import tree
from jitgraph.runtime import loader
from jitgraph.torch import jit
from tests.runtime.c_library import Library
from tests.torch.export.models import MODELS
from tests.torch.export.test_models import prepared
from tests.torch.jit import programs
from tests.torch.jit.test_programs import UNSAVED

STATEFUL: Final = ("vad",)
"""Modules whose first call makes the state that a file carries on."""

TOLERANCE: Final = 1e-4


def arrays_in(value: Any) -> list[Any]:
    """The arrays in nested values."""
    return [leaf for leaf in tree.flatten(value)[0] if isinstance(leaf, np.ndarray)]


def exported(name: str) -> tuple[Any, tuple[Any, ...], Any, dict[str, Any]]:
    """The function to save, its arguments, PyTorch's result for them, and the buffers that it leaves."""
    model, args = prepared(name)
    ours = jg.from_torch(torch.export.export(model, args))
    arrays = tuple(arg.numpy().copy() for arg in args)
    result = programs.plain(model(*args))
    known = {key for key, _ in ours.named_buffers()}
    buffers = {key: buffer.numpy() for key, buffer in model.named_buffers() if key in known}
    return ours, arrays, result, buffers


def archived(name: str) -> tuple[Any, tuple[Any, ...], Any, dict[str, Any]]:
    """The same of a module that PyTorch scripts or traces and writes as an archive."""
    file = io.BytesIO()
    torch.jit.save(programs.made(name), file)
    file.seek(0)
    program = programs.PROGRAMS[name]
    args = programs.plain(program.args)
    theirs, ours = torch.jit.load(file), None
    file.seek(0)
    ours = jit.load(file)
    with torch.no_grad(), jg.no_grad():
        if name in STATEFUL:
            ours(*args)
            theirs(*program.args)
        result = programs.plain(theirs(*program.args))
    return jg.trace(ours), args, result, {}


def distance(actual: Sequence[Any], expected: Any) -> float:
    """The greatest difference in relation to the greatest number of each array; AssertionError for other types."""
    arrays, worst = arrays_in(expected), 0.0
    assert len(actual) >= len(arrays), f"{len(actual)} results for {len(arrays)} tensors"
    for own, theirs in zip((each for each in actual if isinstance(each, np.ndarray)), arrays, strict=False):
        types = [f"{each.dtype}{list(each.shape)}" for each in (own, theirs)]
        assert types[0] == types[1], " for ".join(types)
        if not own.size or np.array_equal(own, theirs, equal_nan=theirs.dtype.kind in "fc"):
            continue
        worst = max(worst, float(np.abs(own - theirs).max()) / max(1e-6, float(np.abs(theirs).max())))
    return worst


def ran(build: Callable[[str], Any], name: str, library: Library, folder: Path) -> tuple[float, float]:
    """How far the results of the saved program by the loaders in Python and in C are from PyTorch's."""
    function, args, expected, buffers = build(name)
    path = folder / f"{name}.jg"
    with jg.no_grad():
        jg.save(function, path, example_inputs=args)
    model = loader.load(path)
    inputs = iter(arrays_in(args))
    operands = [None if spec.default is not None else next(inputs) for spec in model.inputs]
    named = {spec.name: array for spec, array in zip(model.inputs, operands, strict=True) if array is not None}
    results = tree.flatten(model(**named))[0]
    in_c = library.load(path)
    outputs = in_c(*operands)
    for key, value in buffers.items():
        own = f"module.{key}"
        if own in model.state:  # the program reads or writes it
            assert max(distance([np.asarray(s)], value) for s in (model.state[own], in_c.state(own))) < TOLERANCE, key
    in_c.close()
    return distance(results, expected), distance(outputs, expected)


def main(arguments: Sequence[str]) -> int:
    """Print a line for each program; 1 where one is wrong."""
    warnings.simplefilter("ignore")
    kinds: dict[str, tuple[Callable[[str], Any], Iterable[str]]] = {
        "exported": (exported, MODELS),
        "archives": (archived, programs.PROGRAMS),
    }
    asked = [kind for kind in arguments if kind in kinds] or list(kinds)
    names = [name for name in arguments if name not in kinds]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder))
        for kind in asked:
            build, every = kinds[kind]
            for name in (name for name in names or every if name in every):
                try:
                    in_python, in_c = ran(build, name, library, Path(folder))
                    text, is_wrong = f"Python {in_python:.0e}, C {in_c:.0e}", not max(in_python, in_c) < TOLERANCE
                except Exception as error:
                    text, is_wrong = f"{type(error).__name__}: {str(error).splitlines()[0]}", True
                    if name in UNSAVED and UNSAVED[name] in text:
                        text, is_wrong = f"cannot be saved: {text}", False
                print(f"{kind} {name:24} {'WRONG: ' if is_wrong else ''}{text}", flush=True)
                wrong += is_wrong
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
