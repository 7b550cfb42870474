"""Objects of C sources come from the compile cache where nothing that they are made of has changed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from jitgraph.runtime import c_compiler
from jitgraph.runtime.c_compiler import build_object, build_shared

pytestmark = pytest.mark.skipif(c_compiler.c_compiler() is None, reason="there is no C compiler")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The commands that ran so far, under a cache of its own."""
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> Any:
        commands.append(command)
        return subprocess.run(command, **options)

    monkeypatch.setattr(c_compiler, "subprocess", type("", (), {"run": staticmethod(run)}))
    return commands


def test_an_object_is_compiled_once_for_its_texts_and_flags(runs: list[list[str]], tmp_path: Path) -> None:
    source, header, target = tmp_path / "a.c", tmp_path / "a.h", tmp_path / "a.o"
    source.write_text('#include "a.h"\nint f(void) { return SEVEN; }\n')
    header.write_text("#define SEVEN 7\n")
    assert build_object(source, [header], target) == ""
    made = target.read_bytes()
    target.unlink()
    assert build_object(source, [header], target) == ""
    assert len(runs) == 1 and target.read_bytes() == made
    assert build_object(source, [header], target, "-O2") == "" and len(runs) == 2
    header.write_text("#define SEVEN 8\n")
    assert build_object(source, [header], target) == "" and len(runs) == 3
    assert target.read_bytes() != made
    assert build_shared([target], tmp_path / "a.so") == ""


def test_what_fails_is_not_stored(runs: list[list[str]], tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int f(void) { return missing; }\n")
    for _ in range(2):
        assert "missing" in build_object(source, [], tmp_path / "a.o")
    assert len(runs) == 2


def test_without_a_compiler_there_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="no C compiler"):
        build_object(tmp_path / "a.c", [], tmp_path / "a.o")
