"""Every public name of PyTorch, NumPy and SciPy's special functions is here, or its error says what to write."""

from __future__ import annotations

import inspect
import re
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import jitgraph as jg
from jitgraph.migration_hints import foreign_names

torch = pytest.importorskip("torch")

INTERNAL = re.compile(  # parts of PyTorch's compiler, serialisation and build, which its documentation does not list
    r"classproperty|get_device_module|get_file_path|import_ir_module\w*|is_anomaly_check_nan_enabled"
    r"|is_vulkan_available|merge_type_from_type_comment|parse_(ir|schema|type_comment)|prepare_multiprocessing\w+"
    r"|profiler_\w+|unify_type_list|TYPE_CHECKING|test|get_include|info|little_endian|show_config|show_runtime"
    r"|(get|set)_bit_generator|DeviceType|Mapping|Sequence|NestedIOFunction|Profiler\w+|SavedTensor|cast|enforce_grad\w+"
    r"|(handle|has)_torch_function|is_multithreading_enabled|is_tensor_like|is_view_replay_enabled|kineto_available"
    r"|overload|set_multithreading_enabled"
)


def _names(owner: Any, wanted: Callable[[Any], bool] = lambda value: True) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            name
            for name in dir(owner)
            if not name.startswith("_")
            and not INTERNAL.fullmatch(name)
            and not isinstance(value := getattr(owner, name, None), types.ModuleType)
            and wanted(value)
        ]


def _is_function(value: Any) -> bool:
    return callable(value) and not inspect.isclass(value)


PAIRS: dict[str, tuple[Any, Any, Callable[[Any], bool]]] = {
    "torch": (torch, jg, _is_function),
    "torch.Tensor": (torch.Tensor, jg.ones((1, 1)), lambda value: True),
    "torch.linalg": (torch.linalg, jg.linalg, _is_function),
    "torch.special": (torch.special, jg.special, _is_function),
    "torch.fft": (torch.fft, jg.fft, _is_function),
    "torch.autograd": (torch.autograd, jg.autograd, lambda value: True),
    "torch.func": (torch.func, jg, lambda value: True),
    "torch.random": (torch.random, jg.random, lambda value: True),
    "torch.Generator": (torch.Generator, jg.Generator(0), lambda value: True),
    "numpy": (np, jg, lambda value: True),
    "numpy.linalg": (np.linalg, jg.linalg, lambda value: True),
    "numpy.fft": (np.fft, jg.fft, lambda value: True),
    "numpy.random": (np.random, jg.random, lambda value: True),
    "numpy.ndarray": (np.ndarray, jg.ones((1, 1)), lambda value: True),
    "scipy.special": (scipy.special, jg.special, _is_function),
}


@pytest.mark.parametrize("library", PAIRS)
def test_each_name_is_here_or_says_what_to_write(library: str) -> None:
    theirs, ours, wanted = PAIRS[library]
    silent = []
    for name in _names(theirs, wanted):
        try:
            getattr(ours, name)
        except AttributeError as error:
            if "\n  hint: " not in str(error):
                silent.append(name)
        except jg.JitgraphError as error:  # names that are there to refuse
            assert "hint: " in str(error), name
    assert not silent


def _found(path: str) -> Any:
    actual: Any = jg
    for step in path.split("."):
        actual = getattr(actual, step)
    return actual


def test_what_the_errors_name_exists() -> None:
    names = foreign_names()
    hints = [hint for table in ("renamed", "patterns") for hint in names[table].values()]
    hints += [hint for table in names["names"].values() for hint in table.values()]
    for path in {path for hint in hints for path in re.findall(r"\bjg\.((?:\w+\.)*\w+)", hint)}:
        _found(path)
    for name in names["scipy"]["special"]:
        assert hasattr(scipy.special, name)
        assert not hasattr(jg.special, name), f"jg.special.{name} exists; it needs no hint"


def test_names_in_place_say_how_the_handle_is_written_to() -> None:
    x = jg.ones((2, 2))
    for name in _names(torch.Tensor):
        if name.endswith("_") and name not in ("requires_grad_", "share_memory_"):
            with pytest.raises(
                AttributeError, match=r"hint: (write (x|y|jg\.resize)|there are no|a tensor's memory|PyTorch removed)"
            ) as raised:
                getattr(x, name)
            path = re.search(r"= x\.(\w+)\(", str(raised.value))
            assert path is None or hasattr(x, path[1]), name


def _parameters(function: str, space: str) -> set[str]:
    """The names of a function's parameters in PyTorch, of all forms but those that give their results by ``out``."""
    name = function if space == "torch" else f"{space}_{function}"
    forms = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    named = {"", "Tensor", "dim", "self_Tensor", "Scalar", "int", "center", "sections", "default", "correction"}
    return {a.name for form in forms if form.overload_name in named for a in form.arguments if not a.is_out}


OTHER_FUNCTIONS = {"load", "save", "trace", "while_loop", "result_type", "enable_grad", "set_grad_enabled"}
"""Functions of one name that do something else, or take all of theirs by position."""


@pytest.mark.parametrize("space", ["torch", "linalg", "special", "fft"])
def test_keywords_of_pytorch_that_are_not_taken_say_which_are(space: str) -> None:
    theirs = torch if space == "torch" else getattr(torch, space)
    ours = jg if space == "torch" else getattr(jg, space)
    seen = 0
    for name in ours.__all__:
        function = getattr(ours, name)
        if name in OTHER_FUNCTIONS or not hasattr(theirs, name) or not _is_function(function):
            continue
        own = inspect.signature(function).parameters
        if any(p.kind == p.VAR_KEYWORD for p in own.values()):
            continue
        ignored = {"self", "layout", "pin_memory", "generator"}
        for keyword in _parameters(name, space) - set(own) - ignored:
            with pytest.raises(jg.JitgraphError, match=f"{keyword}= is not a parameter\n  hint: write "):
                function(**{keyword: 1})
            seen += 1
    assert seen > 10
