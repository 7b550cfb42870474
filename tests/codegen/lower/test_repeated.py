"""Equal groups are lowered once, and give what each would have given by itself."""

from __future__ import annotations

import numpy as np
import pytest

from jitgraph import compilation
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.lower import select
from jitgraph.compiler import compile
from jitgraph.ir.parser import parse
from jitgraph.ir.target import Target

# Two layers alike, a product of a tensor with itself, and gathers, which tell the user's line.
TEXT = """graph @f(%x: f32[8, 8], %w: f32[8, 8], %i: i64[8]) -> f32[8, 8], f32[8, 8] {
  %0: f32[8, 8] = dot(%x, %w) {batch=[[],[]], contract=[[1],[0]]}
  %1: f32[8] = reduce_sum(%0) {axes=[1]}
  %2: f32[8, 8] = broadcast(%1) {axes=[0], shape=[8, 8]}
  %3: f32[8, 8] = sub(%0, %2)
  %4: f32[8, 8] = dot(%3, %w) {batch=[[],[]], contract=[[1],[0]]}
  %5: f32[8] = reduce_sum(%4) {axes=[1]}
  %6: f32[8, 8] = broadcast(%5) {axes=[0], shape=[8, 8]}
  %7: f32[8, 8] = sub(%4, %6)
  %8: f32[8, 8] = dot(%7, %7) {batch=[[],[]], contract=[[1],[0]]}
  %9: f32[8, 8] = gather(%8, %i) {axis=0}  # model.py:7
  %10: f32[8, 8] = dot(%9, %w) {batch=[[],[]], contract=[[1],[0]]}
  %11: f32[8, 8] = gather(%10, %i) {axis=0}  # model.py:8
  return %11, %7
}"""


def schedule() -> Schedule:
    return compilation.staged(parse(TEXT), Target.host(), ()).schedule


def test_repeated_groups_give_the_same_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    lower_group = select.lower_group
    monkeypatch.setattr(select, "lower_group", lambda b, g, n: lowered.append(g.name) or lower_group(b, g, n))
    actual, few = schedule(), len(lowered)
    monkeypatch.setattr(select, "_can_be_repeated", lambda group: False)
    alone, many = schedule(), len(lowered) - few
    assert actual == alone
    assert few < many


def test_repeated_groups_compute_what_each_would() -> None:
    x, w = (np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32) for seed in (0, 1))
    order = np.arange(8)[::-1].copy()
    actual, centred = compile(parse(TEXT)).run([x, w, order])
    y = x
    for _ in range(2):
        y = y @ w
        y = y - y.sum(1, keepdims=True)
    np.testing.assert_allclose(centred, y, rtol=1e-4)
    np.testing.assert_allclose(actual, ((y @ y)[order] @ w)[order], rtol=1e-3)
