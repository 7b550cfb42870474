"""Models of other libraries, by their files: as modules, with the specs of their inputs where the files say them."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from jitgraph import foreign_files
from jitgraph.errors import ArgumentError, LoadError
from jitgraph.runtime import imports


class ForeignModel(NamedTuple):
    """A module, what its file was, and a ``TensorSpec`` for each input by name, where the file says them."""

    module: Any
    kind: str
    inputs: dict[str, Any]


def model_from(path: str | os.PathLike[str]) -> ForeignModel:
    """The model in an ONNX file, a TorchScript archive or a ``.pt2`` file of ``torch.export``, told by its bytes.

    LoadError for a file of another kind, and for one that is not sound; UnsupportedOp for what jitgraph has no op for.
    """
    kind = foreign_files.format_of(path)
    if kind is foreign_files.ONNX:
        onnx: Any = imports.module("jitgraph.onnx")
        return _described(onnx.load(os.fspath(path)), "ONNX")
    if kind is foreign_files.TORCH_SCRIPT:
        jit: Any = imports.module("jitgraph.torch.jit")
        return _described(jit.load(os.fspath(path)), "TorchScript")
    if kind is foreign_files.TORCH_EXPORT:
        export: Any = imports.module("jitgraph.torch.export.module")
        return _described(export.from_torch(os.fspath(path)), "torch.export")
    name = os.fspath(path)
    if not os.path.exists(path):
        raise LoadError(f"{name} cannot be opened: there is no such file")
    if kind is None:
        raise LoadError(f"{name}: this is no ONNX, TorchScript or torch.export file")
    raise LoadError(f"{name}: this is {kind.text}, not a model to convert\n  hint: {kind.hint}")


def _described(module: Any, kind: str) -> ForeignModel:
    specs = getattr(module, "input_specs", None)
    try:
        return ForeignModel(module, kind, dict(specs()) if callable(specs) else {})
    except ArgumentError:  # the inputs are not one tensor each, or sizes have no names
        return ForeignModel(module, kind, {})
