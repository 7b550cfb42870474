"""Measurements can be imported, each by itself, so that a change of the package cannot break them unseen.

Peers (PyTorch, JAX, ONNX Runtime) are no dependencies, and importing asks for none of them.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import ROOT
from tests.processes import FORKS, in_child

NAMES = sorted(path.stem for path in (ROOT / "bench").glob("*.py") if not path.stem.startswith("__"))
PEERS = ("torch", "jax", "onnxruntime")
EXACT = {"accuracy", "accuracy_linalg", "accuracy_math", "accuracy_special", "fit_math"}  # they compare with mpmath


def test_each_measurement_is_listed() -> None:
    from bench.__main__ import NAMES as LISTED

    assert set(LISTED) <= set(NAMES)


def test_every_module_can_be_imported_without_peers() -> None:
    import_each(sorted(set(NAMES) - EXACT))


def test_what_needs_exact_numbers_can_be_imported() -> None:
    pytest.importorskip("mpmath")
    import_each(sorted(EXACT))


def import_each(names: list[str]) -> None:
    """Each in a fork of one process that has loaded what all share."""
    code = (
        "import importlib, os, sys, numpy, jitgraph as jg\n"
        "jg.nn, jg.trace, jg.compiler\n"
        f"sys.modules.update(dict.fromkeys({PEERS}))\n"
        f"for name in {names}:\n"
        "    if os.fork() == 0:\n"
        "        importlib.import_module(f'bench.{name}')\n"
        "        os._exit(0)\n"
        "    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0, name\n"
    )
    in_child(code, *FORKS)


@pytest.mark.parametrize("name", ["no_such_measurement"])
def test_an_unknown_name_is_told(name: str) -> None:
    done = subprocess.run([sys.executable, "-m", "bench", name], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no measurement" in done.stdout


def test_models_are_timed_only_where_their_first_losses_agree() -> None:
    code = (
        "import os\n"
        "os.environ['JITGRAPH_NUM_THREADS'] = '1'\n"
        "import numpy as np\n"
        "from bench.models import candidates, require_same_losses\n"
        "assert list(require_same_losses(candidates('lstm', short=True)))[:2] == ['eager', 'compiled']\n"
        "for other in (1.001, float('nan')):\n"
        "    try:\n"
        "        require_same_losses({'one': lambda: np.float32(1.0), 'other': lambda: np.float32(other)})\n"
        "    except AssertionError as error:\n"
        "        assert 'first losses differ' in str(error) and 'other' in str(error)\n"
        "    else:\n"
        "        raise SystemExit(f'{other} agrees with 1')\n"
    )
    in_child(code)


def test_the_page_of_accuracy_has_what_its_command_measures() -> None:
    """Every function in its table, between the comments by which the command finds the table."""
    pytest.importorskip("mpmath")
    from bench import accuracy, accuracy_linalg, accuracy_math, accuracy_special

    page = accuracy.PAGE.read_text()
    names = {"math": accuracy_math.FUNCTIONS, "special": accuracy_special.FUNCTIONS, "linalg": accuracy_linalg.CALLS}
    assert set(names) == set(accuracy.TABLES)
    for table, functions in names.items():
        text = page.partition(f"<!-- {table}: ")[2].partition(f"<!-- end of {table} -->")[0]
        rows = {line.split("|")[1].strip() for line in text.splitlines()[3:] if line.startswith("|")}
        assert rows == set(functions)
        assert accuracy.written(page, table, "| a |\n").count("| a |\n<!-- end of " + table) == 1


def test_the_trend_is_shown_beside_a_release() -> None:
    from bench import trend

    release = {"name": "1.0", "machine": "another", "figures": {"lines": 200.0, "gone": 1.0}}
    first, lines, new, note = trend.table({"lines": 150.0, "new": 3.0}, release).splitlines()
    assert first.split() == ["here", "1.0"]
    assert lines.split() == ["lines", "150.0", "200.0", "-25.0", "%"] and new.split() == ["new", "3.0"]
    assert "another machine" in note
    assert "%" not in trend.table({"lines": 150.0}, {})
    assert (
        {"files", "lines"}
        <= set(trend.sizes())
        <= set(json.loads(trend.STORED.read_text())["figures"]) | {"wheel (kB)"}
    )
