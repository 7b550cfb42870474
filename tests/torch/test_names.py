"""The names of ``torch`` and of its tensors are PyTorch's: each is there, or the error says why it is not."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

import jitgraph.torch as torch
from jitgraph.torch import absent

KEPT = pathlib.Path(__file__).parent / "pytorch_names.txt"


def names(owner: str) -> list[str]:
    """The public names of ``torch`` or ``Tensor`` in PyTorch 2.13."""
    lines = dict(line.split(": ", 1) for line in KEPT.read_text().splitlines())
    return lines[owner].split()


def test_names_of_torch_are_there_or_absent_for_a_reason() -> None:
    known = set(dir(torch)) | absent.reasons().keys()
    assert [name for name in names("torch") if name not in known] == []


def test_methods_of_tensors_are_there_or_absent_for_a_reason() -> None:
    known = set(dir(torch.Tensor)) | absent.reasons().keys()
    assert [name for name in names("Tensor") if name not in known] == []


def test_absent_names_are_names_of_pytorch_that_are_not_there() -> None:
    public = {*names("torch"), *names("Tensor")}
    assert [name for name in absent.reasons() if name not in public] == []
    assert [name for name in absent.reasons() if name in dir(torch) or name in dir(torch.Tensor)] == []


def test_every_name_that_is_listed_loads() -> None:
    for owner in (torch, torch.Tensor):
        for name in dir(owner):
            getattr(owner, name)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_the_kept_names_are_those_of_pytorch() -> None:
    module = importlib.import_module("torch")
    for owner, of in (("torch", module), ("Tensor", module.Tensor)):
        assert names(owner) == [name for name in dir(of) if not name.startswith("_")]


def test_settings_of_pytorchs_libraries_are_accepted() -> None:
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = True
    assert cudnn.benchmark and not torch.backends.cudnn.is_available() and not torch.backends.mps.is_available()
    cudnn.benchmark = before
    torch.backends.cuda.matmul.allow_tf32 = False
