"""The traced side of jitgraph: trace, control flow on tensors, and looking inside. Names load when first used."""

from __future__ import annotations

from typing import Final

from jitgraph.runtime import imports

_NAMES: Final[dict[str, str]] = {
    "TensorSpec": "arguments",
    "TracedFunction": "function",
    "cond": "control.flow",
    "host_float": "host",
    "host_math": "host",
    "scan": "control.flow",
    "trace": "function",
    "while_loop": "control.flow",
}

__all__ = [
    "TensorSpec",
    "TracedFunction",
    "cond",
    "host_float",
    "host_math",
    "scan",
    "trace",
    "while_loop",
]

__getattr__ = imports.attributes(__name__, _NAMES)
