"""Saved models for the commands, and the command line in this process."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgraph as jg

HAS_COMMANDS = all(map(importlib.util.find_spec, ("typer", "rich")))
collect_ignore_glob = [] if HAS_COMMANDS else ["test_*.py"]  # skipping here would end a run that names these tests


class Result(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command in this process, in 80 columns without colour."""
    from jitgraph.cli import main

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*words: Any) -> Result:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        if code:
            assert "Traceback" not in err
        return Result(code, out, err)

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and arrays: ``scaled.jg``, ``other.jg`` (other weights), ``counter.jg`` (writes its state)."""
    folder = tmp_path_factory.mktemp("models")
    weights = {"scaled": jg.asarray([1.0, 2.0, 3.0], dtype=jg.float32)}
    weights["other"] = jg.asarray([1.0, 2.0, 3.5], dtype=jg.float32)

    def weighted(w: jg.Tensor) -> Any:
        @jg.trace(dynamic_shapes={"x": {0: "batch"}})
        def weighted(x: jg.Tensor, scale: float = 2.0) -> dict[str, jg.Tensor]:
            return {"scores": jg.exp(x * w) * scale, "top": jg.argmax(x, axis=-1)}

        return weighted

    for name, weight in weights.items():
        example = (jg.zeros((2, 3)),)
        jg.save(weighted(weight), folder / f"{name}.jg", example_inputs=example, metadata={"author": "me\x1b[31m"})
    total = jg.zeros(3)

    @jg.trace
    def counter(ids: jg.Tensor) -> jg.Tensor:
        total[:] = total + ids.astype(jg.float32)
        return total * 2

    jg.save(counter, folder / "counter.jg", example_inputs=(jg.asarray([1, 2, 3]),))
    rows = np.array([[0, 1, 2], [3, 1, 0]], np.float32)
    np.save(folder / "x.npy", rows)
    np.save(folder / "x64.npy", rows.astype(np.float64))
    np.save(folder / "wide.npy", np.zeros((2, 4), np.float32))
    np.savez(folder / "both.npz", x=rows, scale=np.float64(1.0))
    return folder
