"""The help of every command, as 80 columns without colour show it; ``pytest --bless`` writes it anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")

from jitgraph.cli import main
from jitgraph.cli.application import CACHE_COMMANDS, COMMANDS

GOLDEN = Path(__file__).parent / "help"
NAMES = ["", *(name for _, name, _, _ in COMMANDS), "cache", *(f"cache {name}" for _, name, _, _ in CACHE_COMMANDS)]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.parametrize("name", NAMES)
def test_help(name: str, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config) -> None:
    assert main([*name.split(), "--help"]) == 0
    text = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()).strip() + "\n"
    assert max(map(len, text.splitlines())) <= 80
    assert "Example: jitgraph" in text and "\x1b" not in text
    path = GOLDEN / f"{name.replace(' ', '_') or 'jitgraph'}.txt"
    if pytestconfig.getoption("--bless"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_every_golden_text_is_of_a_command() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {name.replace(" ", "_") or "jitgraph" for name in NAMES}


def test_each_command_is_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "command_line.md").read_text()
    for name in NAMES[1:]:
        assert f"jitgraph {name}" in guide, name


def test_examples_are_commands_with_options_that_exist() -> None:
    for function, name, _, example in (*COMMANDS, *CACHE_COMMANDS):
        words = example.split()
        assert words[0] == "jitgraph" and name in words[1:3] and function.__doc__


@pytest.mark.parametrize("words", ["--version", "--help", "info --help", "cache --help", "info missing.jg", "nonsense"])
def test_what_shows_no_model_imports_neither_numpy_nor_a_compiler(words: str, tmp_path: Path) -> None:
    """They take 60 to 150 ms, and NumPy alone took as long again."""
    code = (
        "import sys\n"
        "from jitgraph.cli import main\n"
        "assert not {'typer', 'rich'} & sys.modules.keys()\n"
        f"main({words.split()!r})\n"
        "heavy = {'numpy', 'llvmlite', 'jitgraph.ir', 'jitgraph.tensor', 'jitgraph.errors'}\n"
        "print(*sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "", done.stdout
