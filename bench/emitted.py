"""Whether two checkouts emit the same code: ``python -m bench.emitted CHECKOUT [PROGRAMS]`` (200 by default).

Random array programs are lowered and compiled for the host and for a GPU in both checkouts; what differs in LLVM IR or
PTX is named by the program's seed, which ``python -m bench.emitted --show SEED`` prints with both texts. A change that
moves code about, without meaning to change what it emits, leaves every text as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = 200
GPU = "sm_90"
_LOCATIONS = re.compile(r"<array program \d+ \w+>(:\d+)?")


def texts(seed: int) -> dict[str, str]:
    """The source of a program, its LLVM IR for the host and its PTX, or the error that took their place."""
    import jitgraph as jg
    from jitgraph.compiler import compile
    from jitgraph.ir.target import Target
    from tests.programs.array_check import compiled
    from tests.programs.array_texts import Builder

    text = Builder(seed).build()
    source = text.source()
    program = compiled(source, jg, f"<array program {seed} emitted>")
    arguments = [jg.asarray(array) for array in text.arguments.values()]
    result = {"source": source}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            lowered = jg.trace(program).lower(*arguments)
        except jg.JitgraphError as error:
            return {**result, "llvm": str(error), "ptx": ""}
        for kind, target in (("llvm", Target.host()), ("ptx", Target.named(GPU))):
            try:
                executable: Any = compile(lowered.graph, target)
                result[kind] = str(executable.llvm_ir if kind == "llvm" else executable.asm)
            except jg.JitgraphError as error:
                result[kind] = str(error)
    return {kind: _LOCATIONS.sub("", text) for kind, text in result.items()}


def serve(first: int, count: int) -> None:
    for seed in range(first, first + count):
        print(json.dumps(texts(seed)), flush=True)


def _emitted(checkout: Path, first: int, count: int, cache: str) -> list[dict[str, str]]:
    """What the checkout emits, for the random programs that it draws itself."""
    done = subprocess.run(
        [sys.executable, "-P", __file__, "--serve", str(first), str(count)],
        env={**os.environ, "PYTHONPATH": str(checkout), "JITGRAPH_CACHE_DIR": cache},
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments:
        print(__doc__)
        return 2
    if arguments[0] == "--show":
        for kind, text in texts(int(arguments[1])).items():
            print(f"=== {kind} {_digest(text)}\n{text}")
        return 0
    if arguments[0] == "--serve":
        serve(*map(int, arguments[1:]))
        return 0
    there = Path(arguments[0]).resolve()
    count = int(arguments[1]) if len(arguments) > 1 else PROGRAMS
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as cache:
        ours, theirs = (_emitted(checkout, 0, count, cache) for checkout in (here, there))
    for kind in ("source", "llvm", "ptx"):
        differ = [seed for seed in range(count) if ours[seed][kind] != theirs[seed][kind]]
        lines = sum(text[kind].count("\n") for text in ours)
        print(f"{kind:7} {count - len(differ)} of {count} the same ({lines} lines){'; not ' if differ else ''}", end="")
        print(", ".join(map(str, differ)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
