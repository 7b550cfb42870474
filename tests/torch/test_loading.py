"""Loaders, datasets and checkpointed functions: batches and gradients are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph.torch as torch
from jitgraph.torch import nn
from jitgraph.torch.utils import checkpoint as checkpoints
from jitgraph.torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler, TensorDataset, random_split


class Items(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, number):
        return np.full(2, number, np.float32), number, 0.5 * number, {"name": str(number)}


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_have_pytorchs_classes_and_dtypes(workers):
    loader = DataLoader(Items(), batch_size=3, num_workers=workers)
    rows, numbers, halves, names = next(iter(loader))
    assert [type(x) for x in (rows, numbers, halves)] == [torch.Tensor] * 3
    assert [x.dtype for x in (rows, numbers, halves)] == [torch.float32, torch.int64, torch.float64]
    assert rows.tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert names == {"name": ["0", "1", "2"]}


def test_rows_of_tensors():
    dataset = TensorDataset(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([5, 6, 7]))
    batches = list(DataLoader(dataset, batch_size=2))
    assert all(type(batch) is list for batch in batches)
    assert [batch[1].tolist() for batch in batches] == [[5, 6], [7]]
    assert isinstance(dataset[0][0], torch.Tensor)
    parts = random_split(dataset, [2, 1])
    assert sorted(int(y) for part in parts for _, y in part) == [5, 6, 7]


def test_shares_of_processes_have_one_length():
    shares = [list(DistributedSampler(Items(), 3, rank, shuffle=False)) for rank in range(3)]
    assert shares == [[0, 3], [1, 0], [2, 1]]
    sampler = DistributedSampler(Items(), 2, 0, drop_last=True)
    sampler.set_epoch(1)
    assert len(list(sampler)) == len(sampler) == 2
    with pytest.raises(RuntimeError, match="num_replicas"):
        DistributedSampler(Items())


def test_a_sampler_in_pytorchs_idiom():
    class Backwards(Sampler[int]):
        def __init__(self, data_source):
            super().__init__(data_source)
            self.data_source = data_source

        def __iter__(self):
            return iter(range(len(self.data_source) - 1, -1, -1))

        def __len__(self):
            return len(self.data_source)

    assert next(iter(DataLoader(Items(), batch_size=2, sampler=Backwards(Items()))))[1].tolist() == [3, 2]


def test_checkpointed_functions_have_the_gradients():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)

    def gradients(y):
        model.zero_grad()
        y.sum().backward()
        return [parameter.grad.tolist() for parameter in model.parameters()]

    expected = gradients(model(x))
    results = checkpoints.checkpoint(model, x, use_reentrant=False)
    assert type(results) is torch.Tensor
    for result in (results, checkpoints.checkpoint_sequential(model, 2, x, use_reentrant=False)):
        for actual, wanted in zip(gradients(result), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-7)
    with pytest.raises(RuntimeError, match="context_fn"):
        checkpoints.checkpoint(model, x, context_fn=lambda: None)
