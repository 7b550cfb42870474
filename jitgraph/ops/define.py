"""How ops are written down: constructors for the families, composites, and the collection of modules into one table.

Conventions that code generation relies on:

* A ``scalar`` body speaks of values, not of storage: 16-bit float operands are widened to float32 before it, it runs
  with ``s.dtype`` float32, and its result is rounded once to the output's dtype. So an op rounds once however many
  scalar ops its body has. Only ops with the trait "storage" (cast, bitcast) get their operands as they are stored.
* A 16-bit float reduction or contraction accumulates in float32 and rounds at the end.
* Attributes reach ``infer``, ``evaluate``, ``vjp``, ``scalar``, ``index_map`` and ``decompose`` as keywords.
* What an op is to fusion, lowering, cost and differentiation is said by its columns and traits (``ir/op.py``). Nothing
  above this floor compares the names of ops, so an op that another's lowering serves is written in one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final

from jitgraph.dtypes import DType, float32
from jitgraph.errors import GraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.builder import decomposition
from jitgraph.ir.graph import Graph
from jitgraph.ir.op import Op, Trait
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops.numeric import rounded, silent
from jitgraph.ops.rules import HALF, describe, require_tensors, same_dims, same_shape
from jitgraph.ops.sampling import Domain, Samples, elementwise_samples

_NO_GRADIENT: Final[tuple[Trait, ...]] = ("nondifferentiable",)


def collect(modules: Iterable[ModuleType]) -> dict[str, Op]:
    """Every Op defined in ``modules`` by its name; GraphError for a name that two different ops share."""
    found: dict[str, Op] = {}
    for module in modules:
        for op in vars(module).values():
            if isinstance(op, Op) and found.setdefault(op.name, op) is not op:
                raise GraphError(f"two ops are named {op.name!r}")
    return found


def elementwise(
    name: str,
    evaluate: Callable[..., Any],
    *,
    scalar: Callable[..., Any],
    accepts: frozenset[DType],
    arity: int = 1,
    result: DType | None = None,
    vjp: Callable[..., tuple[Any, ...]] | None = None,
    traits: Iterable[Trait] = (),
    onnx: str | None = None,
    domain: Domain = (-2.0, 2.0),
    doc: str = "",
) -> Op:
    """An op on ``arity`` operands of one shape and one dtype among ``accepts``, element by element.

    The output has the operands' dtype, or ``result``. ``evaluate`` runs without warnings; ``domain`` is where the op is
    smooth, for samples that are differentiated. Without ``vjp`` it is nondifferentiable.
    """

    def infer(*types: Type) -> TensorType:
        require_tensors(name, types, accepts, arity)
        first: Any = types[0]
        return TensorType(result or first.dtype, same_shape(name, types))  # type: ignore[arg-type]

    return Op(
        name=name,
        kind="elementwise",
        infer=infer,
        evaluate=rounded(evaluate) if result is None else silent(evaluate),
        vjp=vjp,
        scalar=scalar,
        traits=frozenset((*traits, *(() if vjp else _NO_GRADIENT))),
        onnx=onnx,
        samples=elementwise_samples(name, arity, accepts, domain=domain),
        doc=doc,
    )


def composite(
    name: str,
    body: Callable[..., Any],
    *,
    vjp: Callable[..., tuple[Any, ...]] | None = None,
    samples: Samples,
    onnx: str | None = None,
    in_float32: bool = False,
    formerly: tuple[str, ...] = (),
    traits: Iterable[Trait] = (),
    doc: str = "",
) -> Op:
    """An op that ``body`` defines over Op calls: one node in a graph, its decomposition attached as a closed region.

    ``body(*values, **attrs)`` returns one value or a tuple. With ``in_float32`` 16-bit float operands are cast to
    float32 before the body and its float32 results are cast back; a ``vjp`` of its own is run in the same way. Types
    follow from the region's outputs.
    """
    if in_float32:
        body = _in_float32(body)
        vjp = _vjp_in_float32(vjp) if vjp else None

    def infer(*types: Type, regions: tuple[Graph, ...] = (), **attrs: Any) -> tuple[Type, ...]:
        region = regions[0] if regions else decomposition(op, types, attrs, context.constraints())
        require_region(name, region, types)
        return tuple(value.type for value in region.outputs)

    op = Op(
        name=name,
        kind="composite",
        infer=infer,
        vjp=vjp,
        decompose=body,
        traits=frozenset(traits),
        formerly=formerly,
        onnx=onnx,
        samples=samples,
        doc=doc,
    )
    return op


def require_region(op: str, region: Graph, types: Iterable[Type]) -> None:
    """ShapeError unless the inputs of ``region`` have the operands' types, under the known constraints."""
    given = tuple(types)
    wanted = tuple(value.type for value in region.inputs)
    if given == wanted:
        return
    what = f"{op}: the region {region.name} takes ({describe(wanted)}), not ({describe(given)})"
    require_same_types(what, given, wanted)


def require_same_types(what: str, left: tuple[Type, ...], right: tuple[Type, ...]) -> None:
    """ShapeError that begins with ``what`` unless both lists of types agree."""
    if left == right:
        return
    if len(left) != len(right):
        raise ShapeError(what)
    for a, b in zip(left, right, strict=True):
        if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype:
            same_dims(what, a.shape, b.shape)
        elif a != b:
            raise ShapeError(what)


def _cast_to(value: Any, dtype: DType) -> Any:
    from jitgraph.ops.conversion import cast

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
