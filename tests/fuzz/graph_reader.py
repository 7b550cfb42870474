"""A process that reads files with ``jg.load``, as ``reader.py`` does with the standalone loader; results are compared
with those of the graph's interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from reader import serve

import jitgraph as jg
from jitgraph import ir
from jitgraph.ir.constraints import bind_sizes
from jitgraph.runtime import loader


def interpreted(model: Any, argument: Sequence[Any]) -> Sequence[Any] | None:
    """What the graph's interpreter makes of the arguments: code that reads past a buffer gives something else."""
    try:
        return ir.interpret(model.graph, [*argument, *(np.array(value.numpy()) for value in model.state.values())])
    except Exception:  # what nobody uses may fail there alone
        return None


def breaks_conditions(model: Any, argument: Sequence[Any]) -> bool:
    """Whether the sizes of the arguments break what the graph assumes of them."""
    types = [value.type for value in model.graph.inputs]
    shapes = [value.shape for value in (*argument, *model.state.values())]
    try:
        bind_sizes(types, shapes, model.graph.constraints)
    except jg.ShapeError:
        return True
    return False


def agree(structure: Any, result: Any, expected: Sequence[Any]) -> bool:
    """Whether the tensors of a result are those of the interpreter, but for rounding."""
    if isinstance(structure, int):
        actual, wanted = np.asarray(result.detach().numpy()), expected[structure]
        if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
            return False
        if wanted.dtype.kind in "biu":
            return bool(np.array_equal(actual, wanted))
        with np.errstate(all="ignore"):
            a, b = actual.astype(np.float64), wanted.astype(np.float64)
            scale = 1e-3 * max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)))
            return bool(np.allclose(a, b, rtol=1e-2, atol=scale, equal_nan=True))
    if structure is None or "value" in structure:
        return True
    ((kind, inner),) = structure.items()
    pairs = ((inner[key], result[key]) for key in inner) if kind == "dict" else zip(inner, result, strict=True)
    return all(agree(part, each, expected) for part, each in pairs)


def compared(model: Any, argument: Sequence[Any], run: Callable[[], Any]) -> str:
    """What is wrong with the model's result, or nothing."""
    expected = interpreted(model, argument)
    result = run()
    if breaks_conditions(model, argument):
        return "it ran at sizes that the graph forbids"
    if expected is not None and not agree(model.signature.structure, result, expected):
        return "another result than the interpreter's"
    return ""


def main() -> None:
    warnings.simplefilter("error")
    jg.trace(lambda x: jg.exp(x) @ x)(jg.ones((4, 4)))  # what is brought in on first use is there before the limit
    serve(loader, jg.load, compared, None)


if __name__ == "__main__":
    main()
