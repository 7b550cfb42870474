"""Variables in shared memory: where they lie on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jitgraph.errors import UnsupportedOp
from jitgraph.records import NamedTuple
from jitgraph.simulator import ir_text
from jitgraph.simulator.state import MOST_SHARED, SHARED_BYTES, memory

_SHARED: Final = re.compile(r"@([\w.$-]+) = (.*?)addrspace\(3\) global (.*)")
_ALIGN: Final = re.compile(r"\balign (\d+)")
_NAMED: Final = re.compile(r"@([\w.$-]+)")
_GAP: Final = 128
"""Bytes between variables of shared memory, in which nothing may be touched: as many as all banks have."""

STATIC_SHARED_LIMIT: Final = 48 << 10


class SharedVariable(NamedTuple):
    """A variable in shared memory: where it lies, and its bytes; those of a dynamic one are said by the launch."""

    name: str
    address: int
    size: int
    dynamic: bool


def is_variable(line: str) -> bool:
    """Whether a line of a module defines a variable in shared memory."""
    return _SHARED.match(line) is not None


def placed(text: str, places: dict[str, int]) -> str:
    """A text with the addresses of variables in the place of their names."""
    if not places:
        return text
    names = "|".join(re.escape(name) for name in sorted(places, key=len, reverse=True))
    pattern = re.compile(rf"@({names})(?![\w.$-])")
    return pattern.sub(lambda found: f"inttoptr (i64 {places[found[1]]} to ptr addrspace(3))", text)


def laid_out(canonical: str) -> tuple[SharedVariable, ...]:
    """The variables laid out one behind another, apart; dynamic ones share the place behind them."""
    found, place = [], memory().shared_at
    dynamic: list[str] = []
    for line in canonical.splitlines():
        if not (match := _SHARED.match(line)):
            continue
        kind = ir_text.type_at(match[3])
        if "external" in match[2]:
            dynamic.append(match[1])
            continue
        size, _ = ir_text.layout(kind)
        place = -(-place // max(_GAP, _alignment(line))) * max(_GAP, _alignment(line))
        found.append(SharedVariable(match[1], place, size, False))
        place += size + _GAP
    place = -(-place // 1024) * 1024  # swizzles go by the bits of an address
    if place + MOST_SHARED + _GAP > memory().shared_at + SHARED_BYTES:
        raise UnsupportedOp(f"the kernels of the module have more than {SHARED_BYTES} bytes of shared memory")
    return (*found, *[SharedVariable(name, place, 0, True) for name in dynamic])


def _alignment(line: str) -> int:
    found = _ALIGN.search(line)
    return int(found[1]) if found else 1


def of_kernel(name: str, variables: Sequence[SharedVariable], bodies: str) -> tuple[SharedVariable, ...]:
    """Those that a kernel, and what it calls, names in its ``bodies``; UnsupportedOp where they are too large."""
    named = set(_NAMED.findall(bodies))
    found = tuple(each for each in variables if each.name in named)
    if (total := sum(each.size for each in found)) > STATIC_SHARED_LIMIT:
        raise UnsupportedOp(f"{name} has {total} bytes of static shared memory; PTX allows {STATIC_SHARED_LIMIT}")
    return found
