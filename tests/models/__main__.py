"""``python -m tests.models`` compares every case with PyTorch, which must be installed, and writes docs/models.md.

With names (``python -m tests.models LSTM Conv``) only cases that begin so are run, and nothing is written.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import torch  # type: ignore[import-not-found]

from tests import ROOT
from tests.models.case import modules
from tests.models.compare import SKIPPED

PAGE = ROOT / "docs" / "models.md"
HEAD = """# Layers, losses, optimisers and schedules compared with PyTorch's

Each line compares one layer, loss, function, optimiser or schedule in jitgraph and in PyTorch {version}, in float64
with the same parameters and operands. For layers these are results and buffers, gradients of inputs and parameters,
the state dict loaded from PyTorch and back by its keys, the `repr`, and the first two in one traced call. "yes" means
agreement within 10^-9 of the largest element unless the case says otherwise, "-" that there is nothing to compare.
`python -m tests.models` writes this page from the cases in `tests/models/`.

"""


def reported(module: Any, case: Any) -> dict[str, str | None]:
    """Layers are compared in one way; a module of other cases brings its own ``differences``."""
    compare = getattr(module, "differences", None) or importlib.import_module("tests.models.compare").differences
    return compare(case, torch)  # type: ignore[no-any-return]


def main(names: Sequence[str]) -> int:
    torch.set_num_threads(1)
    parts: list[str] = []
    wrong: list[str] = []
    total = right = 0
    for name in modules():
        module, rows, columns = importlib.import_module(f"tests.models.{name}"), [], ()
        for case in module.CASES:
            if names and not any(case.name.startswith(word) for word in names):
                continue
            report = reported(module, case)
            columns = tuple(report)
            bad = {column: actual for column, actual in report.items() if actual not in (None, SKIPPED)}
            total, right = total + 1, right + (not bad)
            for column, actual in bad.items():
                wrong.append(f"{case.name}, {column}: {getattr(case, 'reason', '') or actual}")
                print(wrong[-1], flush=True)
            shown = ["yes" if actual is None else SKIPPED if actual == SKIPPED else "no" for actual in report.values()]
            rows.append(f"| {case.name} | {' | '.join(shown)} |")
        if rows:
            parts += [f"## {name.removesuffix('_cases').replace('_', ' ')}\n"]
            parts += [f"| case | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}", *rows, ""]
    summary = f"{total} cases, of which {right} agree in every column."
    print(summary)
    if not names:
        listed = ["## Differences\n", *(f"- {line}" for line in wrong), ""] if wrong else []
        version = torch.__version__.partition("+")[0]
        PAGE.write_text(HEAD.format(version=version) + "\n".join([summary, "", *parts, *listed]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
