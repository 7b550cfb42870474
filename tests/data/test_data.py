"""Datasets and loading."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgraph as jg

X, Y = np.arange(10.0, dtype=np.float32).reshape(5, 2), np.arange(5)


def test_batches_in_order() -> None:
    data = jg.data.TensorDataset(X, Y)
    assert len(data) == 5 and data[1][0].tolist() == [2.0, 3.0]
    loader = jg.data.DataLoader(data, batch_size=2)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    np.testing.assert_array_equal(np.concatenate([x.numpy() for x, _ in batches]), X)
    assert [y.tolist() for _, y in batches] == [[0, 1], [2, 3], [4]]
    short = jg.data.DataLoader(data, batch_size=2, drop_last=True)
    assert len(short) == len(list(short)) == 2


def orders(loader: jg.data.DataLoader) -> list[list[int]]:
    return [[int(i) for _, y in loader for i in y.tolist()] for _ in range(2)]


def test_shuffled_orders_follow_the_seed() -> None:
    data = jg.data.TensorDataset(np.zeros((20, 1)), np.arange(20))
    first = orders(jg.data.DataLoader(data, 3, shuffle=True, seed=1))
    assert all(sorted(order) == list(range(20)) for order in first) and first[0] != first[1]
    assert orders(jg.data.DataLoader(data, 3, shuffle=True, seed=1)) == first
    assert orders(jg.data.DataLoader(data, 3, shuffle=True, seed=2)) != first
    jg.random.seed(7)
    once = orders(jg.data.DataLoader(data, 3, shuffle=True))
    jg.random.seed(7)
    assert orders(jg.data.DataLoader(data, 3, shuffle=True)) == once


class Pair(NamedTuple):
    x: Any
    y: Any


class Items(jg.data.Dataset):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)


def test_collation() -> None:
    items = [{"image": np.full((2,), i, np.float32), "name": f"n{i}", "rest": (i, float(i))} for i in range(3)]
    (batch,) = jg.data.DataLoader(Items(items), batch_size=3)
    assert batch["image"].shape == (3, 2) and batch["image"].dtype == jg.float32
    assert batch["name"] == ["n0", "n1", "n2"]
    assert (batch["rest"][0].dtype, batch["rest"][1].dtype) == (jg.int64, jg.float32)
    pair = jg.data.collate([Pair(jg.ones(2), 1), Pair(jg.zeros(2), 2)])
    assert isinstance(pair, Pair) and pair.x.shape == (2, 2) and pair.y.tolist() == [1, 2]
    (counted,) = jg.data.DataLoader(Items(items), batch_size=3, collate_fn=len)
    assert counted == 3


def test_mistakes() -> None:
    with pytest.raises(jg.JitgraphError, match=r"lengths \[5, 4\]"):
        jg.data.TensorDataset(X, Y[:4])
    with pytest.raises(jg.JitgraphError, match="at least one"):
        jg.data.TensorDataset()
    with pytest.raises(jg.JitgraphError, match="batch_size must be an integer of at least 1"):
        jg.data.DataLoader(Items([]), batch_size=0)
    with pytest.raises(NotImplementedError, match="must define __len__"):
        len(jg.data.Dataset())
    assert list(jg.data.DataLoader(Items([]), batch_size=2)) == []


def test_datasets_of_datasets() -> None:
    data = jg.data.TensorDataset(X, Y)
    full = data + jg.data.Subset(data, [4, 0])
    assert len(full) == 7 and full[5][1].item() == 4 and full[-1][1].item() == 0
    with pytest.raises(IndexError, match="item 7 of 7"):
        full[7]
    pairs = jg.data.StackDataset(x=data, y=list(range(5)))
    assert pairs[3]["y"] == 3 and pairs[3]["x"][1].item() == 3 and len(pairs) == 5
    parts = jg.data.random_split(range(11), [0.5, 0.3, 0.2])
    assert [len(part) for part in parts] == [6, 3, 2] and sorted(i for part in parts for i in part) == list(range(11))
    with pytest.raises(jg.JitgraphError, match="add up to 11"):
        jg.data.random_split(range(11), [5, 5])


def test_a_chain_of_iterable_datasets() -> None:
    chain = jg.data.ChainDataset([range(3), range(5, 7)])
    assert list(chain) == [0, 1, 2, 5, 6] and len(chain) == 5
    assert [batch.tolist() for batch in jg.data.DataLoader(chain, batch_size=2)] == [[0, 1], [2, 5], [6]]


def test_samplers() -> None:
    jg.random.seed(0)
    picked = list(jg.data.WeightedRandomSampler([0.0, 3.0, 1.0], 400))
    assert 0 not in picked and 250 < picked.count(1) < 350
    assert sorted(jg.data.WeightedRandomSampler([1.0, 2.0, 0.0], 2, replacement=False)) == [0, 1]
    assert len(list(jg.data.RandomSampler(range(5), num_samples=12))) == 12
    assert set(jg.data.RandomSampler(range(5), replacement=True, num_samples=300)) == set(range(5))
    assert sorted(jg.data.SubsetRandomSampler([7, 3, 9])) == [3, 7, 9]
    batches = jg.data.BatchSampler(jg.data.SequentialSampler(range(5)), 2, True)
    assert list(batches) == [[0, 1], [2, 3]] and len(batches) == 2
    loader = jg.data.DataLoader(jg.data.TensorDataset(X, Y), batch_sampler=[[4, 1], [0]])
    assert [y.tolist() for _, y in loader] == [[4, 1], [0]] and len(loader) == 2
    assert [y.item() for _, y in jg.data.DataLoader(jg.data.TensorDataset(X, Y), batch_size=None)] == list(range(5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_sampler": [[0]], "shuffle": True}, "batch_sampler= stands for batch_size, shuffle"),
        ({"sampler": [0], "shuffle": True}, "it takes no shuffle=True"),
        ({"timeout": 3}, "timeout need num_workers"),
        ({"persistent_workers": True}, "persistent_workers and timeout need num_workers"),
        ({"num_workers": -1}, "num_workers must be an integer of at least 0, not -1"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None gives items"),
        ({"seed": 1, "generator": jg.random.Generator(2)}, "generator= and seed="),
    ],
)
def test_settings_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(jg.JitgraphError, match=message):
        jg.data.DataLoader(jg.data.TensorDataset(X, Y), **options)


@pytest.mark.parametrize(
    "options",
    [{"batch_size": 2.5}, {"num_workers": 1.5}, *({"prefetch_factor": n, "num_workers": 1} for n in (0, -2, 1.5))],
    ids=str,
)
def test_numbers_of_things_are_whole(options: dict[str, Any]) -> None:
    with pytest.raises(jg.JitgraphError, match="must be an integer of at least"):
        jg.data.DataLoader(X, **options)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([None, None], "not of a NoneType\n  hint: collate_fn="),
        ([{1}, {2}], "not of a set"),
        ([np.ones(2), np.ones(3)], r"items of the shapes \(2,\) and \(3,\)"),
        ([], "a batch of no items"),
    ],
    ids=["None", "set", "shapes", "empty"],
)
def test_what_makes_no_batch(items: list[Any], message: str) -> None:
    with pytest.raises(jg.JitgraphError, match=message):
        jg.data.collate(items)


def test_dicts_keep_their_class() -> None:
    result = jg.data.collate([OrderedDict(b=1, a=i) for i in range(2)])
    assert type(result) is OrderedDict and list(result) == ["b", "a"] and result["a"].tolist() == [0, 1]
    result = jg.data.collate([defaultdict(list, a=i) for i in range(2)])
    assert type(result) is defaultdict and result["a"].tolist() == [0, 1] and result["other"] == []


class Once:
    def __iter__(self) -> Any:
        return iter([np.full(2, i) for i in range(3)])


def test_what_has_no_numbers_is_iterated() -> None:
    loader = jg.data.DataLoader(Once(), 2)
    for _ in range(2):
        assert [b.tolist() for b in loader] == [[[0, 0], [1, 1]], [[2, 2]]]
    with pytest.raises(jg.JitgraphError, match="a generator gives its items once"):
        jg.data.DataLoader((i for i in range(3)), 2)
