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
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def header(patch: Path, key: str) -> str:
    found = re.search(rf"^# {key}: (.+)$", patch.read_text(), re.MULTILINE)
    assert found, f"{patch.name} has no line '# {key}: ...'"
    return found[1].strip()


def run(tree: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests in ``tree``, importing the package from there."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600)


def apply(tree: Path, patch: Path, *options: str) -> None:
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}  # no repository above may be asked
    done = subprocess.run(["git", "apply", *options, str(patch)], cwd=tree, env=outside, capture_output=True, text=True)
    assert done.returncode == 0, f"{patch.name} does not fit: {done.stderr}"


def main() -> int:
    wanted = sys.argv[1:]
    patches = [p for p in sorted(HERE.glob("*.patch")) if not wanted or p.stem in wanted]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, tree, ignore=ignored)
        tests = sorted({test for p in patches for test in header(p, "test").split()})
        healthy = run(tree, *tests)
        if healthy.returncode != 0:
            print(healthy.stdout[-3000:])
            print("the named tests do not pass without a fault")
            return 1
        for patch in patches:
            apply(tree, patch)
            result = run(tree, *header(patch, "test").split())
            apply(tree, patch, "--reverse")
            red = result.returncode == 1
            survivors += [] if red else [patch.stem]
            print(f"{'red ' if red else 'SURVIVED'}  {patch.stem}: {header(patch, 'fault')}", flush=True)
    print(f"{len(patches) - len(survivors)} of {len(patches)} faults found")
    return 1 if survivors or not patches else 0


if __name__ == "__main__":
    sys.exit(main())
