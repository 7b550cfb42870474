"""A traced function that forks, runs another process or starts a thread does so once at each call, and nothing of what
runs there is part of the function."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import jitgraph as jg

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

X = jg.ones(2)
counts = {"hooks": 0, "calls": 0}
watching = {"now": False}


class Hook:
    def __call__(self) -> None:
        note(1)


def note(number: int) -> None:
    if watching["now"]:
        counts["hooks"] += number


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=Hook(), after_in_parent=functools.partial(note, 1), after_in_child=lambda: note(1))


@pytest.fixture(autouse=True)
def watched() -> Any:
    counts.update(hooks=0, calls=0)
    watching["now"] = True
    yield
    watching["now"] = False


def fork() -> None:
    os.waitpid(os.fork() or os._exit(0), 0)


def under_another_name(x: Any) -> Any:
    again = os.fork
    os.waitpid(again() or os._exit(0), 0)
    return x + 1


def forking(x: Any) -> Any:
    fork()
    return x + 1


def forking_in_a_library(x: Any) -> Any:
    subprocess.run([sys.executable, "-c", "0"], preexec_fn=lambda: None, check=True)
    return x + 1


@pytest.mark.parametrize("function", [forking, under_another_name, forking_in_a_library])
def test_hooks_of_forks_are_not_followed(function: Any) -> None:
    traced = jg.trace(function)
    with pytest.warns(RuntimeWarning, match="what another process does") as caught:
        assert traced(X).tolist() == [2.0, 2.0]
    assert not any("watching" in str(warning.message) for warning in caught)
    assert counts["hooks"] == 2  # one before, one behind the one fork
    plan = traced.lower(X).plan
    assert not any(name in f"{guard}" for guard in plan.guards for name in ("watching", "counts"))
    assert plan.effects == ()


def append(path: str) -> list[str]:
    """A command that writes a line to a file."""
    return [sys.executable, "-c", f"print('run', file=open({path!r}, 'a'))"]


def forked(path: str) -> None:
    if not (child := os.fork()):
        with open(path, "a") as file:
            file.write("run\n")
        os._exit(0)
    os.waitpid(child, 0)


def threaded(path: str) -> None:
    def write() -> None:
        with open(path, "a") as file:
            file.write("run\n")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    "start",
    [
        forked,
        threaded,
        lambda path: os.system(f"echo run >> {path}"),
        lambda path: subprocess.Popen(append(path)).wait(),
        lambda path: subprocess.check_output(append(path)),
    ],
)
@pytest.mark.filterwarnings("ignore:each call of:RuntimeWarning")
def test_it_is_done_once_at_each_call(start: Any, tmp_path: Path) -> None:
    """Also where the function counts its calls, so that a number of its state varies."""
    file = tmp_path / "runs"

    def function(x: Any) -> Any:
        start(str(file))
        counts["calls"] += 1
        return x * counts["calls"]

    traced = jg.trace(function)
    for number in range(1, 4):
        assert traced(X).tolist() == [number, number]
        assert file.read_text() == "run\n" * number


def test_finders_of_modules_are_no_part_of_the_function(tmp_path: Path) -> None:
    program = """
import sys
import jitgraph as jg

class Finder:
    asked = []

    def find_spec(self, name, path, target=None):
        if name in sys.modules:  # as absl's does
            raise ImportError(name)
        Finder.asked.append(name)
        return None

sys.meta_path.insert(0, Finder())

@jg.trace
def f(x):
    import colorsys, wave
    return jg.nn.functional.layer_norm(x, (4,)) * colorsys.ONE_THIRD

for _ in range(3):
    f(jg.ones((2, 4)))
print("wave" in Finder.asked, f.cache_info().hits, f.cache_info().misses)
"""
    path = tmp_path / "program.py"
    path.write_text(program)
    environment = {**os.environ, "JITGRAPH_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):
        ran = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=300)
        assert ran.stdout == "True 2 1\n", ran.stderr[-3000:]


def test_what_the_code_of_a_module_runs_is_no_part_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_settings.py").write_text("LEVEL = 3\ndef level():\n    return LEVEL\n")
    (tmp_path / "late_module.py").write_text(
        "import late_settings\nfrom dataclasses import dataclass\nLEVEL = late_settings.level()\n"
        "@dataclass\nclass Pair:\n    a: int = 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    @jg.trace
    def f(x: jg.Tensor) -> jg.Tensor:
        module = importlib.import_module("late_module")
        return x * module.LEVEL + module.Pair().a

    settings: Any = importlib.import_module("late_settings")
    try:
        assert f(jg.asarray(1.0)).item() == 5
        misses = f.cache_info().misses
        settings.LEVEL = 4  # the module is not run again
        assert f(jg.asarray(1.0)).item() == 5 and f.cache_info().misses == misses
    finally:
        for name in ("late_settings", "late_module"):
            sys.modules.pop(name, None)
