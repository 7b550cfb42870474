"""Plant each fault of ``tests/mutants/*.patch`` in a copy of the project and see that the test it names turns red.

A patch begins with ``# fault:`` and ``# test:`` lines; the named tests must pass without it and fail with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def header(patch: Path, key: str) -> str:
    matched = re.search(rf"^# {key}: (.+)$", patch.read_text(), re.MULTILINE)
    assert matched, f"{patch.name} has no line '# {key}: ...'"
    return matched[1].strip()


def run(tree: Path, *tests: str, writes_bytecode: bool = False) -> subprocess.CompletedProcess[str]:
    """Run tests in ``tree``, importing the package from there; TimeoutExpired where they hang."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "" if writes_bytecode else "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600 + 5 * len(tests)
    )


def apply(tree: Path, patch: Path, *options: str) -> None:
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}  # no repository above may be asked
    done = subprocess.run(["git", "apply", *options, str(patch)], cwd=tree, env=outside, capture_output=True, text=True)
    assert done.returncode == 0, f"{patch.name} does not fit: {done.stderr}"


def is_found(trees: SimpleQueue[Path], patch: Path) -> bool:
    """Whether the tests of a patch turn red in one of ``trees`` that is free."""
    tree = trees.get()
    try:
        apply(tree, patch)
        try:
            outcome = "red " if run(tree, *header(patch, "test").split()).returncode == 1 else "SURVIVED"
        except subprocess.TimeoutExpired:
            outcome = "HANGS"  # a test is to end: where a fault makes it hang, it is no test of that fault
        apply(tree, patch, "--reverse")
    finally:
        trees.put(tree)
    print(f"{outcome}  {patch.stem}: {header(patch, 'fault')}", flush=True)
    return outcome == "red "


def main() -> int:
    known = {patch.stem: patch for patch in sorted(HERE.glob("*.patch"))}
    wanted = sys.argv[1:] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        print(f"no such fault: {', '.join(unknown)}; each is named as its patch in {HERE}; without names all run")
        return 2
    patches = [known[name] for name in wanted]
    workers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", ".*_cache", ".hypothesis")
        first = Path(folder, "tree0")
        shutil.copytree(ROOT, first, ignore=ignored)
        tests = sorted({test for p in patches for test in header(p, "test").split()})
        healthy = run(first, "-n", str(workers), *tests, writes_bytecode=True)
        if healthy.returncode != 0:
            print(healthy.stdout[-3000:])
            print("the named tests do not pass without a fault")
            return 1
        trees: SimpleQueue[Path] = SimpleQueue()
        trees.put(first)
        for number in range(1, workers):  # with the bytecode of all files, which the times of the files go with
            trees.put(shutil.copytree(first, Path(folder, f"tree{number}")))
        with ThreadPoolExecutor(workers) as pool:
            result = sum(pool.map(partial(is_found, trees), patches))
    print(f"{result} of {len(patches)} faults found")
    return 0 if patches and result == len(patches) else 1


if __name__ == "__main__":
    sys.exit(main())
