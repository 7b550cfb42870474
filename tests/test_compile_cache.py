"""Compiled graphs and objects in the persistent cache: the same code for the same graph, and never that of another."""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import compilation, compiler
from jitgraph.codegen.cpu import objects
from jitgraph.codegen.cpu.backend import CpuBackend
from jitgraph.codegen.llvm import machine
from jitgraph.ir.graph import Graph
from jitgraph.ir.op import Op
from jitgraph.ir.parser import parse
from jitgraph.ir.target import Target
from jitgraph.ir.types import Constant
from jitgraph.runtime import disk_cache, imports, loader, sources
from jitgraph.runtime.executable import Executable
from jitgraph.tracing.call import backend
from tests import ROOT

TEXT = """graph @f(%x: f32[n, 4], %i: i64[3]) -> f32[3, 4], f32[n, 4] {
  %0: f32[4] = constant() {value=dense<f32[4]: [1.0, 2.0, 3.0, 4.0]>}
  %1: f32[n, 4] = broadcast(%0) {axes=[1], shape=[n, 4]}
  %2: f32[n, 4] = mul(%x, %1)
  %3: f32[3, 4] = gather(%2, %i) {axis=0}  # model.py:7
  %4: f32[n, 4] = tanh(%2)
  return %3, %4
}"""
X, INDICES = np.linspace(-2, 2, 20, dtype=np.float32).reshape(5, 4), np.array([4, 0, 2])

TANH = """graph @f(%x: f32[20]) -> f32[20] {
  %0: f32[20] = tanh(%x)  # model.py:7
  return %0
}"""

