"""ONNX models of graphs and of functions, and what evaluators of ONNX make of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.ir.graph import Graph
from jitgraph.onnx.exporting.values import tensor_proto
from jitgraph.onnx.exporting.writing import ModelOf
from jitgraph.saved.entry import FileEntry


def model_of(graph: Graph) -> Any:
    """The ModelProto of a graph, which ONNX's checker and its strict inference of shapes have passed."""
    import onnx

    names = tuple(f"out{i}" for i in range(len(graph.outputs)))
    model = ModelOf(FileEntry(graph, (None,) * len(graph.inputs), (), (), None, names), {})
    proto = model.proto()
    proto.graph.initializer.extend(tensor_proto(onnx, array, name) for name, array in model.weights.items())
    require_valid(proto)
    return proto


def require_valid(proto: Any) -> None:
    """Run the checks that ONNX has."""
    import onnx

    onnx.checker.check_model(proto, full_check=True)
    onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)


def reference(proto: Any, inputs: dict[str, Any]) -> list[Any]:
    """What ONNX's reference evaluator gives for inputs by name."""
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(proto).run(None, inputs)  # type: ignore[no-any-return]


def named(proto: Any, arguments: Sequence[Any]) -> dict[str, Any]:
    """The arguments by the names of the first inputs."""
    return dict(zip([value.name for value in proto.graph.input], arguments, strict=False))


def difference(want: Any, got: Any, rtol: float, atol: float) -> str:
    """How two arrays differ, in dtype, shape or elements; nothing where they agree."""
    want, got = np.asarray(want), np.asarray(got)
    if (want.dtype, want.shape) != (got.dtype, got.shape):
        return f"{got.dtype}{got.shape} is not {want.dtype}{want.shape}"
    if not dtypes.is_float(want.dtype):
        different = want != got
    else:
        with np.errstate(all="ignore"):
            want, got = want.astype(np.float64), got.astype(np.float64)
            near = np.abs(want - got) <= atol + rtol * np.abs(want)
        different = ~(near | (want == got) | (np.isnan(want) & np.isnan(got)))
    return f"{got[different][:8]} is not {want[different][:8]}" if different.any() else ""
