"""Profiles of work on a GPU: it is waited for, and a compiled call is one row."""

from __future__ import annotations

import numpy as np

import jitgraph as jg
from tests.cuda.places import Machine


def test_work_is_waited_for_and_has_its_bits(here: Machine) -> None:
    inputs = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    x = jg.asarray(inputs, device="cuda", requires_grad=True)
    f = jg.trace(lambda x: jg.exp(x) + 1)
    expected = f(x).detach().cpu().numpy()
    with jg.profiler.profile() as p:
        y = f(x)
        np.testing.assert_array_equal(y.detach().cpu().numpy(), expected)
        y.sum().backward()
        np.testing.assert_array_equal((x + x).detach().cpu().numpy(), 2 * inputs)
    assert x.grad is not None and x.grad.device == x.device
    rows = p.rows()
    assert {row.name for row in rows if row.kind == "call"} == {"<lambda>", "gradient"}
    assert not [row for row in rows if row.kind == "kernel"]
    assert "add" in {row.name for row in rows if row.kind == "op"}
