"""The package onnx, which is imported when a function needs it."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.runtime import imports


def module(name: str = "onnx") -> Any:
    """The package onnx or a module of it; JitgraphError where it is not installed."""
    try:
        return imports.module(name)
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise JitgraphError(
            "reading and writing ONNX needs the package onnx", hint="pip install jitgraph[onnx]"
        ) from None
