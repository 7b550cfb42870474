"""How composites are written down: a function over Op calls that is one node in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jitgraph.dtypes import DType, float32
from jitgraph.ir import context
from jitgraph.ir.builder import decomposition
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Batching, Lowering, Op, OpenShape, Trait
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops.conversion import cast
from jitgraph.ops.rules import HALF, require_region
from jitgraph.ops.sampling import Samples


def composite(
    name: str,
    body: Callable[..., Any],
    *,
    vjp: Callable[..., tuple[Any, ...]] | None = None,
    batch: Batching | None = None,
    samples: Samples,
    onnx: str | None = None,
    in_float32: bool = False,
    open_shapes: Callable[..., tuple[OpenShape, ...]] | None = None,
    formerly: tuple[str, ...] = (),
    traits: Iterable[Trait] = (),
    lowering: Lowering | None = None,
    is_whole: Callable[..., bool] | None = None,
    evaluate: Callable[..., Any] | None = None,
    doc: str = "",
) -> Op:
    """An op that ``body`` defines over Op calls: one node in a graph, its decomposition attached as a closed region.

    ``body(*values, **attrs)`` returns one value or a tuple. With ``in_float32`` 16-bit float operands are cast to
    float32 before the body and its float32 results are cast back; a ``vjp`` of its own is run in the same way. Types
    follow from the region's outputs. ``lowering`` and ``is_whole`` are the columns of targets that keep the op, and
    ``evaluate`` gives in NumPy the bits of such a lowering, where they are others than those of ``body``.
    """
    if in_float32:
        body = _in_float32(body)
        vjp = _vjp_in_float32(vjp) if vjp else None

    def infer(*types: Type, regions: tuple[Graph, ...] = (), **attrs: Any) -> tuple[Type, ...]:
        region = regions[0] if regions else decomposition(op, types, attrs, context.constraints())
        require_region(name, region, types)
        return tuple(value.type for value in region.outputs)

    def evaluate_whole(*arrays: Any, **attrs: Any) -> Any:
        types = [TensorType(x.dtype, x.shape) for x in arrays]
        if evaluate is not None and (is_whole is None or is_whole(*types, **attrs)):
            return evaluate(*arrays, **attrs)
        results = interpret(decomposition(op, types, attrs, Constraints()), arrays)
        return results[0] if len(results) == 1 else results

    op = Op(
        name=name,
        kind="composite",
        infer=infer,
        evaluate=None if evaluate is None else evaluate_whole,
        vjp=vjp,
        batch=batch,
        decompose=body,
        open_shapes=open_shapes,
        traits=frozenset(traits),
        lowering=lowering,
        is_whole=is_whole,
        formerly=formerly,
        onnx=onnx,
        samples=samples,
        doc=doc,
    )
    return op


def _cast_to(value: Any, dtype: DType) -> Any:
    return value if value is None or value.dtype == dtype else cast(value, dtype=dtype)


def _widened(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    return value if value is None else _cast_to(value, float32 if value.dtype in HALF else value.dtype)


def _in_float32(body: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any, **attrs: Any) -> Any:
        half = next((value.dtype for value in values if value.dtype in HALF), None)
        result = body(*map(_widened, values), **attrs)
        if half is None:
            return result
        if isinstance(result, tuple):
            return tuple(_cast_to(value, half) if value.dtype == float32 else value for value in result)
        return _cast_to(result, half)

    return run


def _vjp_in_float32(vjp: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    def run(ct: Any, out: Any, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
        gradients = vjp(_widened(ct), _widened(out), *map(_widened, inputs), **attrs)
        return tuple(_cast_to(gradient, x.dtype) for gradient, x in zip(gradients, inputs, strict=True))

    return run
