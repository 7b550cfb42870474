"""``python -m tests.fuzz --files 20000 --seed 1``: prints progress, failures, and counts by mutation and outcome."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .campaign import READERS, campaign, printer, table
from .mutations import MUTATIONS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Mutated .jg files through every reader.")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first mutant, to see one again")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=READERS)
    parser.add_argument("--keep", type=Path, help="where files that fail are kept")
    names = sorted({mutation.__name__ for mutation in MUTATIONS})
    parser.add_argument("--mutations", nargs="+", choices=names, help="these alone")
    inputs = parser.parse_args()
    keep = inputs.keep or Path(tempfile.mkdtemp(prefix="jitgraph-fuzz-"))
    result = campaign(
        inputs.files,
        inputs.seed,
        first=inputs.first,
        readers=inputs.readers,
        keep=keep,
        only=inputs.mutations,
        progress=printer(inputs.files),
    )
    print("\n".join(table(result)))
    print(f"{len(result.failures)} failures" + (f", kept in {keep}" if result.failures else ""))
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
