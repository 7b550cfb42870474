"""Settings that PyTorch refuses by a ValueError are refused by one here, and the texts name PyTorch's classes."""

import pytest

import jitgraph.torch as torch
from jitgraph.torch.utils import data


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(3))


ITEMS = list(range(4))


@pytest.mark.parametrize(
    "make",
    [
        lambda: data.DataLoader(Stream(), shuffle=True),
        lambda: data.DataLoader(ITEMS, sampler=data.SequentialSampler(ITEMS), shuffle=True),
        lambda: data.DataLoader(ITEMS, batch_sampler=[[0]], batch_size=2),
        lambda: data.DataLoader(ITEMS, batch_size=0),
        lambda: data.DataLoader(ITEMS, prefetch_factor=2),
        lambda: data.DataLoader(ITEMS, num_workers=-1),
        lambda: data.random_split(ITEMS, [1, 2]),
        lambda: data.RandomSampler(ITEMS, num_samples=0),
        lambda: data.WeightedRandomSampler([1.0], 0),
    ],
)
def test_settings_of_loaders(make):
    with pytest.raises(ValueError):
        make()


def test_one_step_more_than_a_cycle_has():
    optimiser = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=2)
    optimiser.step()
    with pytest.raises(ValueError, match="2 steps"):
        for _ in range(3):
            schedule.step()


def test_constraints_are_named_as_in_pytorch():
    distributions = torch.distributions
    with pytest.raises(ValueError, match=r"scale \(Tensor of shape \(\)\).*GreaterThan\(lower_bound=0.0\)"):
        distributions.Normal(0.0, -1.0, validate_args=True)
    with pytest.raises(ValueError, match=r"IntegerInterval\(lower_bound=0, upper_bound=1\)"):
        distributions.Categorical(torch.ones(2)).log_prob(torch.tensor(5))
