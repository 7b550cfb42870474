"""The planted faults of tests/mutants still fit the code and name tests that exist; ``make mutants`` runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import ROOT

PATCHES = sorted((ROOT / "tests" / "mutants").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_a_planted_fault_fits(patch: Path, tmp_path: Path) -> None:
    text = patch.read_text()
    assert re.search(r"^# fault: \S", text, re.MULTILINE)
    (line,) = re.findall(r"^# test: (.+)$", text, re.MULTILINE)
    for name in line.split():
        test = re.fullmatch(r"(tests/[\w/]+\.py)::(test_\w+)(\[.+\])?", name)
        assert test, f"{name} is no test: tests/...py::test_..."
        assert f"def {test[2]}(" in (ROOT / test[1]).read_text(), f"{test[1]} has no {test[2]}"
    for name in re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}  # no repository above may be asked
    done = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=tmp_path, env=outside, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_there_are_enough() -> None:
    assert len(PATCHES) >= 176, "a planted fault may be renewed, not dropped"