pytestmark = pytest.mark.skipif(not loader.cpu_levels(), reason="no native code here")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache, empty."""
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    jg.cache.info()
    disk_cache._CHOSEN.by_program = None


Log = Callable[[], list[str]]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Log:
    """What was looked up since the last call, as ``code of f: hit``."""
    monkeypatch.setenv("JITGRAPH_LOG", "cache")

    def lines() -> list[str]:
        results = [line.removeprefix("[cache] ") for line in capsys.readouterr().err.splitlines()]
        told = [line.partition(" (")[0] for line in results if not line.startswith("digest")]
        return [re.sub("miss, .*", "miss", line) for line in told]

    return lines


def compiled(graph: Graph | str, **how: Any) -> Executable:
    made = compiler.compile(parse(graph) if isinstance(graph, str) else graph, **how)
    assert isinstance(made, Executable)
    return made


def require_same(actual: Executable, result: Executable) -> None:
    assert actual.image == result.image and actual.signature == result.signature
    for a, b in zip(actual.run([X, INDICES]), result.run([X, INDICES]), strict=True):
        assert a.tobytes() == b.tobytes()


def test_code_is_found_again(log: Log) -> None:
    made = compiled(TEXT)
    assert log()[:2] == ["code of f: miss", "code of f, for these lines: miss"]
    found = compiled(TEXT)
    assert log() == ["code of f: miss", "code of f, for these lines: hit"]
    require_same(found, made)


def test_code_that_tells_no_line_may_move(log: Log) -> None:
    made = compiled(TANH)
    log()
    found = compiled(TANH.replace("model.py:7", "model.py:8"))
    assert log() == ["code of f: hit"]
    assert found.image == made.image and found.signature == made.signature


def test_stages_and_texts_of_found_code_are_made_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(TANH, donate=((0, 0),))
    with monkeypatch.context() as patched:
        patched.setattr(compilation, "staged", None)
        patched.setattr(compilation, "compiled", None)
        found = compiled(TANH, donate=((0, 0),))
        assert found.code_bytes == len(found.image)
    assert made.signature.aliases and found.signature.aliases == made.signature.aliases
    assert found.stages.schedule == made.stages.schedule and found.stages.fused == made.stages.fused
    assert found.llvm_ir == made.llvm_ir and found.asm == made.asm
    assert found.stages is found.stages


def test_traced_functions_report_on_found_code() -> None:
    def reports() -> tuple[str, ...]:
        backend._process_cache().clear()
        f = jg.trace(lambda x, i: jg.tanh(x * 2.0)[i])
        f(X, INDICES)
        low = f.lower(X, INDICES)
        exe = low.compile()
        lines = str(jg.explain(f, X, INDICES)).splitlines()
        said = "\n".join(line for line in lines if "compile" not in line)
        return str(low.optimized), str(low.kernels), str(exe.llvm_ir), str(exe.cost), said

    first = reports()
    before = jg.cache.info()
    assert reports() == first and jg.cache.info().hits > before.hits


def test_limits_of_threads_serve_found_code() -> None:
    for _ in range(2):
        backend._process_cache().clear()
        f = jg.trace(lambda x: jg.tanh(x), threads=1)
        np.testing.assert_allclose(f(X).numpy(), np.tanh(X), rtol=1e-6)
        assert f.lower(X).stages.schedule.steps and f.lower(X).compile().llvm_ir


def test_checks_tell_the_line() -> None:
    for _ in range(2):
        with pytest.raises(IndexError, match=r"index 5 is out of range .*\n.*model.py:7"):
            compiled(TEXT).run([X, INDICES + 1])


def _other_level() -> str:
    return "x86-64-v3" if Target.host().name == "x86-64-v4" else "x86-64-v4"


def donating(text: Graph | str, **how: Any) -> Executable:
    return compiled(text, **{"donate": ((1, 0),), **how})


def with_hint(hint: str | None) -> Graph:
    """The graph of TEXT with an input of this name."""
    graph = parse(TEXT)
    old, new = graph.inputs[0], replace(graph.inputs[0], hint=hint)
    nodes = tuple(
        replace(node, inputs=tuple(new if value is old else value for value in node.inputs)) for node in graph.nodes
    )
    return replace(graph, inputs=(new, *graph.inputs[1:]), nodes=nodes)


OTHERS: dict[str, Callable[[], Executable]] = {
    "op": lambda: donating(TEXT.replace("tanh", "exp")),
    "constant": lambda: donating(TEXT.replace("4.0]", "5.0]")),
    "sign of a constant": lambda: donating(TEXT.replace("1.0, 2.0", "0.0, -0.0")),
    "name of the graph": lambda: donating(TEXT.replace("@f", "@g")),
    "name of an input": lambda: donating(TEXT.replace("%x", "%y")),
    "no name of an input": lambda: donating(with_hint(None)),
    "None as the name of an input": lambda: donating(with_hint("None")),
    "name of a size": lambda: donating(TEXT.replace("[n,", "[m,")),
    "line": lambda: donating(TEXT.replace("model.py:7", "model.py:8")),
    "file": lambda: donating(TEXT.replace("model.py", "other.py")),
    "no donation": lambda: donating(TEXT, donate=()),
    "another donation": lambda: donating(TEXT, donate=(0,)),
    "target": lambda: donating(TEXT, target=Target.named(_other_level())),
    "kept composites": lambda: donating(TEXT, target=Target.host().with_opaque_composites("softmax")),
    "size of a cache": lambda: donating(TEXT, target=replace(Target.host(), l2_bytes=1 << 17)),
    "fastmath": lambda: donating(TEXT, fastmath=True),
    "backend": lambda: donating(TEXT, backend=CpuBackend()),
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_code_is_never_found(what: str, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    donating(TEXT)
    donating(TEXT)
    assert log()[-1] == "code of f, for these lines: hit"
    result = OTHERS[what]()
    assert not [line for line in log() if line.startswith("code") and line.endswith("hit")]
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", "off")
    wanted = OTHERS[what]()
    assert result.image == wanted.image and result.signature == wanted.signature


def test_no_name_is_no_name_that_says_so() -> None:
    donating(with_hint(None))
    assert donating(with_hint("None")).signature.inputs[0].name == "None"


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert (compiled(TANH).run([np.zeros(20, np.float32)])[0] == 0).all()


def test_large_constants_count_by_content() -> None:
    for last in (2.0, 3.0):
        constant = Constant(np.array([1.0] * 99 + [last], np.float32))
        text = """graph @f(%x: f32[100]) -> f32[100] {
          %0: f32[100] = constant() {value=dense<f32[100]: sha256:DIGEST>}
          %1: f32[100] = mul(%x, %0)
          return %1
        }"""
        graph = parse(text.replace("DIGEST", constant.digest), constants={constant.digest: constant})
        (actual,) = compiled(graph).run([np.ones(100, np.float32)])
        assert actual[-1] == last


def test_an_op_that_is_not_of_the_table_is_not_looked_up(log: Log) -> None:
    graph = parse(TEXT)
    own = replace(next(node.op for node in graph.nodes if node.op.name == "tanh"))
    assert isinstance(own, Op)
    nodes = tuple(replace(node, op=own) if node.op.name == "tanh" else node for node in graph.nodes)
    compiled(replace(graph, nodes=nodes))
    (line,) = [line for line in log() if line.startswith("code")]
    assert "not looked up, as it applies an op that is not of the table" in line


@pytest.mark.parametrize(
    ("flag", "value"), [("VERIFY", "1"), ("LOG", "cache,llvm"), ("LOG", "memory"), ("INTERPRET", "1")]
)
def test_what_shows_or_verifies_stages_compiles(flag: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(TEXT)
    monkeypatch.setenv(f"JITGRAPH_{flag}", value)
    seen: list[Graph] = []
    for name in ("compiled", "without_gradients"):
        real = getattr(compilation, name)
        monkeypatch.setattr(compilation, name, lambda graph, *rest, f=real: seen.append(graph) or f(graph, *rest))
    compiler.compile(parse(TEXT))
    assert len(seen) == 1


def test_what_fails_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(TEXT.replace("tanh", "exp"))
    before = jg.cache.info().entries
    with monkeypatch.context() as patched:
        patched.setattr(compilation, "signature_of", None)
        for _ in range(2):
            with pytest.raises(jg.errors.CompileError):
                compiled(TEXT)
    images = [path for path in folder.iterdir() if b"JGIMAGE1" in path.read_bytes()]
    assert len(images) == 1 and jg.cache.info().entries >= before
    require_same(compiled(TEXT), compiled(TEXT))


def entry_of(text: str) -> str:
    """The key of a graph's code."""
    from jitgraph import code_cache

    entry = code_cache.entry_of(parse(text), Target.host(), ())
    assert entry is not None
    return entry.key_with_lines


