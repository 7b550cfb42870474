"""Matrix products and what is built on them."""

from __future__ import annotations

from typing import Any

from jitgraph.linalg import det
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn
from jitgraph.tensor.products import einsum as contract

define("MatMul")(fn.matmul)


@define("Gemm")
def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's names
    transB: int = 0,  # noqa: N803
    broadcast: int = 0,
) -> Any:
    left = fn.matrix_transpose(a) if transA else a
    right = fn.matrix_transpose(b) if transB else b
    product = fn.matmul(left, right)
    if alpha != 1:
        product = fn.astype(fn.multiply(product, alpha), a.dtype)
    if c is None:
        return product
    return fn.add(product, c if beta == 1 else fn.astype(fn.multiply(c, beta), c.dtype))


@define("Einsum")
def einsum(*xs: Any, equation: str) -> Any:
    return contract(equation.replace(" ", ""), *xs)


define("Det")(lambda x: det(x))
