"""Every public name of PyTorch's modules of layers, training and data is here with its parameters, or has a hint."""

from __future__ import annotations

import importlib
import inspect
import types
from typing import Any

import pytest

import jitgraph as jg

torch = pytest.importorskip("torch")

MODULES = {
    "torch.nn": jg.nn,
    "torch.nn.functional": jg.nn.functional,
    "torch.nn.init": jg.nn.init,
    "torch.nn.utils": jg.nn.utils,
    "torch.nn.utils.rnn": jg.nn.utils.rnn,
    "torch.nn.utils.parametrize": jg.nn.utils.parametrize,
    "torch.nn.utils.parametrizations": jg.nn.utils.parametrizations,
    "torch.nn.utils.fusion": jg.nn.utils.fusion,
    "torch.optim": jg.optim,
    "torch.optim.lr_scheduler": jg.optim.lr_scheduler,
    "torch.optim.swa_utils": jg.optim.swa_utils,
    "torch.utils.data": jg.data,
    "torch.amp": jg.amp,
}
NO_API = {  # names that stand in PyTorch's modules without being meant for users
    "BroadcastingList1 BroadcastingList2 BroadcastingList3 DType GRID_SAMPLE_INTERPOLATION_MODES "
    "GRID_SAMPLE_PADDING_MODES ScalingType SwizzleType assert_int_or_pair boolean_dispatch handle_torch_function "
    "has_torch_function has_torch_function_unary has_torch_function_variadic reproducibility_notes "
    "sparse_support_notes tf32_notes common_types factory_kwargs memory_format init PackedSequence_ bind "
    "copy_method_params OpaqueBase get_swap_module_params_on_conversion is_opaque_reference_type "
    "is_traceable_wrapper_subclass cached transfer_parametrizations_and_params Enum auto ConvT LinearT Counter "
    "EPOCH_DEPRECATION_WARNING PARAM_LIST argument_validation datapipes graph graph_settings "
    "guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled "
    "Optimizer Tensor invert_permutation type_before_parametrizations inf"
}
OTHER_PARAMETERS = {  # what is called in another way, and why
    "Parameter": "",
    "PackedSequence": "holds the padded tensor and lengths, which have a static shape",
    "ParametrizationList": "made by register_parametrization alone",
    "autocast": "",
    "normalize": "out= would write to a tensor",
    "Hardtanh": "min_value and max_value are older names of min_val and max_val",
    "Transformer": "",
    "linear_cross_entropy": "options choose how PyTorch cuts the product",
    "get_total_norm": "foreach chooses among PyTorch's implementations",
    "spectral_norm": "",
    "random_split": "",
    **dict.fromkeys(("softmax", "softmin", "log_softmax"), "dtype is behind a parameter of PyTorch's own"),
}
UNCHECKED = {"_stacklevel", "out", "min_value", "max_value", "options"}
VALUE_LESS = (types.ModuleType, str, tuple, dict, list, int, float, bool)


def names(module: Any) -> list[str]:
    results = []
    for name in sorted({*getattr(module, "__all__", ()), *(n for n in dir(module) if not n.startswith("_"))}):
        value = getattr(module, name, None)
        inside = isinstance(value, types.ModuleType) and value.__name__.startswith(module.__name__)
        own = not isinstance(value, VALUE_LESS) and (getattr(value, "__module__", "") or "torch").startswith("torch")
        if (inside or own) and not name.startswith("_"):
            results.append(name)
    return [name for name in results if name not in " ".join(NO_API).split()]


@pytest.mark.parametrize("path", MODULES)
def test_names_are_here_or_have_a_hint(path: str) -> None:
    missing = []
    for name in names(importlib.import_module(path)):
        try:
            getattr(MODULES[path], name)
        except AttributeError as error:
            if "hint: write" not in str(error):
                missing.append(name)
    assert not missing


def positional(function: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    inputs = inspect.signature(function).parameters.values()
    return [p.name for p in inputs if p.kind in kinds and p.name != "self" and p.name not in UNCHECKED]


@pytest.mark.parametrize(
    "path", ["torch.nn", "torch.nn.functional", "torch.nn.init", "torch.optim", "torch.utils.data"]
)
def test_parameters_have_the_names_and_order(path: str) -> None:
    different = {}
    theirs = importlib.import_module(path)
    for name in names(theirs):
        mine = getattr(MODULES[path], name, None)
        try:
            wanted, actual = positional(getattr(theirs, name)), positional(mine)
        except (TypeError, ValueError):  # no signature
            continue
        if "args" in inspect.signature(getattr(theirs, name)).parameters or name in OTHER_PARAMETERS:
            continue
        if name.endswith("_with_indices"):  # whose return_indices changes nothing in PyTorch
            continue
        if actual[: len(wanted)] != wanted:
            different[name] = (wanted, actual)
    assert not different


def test_forward_has_the_names() -> None:
    different = {}
    for name in torch.nn.modules.__all__:
        mine = getattr(jg.nn, name, None)
        if mine is None or name.startswith("Lazy") or not hasattr(mine, "forward"):
            continue
        wanted = [n for n in positional(getattr(torch.nn, name).forward) if n not in ("args", "kwargs")]
        result = positional(mine.forward)
        if result[: len(wanted)] != wanted:
            different[name] = (wanted, result)
    assert not different


@pytest.mark.parametrize(
    "pair",
    [
        (torch.nn.Linear(2, 2), jg.nn.Linear(2, 2)),
        (torch.nn.ModuleDict(), jg.nn.ModuleDict()),
        (torch.nn.ParameterDict(), jg.nn.ParameterDict()),
        (torch.nn.LSTM(2, 2), jg.nn.LSTM(2, 2)),
        (torch.nn.BatchNorm2d(2), jg.nn.BatchNorm2d(2)),
        (torch.nn.ConvTranspose1d(2, 2, 2), jg.nn.ConvTranspose1d(2, 2, 2)),
        (torch.utils.data.DataLoader([1]), jg.data.DataLoader([1])),
        (torch.utils.data.RandomSampler([1]), jg.data.RandomSampler([1])),
        (torch.optim.Adam([torch.nn.Parameter(torch.ones(1))]), jg.optim.Adam([jg.nn.Parameter(jg.ones(1))])),
    ],
    ids=lambda pair: type(pair[0]).__name__,
)
def test_attributes_and_methods_are_here_or_have_a_hint(pair: tuple[Any, Any]) -> None:
    inner = {
        "T_destination",
        "call_super_init",
        "dump_patches",
        "check_forward_args",
        "check_hidden_size",
        "check_input",
        "get_expected_cell_size",
        "get_expected_hidden_size",
        "permute_hidden",
        "check_worker_number_rationality",
        "OptimizerPostHook",
        "OptimizerPreHook",
        "profile_hook_step",
        "multiprocessing_context",
        "forward",
    }
    theirs, mine = pair
    missing = []
    for name in set(dir(theirs)) - inner:
        if name.startswith("_") and name not in ("_modules", "_parameters", "_buffers", "_load_from_state_dict"):
            continue
        try:
            getattr(mine, name)
        except AttributeError as error:
            if "hint: write" not in str(error):
                missing.append(name)
    assert not missing
