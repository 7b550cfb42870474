"""Random functions of numbers: each element is what Python makes of it, recorded and by numba's code."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.programs.elements import ElementProgram

COUNT = int(os.environ.get("ELEMENT_PROGRAMS", "6"))
FIRST = int(os.environ.get("ELEMENT_PROGRAMS_FIRST", "0"))
COMPILERS = ("jitgraph", "numba") if importlib.util.find_spec("numba") else ("jitgraph",)
X = np.asarray([-3.5, -1.0, -0.25, 0.0, 0.75, 1.0, 2.5, 7.0])


def function_of(source: str, folder: Path, seed: int) -> Any:
    """The function of a source, in a module of its own, as its lines are read again."""
    name = f"element_program_{seed}"
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.f


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_each_element_is_what_python_makes_of_it(seed: int, tmp_path: Path) -> None:
    source = ElementProgram(seed).source
    function = function_of(source, tmp_path, seed)
    a, b = (x.ravel() for x in np.meshgrid(X, X[::2] + 0.125))
    rows = [function(float(x), float(y)) for x, y in zip(a, b, strict=True)]
    for compiler in COMPILERS:
        results = jg.elementwise(function, compiler=compiler)(a, b)
        for number, result in enumerate(results):
            expected = np.asarray([float(row[number]) for row in rows])
            np.testing.assert_allclose(
                result.numpy().astype(float), expected, rtol=1e-9, atol=1e-9, err_msg=f"{compiler}\n{source}"
            )
