"""Models that PyTorch exports as ONNX: equal to ONNX Runtime, with PyTorch's gradients, and saved.

``ONNX_TORCH_MODELS=all`` takes all models, as the nightly run does, else a few; a list of names takes these.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from tests.onnx.shipped_models import distance_of, session_of  # noqa: E402 - needs ONNX Runtime
from tests.onnx.torch_models import NAMES, Exported, made  # noqa: E402 - needs torch

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, about its own ways
CHOSEN = os.environ.get("ONNX_TORCH_MODELS", "mlp,legacy_mlp,choice,dynamic_batch")
CLOSE = 1e-4


@pytest.mark.parametrize("name", NAMES if CHOSEN == "all" else CHOSEN.split(","))
def test_a_model_of_pytorch(name: str, tmp_path: Path) -> None:
    exported = made(name)
    session = session_of(exported.file)
    arrays = [arg.detach().numpy() for arg in exported.args]
    arguments = dict(zip((each.name for each in session.get_inputs()), arrays, strict=True))
    expected = session.run(None, arguments)
    module = jg.onnx.load(exported.file)
    with jg.no_grad():
        assert distance_of(module.forward(*arrays), expected) < CLOSE
        assert distance_of(module(*arrays), expected) < CLOSE
    _check_gradients(exported, module, arrays)
    jg.save(module, tmp_path / "model.jg", example_inputs=tuple(arrays))
    results = jg.load(tmp_path / "model.jg")(*arrays)
    assert distance_of(results if isinstance(results, tuple) else (results,), expected) < CLOSE


def _check_gradients(exported: Exported, module: Any, arrays: list[Any]) -> None:
    """Of a weighted sum of the results: those of the arguments, and of parameters that go by PyTorch's names."""
    model, args = exported.model, [arg.detach().clone() for arg in exported.args]
    floating = [i for i, arg in enumerate(args) if arg.is_floating_point()]
    for i in floating:
        args[i].requires_grad_()
    theirs = _floats(model(*args), torch.Tensor)
    weights = [torch.randn(each.shape) for each in theirs]
    sum((each * weight).sum() for each, weight in zip(theirs, weights, strict=True)).backward()
    factors = [weight.numpy() for weight in weights]
    own = {i: jg.asarray(array, requires_grad=i in floating) for i, array in enumerate(arrays)}

    @jg.trace
    def loss(*inputs: Any) -> Any:
        results = _floats(module(*inputs), jg.Tensor)
        return sum((each * factor).sum() for each, factor in zip(results, factors, strict=True))

    loss(*own.values()).backward()
    pairs = [(own[i].grad, args[i].grad, f"argument {i}") for i in floating]
    parameters = {name: value.detach().numpy() for name, value in model.named_parameters()}
    gradients = {name: value.grad for name, value in model.named_parameters()}
    for name, value in module.named_parameters():
        twins = [key for key, other in parameters.items() if np.array_equal(other, value.detach().numpy())]
        if twins == [name]:  # the exporter folds norms into weights, and names equal ones once
            pairs.append((value.grad, gradients[name], name))
    assert pairs
    scale = max(float(theirs.abs().max()) for _, theirs, _ in pairs if theirs is not None)
    for ours, expected, what in pairs:
        if expected is None:
            assert ours is None or not np.any(ours.numpy()), what
        else:
            assert np.abs(ours.numpy() - expected.numpy()).max() <= CLOSE * max(1.0, scale), what


def _floats(value: Any, kind: type) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _floats(item, kind)]
    return [value] if isinstance(value, kind) and (value.dtype in (torch.float32, jg.float32)) else []
