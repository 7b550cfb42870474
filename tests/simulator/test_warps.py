"""Shuffles, votes and other operations of a warp, against their definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jitgraph_testing.simulator.faults import DivergenceError
from tests.simulator.assembling import assembled
from tests.simulator.running import SEEDS, Bench
from tests.simulator.texts import KernelText

LANES = np.arange(32)
VALUES = np.random.default_rng(0).integers(-1000, 1000, 64).astype(np.int32)
POINTERS = "ptr addrspace(1) %x, ptr addrspace(1) %y"


def of_lanes(name: str, result: str, *arguments: str) -> str:
    """A kernel in which each lane stores what an operation of its value ``{x}`` gives it."""
    kernel = KernelText(POINTERS)
    lane = kernel.sreg("tid.x")
    x = kernel.load("i32", "%x", lane)
    odd = kernel.let(f"icmp slt i32 {x}, 0")
    actual = kernel.nvvm(result, name, *[each.format(x=x, odd=odd) for each in arguments])
    if result.startswith("{"):
        actual, flag = (kernel.let(f"extractvalue {result} {actual}, {i}") for i in (0, 1))
        wide = kernel.let(f"zext i1 {flag} to i32")
        actual = kernel.i32("add", kernel.i32("mul", actual, 2), wide)
    elif result == "i1":
        actual = kernel.let(f"zext i1 {actual} to i32")
    kernel.store("i32", actual, "%y", lane)
    return kernel.text


def run(text: str, seed: int | None, threads: int = 64) -> np.ndarray:
    bench = Bench(text)
    at_x, at_y = bench.put(VALUES), bench.put(0 * VALUES)
    bench.run("k", (1,), (threads,), at_x, at_y, seed=seed)
    return bench.get(at_y, VALUES).reshape(2, 32)


ROWS = VALUES.reshape(2, 32)
ALL = "i32 -1"
SHUFFLES = {  # control: clamp, or segments << 8 | clamp
    "bfly 5": ("bfly", 5, 31, LANES ^ 5),
    "down 3": ("down", 3, 31, np.where(LANES + 3 < 32, LANES + 3, LANES)),
    "up 2": ("up", 2, 0, np.where(LANES >= 2, LANES - 2, LANES)),
    "idx 7": ("idx", 7, 31, np.full(32, 7)),
    "bfly 1 of 8": ("bfly", 1, 24 << 8 | 31, LANES ^ 1),
    "down 3 of 8": ("down", 3, 24 << 8 | 31, np.where(LANES % 8 + 3 < 8, LANES + 3, LANES)),
    "up 3 of 8": ("up", 3, 24 << 8, np.where(LANES % 8 >= 3, LANES - 3, LANES)),
    "idx 9 of 8": ("idx", 9, 24 << 8 | 31, LANES // 8 * 8 + 1),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles(name: str, seed: int | None) -> None:
    mode, by, control, source = SHUFFLES[name]
    plain = of_lanes(f"shfl.sync.{mode}.i32", "i32", ALL, "i32 {x}", f"i32 {by}", f"i32 {control}")
    np.testing.assert_array_equal(run(plain, seed), ROWS[:, source])
    both = of_lanes(f"shfl.sync.{mode}.i32p", "{ i32, i1 }", ALL, "i32 {x}", f"i32 {by}", f"i32 {control}")
    valid = source != LANES if mode != "idx" else np.full(32, True)
    np.testing.assert_array_equal(run(both, seed), 2 * ROWS[:, source] + valid)


def bits(flags: np.ndarray) -> np.ndarray:
    return (flags.astype(np.int64) << LANES).sum(axis=-1, keepdims=True).astype(np.uint32).view(np.int32)


def everywhere(values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values, (2, 32)).astype(np.int32)


NEGATIVE = ROWS < 0
WHOLE = {
    "ballot": (("vote.ballot.sync", "i32", ALL, "i1 {odd}"), everywhere(bits(NEGATIVE))),
    "any": (("vote.any.sync", "i1", ALL, "i1 {odd}"), everywhere(NEGATIVE.any(axis=1, keepdims=True))),
    "all": (("vote.all.sync", "i1", ALL, "i1 {odd}"), everywhere(NEGATIVE.all(axis=1, keepdims=True))),
    "uni": (("vote.uni.sync", "i1", ALL, "i1 {odd}"), everywhere(np.zeros((2, 1)))),
    "add": (("redux.sync.add", "i32", "i32 {x}", ALL), everywhere(ROWS.sum(axis=1, keepdims=True))),
    "max": (("redux.sync.max", "i32", "i32 {x}", ALL), everywhere(ROWS.max(axis=1, keepdims=True))),
    "umin": (
        ("redux.sync.umin", "i32", "i32 {x}", ALL),
        everywhere(ROWS.view(np.uint32).min(axis=1, keepdims=True).view(np.int32)),
    ),
    "xor": (("redux.sync.xor", "i32", "i32 {x}", ALL), everywhere(np.bitwise_xor.reduce(ROWS, axis=1, keepdims=True))),
    "match": (
        ("match.any.sync.i32", "i32", ALL, "i32 {x}"),
        np.stack([bits(ROWS[:, [i]] == ROWS)[:, 0] for i in LANES], 1),
    ),
    "active": (("activemask", "i32"), everywhere(np.full((2, 1), -1))),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WHOLE)
def test_votes_and_reductions(name: str, seed: int | None) -> None:
    actual, expected = WHOLE[name]
    np.testing.assert_array_equal(run(of_lanes(*actual), seed), expected)


def test_parts_of_a_warp_vote_by_themselves() -> None:
    """The halves of a warp meet under their own masks, on two ways through the code."""
    kernel = KernelText(POINTERS)
    lane = kernel.sreg("tid.x")
    low = kernel.let(f"icmp ult i32 {lane}, 16")
    kernel.do(f"br i1 {low}, label %first, label %second")
    for name, mask in (("first", 0xFFFF), ("second", 0xFFFF0000)):
        kernel.label(name)
        signed = mask - (1 << 32) if mask >> 31 else mask
        actual = kernel.nvvm("i32", "redux.sync.add", f"i32 {lane}", f"i32 {signed}")
        kernel.store("i32", actual, "%y", lane)
        kernel.do("br label %end")
    kernel.label("end")
    expected = np.repeat([LANES[:16].sum(), LANES[16:].sum()], 16)
    np.testing.assert_array_equal(run(kernel.text, 3, 32)[0], expected)


def test_a_shuffle_that_not_all_of_its_lanes_reach() -> None:
    kernel = KernelText(POINTERS)
    lane = kernel.sreg("tid.x")
    few = kernel.let(f"icmp ult i32 {lane}, 20")
    kernel.do(f"br i1 {few}, label %some, label %end")
    kernel.label("some")
    actual = kernel.nvvm("i32", "shfl.sync.bfly.i32", ALL, f"i32 {lane}", "i32 1", "i32 31")
    kernel.store("i32", actual, "%y", lane)
    kernel.do("br label %end")
    kernel.label("end")
    with pytest.raises(DivergenceError, match=r"threads 0, 1, .*\(20 threads\) at `.*shfl.*12 of 32 threads have"):
        run(kernel.text, None, 32)


@pytest.mark.parametrize("name", [*SHUFFLES, *WHOLE])
def test_they_assemble(name: str, tmp_path: Path) -> None:
    if name in SHUFFLES:
        mode, by, control, _ = SHUFFLES[name]
        results: tuple[str, ...] = (f"shfl.sync.{mode}.i32", "i32", ALL, "i32 {x}", f"i32 {by}", f"i32 {control}")
    else:
        results = WHOLE[name][0]
    assembled(of_lanes(*results), tmp_path)
