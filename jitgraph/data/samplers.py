"""Orders in which a loader takes items; PyTorch's names. Random ones come from ``jg.random`` or a generator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jitgraph import random
from jitgraph.errors import JitgraphError
from jitgraph.tensor.functions.creation import asarray


class Sampler:
    """Indices of items in some order: subclasses define ``__iter__``, and ``__len__`` if it is known."""

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
            raise JitgraphError(f"RandomSampler: num_samples={num_samples} is not positive")
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
            raise JitgraphError("WeightedRandomSampler takes a vector of weights that are not negative")
        if num_samples < 1 or (not replacement and num_samples > np.count_nonzero(self.weights)):
            raise JitgraphError(f"WeightedRandomSampler: num_samples={num_samples} of {len(self.weights)} weights")
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
            raise JitgraphError(f"batch_size must be at least 1, not {batch_size}")
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
