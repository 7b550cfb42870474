"""Traces from process to process: what is imported, gradients, many at once, and programs of all kinds run twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jitgraph.runtime import loader
from tests import ROOT

pytestmark = pytest.mark.skipif(not loader.cpu_levels(), reason="no native code here")

STEP = """
import sys
import numpy as np
import jitgraph as jg
from bench.digits_step import jitgraph_step
jg.cache.dir = FOLDER
generator = np.random.default_rng(0)
step = jg.trace(jitgraph_step())
x, y = jg.asarray(generator.random((64, 64), dtype=np.float32)), jg.asarray(generator.integers(0, 10, 64))
losses = [step(x, y).item() for _ in range(3)]
"""
TAPED = """
import sys
import numpy as np
import jitgraph as jg
x = jg.asarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)).requires_grad_()
w = jg.asarray(np.ones((4, 2), np.float32)).requires_grad_()
f = jg.trace(lambda x: (jg.tanh(x @ w) ** 2).sum())
f(x).backward()
"""
SAID = """
heavy = ("llvmlite", "networkx", "jitgraph.passes", "jitgraph.codegen", "jitgraph.tracing.record",
         "jitgraph.tracing.capture", "jitgraph.ir.parser", "jitgraph.tracing.cache.storing")
print(*[name for name in heavy if name in sys.modules])
"""


def child(code: str, folder: Path, **environment: str) -> str:
    """What ``code`` prints in a new process with this cache, where texts hash otherwise in each."""
    settled = {"JITGRAPH_CACHE_DIR": str(folder), "JITGRAPH_DISPATCH": "0", "PYTHONHASHSEED": "random"}
    known = {**os.environ, **settled, **environment}
    command = [sys.executable, "-c", code.replace("FOLDER", repr(str(folder)))]
    done = subprocess.run(command, env=known, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize(
    ("code", "shown"),
    [(STEP, "print(losses, step.cache_info().traces)"), (TAPED, "print(x.grad, w.grad, f.cache_info().traces)")],
    ids=["training step", "gradients of the caller"],
)
def test_a_process_that_finds_its_traces_imports_neither_compiler_nor_recorder(
    code: str, shown: str, tmp_path: Path
) -> None:
    first, *rest = [child(code + shown + SAID, tmp_path).splitlines() for _ in range(3)]
    assert "jitgraph.codegen" in first[-1] and first[-2].endswith(" 0")
    for again in rest:
        assert again[-1] == "", "nothing heavy is imported"
        assert again[-2].endswith(" 1")
        assert [*again[:-2], again[-2][:-1]] == [*first[:-2], first[-2][:-1]], (
            "and the results are the same, bit by bit"
        )


def test_gradients_of_gradients_and_reports_read_the_graph(tmp_path: Path) -> None:
    code = TAPED + (
        "(g,) = jg.autograd.grad(f(x), [x], create_graph=True)\n"
        "print(jg.autograd.grad((g * g).sum(), [w])[0].numpy().tolist(), f.cache_info().traces)\n"
        "said = str(jg.explain(f, x)).splitlines()\n"
        "print([line for line in said if ' ms' not in line], f.plans[0].graph)\n"
    )
    first, again = (child(code, tmp_path).splitlines() for _ in range(2))
    assert first[0].endswith(" 0") and again[0].endswith(" 1") and first[0][:-1] == again[0][:-1]
    assert first[1:] == again[1:]


def test_where_the_code_is_gone_the_graph_is_compiled(tmp_path: Path) -> None:
    shown = "print(losses, step.cache_info().traces)"
    first = child(STEP + shown, tmp_path)
    for path in tmp_path.iterdir():
        if b'{"plan"' not in path.read_bytes()[:200]:
            path.unlink()
    assert child(STEP + shown, tmp_path) == first.replace("] 0", "] 1")


def test_errors_tell_the_lines_of_now(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    text = "import jitgraph as jg\nf = jg.trace(lambda x, i: x[i])\ntry:\n    f(jg.ones(3), jg.asarray([7]))\n" + (
        "except IndexError as error:\n    print(error, f.cache_info().traces)\n"
    )
    program.write_text(text)
    run = f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')"
    first, again = (child(run, tmp_path / "cache") for _ in range(2))
    program.write_text("\n\n" + text)
    moved = child(run, tmp_path / "cache")
    assert "program.py:2" in first and again == first.replace(" 0\n", " 1\n")
    assert "program.py:4" in moved and moved.endswith(" 0\n")


def test_many_processes_at_once(tmp_path: Path) -> None:
    known = {**os.environ, "JITGRAPH_CACHE_DIR": str(tmp_path), "JITGRAPH_INTERPRET": "1"}
    command = [sys.executable, "-c", STEP.replace("FOLDER", repr(str(tmp_path))) + "print(losses)"]
    running = [
        subprocess.Popen(command, env=known, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    said = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 6, said
    assert len({out for out, _ in said}) == 1


PROGRAMS = """
import sys
from pathlib import Path
from tests.capture.draw import draw
from tests.capture.worlds import run
import jitgraph as jg
from jitgraph.tracing.call.function import TracedFunction
folder = Path(sys.argv[1])
jg.cache.dir = folder / "cache"
clear = TracedFunction.__init__
made = []
TracedFunction.__init__ = lambda self, *given: (clear(self, *given), made.append(self))[0]
for index in range(int(sys.argv[2]), int(sys.argv[3])):
    (folder / str(index)).mkdir(exist_ok=True)
    report = run(draw(index), folder / str(index))
    assert not report.failures, (index, report.failures)
print(sum(f.cache_info().traces for f in made), sum(f.cache_info().misses for f in made))
"""


def test_random_programs_agree_with_plain_calls_whoever_recorded_them(tmp_path: Path) -> None:
    """Their state, and what is edited between calls, is that of programs for capture; each runs in two processes."""
    count = int(os.environ.get("KEPT_PROGRAMS", "15"))
    known = {**os.environ, "JITGRAPH_CACHE_DIR": str(tmp_path / "cache"), "JITGRAPH_INTERPRET": "1"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAMS, str(tmp_path), "0", str(count)]
    results = []
    for _ in range(2):
        done = subprocess.run(command, env=known, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-4000:]
        results.append(tuple(map(int, done.stdout.split())))
    (first, _), (second, misses) = results
    assert first < misses / 10 < misses / 4 < second, "a good part of them is kept, and found"
