"""``jg.onnx.load``: ONNX models as modules."""

from __future__ import annotations

import os
from typing import Any

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import library


def load(model: str | os.PathLike[str] | bytes | Any) -> Any:
    """An ONNX model as a module, with its parameters: ``model`` is a path, a ModelProto, or the bytes of one."""
    library.module()
    raise UnsupportedOp("ONNX models cannot be read yet")
