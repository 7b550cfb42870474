"""Variables in shared memory: where they lie on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jitgraph.errors import UnsupportedOp
from jitgraph.records import NamedTuple
from jitgraph_testing.simulator import ir_text
from jitgraph_testing.simulator.state import MOST_SHARED, SHARED_BYTES, memory

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


def with_addresses(text: str, addresses: dict[str, int]) -> str:
    """A text with the addresses of variables in the place of their names."""
    if not addresses:
        return text
    names = "|".join(re.escape(name) for name in sorted(addresses, key=len, reverse=True))
    pattern = re.compile(rf"@({names})(?![\w.$-])")
    return pattern.sub(lambda found: f"inttoptr (i64 {addresses[found[1]]} to ptr addrspace(3))", text)


def laid_out(canonical: str) -> tuple[SharedVariable, ...]:
    """The variables laid out one behind another, apart; dynamic ones share the place behind them."""
    variables, address = [], memory().shared_at
    dynamic: list[str] = []
    for line in canonical.splitlines():
        if not (match := _SHARED.match(line)):
            continue
        kind = ir_text.type_at(match[3])
        if "external" in match[2]:
            dynamic.append(match[1])
            continue
        size, _ = ir_text.layout(kind)
        address = -(-address // max(_GAP, _alignment(line))) * max(_GAP, _alignment(line))
        variables.append(SharedVariable(match[1], address, size, False))
        address += size + _GAP
    address = -(-address // 1024) * 1024  # swizzles go by the bits of an address
    if address + MOST_SHARED + _GAP > memory().shared_at + SHARED_BYTES:
        raise UnsupportedOp(f"the kernels of the module have more than {SHARED_BYTES} bytes of shared memory")
    return (*variables, *[SharedVariable(name, address, 0, True) for name in dynamic])


def _alignment(line: str) -> int:
    match = _ALIGN.search(line)
    return int(match[1]) if match else 1


def of_kernel(name: str, variables: Sequence[SharedVariable], bodies: str) -> tuple[SharedVariable, ...]:
    """Those that a kernel, and what it calls, names in its ``bodies``; UnsupportedOp where they are too large."""
    used_names = set(_NAMED.findall(bodies))
    used = tuple(each for each in variables if each.name in used_names)
    if (total := sum(each.size for each in used)) > STATIC_SHARED_LIMIT:
        raise UnsupportedOp(f"{name} has {total} bytes of static shared memory; PTX allows {STATIC_SHARED_LIMIT}")
    return used
