"""The names of ``torch`` and of its tensors are PyTorch's: each is there, or the error says why it is not."""

from __future__ import annotations

import importlib.util
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.migration_hints import foreign_names, replacement
from jitgraph.torch import absent, module_reasons

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


def hints(owner: str, of: Any, wanted: list[str]) -> Iterator[tuple[str, str]]:
    """The names of these that something of jitgraph's lacks, each with the hint of its error."""
    for name in wanted:
        try:
            getattr(of, name)
        except AttributeError as error:
            yield name, str(error).partition("hint: ")[2]
        except jg.JitgraphError:  # a name that is there to refuse
            assert replacement(owner, name) is None


PACKAGES = {
    **{owner: owner.replace("jg", "torch") for owner in ("jg", "jg.nn", "jg.optim", "jg.nn.utils", "jg.amp")},
    "jg.nn.functional": "torch.nn.functional",
    "jg.data": "torch.utils.data",
}


@pytest.mark.parametrize("owner", PACKAGES)
def test_hints_for_names_of_pytorch_are_where_torch_has_them_or_its_reason(owner: str) -> None:
    """What an error of jitgraph's says of such a name: what jitgraph has for it, else what ``jitgraph.torch`` says."""
    package = PACKAGES[owner]
    ours = importlib.import_module(package.replace("torch", "jitgraph.torch", 1))
    module = importlib.import_module(owner.replace("jg", "jitgraph", 1))
    every = names("torch") if owner == "jg" else [*dir(ours), *module_reasons.OF_MODULES.get(package, ())]
    seen = 0
    for name, hint in hints(owner, module, [name for name in every if not name.startswith("_")]):
        assert hint, name
        if f"{package}.{name}" in hint:
            assert hasattr(ours, name)
            seen += 1
        elif hint == absent.reason_for(package, name):
            assert not hasattr(ours, name)
            seen += 1
        else:
            assert hint.startswith("write ") and not (hint.startswith("write nothing") and hasattr(ours, name)), name
    assert seen or owner in ("jg.nn.functional", "jg.nn.utils")


def test_hints_for_methods_of_pytorch_are_where_torch_has_them_or_its_reason() -> None:
    for name, hint in hints("x", jg.ones((1, 1)), names("Tensor")):
        assert hint, name
        if hint in ("x.T", absent.reasons().get(name)):
            assert not hasattr(torch.Tensor, name)
        elif "of a tensor of jitgraph.torch" in hint:
            assert hint.startswith(f"write x.{name},") and hasattr(torch.Tensor, name)
        else:
            assert hint.startswith("write ") and not hint.startswith("write nothing"), name


def test_a_function_that_a_hint_names_computes_what_torchs_does() -> None:
    """Of one float tensor, where both take one; a hint with arguments or words beside the name says what differs."""
    x = torch.tensor([[0.25, 0.5], [0.75, 0.125]])
    tables = foreign_names()
    plain = {**tables["renamed"], **tables["names"]["jg"]}
    different = {"argwhere", "nonzero", "range", "size", "shape", "geqrf", "lu", "symeig", "eig", "random"}
    compared = 0
    for name in names("torch"):
        try:
            getattr(jg, name)
            continue
        except AttributeError as error:
            path = re.search(r"hint: write jg\.((?:\w+\.)*\w+)$", str(error))
        except jg.JitgraphError:
            continue
        theirs = getattr(torch, name, None)
        if path is None or not callable(theirs) or name in different or (name in plain and "(" in plain[name]):
            continue
        ours: Any = jg
        for step in path[1].split("."):
            ours = getattr(ours, step)
        try:
            expected, actual = theirs(x.clone()), ours(jg.asarray(x.tolist()))
        except Exception:
            continue
        if isinstance(expected, torch.Tensor) and isinstance(actual, jg.Tensor):
            assert torch.allclose(expected, torch.tensor(actual.tolist()), equal_nan=True), name
            compared += 1
    assert compared > 30
