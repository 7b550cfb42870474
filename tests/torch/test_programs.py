"""Programs in PyTorch's idiom have the losses that they have under PyTorch, eagerly and compiled.

PyTorch's losses are in ``programs/losses.json``; where it is installed, they are compared with it, and
``python -m tests.torch.test_programs`` writes them anew.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.torch import programs

PROGRAMS = sorted(module.name for module in pkgutil.iter_modules(programs.__path__))
RECORD = Path(programs.__file__).with_name("losses.json")


def run(name: str, torch: Any, *compile: Any) -> list[float]:
    losses: list[float] = importlib.import_module(f"tests.torch.programs.{name}").run(torch, *compile)
    return losses


def under_test() -> Any:
    torch = importlib.import_module("jitgraph.torch")
    if not hasattr(torch, "nn") or not hasattr(torch, "optim"):
        pytest.skip("torch.nn and torch.optim are not there yet")
    return torch


def recorded(name: str) -> list[float]:
    losses: list[float] = json.loads(RECORD.read_text())[name]
    return losses


def assert_close(losses: list[float], expected: list[float]) -> None:
    """Equal to rounding, which training magnifies from step to step."""
    np.testing.assert_allclose(losses, expected, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(losses[:3], expected[:3], rtol=1e-4, atol=1e-5)


def test_the_record_has_all_programs() -> None:
    assert sorted(json.loads(RECORD.read_text())) == PROGRAMS and len(PROGRAMS) >= 30


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_pytorch(name: str) -> None:
    torch = under_test()
    assert_close(run(name, torch), recorded(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_of_compiled_programs_are_those_of_pytorch(name: str) -> None:
    torch = under_test()
    assert_close(run(name, torch, torch.compile), recorded(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_record_is_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    assert_close(run(name, torch), recorded(name))


if __name__ == "__main__":
    import torch

    RECORD.write_text(json.dumps({name: run(name, torch) for name in PROGRAMS}, indent=1) + "\n")
