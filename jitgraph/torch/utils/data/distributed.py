"""The share of a dataset that one of several processes takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from jitgraph import random
from jitgraph.data import Sampler


class DistributedSampler(Sampler):
    """Every ``num_replicas``-th index from ``rank`` on, of all in one order, which ``shuffle`` draws for each epoch.

    Both have to be given, as processes do not know of one another here, else RuntimeError. The shares are of one
    length: the first indices are repeated, or with ``drop_last`` the last ones left out.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError(
                "Requires distributed package to be available\n"
                "  hint: DistributedSampler(dataset, num_replicas=..., rank=...)"
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.shuffle, self.seed, self.drop_last = 0, shuffle, seed, drop_last
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order: list[int] = list(range(count))
        if self.shuffle:
            order = random.permutation(count, generator=random.Generator(self.seed + self.epoch)).tolist()
        while order and len(order) < self.total_size:
            order += order[: self.total_size - len(order)]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration draw the order of an epoch."""
        self.epoch = epoch
