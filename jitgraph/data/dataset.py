"""Datasets, datasets made of others, and the orders in which a loader takes items; PyTorch's names."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from jitgraph import random
from jitgraph.errors import JitgraphError
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray

# ----------------------------------------------------------------------
# Datasets: items by number or one after another, and datasets made of others; PyTorch's names.


class DataSettingError(JitgraphError, ValueError):
    """A setting that a sampler, a loader or a split of a dataset does not take."""


class Dataset:
    """Items by index: subclasses define ``__getitem__`` and ``__len__``."""

    def __class_getitem__(cls, _: Any) -> type[Dataset]:  # as PyTorch's is generic
        return cls

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset:
    """Items one after another: subclasses define ``__iter__``; in a loader's worker ``get_worker_info`` says which."""

    def __class_getitem__(cls, _: Any) -> type[IterableDataset]:
        return cls

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __add__(self, other: IterableDataset) -> ChainDataset:
        return ChainDataset([self, other])


def is_iterable(dataset: Any) -> bool:
    """Whether a dataset gives items one after another: by its class, also PyTorch's, or as it has no ``__getitem__``.

    JitgraphError for an iterator, which would be empty in the next epoch, and whole in each worker.
    """
    if any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__):
        return True
    if hasattr(dataset, "__getitem__") or not hasattr(dataset, "__iter__"):
        return False
    if iter(dataset) is dataset:
        raise JitgraphError(
            f"a {type(dataset).__name__} gives its items once, and a loader iterates again for each epoch\n"
            "  hint: a subclass of jg.data.IterableDataset, whose __iter__ begins anew"
        )
    return True


def _one_length(name: str, parts: Sequence[Any]) -> None:
    lengths = [len(part) for part in parts]
    if len(set(lengths)) != 1:
        raise JitgraphError(
            f"{name}: the {'tensors' if name == 'TensorDataset' else 'datasets'} have lengths {lengths}"
        )


class TensorDataset(Dataset):
    """Items are tuples of the i-th slices of tensors or arrays of equal length.

    JitgraphError for different lengths.
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise JitgraphError("TensorDataset needs at least one tensor")
        self.tensors = tuple(t if isinstance(t, Tensor) else asarray(t) for t in tensors)
        _one_length("TensorDataset", self.tensors)

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset):
    """Items are tuples of the items of several datasets, or dicts where they come by keyword."""

    def __init__(self, *parts: Any, **by_name: Any) -> None:
        if bool(parts) == bool(by_name):
            raise JitgraphError("StackDataset takes datasets, either by position or by keyword")
        self.datasets = dict(by_name) if by_name else parts
        _one_length("StackDataset", list(by_name.values()) if by_name else parts)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self) -> int:
        parts = self.datasets
        return len(next(iter(parts.values())) if isinstance(parts, dict) else parts[0])


class ConcatDataset(Dataset):
    """The items of several datasets, one dataset after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise JitgraphError("ConcatDataset needs at least one dataset")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise JitgraphError("ConcatDataset takes no IterableDataset\n  hint: jg.data.ChainDataset")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __getitem__(self, index: int) -> Any:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"item {index} of {count}")
        position = index % count
        number = bisect.bisect_right(self.cumulative_sizes, position)
        return self.datasets[number][position - (self.cumulative_sizes[number - 1] if number else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset):
    """The items of several iterable datasets, one dataset after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            yield from part

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


class Subset(Dataset):
    """The items of a dataset at given indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list | np.ndarray):
            return self.dataset[[self.indices[int(i)] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: random.Generator | None = None
) -> list[Subset]:
    """Subsets of random items, of these lengths or shares that add up to 1; the first get one more each of a remainder.

    JitgraphError for lengths that do not add up to that of the dataset.
    """
    count = len(dataset)
    sizes: list[int] = [int(size) for size in lengths if isinstance(size, int)]
    if len(sizes) < len(lengths):
        if any(not 0 <= share <= 1 for share in lengths) or not math.isclose(sum(lengths), 1.0):
            raise DataSettingError(f"random_split: the shares {list(lengths)} do not add up to 1")
        sizes = [math.floor(count * share) for share in lengths]
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != count or min(sizes, default=0) < 0:
        raise DataSettingError(f"random_split: the lengths {sizes} do not add up to {count}")
    order = random.permutation(count, generator=generator).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


# ----------------------------------------------------------------------
# Orders in which a loader takes items; PyTorch's names. Random ones come from ``jg.random`` or a generator.


class Sampler:
    """Indices of items in some order: subclasses define ``__iter__``, and ``__len__`` if it is known."""

    def __init__(self, data_source: Any = None) -> None:
        """``data_source`` is what older code of PyTorch's hands on, and is not looked at."""

    def __class_getitem__(cls, _: Any) -> type[Sampler]:
        return cls

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler):
    """All items in order."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """All items in random order, or ``num_samples`` of them, each once or with ``replacement``."""

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: random.Generator | None = None,
    ) -> None:
        if num_samples is not None and num_samples < 1:
            raise DataSettingError(f"RandomSampler: num_samples={num_samples} is not positive")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many numbers an iteration gives."""
        return len(self)

    def __iter__(self) -> Iterator[int]:
        count, remaining = len(self.data_source), len(self)
        if self.replacement and count:
            yield from random.randint(0, count, (remaining,), generator=self.generator).tolist()
            return
        while remaining > 0 and count:
            order = random.permutation(count, generator=self.generator).tolist()
            yield from order[:remaining]
            remaining -= count

    def __len__(self) -> int:
        return len(self.data_source) if self._samples is None else self._samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: random.Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for position in random.permutation(len(self.indices), generator=self.generator).tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """``num_samples`` indices, each drawn with a probability in proportion to its weight."""

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: random.Generator | None = None,
    ) -> None:
        self.weights = np.asarray(weights, np.float64)
        if self.weights.ndim != 1 or not (self.weights >= 0).all() or not np.isfinite(self.weights).all():
            raise DataSettingError("WeightedRandomSampler takes a vector of weights that are not negative")
        if num_samples < 1 or (not replacement and num_samples > np.count_nonzero(self.weights)):
            raise DataSettingError(f"WeightedRandomSampler: num_samples={num_samples} of {len(self.weights)} weights")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = random.multinomial(
            asarray(self.weights), self.num_samples, replacement=self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of ``batch_size`` indices of another sampler, the last one shorter unless ``drop_last``."""

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if batch_size < 1:
            raise DataSettingError(f"batch_size must be at least 1, not {batch_size}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for number in self.sampler:
            batch.append(number)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full if self.drop_last or not rest else full + 1