def planted(how: str, folder: Path) -> None:
    """Something else under the name of the entry of TEXT."""
    key, other = entry_of(TEXT), entry_of(TEXT.replace("tanh", "exp"))
    cache = disk_cache.current()
    assert cache is not None
    path = folder / key
    sound = cache.find(key, "it")
    assert sound is not None
    match how:
        case "cut":
            path.write_bytes(path.read_bytes()[:-100])
        case "flipped":
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 4
            path.write_bytes(data)
        case "swapped":
            shutil.copy(folder / other, path)
        case "junk":
            cache.store(key, b"junk")
        case "no image":
            cache.store(key, sound[: sound.index(b"JGIMAGE1")])
        case "image of another machine":
            begin = sound.index(b"JGIMAGE1")
            cache.store(key, sound[: begin + 12] + b"\xb7" + sound[begin + 13 :])
        case "signature":
            cache.store(key, sound.replace(b'"dims"', b'"dims_"'))


@pytest.mark.parametrize(
    "how", ["cut", "flipped", "swapped", "junk", "no image", "image of another machine", "signature"]
)
def test_planted_entries_are_never_run(how: str, folder: Path, log: Log) -> None:
    made = compiled(TEXT)
    compiled(TEXT.replace("tanh", "exp"))
    planted(how, folder)
    before = jg.cache.info().errors
    log()
    found = compiled(TEXT)
    require_same(found, made)
    assert jg.cache.info().errors > before
    require_same(compiled(TEXT), made)
    assert log()[-1] == "code of f, for these lines: hit"  # what was made anew took the place of what was planted


@pytest.fixture
def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what this process or the package has made of libraries."""
    monkeypatch.setattr(objects, "library", objects.Library)
    monkeypatch.setattr(objects, "FILE", "none")


@pytest.mark.usefixtures("another_process")
def test_units_are_found_by_their_text_alone(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another line of the user's is another entry, with the same units."""
    made = compiled(TEXT)
    log()
    monkeypatch.setattr(machine, "assemble_unit", [].index)  # raises what comes of it
    found = compiled(TEXT.replace("model.py:7", "model.py:8"))
    lines = log()
    assert lines[1] == "code of f, for these lines: miss" and len(lines) > 3
    assert {line.partition(": ")[2] for line in lines[2:]} == {"hit"}
    assert found.image == made.image


