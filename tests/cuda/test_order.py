"""``JITGRAPH_CUDA_ORDER``: what users ask for who want tensor cores more than the CPU's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import JitgraphError
from tests.graphs import needs_native

pytestmark = [needs_native, pytest.mark.usefixtures("here")]


def factors(dtype: Any) -> list[Any]:
    source = np.random.default_rng(0)
    return [
        jg.asarray(source.standard_normal((48, 64)).astype(np.float32)).astype(dtype).T,
        jg.ones((48, 40), dtype=dtype),
    ]


def ptx_of(dtype: Any) -> str:
    function = jg.trace(lambda x, y: x @ y)
    return str(function.lower(*(x.cuda() for x in factors(dtype))).compile().ptx)


@pytest.mark.parametrize(
    ("order", "dtype", "instruction"),
    [("free", jg.bfloat16, "bf16.bf16"), ("tf32", jg.float32, "tf32.tf32"), ("free", jg.float64, "m8n8k4")],
)
def test_products_take_tensor_cores_where_asked(
    order: str, dtype: Any, instruction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "mma.sync" not in ptx_of(dtype)
    monkeypatch.setenv("JITGRAPH_CUDA_ORDER", order)
    lines = [line for line in ptx_of(dtype).splitlines() if "mma.sync" in line]
    assert lines and all(instruction in line for line in lines)
    x, y = factors(dtype)
    expected = (x.astype(jg.float64) @ y.astype(jg.float64)).numpy()
    traced = jg.trace(lambda x, y: x @ y)(x.cuda(), y.cuda()).cpu().astype(jg.float64).numpy()
    bound = {"float64": 1e-13, "float32": 2e-2, "bfloat16": 0.2}[str(np.dtype(dtype))]
    np.testing.assert_allclose(traced, expected, rtol=0, atol=bound)


def test_float32_is_no_tf32_where_only_the_order_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_CUDA_ORDER", "free")
    assert "mma.sync" not in ptx_of(jg.float32)


def test_another_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_CUDA_ORDER", "any")
    with pytest.raises(JitgraphError, match="JITGRAPH_CUDA_ORDER='any' is neither free nor tf32"):
        ptx_of(jg.float32)
