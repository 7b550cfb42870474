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
    test = re.search(r"^# test: (tests/[\w/]+\.py)::(\w+)", text, re.MULTILINE)
    assert test, "no line '# test: tests/...::...'"
    assert f"def {test[2]}(" in (ROOT / test[1]).read_text()
    for name in re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}  # no repository above may be asked
    done = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=tmp_path, env=outside, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_there_are_enough() -> None:
    assert len(PATCHES) >= 12
