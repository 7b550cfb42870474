"""docs/differences.md says what expressions give in three libraries; each is run, PyTorch's where that is installed."""

from __future__ import annotations

import importlib.util
import re
import warnings
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests import ROOT

PAGE = (ROOT / "docs" / "differences.md").read_text()
LIBRARIES = ("jitgraph", "NumPy", "PyTorch")
PAIR = re.compile(r"`([^`]+)`: `([^`]+)`")


def cells() -> list[tuple[str, str, str, str]]:
    """(library, row, expression, what it gives) for each cell with an expression."""
    results = []
    for line in PAGE.splitlines():
        if not line.startswith("| ") or line.startswith(("| what", "| ---")):
            continue
        row, *columns = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert len(columns) == len(LIBRARIES), line
        for library, cell in zip(LIBRARIES, columns, strict=True):
            if "`" not in cell:
                assert cell in ("not defined", "not at all", "deprecated"), cell
                continue
            (pair,) = PAIR.findall(cell)
            results.append((library, row.strip("| "), *pair))
    return results


CELLS = cells()


def names_of(library: str) -> dict[str, Any]:
    arrays = {
        "x": np.array([1, 2, 3], np.float32),
        "i": np.array([1, 2, 3]),
        "m": np.array([[1, 2], [3, 4]]),
        "n": np.array([np.nan, np.nan]),
    }
    names: dict[str, Any] = {"jg": jg, "np": np}
    if library == "NumPy":
        return {**names, **arrays}
    if library == "jitgraph":
        return {**names, **{name: jg.asarray(array) for name, array in arrays.items()}}
    torch: Any = importlib.import_module("torch")
    return {**names, "torch": torch, **{name: torch.tensor(array) for name, array in arrays.items()}}


def shown(value: Any) -> str:
    """Numbers to four digits, dtypes and classes by their names."""
    if hasattr(value, "tolist") and not isinstance(value, np.dtype):
        value = value.tolist()
    elif isinstance(value, tuple | list) and any(hasattr(part, "tolist") for part in value):
        value = [part.tolist() for part in value]
    elif type(value).__name__ in ("dtype", "Size") or isinstance(value, np.dtype):
        value = str(tuple(value)) if type(value).__name__ == "Size" else str(value).removeprefix("torch.")
    return str(round(value, 4) if isinstance(value, float) else value)


@pytest.mark.parametrize(("library", "row", "expression", "wanted"), CELLS)
def test_a_cell_of_the_page(library: str, row: str, expression: str, wanted: str) -> None:
    if library == "PyTorch" and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    names = names_of(library)
    *statements, last = expression.split("; ")
    fails = wanted.endswith("Error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if fails:
            with pytest.raises(Exception, match="") as error:
                exec(expression, names)
            assert type(error.value).__name__.lstrip("_").endswith(wanted)
        else:
            exec("\n".join(statements), names)
            assert shown(eval(last, names)) == wanted


def test_the_page_has_rows_for_all() -> None:
    assert len([cell for cell in CELLS if cell[0] == "jitgraph"]) >= 35
