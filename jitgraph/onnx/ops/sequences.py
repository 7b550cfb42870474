"""Sequences, which are lists of tensors, and optionals, which may be None."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import values
from jitgraph.onnx.ops.movement import _split
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


def _position(position: Any, count: int) -> int:
    own = int(values.one(values.host(position, "the position in a sequence")))
    if not -count <= own <= count:
        raise UnsupportedOp(f"the position {own} in a sequence of {count}")
    return own


@define("SequenceConstruct", raw=True)
def sequence_construct(*xs: Any) -> Any:
    return list(xs)


@define("SequenceEmpty", raw=True)
def sequence_empty(dtype: int = 1) -> Any:
    return []


@define("SequenceAt", raw=True)
def sequence_at(xs: Any, position: Any) -> Any:
    return xs[_position(position, len(xs))]


@define("SequenceInsert", raw=True)
def sequence_insert(xs: Any, x: Any, position: Any = None) -> Any:
    own = len(xs) if position is None else _position(position, len(xs))
    result = list(xs)
    result.insert(own, x)
    return result


@define("SequenceErase", raw=True)
def sequence_erase(xs: Any, position: Any = None) -> Any:
    result = list(xs)
    del result[-1 if position is None else _position(position, len(xs))]
    return result


@define("SequenceLength", raw=True)
def sequence_length(xs: Any) -> Any:
    return np.array(len(xs), np.int64)


@define("SplitToSequence", raw=True)
def split_to_sequence(x: Any, split: Any = None, axis: int = 0, keepdims: int = 1) -> Any:
    axis += x.ndim if axis < 0 else 0
    size = x.shape[axis]
    if type(size) is not int:
        raise UnsupportedOp("SplitToSequence along an axis with a named size")
    if split is None:
        pieces = _split(x, [1] * size, axis, size)
        if keepdims:
            return list(pieces)
        return [piece.reshape(tuple(n for i, n in enumerate(piece.shape) if i != axis)) for piece in pieces]
    own = values.host(split, "the sizes of SplitToSequence")
    sizes = values.sizes(own)
    if own.ndim == 0:
        width = sizes[0]
        sizes = [min(width, size - start) for start in range(0, size, width)]
    return list(_split(x, sizes, axis, len(sizes)))


@define("ConcatFromSequence", raw=True)
def concat_from_sequence(xs: Any, axis: int, new_axis: int = 0) -> Any:
    tensors = [values.tensor(x) for x in xs]
    return fn.stack(tensors, axis=axis) if new_axis else fn.concat(tensors, axis=axis)


@define("SequenceMap", raw=True)
def sequence_map(xs: Any, *others: Any, body: Any, outputs: Any = ()) -> Any:
    results: list[list[Any]] = [[] for _ in outputs]
    for i, x in enumerate(xs):
        row = body(x, *[other[i] if isinstance(other, list) else other for other in others])
        for own, value in zip(results, row, strict=True):
            own.append(value)
    return tuple(results)


@define("Optional", raw=True)
def optional(x: Any = None, type: Any = None) -> Any:
    return x


@define("OptionalHasElement", raw=True)
def optional_has_element(x: Any = None) -> Any:
    return np.array(x is not None)


@define("OptionalGetElement", raw=True)
def optional_get_element(x: Any) -> Any:
    if x is None:
        raise UnsupportedOp("OptionalGetElement of an optional that is empty")
    return x
