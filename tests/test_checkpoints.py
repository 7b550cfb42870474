"""Checkpoints: a run that goes on bit for bit, what a file holds, and files that are damaged."""

from __future__ import annotations

import os
import random as python_random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests import ROOT

SCRIPT = """
import sys
import numpy as np
import jitgraph as jg

X = np.random.default_rng(0).normal(size=(24, 4)).astype("f4")
jg.random.seed(5)
net = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.BatchNorm1d(8), jg.nn.Dropout(0.3), jg.nn.Linear(8, 1))
optimizer = jg.optim.Adam(net.parameters(), lr=0.05, amsgrad=True)
schedule = jg.optim.lr_scheduler.MultiStepLR(optimizer, [2, 7], gamma=0.5)
loader = jg.data.DataLoader(jg.data.TensorDataset(X), 6, shuffle=True)


@jg.trace
def step(x):
    optimizer.zero_grad()
    loss = (net(x) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss


def epochs(count):
    for _ in range(count):
        for (x,) in loader:
            step(x)
        schedule.step()


parts = {"model": net, "optimizer": optimizer, "schedule": schedule}
path, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if first:
    epochs(first)
    jg.save_checkpoint(path, **parts, epoch=first)
else:
    assert jg.load_checkpoint(path, **parts) == {"epoch": 5}
epochs(last)
print(*(array.tobytes().hex() for array in net.state_dict().values()), optimizer.param_groups[0]["lr"])
print(np.random.rand())
"""


def run(*arguments: Any) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)], env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_a_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """Ten epochs in one process, and five and five in two: weights, statistics, rates and random numbers."""
    path = tmp_path / "run.safetensors"
    full = run(path, 5, 5).split()
    assert run(path, 0, 5).split()[:-1] == full[:-1]


def test_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "c"
    tree = {
        "text": "ä\n",
        "bytes": b"\0\xff",
        "numbers": [1 - 0.5j, 1, -(2**70), 0.1, float("inf"), float("nan"), -0.0, True, None],
        3: (np.float32(2.5), np.arange(6).reshape(2, 3)[:, ::2], np.zeros((0, 2), np.uint16)),
        "counts": Counter({4: 2}),
        "tensors": [jg.asarray([1 + 2j]), jg.ones(2, dtype=jg.bfloat16), jg.asarray(True)],
    }
    jg.save_checkpoint(path, tree=tree)
    actual = jg.load_checkpoint(path)["tree"]
    assert list(actual) == list(tree) and actual["text"] == "ä\n" and actual["counts"] == tree["counts"]
    assert (
        actual["bytes"] == tree["bytes"]
        and repr(actual["numbers"]) == repr(tree["numbers"])
        and type(actual["counts"]) is Counter
    )
    scalar, strided, empty = actual[3]
    assert type(scalar) is np.float32 and scalar == 2.5 and strided.tolist() == [[0, 2], [3, 5]]
    assert empty.shape == (0, 2) and empty.dtype == np.uint16
    for x, y in zip(actual["tensors"], tree["tensors"], strict=True):
        assert isinstance(x, jg.Tensor) and x.dtype == y.dtype and x.tolist() == y.tolist()


def test_arrays_in_the_byte_order_of_another_machine(tmp_path: Path) -> None:
    jg.save_checkpoint(tmp_path / "c", x=np.arange(3, dtype=">i4"), y=np.array([0.5], ">f8"))
    result = jg.load_checkpoint(tmp_path / "c")
    assert result["x"].tolist() == [0, 1, 2] and result["y"].tolist() == [0.5] and result["x"].dtype == np.int32


def test_what_holds_itself_is_refused(tmp_path: Path) -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(jg.JitgraphError, match="nested too deeply, or holds itself"):
        jg.save_checkpoint(tmp_path / "c", tree=tree)
    assert not os.listdir(tmp_path)


def test_random_states_go_with_a_run(tmp_path: Path) -> None:
    generator = jg.random.Generator(3)
    generator_state = lambda: jg.random.uniform((), generator=generator).item()
    draw = lambda: (jg.random.uniform(()).item(), np.random.rand(), python_random.random(), generator_state())
    jg.save_checkpoint(tmp_path / "c", generator=generator)
    wanted = draw()
    assert draw() != wanted
    jg.load_checkpoint(tmp_path / "c", generator=generator)
    assert draw() == wanted
    jg.load_checkpoint(tmp_path / "c", restore_random=False)
    assert draw() != wanted


def test_all_or_none(tmp_path: Path) -> None:
    path = tmp_path / "c"
    first, second = jg.nn.Linear(2, 2), jg.nn.Linear(2, 3)
    jg.save_checkpoint(path, first=first, second=second)
    other, wrong = jg.nn.Linear(2, 2), jg.nn.Linear(2, 4)
    before = other.state_dict()
    with pytest.raises(jg.ShapeError, match="size mismatch"):
        jg.load_checkpoint(path, first=other, second=wrong)
    assert all(np.array_equal(before[name], array) for name, array in other.state_dict().items())
    with pytest.raises(jg.JitgraphError, match=r"holds \['first', 'second'\], and not \['third'\]"):
        jg.load_checkpoint(path, third=other)
    with pytest.raises(jg.JitgraphError, match="no load_state_dict"):
        jg.load_checkpoint(path, first={})
    stored = path.read_bytes()
    with pytest.raises(jg.JitgraphError, match=r"second\['x'\]\[1\] is a object"):
        jg.save_checkpoint(path, first=first, second={"x": [1, object()]})
    assert path.read_bytes() == stored and sorted(os.listdir(tmp_path)) == ["c"]


def test_damaged_files(tmp_path: Path) -> None:
    """Cut, changed and foreign files are refused, whatever byte it is."""
    path, bad = tmp_path / "c", tmp_path / "bad"
    jg.save_checkpoint(path, weight=np.arange(40.0), rate=0.5)
    stored = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        changed = bytearray(stored)
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
        bad.write_bytes(changed)
        try:
            result = jg.load_checkpoint(bad, restore_random=False)
        except jg.LoadError:
            continue
        assert result["rate"] == 0.5 and np.array_equal(result["weight"], np.arange(40.0))  # a gap between them
    for size in (0, 7, 100, len(stored) - 1):
        bad.write_bytes(stored[:size])
        with pytest.raises(jg.LoadError):
            jg.load_checkpoint(bad)
    with pytest.raises(FileNotFoundError):
        jg.load_checkpoint(tmp_path / "none")
