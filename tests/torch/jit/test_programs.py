"""Programs that PyTorch scripts and traces, where it is installed: eager, traced, saved, gradients, training mode."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.torch import jit
from tests.torch.jit.records import require_same

torch = pytest.importorskip("torch")
programs = pytest.importorskip("tests.torch.jit.programs")
PROGRAMS = programs.PROGRAMS
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

UNTRACED = {
    "indexing": "boolean mask",  # the number of elements depends on values
    "detection": "how often this appends",
}
UNSAVED = {
    **UNTRACED,
    "numbers": "the number inf",
}
LEARNING = (
    "mlp",
    "conv_net",
    "resnet_traced",
    "recurrent_traced",
    "gpt",
    "scripted_lstm",
    "mixture",
    "vae",
    "unet",
    "spatial",
)


def given(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return jg.asarray(value)
    if isinstance(value, list | tuple):
        return type(value)(map(given, value))
    return {key: given(item) for key, item in value.items()} if isinstance(value, dict) else value


def arguments(name: str) -> Any:
    return given(programs.plain(PROGRAMS[name].args))


@functools.cache
def archive(name: str, train: bool = False) -> bytes:
    file = io.BytesIO()
    torch.jit.save(programs.made(name, train=train), file)
    return file.getvalue()


def both(name: str, *, train: bool = False) -> tuple[Any, Any]:
    """PyTorch's module, and the one that is read from the archive of it."""
    data = archive(name, train)
    return torch.jit.load(io.BytesIO(data)), jit.load(io.BytesIO(data))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str, tmp_path: Path) -> None:
    theirs, ours = both(name)
    program = PROGRAMS[name]
    with torch.no_grad(), jg.no_grad():
        result = programs.plain(theirs(*program.args))
        args = arguments(name)
        require_same(ours(*args), result)
        for method, parameters in program.methods.items():
            expected = programs.plain(getattr(theirs, method)(*parameters))
            require_same(getattr(ours, method)(*given(programs.plain(parameters))), expected)
        traced = jg.trace(jit.load(io.BytesIO(archive(name))))
        if name in UNTRACED:
            with pytest.raises((jg.errors.ScriptError, jg.errors.UnsupportedOp), match=UNTRACED[name]):
                traced(*args)
            return
        for _ in range(1 if name == "vad" else 2):
            require_same(traced(*arguments(name)), result)
        if name in UNSAVED:
            with pytest.raises(jg.errors.JitgraphError, match=UNSAVED[name]):
                jg.save(traced, tmp_path / "model.jg", example_inputs=args)
            return
        jg.save(traced, tmp_path / "model.jg", example_inputs=args)
        jg.load(tmp_path / "model.jg")


@pytest.mark.parametrize("name", LEARNING)
def test_gradients(name: str) -> None:
    """Of all parameters, in training mode, with the statistics that it changes."""
    theirs, ours = both(name, train=True)
    first = _first(theirs(*PROGRAMS[name].args))
    (first * torch.linspace(-1, 1, first.numel()).reshape(first.shape)).sum().backward()
    expected = {key: programs.plain(parameter.grad) for key, parameter in theirs.named_parameters()}

    def step(*args: Any) -> None:
        y = _first(ours(*args))
        weights = jg.reshape(jg.linspace(-1, 1, y.numel(), dtype=jg.float32), tuple(y.shape))
        jg.sum(y * weights).backward()

    step(*arguments(name))
    actual = {key: np.asarray(parameter.grad) for key, parameter in ours.named_parameters()}
    assert sorted(actual) == sorted(expected)
    for key, value in expected.items():
        if value is None:  # of a parameter that the result does not depend on
            assert actual[key].item() is None
        else:
            np.testing.assert_allclose(actual[key], value, rtol=1e-3, atol=1e-4, err_msg=key)
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(np.asarray(ours.state_dict()[key]), value.numpy(), rtol=1e-4, atol=1e-5)


def _first(result: Any) -> Any:
    return _first(result[0]) if isinstance(result, tuple) else result


def test_what_the_programs_ask_for_is_known() -> None:
    """Every operator that PyTorch's own layers name, but for one; another stands in a text."""
    from jitgraph.torch.torchscript import operators

    absent = set()
    for name in PROGRAMS:
        ours = jit.load(io.BytesIO(archive(name)))
        code = type(ours).script_methods["forward"].program
        for operator in code.sources.operators():
            space, _, base = f"aten.{operator}".rpartition(".")
            if operators.lookup(f"{space.removeprefix('aten.')}::{base}", code.dialect) is None:
                absent.add(operator)
    assert absent - {"prim.RaiseException"} <= {"_upsample_lanczos2d_aa", "backends.mha.get_fastpath_enabled"}


def test_extra_files() -> None:
    file = io.BytesIO()
    torch.jit.save(programs.made("branch"), file, _extra_files={"labels.txt": "cat,dog"})
    file.seek(0)
    extra = {"labels.txt": "", "absent": ""}
    jit.load(file, _extra_files=extra)
    assert extra == {"labels.txt": b"cat,dog", "absent": ""}
