"""Faults of the compiler, injected in every stage: CompileError with the op, the line and the graph in a file."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import compilation
from jitgraph.codegen.cpu import entry
from jitgraph.codegen.llvm.builder import Definition
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.ir.parser import parse
from jitgraph.ops import OPS
from jitgraph.passes import pipeline

X = jg.asarray(np.array([3.0, 1.0, 2.0]))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path


def sorted_sines(x: Any) -> Any:
    return jg.sort(
        jg.sin(x)  # line of sin
        * 2.0
    ).sum()  # line of sort


def line_of(comment: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# line of {comment}"))


def failure(function: Any = sorted_sines) -> jg.errors.CompileError:
    with pytest.raises(jg.errors.CompileError) as caught:
        jg.trace(function)(X)
    return caught.value


def require_report(error: jg.errors.CompileError, folder: Path, *, says: str) -> None:
    text = str(error)
    assert re.search(says, text), text
    assert error.__cause__ is not None and type(error.__cause__).__name__ in text
    (path,) = folder.iterdir()
    assert str(path) in text
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    kept = path.read_text()
    assert "Traceback" in kept and type(error.__cause__).__name__ in kept
    names = {node.op.name for node in parse(kept).walk()}
    assert {"sin", "sort"} <= names  # the graph as it was recorded, which can be compiled again


def test_lowering(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CPU.anchors, "sort", None)  # type: ignore[arg-type,misc]
    error = failure()
    require_report(error, folder, says=r"compile sort, in the stage select: TypeError")
    assert error.location is not None and error.location.line in range(line_of("sin") - 1, line_of("sort") + 1)


def test_gradient_rule(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = dict.__getitem__  # raises TypeError for what it is given here
    before = OPS["sin"].vjp
    object.__setattr__(OPS["sin"], "vjp", rules)
    try:
        error = failure(jg.grad(sorted_sines))
        require_report(error, folder, says=r"compile the gradient of sin, in the stage passes: TypeError")
        assert error.location is not None and error.location.line in range(line_of("sin") - 1, line_of("sort") + 1)
        for path in folder.iterdir():
            path.unlink()
        with pytest.raises(jg.errors.CompileError) as caught:  # the halves of a call on the tape
            jg.trace(sorted_sines)(jg.asarray(np.ones(3), requires_grad=True))
        require_report(caught.value, folder, says=r"compile the gradient of sin, in the stage gradient: TypeError")
    finally:
        object.__setattr__(OPS["sin"], "vjp", before)


def test_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_BEFORE_FUSION", (*pipeline.PIPELINE[:2], len))
    require_report(failure(), folder, says=r"compile the graph, in the stage passes: TypeError")


def test_fusion(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitgraph.passes.fuse.common_form", {}.__getitem__)
    require_report(failure(), folder, says=r"compile the graph, in the stage fuse: TypeError")


def test_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "plan_memory", None)
    require_report(failure(), folder, says=r"compile the graph, in the stage memory: TypeError")


def test_emission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "emit_kernel", [].index)
    error = failure()
    require_report(error, folder, says=r"compile the kernel \w+, in the stage emit: (TypeError|ValueError)")
    assert error.location is not None and error.location.line in range(line_of("sin") - 1, line_of("sort") + 1)


def test_llvm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Definition.text
    monkeypatch.setattr(Definition, "text", lambda *args, **how: text(*args, **how).replace("ret i32 0", "ret i32 no"))
    require_report(failure(), folder, says=r"compile the graph, in the stage llvm: RuntimeError: LLVM")


def test_verifier(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")
    monkeypatch.setattr("jitgraph.codegen.kernels.schedule_verifier.verify_schedule", {}.pop)
    require_report(failure(), folder, says=r"compile the graph, in the stage verify: KeyError")


def test_what_cannot_be_kept_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder / "missing"))
    monkeypatch.setattr(compilation, "plan_memory", None)
    assert re.search(r"its graph could not be kept: .*missing", str(failure()))


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, jg.errors.ShapeError])
def test_what_is_no_fault_passes(kind: type[BaseException], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def plan_memory(*args, **options): raise kind('as it was')"
    space: dict[str, Any] = {"__name__": "jitgraph.codegen.kernels.memory", "kind": kind}
    exec(text, space)
    monkeypatch.setattr(compilation, "plan_memory", space["plan_memory"])
    with pytest.raises(kind, match="as it was"):
        jg.trace(sorted_sines)(X)
    assert not list(folder.iterdir())


def test_what_the_users_code_raises_in_between_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler runs wherever the interpreter stands: its exception is the user's."""

    class Stop(Exception):
        pass

    def handler(*args: Any) -> Any:
        raise Stop

    monkeypatch.setitem(CPU.anchors, "sort", handler)  # type: ignore[misc]
    with pytest.raises(Stop):
        jg.trace(sorted_sines)(X)
    assert not list(folder.iterdir())


def test_faults_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    function = jg.trace(sorted_sines)
    with monkeypatch.context() as patched:
        patched.setattr(compilation, "plan_memory", None)
        with pytest.raises(jg.errors.CompileError):
            function(X)
    np.testing.assert_allclose(function(X).numpy(), 2 * np.sin([3.0, 1.0, 2.0]).sum())
