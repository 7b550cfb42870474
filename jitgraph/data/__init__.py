"""Datasets and loading."""

from typing import Any

from jitgraph.data.dataset import DataLoader, Dataset, TensorDataset, collate
from jitgraph.migration_hints import PLANNED_DATA, advice

__all__ = ["DataLoader", "Dataset", "TensorDataset", "collate"]


def __getattr__(name: str) -> Any:
    hint = advice(name, {}, PLANNED_DATA)
    raise AttributeError(f"module 'jitgraph.data' has no attribute {name!r}{hint}")
