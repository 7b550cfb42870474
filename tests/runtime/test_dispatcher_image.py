"""The dispatcher's image, ready in a wheel or the cache: found where it is sound, made again where it is not."""

from __future__ import annotations

import ast
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import jitgraph as jg
from jitgraph.codegen import prebuilt
from jitgraph.codegen.dispatch import calls
from jitgraph.codegen.llvm import machine
from jitgraph.eager.dispatch import start
from jitgraph.runtime import disk_cache, dispatcher_image
from jitgraph.runtime.sources import CompilerSources
from tests.graphs import needs_native

PACKAGE = Path(jg.__file__).parent
WITHOUT_INFLUENCE = {  # modules that the maker of the image imports, and that say nothing of what is in it
    *("", "config", "dtypes", "errors", "location", "once", "own_code", "records", "runtime"),
    "ir.target",
    *("codegen.cpu", "codegen.cpu.objects", "codegen.llvm"),
    *(
        f"runtime.{name}"
        for name in ("atomic_file", "cpython", "cpython.api", "digests", "disk_cache", "forks", "imports")
    ),
    *(f"runtime.{name}" for name in ("shared", "sources", "stubs", "system")),
}


@pytest.fixture(scope="module")
def made() -> bytes:
    return calls.dispatcher_image()


@pytest.fixture
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bytes) -> Path:
    """The file of a wheel, in its place for this test; no cache is asked."""
    path = tmp_path / "dispatcher.bin"
    dispatcher_image.DispatcherImage().write(made, str(path))
    monkeypatch.setattr(dispatcher_image, "FILE", str(path))
    monkeypatch.setattr(disk_cache, "current", lambda: None)
    return path


def begun(monkeypatch: pytest.MonkeyPatch) -> tuple[start._Start, int]:
    """A process that asks for its dispatcher for the first time, and how many units LLVM assembled for it."""
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    units: list[machine.Unit] = []
    assemble = machine.assemble_unit
    monkeypatch.setattr(machine, "assemble_unit", lambda unit, target: units.append(unit) or assemble(unit, target))
    result = start._Start()
    result.handles = jg.Tensor
    result.get()
    return result, len(units)


@needs_native
@pytest.mark.skipif(bool(start.lacking()), reason="no native calls here")
def test_a_wheel_s_image_asks_llvm_for_nothing(built_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, units = begun(monkeypatch)
    assert process.runtime is not None
    assert units == 0


def cut(data: bytes) -> bytes:
    return data[:-1]


def flipped(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


def of_other_sources(data: bytes) -> bytes:
    return disk_cache.packed("00" * 32, data[disk_cache.HEADER_BYTES :])


def no_image(data: bytes) -> bytes:
    """The right key and digest of something else."""
    return disk_cache.packed(str(dispatcher_image.DispatcherImage()._digest), b"no image " * 1000)


@needs_native
@pytest.mark.skipif(bool(start.lacking()), reason="no native calls here")
@pytest.mark.parametrize("damage", [lambda data: b"", cut, flipped, of_other_sources, no_image])
def test_a_damaged_or_foreign_image_is_made_again(
    built_in: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    built_in.write_bytes(damage(built_in.read_bytes()))
    process, units = begun(monkeypatch)
    assert process.runtime is not None
    assert process.refused is None
    assert units >= 1


@needs_native
def test_the_cache_keeps_the_image_for_these_sources_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bytes
) -> None:
    cache = disk_cache.DiskCache(str(tmp_path / "cache"))
    monkeypatch.setattr(disk_cache, "current", lambda: cache)
    dispatcher_image.DispatcherImage().store(made)
    assert dispatcher_image.DispatcherImage().cached() == made
    package = tmp_path / "jitgraph"
    for name in dispatcher_image.SOURCES:
        target = package / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copy if name.endswith(".py") else shutil.copytree)(PACKAGE / name, target)
    (package / "elsewhere.py").write_text("x = 1\n")

    def digest() -> str | None:
        return CompilerSources(str(package), started=1 << 62).digest_of(dispatcher_image.SOURCES)

    before = digest()
    assert before == dispatcher_image.DispatcherImage()._digest
    (package / "elsewhere.py").write_text("x = 2\n")
    assert digest() == before
    for name in ("codegen/dispatch/objects.py", "runtime/dispatch_records.py"):
        with open(package / name, "a", encoding="utf-8") as file:
            file.write("# edited\n")
        assert digest() not in (before, None)
        before = digest()
    assert CompilerSources(str(package), started=0).digest_of(dispatcher_image.SOURCES) is None  # edited since
    (package / "runtime/cpython/native_fields.py").unlink()
    assert digest() is None


def imported(name: str, known: set[str]) -> None:
    """Add the modules of the package that a module imports when it is imported, and those that they do."""
    folder = PACKAGE.joinpath(*name.split(".")) if name else PACKAGE
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if name in known or not file.exists():
        return
    known.add(name)
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "jitgraph":
            module = str(node.module).partition(".")[2]
            imported(module, known)
            for each in node.names:
                imported(f"{module}.{each.name}" if module else each.name, known)


def test_the_key_has_all_that_the_image_is_made_of() -> None:
    known: set[str] = set()
    imported("codegen.dispatch.calls", known)
    listed = {name.removesuffix(".py").replace("/", ".") for name in dispatcher_image.SOURCES}
    loader = {name for name in known if name.startswith("runtime.loader")}  # what maps images, and does not make them
    missing = {name for name in known - WITHOUT_INFLUENCE - loader - listed if name.rpartition(".")[0] not in listed}
    assert not missing
    assert {"codegen.dispatch.objects", "codegen.cpu.linker"} <= known


@needs_native
def test_python_goes_on_while_llvm_works() -> None:
    """ctypes releases the interpreter's lock around functions of a library that is no ``PyDLL``."""
    takes_lock = ctypes.PyDLL(None).PyObject_Repr._flags_ & ~ctypes.CDLL(None).memcpy._flags_
    functions = vars(machine.functions())
    assert takes_lock
    assert {"ParseAssembly", "RunNewModulePassManager", "TargetMachineEmitToMemory"} <= functions.keys()
    assert not [name for name, function in functions.items() if function._flags_ & takes_lock]


FIRST_CALLS = """
import jitgraph as jg
from jitgraph.codegen.llvm import machine
from jitgraph.eager.dispatch import start
x, y = jg.ones((10,)), jg.ones((10,))
for _ in range({calls}):
    x + y
print(start._START.runtime is not None, len(machine._loaded))
"""


@needs_native
@pytest.mark.skipif(bool(start.lacking()), reason="no native calls here")
def test_a_new_process_finds_the_image_and_makes_no_kernel_for_a_few_calls(tmp_path: Path) -> None:
    """With the image at hand, and no kernel in the cache: NumPy's evaluation serves, and LLVM is not even loaded."""
    environment = {**os.environ, "JITGRAPH_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(PACKAGE.parent)}
    environment.pop("JITGRAPH_DISPATCH", None)
    keep = "from jitgraph.eager.dispatch import start; start._START._make()"

    def run(code: str) -> str:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    run(f"import jitgraph as jg; jg.ones(2) + 1; {keep}")
    assert run(FIRST_CALLS.format(calls=20)) == "True 0"


def test_a_wheel_s_file_is_written_where_it_is_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "dispatcher.bin"
    prebuilt.write_dispatcher(str(path))
    assert disk_cache.fault(path.read_bytes(), str(dispatcher_image.DispatcherImage()._digest)) == ""
    assert str(PACKAGE / "runtime" / "dispatcher.bin") == dispatcher_image.FILE
