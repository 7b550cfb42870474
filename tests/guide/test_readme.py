"""The programs of README.md run as they stand, and its figures of the demo are what the demo prints."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.public_types import readme_blocks


def test_the_first_programs_run(tmp_path: Path, written: Path) -> None:
    """Training and saving, then the saved file with the loader alone."""
    training, loading = readme_blocks()[:2]
    run = [sys.executable, "-W", "error", "-c"]
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*run, training], cwd=tmp_path, env=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Tensor("), done.stdout
    (tmp_path / "loader.py").write_text((written / "loader.py").read_text())
    done = subprocess.run([*run, loading], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_figures_of_the_demo_are_the_readmes() -> None:
    pytest.importorskip("sklearn")
    import numpy as np

    import jitgraph as jg
    from examples.digits import BATCH, report, training

    x, y = np.zeros((BATCH, 64), np.float32), np.zeros(BATCH, np.int64)
    _, step = training()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        report(jg.trace(step).lower(x, y))
    readme = (ROOT / "README.md").read_text()
    kernels, arena = printed.getvalue().splitlines()[:2]
    assert kernels.removeprefix("kernels of a training step: ") in readme.replace(" kernels before", " before"), kernels
    planned, unplanned = (int(word) for word in arena.split() if word.isdigit())
    assert f"{planned / 1e3:.0f} kB with the plan, {unplanned / 1e3:.0f} kB without" in readme, arena
