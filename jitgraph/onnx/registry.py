"""The table of operators: for each domain and name the functions, with the versions since which they hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from jitgraph.runtime import imports

MICROSOFT: Final = "com.microsoft"
ML: Final = "ai.onnx.ml"
TRAINING: Final = "ai.onnx.preview.training"

FAMILIES: Final = (
    "elementwise",
    "comparisons",
    "movement",
    "indexing",
    "sizes",
    "reductions",
    "products",
    "convolution",
    "pooling",
    "normalization",
    "resizing",
    "recurrent",
    "quantization",
    "sequences",
    "control",
    "signal",
    "losses",
    "detection",
    "texts",
    "draws",
    "training",
    "classical",
    "trees",
    "machines",
    "microsoft",
    "attention",
    "microsoft_quantized",
)
"""The modules of ``jitgraph.onnx.ops``."""


@dataclass(frozen=True)
class OperatorDefinition:
    """An operator since a version: a function of its operands, with attributes as keywords.

    ``host`` has the numbers of operands that are host values; others come as tensors. ``on_host`` computes the operator
    where all operands are host values. ``raw`` operators take operands as they are,
    and read the elements of those in ``host``.
    """

    since: int
    function: Callable[..., Any]
    host: frozenset[int]
    on_host: Callable[..., Any] | None
    raw: bool
    keywords: frozenset[str]
    """Parameters that are no attributes: ``outputs``, which of them are read, ``version`` of the operator set, ``op``,
    its name, and ``is_shape``, whether shapes are computed of the result."""
    is_computed_on_host: bool
    """Whether the result is a host value where all operands are, and depends on their elements."""


_TABLE: dict[tuple[str, str], list[OperatorDefinition]] = {}


def define(
    *names: str,
    since: int = 1,
    host: Iterable[int] = (),
    on_host: Callable[..., Any] | None = None,
    raw: bool = False,
    reads_elements: bool = True,
    domain: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for the operators ``names`` since a version; Shape and Size read no elements."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = frozenset(inspect.signature(function).parameters) & {"outputs", "version", "op", "is_shape"}
        is_computed_on_host = reads_elements and (raw or on_host is not None)
        definition = OperatorDefinition(since, function, frozenset(host), on_host, raw, parameters, is_computed_on_host)
        for name in names:
            entries = _TABLE.setdefault((domain, name), [])
            if any(entry.since == since for entry in entries):
                raise ValueError(f"{name} since {since} is defined twice")
            entries.append(definition)
            entries.sort(key=lambda entry: entry.since)
        return function

    return register


def lookup(domain: str, name: str, version: int) -> OperatorDefinition | None:
    """The newest definition that a version of an operator set has; None where there is none."""
    entries = [entry for entry in table().get((domain, name), ()) if entry.since <= version]
    return entries[-1] if entries else None


def table() -> dict[tuple[str, str], list[OperatorDefinition]]:
    """All operators, by domain and name."""
    if not _loaded:
        for family in FAMILIES:
            imports.module(f"jitgraph.onnx.ops.{family}")
        _loaded.append(True)
    return _TABLE


_loaded: list[bool] = []
