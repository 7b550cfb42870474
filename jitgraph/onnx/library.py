"""The package onnx, which is imported when a function needs it."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import LocatedError
from jitgraph.runtime import imports


def module(name: str = "onnx") -> Any:
    """The package onnx or a module of it; LocatedError where it is not installed."""
    try:
        return imports.module(name)
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        hint = "pip install jitgraph[onnx]"
        raise LocatedError("reading and writing ONNX models needs the package onnx", hint=hint) from None
