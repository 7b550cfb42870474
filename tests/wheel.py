"""Check what ``make wheel`` has built: ``python tests/wheel.py dist``.

The wheel and the source distribution hold what a user needs and nothing else; the wheel, installed into an empty
environment, trains, saves and runs the digits classifier from a folder that has nothing of the source tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
NEEDED = (
    "jitgraph/py.typed",
    "jitgraph/foreign_names.toml",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "jitgraph").rglob("*.pyi"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "jitgraph/runtime/loader_c").iterdir())),
)
DOCUMENTS = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "docs/api.md", "pyproject.toml")

COMPILED = ("jitgraph/codegen/cpu/prebuilt.bin", "jitgraph/runtime/dispatcher.bin")
WHERE = "import jitgraph, sys; assert jitgraph.__file__.startswith(sys.prefix), jitgraph.__file__"
PREBUILT = """
import re, jitgraph as jg
from jitgraph.codegen.llvm import machine
made, assemble = [], machine.assemble_unit
machine.assemble_unit = lambda unit, target: made.append(unit.llvm_ir) or assemble(unit, target)
product, x = jg.trace(lambda x: x @ x), jg.ones((64, 64))
for _ in range(8):
    product(x)
assert product.native.hits, "a wheel has no dispatcher at once"
defined = re.findall(r"^define [^@]*@(\\w+)", "\\n".join(made), re.MULTILINE)
libraries = ("jg_tile", "jg_pack", "jg_range", "jg_worker", "vectorcall")
assert "attempt" not in defined, "a wheel compiles the dispatcher"
assert "entry" in defined and not [name for name in defined if name.startswith(libraries)], "a wheel compiles libraries"
"""


def one(folder: Path, pattern: str) -> Path:
    """The only file in ``folder`` of that kind."""
    actual = sorted(folder.glob(pattern))
    assert len(actual) == 1, f"{folder} has {[path.name for path in actual]} where one {pattern} is due"
    return actual[0]


def check_names(names: set[str], needed: tuple[str, ...], what: Path) -> None:
    missing = [name for name in needed if name not in names]
    assert not missing, f"{what.name} lacks {missing}"
    outside = ("tests", "bench", "build", ".ci", ".github", "jitgraph_testing")
    foreign = sorted(name for name in names if name.split("/")[0] in outside)
    assert not foreign, f"{what.name} holds {foreign[:5]}"
    print(f"{what.name}: {len(names)} files, {what.stat().st_size / 1e3:.0f} kB")


def check_contents(wheel: Path, source: Path) -> None:
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "jitgraph").rglob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    check_names(names, (*NEEDED, *package, *COMPILED), wheel)
    strange = [name for name in names if not name.startswith("jitgraph") or name.endswith((".pyc", ".o", ".so"))]
    assert not strange, f"{wheel.name} holds {strange}"
    with tarfile.open(source) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    check_names(names, (*NEEDED, *DOCUMENTS, *package), source)


def check_installed(wheel: Path) -> None:
    """Train and save in an empty environment, in a folder of its own, with no path that leads to the source tree."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JITGRAPH_"))}
    environment["JITGRAPH_CACHE_DIR"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "venv", "bin", "python")
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel.resolve()}[demo]"]
        subprocess.run(install, check=True, env=environment)
        shutil.copy(ROOT / "examples" / "digits.py", folder)
        for command in (["-c", WHERE], ["-c", PREBUILT], ["-m", "jitgraph", "loader", "alone"], ["digits.py"]):
            subprocess.run([python, "-W", "error", *command], check=True, cwd=folder, env=environment)
        assert all(Path(folder, "alone", name).exists() for name in ("loader.py", "loader.c", "loader.h"))


def main() -> int:
    folder, started = Path(sys.argv[1]), time.monotonic()
    wheel, source = one(folder, "*.whl"), one(folder, "*.tar.gz")
    check_contents(wheel, source)
    check_installed(wheel)
    print(f"installed and run from elsewhere in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
