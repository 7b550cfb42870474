"""Training in mixed precision ends where float32 does: a short MLP here, all models of bench/amp.py in make nightly."""

from __future__ import annotations

import os

import numpy as np
import pytest

import jitgraph as jg

pytest.importorskip("sklearn")
from bench.amp import MODELS, MODES, trained

EPOCHS = {"MLP": 4, "CNN": 8, "transformer": 20}
NAMES = list(MODELS) if os.environ.get("AMP_MODELS") == "all" else ["MLP"]


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_where_float32_does(name: str) -> None:
    ends = {title: trained(name, dtype, EPOCHS[name]) for title, dtype in MODES.items()}
    loss, right, _ = ends["float32"]
    assert right > 0.9
    for title, (other, share, run) in ends.items():
        assert share > right - 0.03 and other < 2 * loss + 0.02, (title, other, loss)
        assert run.step.cache_info().misses == 1
        assert {p.dtype for p in run.model.parameters()} == {jg.float32}
        if title != "float32":
            mine, exact = (next(r.model.parameters()).detach().numpy() for r in (run, ends["float32"][2]))
            assert np.abs(mine - exact).max() > 0, "products ran in float32"
