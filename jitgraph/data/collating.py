"""Batches made of items."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from jitgraph.errors import JitgraphError
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.scalars import is_scalar, leaf_types, require_plain_in


def collate(batch: Sequence[Any]) -> Any:
    """One batch from items: tensors, arrays and numbers are stacked; strings stay a list.

    Tuples, lists and dicts are collated by member; JitgraphError where they differ in length, for arrays of different
    shapes, and for what is none of these.
    """
    if not batch:
        raise JitgraphError("collate: a batch of no items\n  hint: a sampler gave an empty list of numbers")
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, Mapping):
        return _like(first, {key: collate([item[key] for item in batch]) for key in first})
    if isinstance(first, tuple | list):
        if any(len(item) != len(first) for item in batch):
            raise JitgraphError(f"collate: items of {sorted({len(item) for item in batch})} members in one batch")
        members = [collate(list(each)) for each in zip(*batch, strict=True)]
        return _of_kind(first, members)
    if isinstance(first, str | bytes):
        return list(batch)
    if is_scalar(first):
        return asarray(list(batch))
    if _is_array(first):
        return _stacked([_array(item) for item in batch])
    raise JitgraphError(
        f"collate makes batches of tensors, arrays, numbers, strings, and tuples, lists and dicts of these, not of a "
        f"{type(first).__name__}\n  hint: collate_fn= makes a batch of a list of any items"
    )


def _stacked(arrays: list[Any]) -> Tensor:
    require_plain_in(arrays, leaf_types(arrays))
    shapes = {tuple(array.shape): None for array in arrays}
    if len(shapes) > 1:
        shown = " and ".join(map(str, [*shapes][:3]))
        hint = "pad them to one shape, or pass a collate_fn= that does"
        raise JitgraphError(f"collate: items of the shapes {shown} in one batch\n  hint: {hint}")
    if any(isinstance(array, Tensor) for array in arrays):
        return stack(arrays)
    return asarray(np.stack(arrays))


default_collate = collate


def _of_kind(like: Any, members: list[Any]) -> Any:
    """A tuple, named or not, or a list, as ``like`` is one."""
    return type(like)(*members) if hasattr(like, "_fields") else type(like)(members)


def _like(first: Mapping[Any, Any], members: dict[Any, Any]) -> Any:
    """The members in a dict of the class of ``first``, with its default where it has one; a dict for other mappings."""
    if type(first) is dict or not isinstance(first, MutableMapping):
        return members
    result = copy.copy(first)
    result.update(members)
    return result


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray | np.generic) or hasattr(item, "__array__") or hasattr(item, "__dlpack__")


def _array(item: Any) -> Any:
    """An array of any library for NumPy to stack; what NumPy has no dtype for, as PyTorch's bfloat16, as a tensor."""
    plain = item.detach() if hasattr(item, "detach") else item
    if isinstance(plain, np.ndarray | np.generic):
        return plain
    try:
        return np.asarray(plain)
    except (TypeError, RuntimeError):
        return asarray(plain)


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in tuples, lists and dicts too; other values as they are."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple | list):
        members = [default_convert(value) for value in data]
        return _of_kind(data, members)
    if isinstance(data, np.ndarray | np.generic) or hasattr(data, "__dlpack__"):
        return asarray(_array(data))
    return data
