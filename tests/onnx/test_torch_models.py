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
DEEP = ("tv_", "timm_")
"""Models so deep that float32 leaves PyTorch's own gradients 1e-3 from the exact ones."""


@pytest.mark.parametrize("name", NAMES if CHOSEN == "all" else CHOSEN.split(","))
def test_a_model_of_pytorch(name: str, tmp_path: Path) -> None:
    exported = made(name)
    session = session_of(exported.file)
    arrays = [arg.detach().numpy() for arg in exported.args]
    arguments = dict(zip((each.name for each in session.get_inputs()), arrays, strict=True))
    expected = session.run(None, arguments)
    plain = session_of(exported.file, is_optimised=False).run(None, arguments)
    close = max(CLOSE, 3 * distance_of(plain, expected))  # ONNX Runtime itself is as far, where rounding grows
    module = jg.onnx.load(exported.file)
    with jg.no_grad():
        assert distance_of(module.forward(*arrays), expected) < close
        assert distance_of(module(*arrays), expected) < close
    _check_gradients(exported, module, arrays, CLOSE * (20 if name.startswith(DEEP) else 1))
    jg.save(module, tmp_path / "model.jg", example_inputs=tuple(arrays))
    results = jg.load(tmp_path / "model.jg")(*arrays)
    assert distance_of(results if isinstance(results, tuple) else (results,), expected) < close


def _check_gradients(exported: Exported, module: Any, arrays: list[Any], close: float) -> None:
    """Of a weighted sum of the results: those of the arguments, and of parameters that go by PyTorch's names."""
    model, args = exported.model, [arg.detach().clone() for arg in exported.args]
    floating = [i for i, arg in enumerate(args) if arg.is_floating_point()]
    for i in floating:
        args[i].requires_grad_()
    theirs = _floats(model(*args), torch.Tensor)
    weights = [torch.randn(each.shape) for each in theirs]
    sum((each * weight).sum() for each, weight in zip(theirs, weights, strict=True)).backward()
    factors = [weight.numpy() for weight in weights]
    inputs = {i: jg.asarray(array, requires_grad=i in floating) for i, array in enumerate(arrays)}

    @jg.trace
    def loss(*given: Any) -> Any:
        results = _floats(module(*given), jg.Tensor)
        return sum((each * factor).sum() for each, factor in zip(results, factors, strict=True))

    loss(*inputs.values()).backward()
    pairs = [(inputs[i].grad, args[i].grad, f"argument {i}") for i in floating]
    parameters = {name: value.detach().numpy() for name, value in model.named_parameters()}
    gradients = {name: value.grad for name, value in model.named_parameters()}
    by_id = {id(value): name for name, value in model.named_parameters()}
    tied = {
        by_id[id(value)] for name, value in model.named_parameters(remove_duplicate=False) if name not in by_id.values()
    }
    for _, value in module.named_parameters():
        own = value.detach().numpy()
        twins = [(name, other) for name, other in parameters.items() if other.shape in (own.shape, own.shape[::-1])]
        same = [name for name, other in twins if other.shape == own.shape and np.array_equal(other, own)]
        turned = [name for name, other in twins if other.ndim == 2 and np.array_equal(other.T, own)]
        if len({*same, *turned}) == 1 and (*same, *turned)[0] not in tied:  # equal ones are written once, norms folded
            name = (*same, *turned)[0]
            gradient = gradients[name]
            pairs.append((value.grad, gradient if same or gradient is None else gradient.T, name))
    assert pairs
    scale = max(float(theirs.abs().max()) for _, theirs, _ in pairs if theirs is not None)
    for ours, expected, what in pairs:
        if expected is None:
            assert ours is None or not np.any(ours.numpy()), what
        else:
            assert np.abs(ours.numpy() - expected.numpy()).max() <= close * max(1.0, scale), what


def _floats(value: Any, kind: type) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _floats(item, kind)]
    return [value] if isinstance(value, kind) and (value.dtype in (torch.float32, jg.float32)) else []
