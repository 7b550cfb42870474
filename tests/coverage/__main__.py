"""``python -m tests.coverage`` compares every case with PyTorch, which must be installed, and writes docs/coverage.md.

With names (``python -m tests.coverage gather pad``) only cases that begin so are run, and nothing is written.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch  # type: ignore[import-not-found]

from tests import ROOT, coverage
from tests.coverage.case import Case
from tests.coverage.compare import COLUMNS, SKIPPED, differences

PAGE = ROOT / "docs" / "coverage.md"
HEAD = """# Compared with PyTorch

Each line compares one call of an operator in jitgraph and in PyTorch {version}, in float64 on the same operands:
results eager and traced, gradients eager and traced, and the second derivative along one direction. "yes" means
agreement within the case's tolerance (10^-9 of the largest element unless the case says otherwise), "-" that there is
nothing to compare. `python -m tests.coverage` writes this page from the cases in `tests/coverage/`.

"""


def modules() -> list[str]:
    return sorted(
        m.name for m in pkgutil.iter_modules([str(Path(coverage.__file__).parent)]) if m.name.endswith("_cases")
    )


def cases_of(module: str) -> list[Case]:
    return list(importlib.import_module(f"tests.coverage.{module}").CASES)


def main(names: Sequence[str]) -> int:
    parts: list[str] = []
    wrong: list[str] = []
    counts = dict.fromkeys(COLUMNS, 0)
    total = 0
    for module in modules():
        rows = []
        for case in cases_of(module):
            if names and not any(case.name.startswith(name) for name in names):
                continue
            report = differences(case, torch)
            total += 1
            for column, actual in report.items():
                counts[column] += actual is None
                if actual not in (None, SKIPPED):
                    wrong.append(f"{case.name}, {column}: {actual}")
                    print(wrong[-1], flush=True)
            shown = ["yes" if actual is None else SKIPPED if actual == SKIPPED else "no" for actual in report.values()]
            rows.append(f"| {case.name} | {' | '.join(shown)} |")
        parts += [f"## {module.removesuffix('_cases').replace('_', ' ')}\n"]
        parts += [f"| case | {' | '.join(COLUMNS)} |", f"| --- |{' --- |' * len(COLUMNS)}", *rows, ""]
    summary = f"{total} cases: " + ", ".join(f"{counts[column]} {column}" for column in COLUMNS) + "."
    print(summary)
    if not names:
        listed = ["## Differences\n", *(f"- {line}" for line in wrong), ""] if wrong else []
        PAGE.write_text(
            HEAD.format(version=torch.__version__.partition("+")[0]) + "\n".join([summary, "", *parts, *listed])
        )
    return bool(wrong)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        sys.exit(main(sys.argv[1:]))
