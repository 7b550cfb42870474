"""Counts the instructions that threads execute."""

from __future__ import annotations

import re
from typing import Final

from jitgraph_testing.simulator.state import memory

_NO_INSTRUCTION: Final = re.compile(r";|\]|i\d+ ")  # comments, and the cases of a switch


def counting(text: str) -> str:
    """Host code whose blocks count: each block adds the number of its own instructions to that of the launch."""
    out: list[str] = []
    position, count, inside = 0, 0, False
    at = f"inttoptr (i64 {memory().of_launch('instructions')} to ptr)"

    def close() -> None:
        name = f"%sim.count.{position}"
        if count:
            out[position:position] = [
                f"  {name} = load i64, ptr {at}", f"  {name}.n = add i64 {name}, {count}",
                f"  store i64 {name}.n, ptr {at}",
            ]  # fmt: skip

    for line in text.splitlines():
        stripped = line.strip()
        if line.startswith("define ") and "@sim." not in line:
            inside, position, count = True, len(out) + 1, 0
        elif inside and (line == "}" or re.match(r'[\w.$"-]+:', line)):
            close()
            inside, position, count = line != "}", len(out) + 1, 0
        elif inside and " phi " in line:
            position = len(out) + 1
        elif inside and stripped and not _NO_INSTRUCTION.match(stripped) and "sim.check" not in line:
            count += 1
        out.append(line)
    return "\n".join(out) + "\n"
