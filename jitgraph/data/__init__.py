"""Datasets and loading."""

from jitgraph.data.dataset import DataLoader, Dataset, TensorDataset, collate

__all__ = ["DataLoader", "Dataset", "TensorDataset", "collate"]
