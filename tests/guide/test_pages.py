"""Each program in docs/guide and docs/howto runs and prints what the page says; a page is a process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.guide.page import blocks, differences, patched, same, table_code

PAGES = [page for folder in ("guide", "howto") for page in sorted((ROOT / "docs" / folder).glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_page_prints_what_it_says(page: Path) -> None:
    if "$ cc " in page.read_text() and not shutil.which("cc"):
        pytest.skip("this page compiles C, and there is no cc")
    if "$ python -m jitgraph run" in page.read_text():
        pytest.importorskip("typer")
    if "import onnx" in page.read_text():
        pytest.importorskip("onnx")
    if "from numba import" in page.read_text():
        pytest.importorskip("numba")
        pytest.importorskip("scipy")
    if "from tensorboard." in page.read_text():
        pytest.importorskip("tensorboard")
    command = [sys.executable, "-m", "tests.guide.page", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def test_the_guide_has_programs() -> None:
    assert len(PAGES) >= 10
    for page in PAGES:
        text = page.read_text()
        assert any(block.language in ("python", "diff") for block in blocks(text)), page.name


def test_a_page_that_says_something_else_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    page = (
        "```python\nprint(1)\n```\n\n```text\n2\n```\n"
        "```python\nprint(3)\n```\n"
        "```python\n1 / 0\n```\n\n```text\nZeroDivisionError: division by zero\n```\n"
        "```console\n$ echo 4\n5\n```\n"
        "| a | jitgraph |\n| --- | --- |\n| b | `1 + 1`, `nothing` |\n"
    )
    results = [difference.got for difference in differences(page, "a_page_of_a_test")]
    assert results[:3] == ["1\n", "\n```text\n3\n```\n", "$ echo 4\n4\n"]
    assert len(results) == 4
    assert results[3].startswith("NameError")
    assert table_code(page) == ["1 + 1", "nothing"]


def test_dots_stand_for_anything() -> None:
    assert same("took ... ms\n", "took 12 ms\n")
    assert not same("took ... ms\n", "took 12 us\n")


def test_a_hunk_is_applied_where_its_lines_stand_exactly_once() -> None:
    text = "a\nb\nc\n\nb\nd\n"
    assert patched(text, " a\n+x\n b\n@@\n-d\n+e\n", "file") == "a\nx\nb\nc\n\nb\ne\n"
    assert patched(text, " c\n\n+y\n b\n", "file") == "a\nb\nc\n\ny\nb\nd\n"
    for diff in (" b\n+x\n", " z\n+x\n", " a\n c\n+x\n"):
        with pytest.raises(ValueError, match="has these lines"):
            patched(text, diff, "file")
