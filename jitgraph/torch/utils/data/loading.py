"""DataLoader, and how batches are made of items, with PyTorch's classes and dtypes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jitgraph as jg
from jitgraph import data
from jitgraph.data import loading
from jitgraph.torch.tensors import adopted


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch from items: tensors, arrays and numbers are stacked; tuples become lists; floats are float64."""
    first = batch[0] if len(batch) else None
    if isinstance(first, float) and not hasattr(first, "dtype"):
        return adopted(jg.asarray(list(batch), dtype=jg.float64))
    if isinstance(first, str | bytes) or first is None:
        return data.collate(batch)
    if isinstance(first, Mapping):
        members = {key: default_collate([item[key] for item in batch]) for key in first}
        return _dict_like(first, members)
    if isinstance(first, tuple | list) and len({len(item) for item in batch}) == 1:
        parts = [default_collate(list(each)) for each in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    return adopted(data.collate(batch))


def _dict_like(first: Mapping[Any, Any], members: dict[Any, Any]) -> Any:
    if type(first) is dict:
        return members
    try:
        return type(first)(members)  # type: ignore[call-arg]
    except TypeError:
        return members


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in tuples, lists and dicts too; other values as they are."""
    return adopted(loading.default_convert(data))


class DataLoader(data.DataLoader):
    """Batches of a dataset, in order, in a random order, or in that of a sampler; see ``jitgraph.data.DataLoader``."""

    @functools.wraps(data.DataLoader.__init__)  # type: ignore[misc]
    def __init__(self, dataset: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(dataset, *args, **kwargs)
        batched = self.batch_size is not None or self.batch_sampler is not None
        self._rows = isinstance(dataset, data.TensorDataset) and self.collate_fn is None and batched
        if self.collate_fn is None and not self._rows:  # rows of a TensorDataset are taken at once
            self.collate_fn = default_collate if batched else default_convert

    def __class_getitem__(cls, _: Any) -> type[DataLoader]:
        return cls

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            own = adopted(batch)
            yield list(own) if self._rows else own
