"""A function of the user's as a file has it: by its name and the types of its results, without the function."""

from __future__ import annotations

from typing import Any, Final

from jitgraph.dtypes import DType
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules

MOST_RESULTS: Final = 64


def result_types(name: str, dtypes: tuple[DType, ...], shapes: tuple[tuple[DimLike, ...], ...]) -> list[TensorType]:
    """The types of the results that the attributes of a call say; ShapeError where they do not go together."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ShapeError(f"custom_call of {name!r:.60}, which is no identifier")
    if not isinstance(dtypes, tuple) or not isinstance(shapes, tuple) or not 0 < len(dtypes) <= MOST_RESULTS:
        raise ShapeError(f"custom_call of {name!r} has no dtypes and shapes of its results")
    if len(dtypes) != len(shapes):
        raise ShapeError(f"custom_call of {name!r} has {len(dtypes)} dtypes and {len(shapes)} shapes of results")
    if not all(isinstance(shape, tuple) for shape in shapes):
        raise ShapeError(f"custom_call of {name!r} has a result without a shape")
    pairs = zip(dtypes, shapes, strict=True)
    return [TensorType(dtype, rules.require_shape(f"custom_call of {name!r}", shape)) for dtype, shape in pairs]


def call_types(
    *types: Type, name: str, dtypes: tuple[DType, ...], shapes: tuple[tuple[DimLike, ...], ...]
) -> tuple[TensorType, ...]:
    """The type rule of ``custom_call``, and of the ops that stand for it where the function is known."""
    for type in types:
        rules.require_tensor("custom_call", type)
    return tuple(result_types(name, dtypes, shapes))


def _without_function(*operands: Any, name: str, **_: Any) -> Any:
    raise JitgraphError(
        f"the custom op {name!r} is known by its name alone\n  hint: jg.load(path, custom_ops={{{name!r}: function}})"
    )


custom_call: Op = Op(
    name="custom_call",
    kind="other",
    infer=call_types,
    evaluate=_without_function,
    lowering="host",
    traits=frozenset({"called_by_name"}),
    samples=lambda dtype: (),
    doc="The function of the user's of this name, of which a file has no more than the types of its results.",
)