@pytest.mark.usefixtures("another_process")
def test_libraries_are_found(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    product = """graph @f(%x: f32[40, 64], %y: f32[64, 50]) -> f32[40, 50] {
  %0: f32[40, 50] = dot(%x, %y) {batch=[[],[]], contract=[[1],[0]]}
  return %0
}"""
    compiled(product)
    log()
    monkeypatch.setattr(machine, "assemble_unit", [].index)  # raises what comes of it
    found = compiled(product.replace("@f", "@g"))
    kinds = {line.removeprefix("object of the kind ").partition(":")[0] for line in log()[2:]}
    assert {"unit", "pack", "tile"} <= kinds
    x, y = np.ones((40, 64), np.float32), np.ones((64, 50), np.float32)
    assert (found.run([x, y])[0] == 64).all()


class Others(sources.CompilerSources):
    """The sources, with another version of a library."""

    def library(self, name: str) -> str:
        return f"{name} of tomorrow"


def test_versions_of_libraries_count(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(TANH)
    log()
    monkeypatch.setattr(sources, "OWN", Others())
    compiled(TANH)
    assert "code of f: hit" not in log()


def test_sources_count_by_content(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "a.py").write_text("a = 1")
    (package / "inner" / "b.py").write_text("b = 1")
    late = 1 << 62

    def digest() -> str | None:
        return sources.CompilerSources(str(package), late).digest

    first = digest()
    assert first is not None and digest() == first
    os.utime(package / "a.py", (0, 0))
    (package / "notes.txt").write_text("no source")
    assert digest() == first
    (package / "a.py").write_text("a = 2")
    second = digest()
    (package / "inner" / "b.py").rename(package / "inner" / "c.py")
    third = digest()
    (package / "__init__.pyi").write_text("from a import a as a")  # which says where names are
    assert len({first, second, third, digest()}) == 4
    assert sources.CompilerSources(str(package), 1).digest is None  # changed since the process began
    assert not sources.CompilerSources(str(package), 1).unchanged()
    assert sources.CompilerSources(str(tmp_path / "archive.zip"), late).digest is None


def test_sources_are_looked_at_where_modules_were_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is imported already runs as it was read; what comes later would be another file."""
    (tmp_path / "a.py").write_text("a = 1")
    own = sources.CompilerSources(str(tmp_path), time.time_ns() + 1_000_000_000)
    assert own.unchanged()
    own.started = 1  # every file is later
    assert own.unchanged() and own.unchanged("")
    knowing = types.ModuleType("jitgraph.knowing")
    knowing.__getattr__ = lambda name: []  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "jitgraph.torch.knowing", knowing)
    names = {"jitgraph.torch.knowing", "jitgraph.ir.graph", "jitgraph.ir"}
    assert sources._folders(names, "") == {"ir"}  # what was made without a file lies nowhere
    knowing.__file__ = "knowing.py"
    assert sources._folders(names, "") == {"torch", "ir"}
    assert own.unchanged() is False


def test_every_module_that_can_be_imported_lies_where_sources_are_looked_for() -> None:
    names = [found.name for found in pkgutil.walk_packages(jg.__path__, "jitgraph.") if "__main__" not in found.name]
    script = f"""
import importlib
from jitgraph.runtime import sources
assert sources.OWN.unchanged()
for name in (*{names}, "jitgraph.torch.nn.modules.loss", "jitgraph.torch.optim.adam"):
    importlib.import_module(name)
    assert sources.OWN.unchanged(), name
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_sources_that_changed_meanwhile_keep_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources.OWN, "unchanged", lambda within="": False)
    assert sources.OWN.digest is not None
    compiled(TEXT)
    assert not [
        path for path in folder.glob("*") if b"JGIMAGE1" in path.read_bytes() or b"\x7fELF" in path.read_bytes()
    ]


PROGRAM = """
import sys
import time
import types
import numpy as np
import jitgraph as jg

@jg.trace
def f(x, w):
    y = jg.tanh(x @ w) + 1.0
    return (y * y).sum(axis=0), jg.grad(lambda w: (x @ w).sum())(w)

x, w = (np.random.default_rng(s).standard_normal((64, 64)).astype(np.float32) for s in (0, 1))
a, b = f(x, w)
print(a.numpy().tobytes().hex(), b.numpy().tobytes().hex())
heavy = ("llvmlite", "networkx", "jitgraph.codegen", "jitgraph.passes", "jitgraph.compilation")
print(sum(name.startswith(heavy) for name in sys.modules))
"""


def run_program(*path: Path, cache: Path) -> tuple[str, int, str]:
    """The bits, how many modules of a compiler were loaded, and the log; the package is the one at ``path``."""
    environment = {
        **os.environ,
        "JITGRAPH_CACHE_DIR": str(cache),
        "JITGRAPH_LOG": "cache",
        "PYTHONPATH": os.pathsep.join(map(str, path)) or str(ROOT),
        "PYTHONHASHSEED": "random",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, cwd=cache.parent
    )
    assert done.returncode == 0, done.stderr
    bits, modules = done.stdout.splitlines()
    return bits, int(modules), done.stderr


def test_a_later_process_loads_no_compiler(tmp_path: Path) -> None:
    first, modules, log = run_program(cache=tmp_path / "own")
    assert modules > 50 and "code of f: miss" in log
    second, modules, log = run_program(cache=tmp_path / "own")
    assert (second, modules) == (first, 0), log
    assert "miss" not in log and "code of f: hit" in log


def test_an_edited_source_is_another_compiler(tmp_path: Path) -> None:
    """Of the package in a copy, which has the same entries until a byte of it is another."""
    copy, cache = tmp_path / "copy", tmp_path / "own"
    shutil.copytree(ROOT / "jitgraph", copy / "jitgraph", ignore=shutil.ignore_patterns("__pycache__"))
    first = run_program(cache=cache)
    result = run_program(copy, cache=cache)
    assert result[:2] == (first[0], 0), result[2]
    edited = copy / "jitgraph" / "passes" / "cse.py"
    edited.write_text(edited.read_text() + "\n")
    bits, modules, log = run_program(copy, cache=cache)
    assert bits == first[0] and modules > 50
    assert "code of f: miss" in log and "object of the kind unit: hit" in log
    assert not re.search("object of the kind .*: miss", log)


def test_eight_processes_at_once(folder: Path) -> None:
    texts = [TEXT.replace("tanh", op) for op in ("tanh", "exp", "sin", "sqrt")]
    imports.module("jitgraph.codegen.cpu.objects")
    os.environ["JITGRAPH_CACHE_DIR"] = "off"
    wanted = [[array.tobytes() for array in compiled(text).run([abs(X), INDICES])] for text in texts]
    os.environ["JITGRAPH_CACHE_DIR"] = str(folder)
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                results = [[array.tobytes() for array in compiled(text).run([abs(X), INDICES])] for text in texts]
                code = 0 if results == wanted and jg.cache.info().errors == 0 else 2
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    before = jg.cache.info().hits
    assert [[array.tobytes() for array in compiled(text).run([abs(X), INDICES])] for text in texts] == wanted
    assert jg.cache.info().hits == before + len(texts)


def test_a_call_goes_on_without_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "file" / "inner"))
    require_same(compiled(TEXT), compiled(TEXT))
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(shared))
    with pytest.warns(RuntimeWarning, match="not safe"):
        require_same(compiled(TEXT), compiled(TEXT))
    assert not list(shared.iterdir())


def test_where_the_cache_is_may_be_set(tmp_path: Path, folder: Path) -> None:
    assert jg.cache.dir == str(folder)
    jg.cache.dir = str(tmp_path / "other")
    compiled(TEXT)
    info = jg.cache.info()
    assert info.entries > 1 and info.bytes > 1000 and info.misses > 0 and info.errors == 0 and not folder.exists()
    compiled(TEXT)
    assert jg.cache.info().hits > info.hits
    jg.cache.clear()
    assert jg.cache.info().entries == 0 and not list((tmp_path / "other").iterdir())
    jg.cache.dir = None
    assert jg.cache.dir is None and jg.cache.info() == (0, 0, 0, 0, 0, 0)
    jg.cache.clear()
    compiled(TEXT)
    assert not list((tmp_path / "other").iterdir())
    jg.cache.dir = tmp_path / "paths"  # type: ignore[assignment]
    assert jg.cache.dir == str(tmp_path / "paths")
    for wrong in ("", 3, b"bytes"):
        with pytest.raises(jg.errors.JitgraphError, match=r"a path or None"):
            jg.cache.dir = wrong  # type: ignore[assignment]
