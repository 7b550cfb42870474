"""Training steps of whole models on a simulated GPU: the CPU's bits where sums keep their order, else near them.

``make nightly`` runs all of it, in sizes that give rows of several warps, tiles and parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from jitgraph.eager import device_emitter
from jitgraph.ir.target import Target
from jitgraph.runtime.cuda.devices import Device
from jitgraph.runtime.cuda.modules import LoadedModule, Modules
from tests.codegen.cuda.assembled import PROCESSORS, assemble, needs_ptxas
from tests.cuda.models import ENCODER_RATE, MODELS, NETWORK_KINDS, OPTIMIZERS, trained
from tests.cuda.places import Machine, machine
from tests.graphs import needs_native
from tests.runtime.cuda import machines

pytestmark = needs_native

ALL = os.environ.get("CUDA_MODELS") == "all"
STEPS = 3

NETWORKS = {f"{kind}_{optimizer}" for kind in NETWORK_KINDS for optimizer in OPTIMIZERS}
"""Of these each is trained with one optimizer outside of ``make nightly``."""

SHORT = ("gpt_adam", "classifier_sgd", "resnet_adam", "words_sgd")

TRACED = [name for name in MODELS if ALL or name not in NETWORKS or name in SHORT]

EAGER = tuple(MODELS) if ALL else ("digits", "lstm_scan")

FREE_BOUNDS = {"digits": 3e-5, "cnn": 1e-4, "encoder": 1e-3, "encoder_bfloat16": 5e-3, "lstm": 1e-4}
"""What losses and parameters may differ by after the steps, relative to the largest of their tensor, in any order."""

TURNED = {"encoder_bfloat16": 5e-3}
"""The share of parameters that may differ by more: where a gradient is so near 0 that rounding to bfloat16 turns its
sign, Adam's steps, of the learning rate each, go the other way."""

SHORT_SUMS = {"digits", "lstm"}
"""Models of these sizes whose sums are split alike either way, so that their bits are the same."""

nightly = pytest.mark.skipif(not ALL, reason="large models are trained in make nightly")


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    with machine(hides=True, must_end_clean=False) as actual:
        yield actual


def require_equal_steps(name: str, *, traced: bool) -> None:
    expected = trained(name, "cpu", traced=traced, steps=STEPS, large=ALL)
    result = trained(name, "cuda", traced=traced, steps=STEPS, large=ALL)
    for number, (want, got) in enumerate(zip(expected, result, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"value {number}")
    assert expected[0] != expected[STEPS - 1]


@pytest.mark.parametrize("name", TRACED)
def test_traced_steps_have_the_bits_of_the_cpu(here: Machine, name: str) -> None:
    require_equal_steps(name, traced=True)


@pytest.mark.parametrize("name", EAGER)
def test_eager_steps_have_the_bits_of_the_cpu(here: Machine, name: str) -> None:
    require_equal_steps(name, traced=False)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """The PTX of the models' steps; on devices of its own, which have loaded nothing yet."""
    results: dict[str, None] = {}
    load = Modules.load

    def noted(modules: Modules, ptx: bytes, llvm_ir: str = "") -> LoadedModule:
        results[ptx.decode()] = None
        return load(modules, ptx, llvm_ir)

    with pytest.MonkeyPatch.context() as patch, machines.machine(must_end_clean=False):
        patch.setattr(Modules, "load", noted)
        for name in MODELS if ALL else ("digits",):
            trained(name, "cuda", traced=True, steps=1, large=ALL)
    return list(results)


@needs_ptxas
@pytest.mark.parametrize("arch", PROCESSORS)
def test_kernels_of_models_spill_nothing(texts: list[str], arch: str) -> None:
    used = assemble(texts, arch)
    assert len(used) > 10
    assert not [function for function in used if function.spilled]


@nightly
@pytest.mark.parametrize("name", FREE_BOUNDS)
def test_steps_whose_sums_go_in_any_order_are_near(here: Machine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(name, "cuda", traced=True, steps=STEPS, large=True)
    in_order = device_emitter.target_of

    def in_any_order(device: Device) -> Target:
        return in_order(device).in_any_order()

    monkeypatch.setattr(device_emitter, "target_of", in_any_order)
    result = trained(name, "cuda", traced=True, steps=STEPS, large=True)
    beyond = 0
    for want, got in zip(expected, result, strict=True):
        bound = FREE_BOUNDS[name] * max(1e-3, float(np.abs(want).max()))
        beyond += int(np.sum(np.abs(got - want) > bound))
        np.testing.assert_allclose(
            got, want, rtol=0, atol=bound + (2 * STEPS * ENCODER_RATE if name in TURNED else 0.0)
        )
    assert beyond <= TURNED.get(name, 0.0) * sum(want.size for want in expected)
    differs = any((want != got).any() for want, got in zip(expected, result, strict=True))
    assert differs == (name not in SHORT_SUMS)
