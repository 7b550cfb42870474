"""Every public name of PyTorch's modules of layers, training, data and devices is there, or has a reason."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import jitgraph.torch as torch
from jitgraph.torch.module_reasons import OF_MODULES

LIST = Path(__file__).with_name("names_of_pytorch.json")
MODULES = [
    "torch.accelerator",
    "torch.amp",
    "torch.autograd.graph",
    "torch.compiler",
    "torch.cuda",
    "torch.cuda.amp",
    "torch.nn",
    "torch.nn.attention",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.nn.utils.fusion",
    "torch.nn.utils.parametrizations",
    "torch.nn.utils.parametrize",
    "torch.nn.utils.prune",
    "torch.nn.utils.rnn",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils",
    "torch.profiler",
    "torch.testing",
    "torch.utils.checkpoint",
    "torch.utils.data",
]


def names_of(module: Any) -> list[str]:
    """What a module lists, and beside that its own classes, functions and modules."""
    listed = set(getattr(module, "__all__", ()))
    for name, value in vars(module).items():
        home = getattr(value, "__module__", "")
        own = callable(value) and isinstance(home, str) and home.startswith(module.__name__)
        if own and not name.startswith("_"):
            listed.add(name)
    return sorted(listed)


def recorded() -> dict[str, list[str]]:
    names: dict[str, list[str]] = json.loads(LIST.read_text())
    return names


@pytest.mark.parametrize("module", MODULES)
def test_each_name_is_there_or_has_a_reason(module: str) -> None:
    ours = importlib.import_module(f"jitgraph.{module}")
    reasons = OF_MODULES.get(module, {})
    names = recorded()[module]
    there = {name for name in names if hasattr(ours, name)}
    assert sorted(set(names) - there) == sorted(set(names) & set(reasons))
    assert not there & set(reasons)
    for name in set(names) - there:
        with pytest.raises(AttributeError, match="has no attribute"):
            getattr(ours, name)


@pytest.mark.parametrize("module", MODULES)
def test_the_list_is_pytorchs(module: str) -> None:
    pytest.importorskip("torch")
    assert recorded()[module] == names_of(importlib.import_module(module))


def test_signatures_are_pytorchs() -> None:
    """Parameters of what both have: names, their order and their defaults; more may follow those of PyTorch."""
    pytest.importorskip("torch")
    differences = []
    for module in MODULES:
        theirs, ours = importlib.import_module(module), importlib.import_module(f"jitgraph.{module}")
        for name in recorded()[module]:
            passes_on = name.endswith("_with_indices")  # to the function without these words
            if passes_on or not hasattr(ours, name) or f"{module}.{name}" in OTHER_PARAMETERS:
                continue
            expected, actual = (parameters(getattr(side, name)) for side in (theirs, ours))
            if expected is None or actual is None or any(kind == "VAR_POSITIONAL" for _, kind, _ in expected):
                continue
            named = [entry for entry in actual if entry[0] in {known for known, _, _ in expected}]
            if not is_called_alike(named, expected):
                differences.append(f"{module}.{name}: {named} where PyTorch has {expected}")
    assert not differences, "\n".join(differences)


OTHER_PARAMETERS = {
    "torch.accelerator.current_stream",  # torch.cuda's functions, whose parameter is positional in all programs
    "torch.accelerator.device_index",
    "torch.accelerator.get_device_capability",
    "torch.accelerator.get_memory_info",
    "torch.accelerator.max_memory_allocated",
    "torch.accelerator.max_memory_reserved",
    "torch.accelerator.memory_allocated",
    "torch.accelerator.memory_reserved",
    "torch.accelerator.memory_stats",
    "torch.accelerator.reset_accumulated_memory_stats",
    "torch.accelerator.reset_peak_memory_stats",
    "torch.accelerator.set_device_idx",
    "torch.accelerator.set_device_index",
    "torch.accelerator.set_stream",
    "torch.accelerator.synchronize",
    "torch.amp.custom_bwd",  # device_type may be left out here
    "torch.amp.custom_fwd",
    "torch.cuda.CudaError",  # raised here, never made by programs
    "torch.cuda.amp.custom_bwd",
    "torch.cuda.stream",  # its parameter is positional in all programs
    "torch.nn.LinearCrossEntropyOptions",  # a dataclass, whose signature is made when it is first called
    "torch.nn.RNNBase",  # bases that isinstance asks for
    "torch.nn.RNNCellBase",
    "torch.nn.Transformer",  # the default activation is a function there, its name here
    "torch.nn.TransformerDecoderLayer",
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.functional.linear_cross_entropy",
    "torch.nn.functional.normalize",  # out= is the decorator's
    "torch.nn.utils.parametrize.ParametrizationList",  # made by register_parametrization
    "torch.utils.data.random_split",  # the default generator has its own default here
}


def is_called_alike(actual: list[tuple[str, str, str]], expected: list[tuple[str, str, str]]) -> bool:
    """Whether calls that fit the expected parameters fit the actual ones, which may be given by position, too."""
    return len(actual) == len(expected) and all(
        (name, default) == (theirs, of_theirs) and (kind == kind_of_theirs or kind_of_theirs == "KEYWORD_ONLY")
        for (name, kind, default), (theirs, kind_of_theirs, of_theirs) in zip(actual, expected, strict=True)
    )


def parameters(function: Any) -> list[tuple[str, str, str]] | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return [
        (name, parameter.kind.name, "" if parameter.default is parameter.empty else shown(parameter.default))
        for name, parameter in signature.parameters.items()
    ]


def shown(default: Any) -> str:
    """A default as text, in which 0 and 0.0 are the same."""
    if isinstance(default, tuple):
        return f"({', '.join(map(shown, default))})"
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    return repr(float(default) if is_number else default)


def test_all_is_lazy() -> None:
    """A name that is missing names its module and the reason."""
    with pytest.raises(AttributeError, match=r"module 'torch\.optim' has no attribute 'SparseAdam': there are no"):
        torch.optim.SparseAdam  # noqa: B018


if __name__ == "__main__":
    LIST.write_text(json.dumps({name: names_of(importlib.import_module(name)) for name in MODULES}, indent=1) + "\n")
