"""Datasets and the loader that cuts them into batches; PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jitgraph import random
from jitgraph.errors import JitgraphError
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.scalars import is_scalar, leaf_types, require_plain_in


class Dataset:
    """Items by number: subclasses define ``__getitem__`` and ``__len__``."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")


class TensorDataset(Dataset):
    """Items are tuples of the i-th slices of tensors or arrays of equal length.

    JitgraphError for different lengths.
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise JitgraphError("TensorDataset needs at least one tensor")
        self.tensors = tuple(asarray(t) for t in tensors)
        lengths = [len(t) for t in self.tensors]
        if len(set(lengths)) != 1:
            raise JitgraphError(f"TensorDataset: the tensors have lengths {lengths}")

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class DataLoader:
    """Batches of a dataset in order, or in a new random order each time it is iterated.

    Orders come from ``jg.random``, or with ``seed`` from a stream of the loader's own: the n-th iteration of two
    loaders with one seed is the same. A TensorDataset is cut with one indexing a batch, others are collated by item.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        seed: int | None = None,
    ) -> None:
        if batch_size < 1:
            raise JitgraphError(f"batch_size must be at least 1, not {batch_size}")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate_fn = collate_fn
        self._generator = None if seed is None else random.Generator(seed)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole if self.drop_last or not rest else whole + 1

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        order = random.permutation(count, generator=self._generator).numpy() if self.shuffle else np.arange(count)
        for number in range(len(self)):
            yield self._batch(order[number * self.batch_size : (number + 1) * self.batch_size])

    def _batch(self, places: Any) -> Any:
        if isinstance(self.dataset, TensorDataset) and self.collate_fn is None:
            return self.dataset[places]
        items = [self.dataset[int(place)] for place in places]
        return self.collate_fn(items) if self.collate_fn else collate(items)


def collate(items: Sequence[Any]) -> Any:
    """One batch from items: tensors, arrays and numbers are stacked; strings stay a list.

    Tuples, lists and dicts are collated by member.
    """
    first = items[0]
    if isinstance(first, Tensor):
        return stack(list(items))
    if isinstance(first, dict):
        return {key: collate([item[key] for item in items]) for key in first}
    if isinstance(first, tuple | list):
        members = [collate(list(each)) for each in zip(*items, strict=True)]
        return type(first)(*members) if hasattr(first, "_fields") else type(first)(members)
    if isinstance(first, str | bytes):
        return list(items)
    if is_scalar(first):
        return asarray(list(items))
    require_plain_in(items, leaf_types(items))
    return asarray(np.stack([np.asarray(item) for item in items]))
