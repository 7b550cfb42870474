"""Random programs that write between ops and their gradient have PyTorch's gradients or its errors.

``VERSION_PROGRAMS=5000`` in the environment runs so many. Without PyTorch, what it gave for the first thousand is in
``version_programs.txt``; ``python -m tests.torch.test_version_programs`` writes it where PyTorch is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import jitgraph.torch as ours
from tests.programs.versions import VersionProgram

COUNT = int(os.environ.get("VERSION_PROGRAMS", "60"))
RECORDED = Path(__file__).with_name("version_programs.txt")
PyTorch = importlib.util.find_spec("torch") and importlib.import_module("torch")


def outcome(torch: Any, text: str, number: int) -> str:
    """The gradient, in words that compare, or what was refused: a version, what is not known here, or another thing."""
    file = f"version_program_{number}.py"  # a name in brackets would be no file of the user's
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    namespace: dict[str, Any] = {}
    exec(compile(text, file, "exec"), namespace)
    try:
        w = torch.tensor([0.5, 1.0, 1.5, 2.0], requires_grad=True)
        gradient = namespace["f"](torch, w, torch.tensor([0.3, 0.6, 0.9, 1.2]))
    except RuntimeError as error:
        message = str(error)
        return "version" if "by an inplace op" in message else "unknown" if "not known here" in message else "refused"
    return " ".join(f"{number:.4g}" for number in gradient.tolist())


def alike(mine: str, due: str) -> bool:
    if mine == due:
        return True
    if mine.isalpha() or due.isalpha():
        return False
    numbers = [np.array(list(map(float, text.split()))) for text in (mine, due)]
    return bool(np.allclose(*numbers, rtol=2e-3, atol=2e-3, equal_nan=True))


def test_random_programs_have_the_gradients_and_errors_of_pytorch() -> None:
    recorded = RECORDED.read_text().splitlines()
    covered: Counter[str] = Counter()
    for number in range(COUNT if PyTorch else min(COUNT, len(recorded))):
        program = VersionProgram(number)
        covered.update(program.forms)
        due = outcome(PyTorch, program.text, number) if PyTorch else recorded[number]
        mine = outcome(ours, program.text, number)
        covered[due if due.isalpha() else "gradient"] += 1
        if mine == "unknown" and ".data" in program.text:  # refused rather than another number
            covered["unknown"] += 1
            continue
        assert alike(mine, due), f"{mine} for {due} of program {number}\n{program.text}"
    print(", ".join(f"{form} {count}" for form, count in covered.most_common()))
    assert covered["unknown"] <= 0.05 * COUNT + 1


if __name__ == "__main__" and PyTorch:
    lines = [outcome(PyTorch, VersionProgram(number).text, number) for number in range(1000)]
    sys.exit(RECORDED.write_text("\n".join(lines) + "\n") == 0)
