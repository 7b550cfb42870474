"""Each layer and loss of ``tests/models``, forward and backward: what a GPU gives is what the CPU gives.

``make nightly`` runs every case; else it is one of each kind.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.cuda.places import Machine, machine
from tests.models.case import Array, LayerCase
from tests.models.compare import leaves

KINDS = (
    *("activation", "attention", "convolution", "layer", "loss", "network", "norm"),
    *("parametrized", "pooling", "recurrent"),
)
ALL = os.environ.get("CUDA_MODELS") == "all"
SHORT = (
    *("PReLU, channels", "EmbeddingBag, 7, 3, mode=max", "BatchNorm2d, 6, train", "CTCLoss, zero_infinity=True"),
    *("scaled_dot_product_attention, a row that sees nothing", "pdist", "orthogonal, tall"),
    *("AvgPool1d, kernel_size=3, stride=2, padding=1, ceil_mode=True", "MaxUnpool2d"),
    *("FractionalMaxPool2d, kernel_size=2, output_size=3", "GRU, bidirectional=True, num_layers=2, lengths"),
)
ON_THE_HOST = ("orthogonal, square", "orthogonal, wide by the exponential", "orthogonal, tall by Cayley's map")
"""They call matrix_exp or solve, which GPUs do not have."""
CASES = [
    case
    for kind in KINDS
    for case in importlib.import_module(f"tests.models.{kind}_cases").CASES
    if isinstance(case, LayerCase) and (ALL or case.name in SHORT) and case.name not in ON_THE_HOST
]


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    with machine(must_end_clean=False) as actual:
        yield actual


class _On:
    """The library as cases use it, whose arrays from NumPy lie on a device."""

    __name__ = "jitgraph"

    def __init__(self, device: str) -> None:
        self.place = device

    def __getattr__(self, name: str) -> Any:
        return getattr(jg, name)

    def asarray(self, array: Any) -> Any:
        return jg.asarray(array, device=self.place)


def outcome(case: LayerCase, device: str, state: dict[str, Array] | None) -> tuple[list[Any], dict[str, Array]]:
    """Results, gradients and buffers, and the state dict before the call."""
    jg.random.seed(3)
    module: Any = case.make(jg)
    before: dict[str, Array] = {}
    if isinstance(module, jg.nn.Module):
        module.double().train(case.mode == "train")
        before = {name: np.array(array) for name, array in module.state_dict().items()}
        if state is not None:
            module.load_state_dict(state)
        module.to(device)
    inputs = [jg.asarray(x, dtype=x.dtype, device=device) for x in case.inputs]
    for number, x in enumerate(inputs):
        if x.dtype == jg.float64 and number not in case.fixed:
            x.requires_grad_()
    outputs = list(leaves(case.call(_On(device), module, *inputs)))
    floats = [x for x in outputs if x.dtype != jg.int64]  # lengths of sequences lie where they were given
    assert {x.device.partition(":")[0] for x in floats} <= {device.partition(":")[0]}
    if terms := [(x * jg.cos(x.detach())).sum() for x in outputs if x.requires_grad]:
        sum(terms[1:], start=terms[0]).backward()
    results: list[Any] = [*outputs, *(x.grad for x in inputs)]
    if isinstance(module, jg.nn.Module):
        results += [*(p.grad for p in module.parameters()), *module.buffers()]
    return [None if x is None else np.array(x.detach().cpu().numpy()) for x in results], before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_layer_gives_on_a_device_what_it_gives_on_the_cpu(here: Machine, case: LayerCase) -> None:
    wanted, state = outcome(case, "cpu", None)
    actual, _ = outcome(case, "cuda:0", state)
    assert len(actual) == len(wanted)
    for number, (x, y) in enumerate(zip(actual, wanted, strict=True)):
        if x is None or y is None:
            assert x is y, f"value {number}"
        else:
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9, err_msg=f"value {number}")
