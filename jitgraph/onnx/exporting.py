"""``jg.onnx.export``: functions as ONNX models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import library


def export(
    f: Any,
    path: str | os.PathLike[str],
    example_inputs: Sequence[Any],
    dynamic_shapes: Mapping[str, Any] | None = None,
) -> None:
    """Write what a function computes as an ONNX model."""
    library.module()
    raise UnsupportedOp("functions cannot be written as ONNX models yet", hint="jg.save for files of our own")
