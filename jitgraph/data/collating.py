"""Batches made of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitgraph.errors import JitgraphError
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.scalars import is_scalar, leaf_types, require_plain_in


def collate(batch: Sequence[Any]) -> Any:
    """One batch from items: tensors, arrays and numbers are stacked; strings stay a list.

    Tuples, lists and dicts are collated by member; JitgraphError where they differ in length.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, Mapping):
        return {key: collate([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple | list):
        if any(len(item) != len(first) for item in batch):
            raise JitgraphError(f"collate: items of {sorted({len(item) for item in batch})} members in one batch")
        members = [collate(list(each)) for each in zip(*batch, strict=True)]
        return _of_kind(first, members)
    if isinstance(first, str | bytes):
        return list(batch)
    if is_scalar(first):
        return asarray(list(batch))
    arrays = [_array(item) for item in batch]
    require_plain_in(arrays, leaf_types(arrays))
    return asarray(np.stack([np.asarray(array) for array in arrays]))


default_collate = collate


def _of_kind(like: Any, members: list[Any]) -> Any:
    """A tuple, named or not, or a list, as ``like`` is one."""
    return type(like)(*members) if hasattr(like, "_fields") else type(like)(members)


def _array(item: Any) -> Any:
    """An array of any library: PyTorch's tensors give theirs."""
    return item.detach().numpy() if hasattr(item, "detach") and hasattr(item, "numpy") else item


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in tuples, lists and dicts too; other values as they are."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        members = [default_convert(value) for value in data]
        return _of_kind(data, members)
    plain = _array(data)
    return asarray(plain) if isinstance(plain, np.ndarray | np.generic) else data
