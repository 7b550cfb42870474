"""``python -m tests.capture --programs 5000 --seed 1``: random programs; ``--rules``: every rule with every edit alone.

Prints each failure as soon as it is found, made smaller, with its source; then counts by rule and by instruction.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.capture.alone import cases, telling
from tests.capture.catalogue import BY_NAME, KIND_OF
from tests.capture.draw import draw
from tests.capture.program import Program
from tests.capture.shrink import shrunk
from tests.capture.table import Table
from tests.capture.worlds import run


def programs(count: int, seed: int, first: int) -> Iterator[tuple[str, Program]]:
    """Random programs with their names."""
    for index in range(first, first + count):
        yield f"program {index} of seed {seed}", draw(index, seed)


def alone(folder: Path) -> Iterator[tuple[str, Program]]:
    """The programs of the named cases."""
    for number, case in enumerate(cases()):
        inner = folder / f"case_{number}"
        inner.mkdir()
        yield str(case), telling(case, inner)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.capture", description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program, to see one again")
    parser.add_argument("--rules", action="store_true", help="the named cases instead of random programs")
    parser.add_argument("--brief", action="store_true", help="a line for each failure, and no table")
    inputs = parser.parse_args()
    os.environ.setdefault("JITGRAPH_INTERPRET", "1")
    table, failing, outcomes = Table(), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home).resolve()
        chosen = alone(folder) if inputs.rules else programs(inputs.programs, inputs.seed, inputs.first)
        for number, (name, program) in enumerate(chosen):
            inner = folder / str(number)
            inner.mkdir()
            report = run(program, inner)
            table.add(program.rules, report.codes)
            for way, failure in report.failures.items():
                outcomes[f"{way} failed"] += 1
                small, why = (program, failure) if inputs.brief else shrunk(program, failure)
                failing.update({*small.rules})
                print(f"{name}: {why.partition(chr(10))[0] if inputs.brief else why}", flush=True)
                if not inputs.brief:
                    print(f"  rules: {', '.join(small.rules)}\n{small.script()}")
            for way, error in report.refusals.items():
                outcomes[f"{way} refused"] += 1
                if inputs.rules and not BY_NAME[program.rules[0]].refuses:
                    print(f"{name}: {way} refused: {error.partition(chr(10))[0]}", flush=True)
            outcomes["all agreed" if not report.failures and not report.refusals else "not all agreed"] += 1
    if not inputs.brief:
        print(*table.lines(), sep="\n")
    print(*(f"{count:5} in failures  {KIND_OF[name]}: {name}" for name, count in failing.most_common(40)), sep="\n")
    print(dict(outcomes))
    return bool(failing)


if __name__ == "__main__":
    sys.exit(main())
