"""Libraries that compute by the Array API compute with tensors: einops, array_api_extra, SciPy, scikit-learn."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import jitgraph as jg
from tests import ROOT
from tests.array_api.libraries import failures


@pytest.mark.parametrize("library", ["einops", "array_api_extra"])
def test_a_library_of_the_array_api(library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed; the dev extra brings it")
    assert not list(failures(library))


@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_a_library_with_an_array_api_path(library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "tests.array_api.libraries", library],
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.split("\n")[-2:] == [f"done {library}", ""], done.stdout + done.stderr
    assert done.stdout.strip() == f"done {library}"


def test_only_the_question_of_array_api_compat_takes_a_refusal_for_an_answer() -> None:
    """Any other code that asks for a value and catches the error would go another way than eagerly."""

    def is_lazy_array(x: object) -> bool:
        try:
            bool(x)
        except Exception:
            return True
        return False

    with pytest.raises(jg.TraceError, match="needs the value of a traced tensor"):
        jg.trace(lambda x: x + is_lazy_array(jg.any(x > 0)))(jg.asarray([1.0]))
