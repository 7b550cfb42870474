"""Datasets and loading, in PyTorch's names."""

from typing import Any

from jitgraph import migration_hints
from jitgraph.data.collating import collate, default_collate, default_convert
from jitgraph.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from jitgraph.data.loading import DataLoader
from jitgraph.data.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from jitgraph.data.workers import WorkerInfo, get_worker_info
from jitgraph.runtime import imports

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "collate",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]


__dir__ = imports.listing(__name__)


def __getattr__(name: str) -> Any:
    hint = migration_hints.advice(name, migration_hints.DATA)
    raise AttributeError(f"module 'jitgraph.data' has no attribute {name!r}{hint}")
