"""Every op with its samples as an ONNX model: valid, and in ONNX's reference evaluator what the interpreter gives.

A sample of the pairs of op and dtype runs here, all of them with ONNX_EXPORT_CASES=all (``make nightly``).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Sample
from jitgraph.ops import OPS
from tests.onnx.op_models import difference, model_of, named, reference
from tests.op_loop import case_of, cases, is_complex, label

pytest.importorskip("onnx")

ALL: Final = os.environ.get("ONNX_EXPORT_CASES") == "all"
EVERY: Final = 1 if ALL else 9
TOLERANCES: Final = {
    dtypes.float32: 1e-5,
    dtypes.float64: 1e-11,
    dtypes.float16: 4e-3,
    dtypes.bfloat16: 4e-2,
}
REFUSED: Final = {"pinv", "lstsq", "eig_of_real"}  # by singular values and eigenvalues


def _is_defined(name: str, sample: Sample) -> bool:
    """Whether ONNX says what this sample gives."""
    arrays = [np.asarray(x) for x in sample.inputs]
    if name == "cast" and dtypes.is_integer(sample.attrs["dtype"]) and dtypes.is_float(arrays[0].dtype):
        least, greatest = dtypes.LIMITS[sample.attrs["dtype"]]
        wide = arrays[0].astype(np.float64)
        return bool(np.all((wide > least) & (wide < greatest)))
    if name == "sort" and dtypes.is_float(arrays[0].dtype):
        return not np.isnan(arrays[0].astype(np.float64)).any()
    return True


def _is_evaluated(name: str, sample: Sample) -> bool:
    """Whether the evaluator computes it: log(softmax(x)) where softmax is 0, and grouped transposes it gets wrong."""
    if name == "log_softmax":
        numbers = np.nan_to_num(np.asarray(sample.inputs[0], np.float64))
        return not numbers.size or bool(np.ptp(numbers) < 50)
    return name != "conv_transpose_nd" or sample.attrs["groups"] == 1


def _chosen() -> list[tuple[str, DType]]:
    start = zlib.crc32(os.environ.get("GITHUB_SHA", "").encode())
    pairs = [case for case in cases() if not is_complex(case)]
    return [case for number, case in enumerate(pairs, start) if number % EVERY == 0]


def _samples(name: str, dtype: DType) -> Sequence[Any]:
    samples = OPS[name].samples
    assert samples is not None
    return [sample for sample in samples(dtype) if _is_defined(name, sample) and _is_evaluated(name, sample)]


@pytest.mark.parametrize("case", _chosen(), ids=label)
def test_an_op_as_a_model(case: tuple[str, DType]) -> None:
    name, dtype = case
    built = case_of(OPS[name], _samples(name, dtype))
    if not built.samples or not built.graph.outputs:
        return
    try:
        proto = model_of(built.graph)
    except UnsupportedOp as error:
        assert name in REFUSED
        assert "has no form in ONNX" in str(error)
        return
    expected = interpret(built.graph, built.arguments)
    actual = reference(proto, named(proto, built.arguments))
    for number, (want, got) in enumerate(zip(expected, actual, strict=True)):
        tolerance = TOLERANCES.get(want.dtype, 0.0)
        assert not difference(want, got, tolerance, tolerance), (number, difference(want, got, tolerance, tolerance))
