"""Code for GPUs in a file: PTX for a generation of them, and what the host's image needs beside the ABI.

The entry of the host's image puts launches on the stream of the call. Behind inputs, state and outputs ``buffers``
has the device addresses of ``constants``; where ``reports`` is true, 40 bytes of pinned memory to which the error
record is copied behind the last launch; where there are ``pinned`` sizes, pinned memory of the greatest of them,
which is the call's until the entry returns; and the driver's handles of ``functions``, each in order. Device
addresses are multiples of 16. ``call.arena`` is device memory, ``call.stream`` the stream, and ``host.driver`` a
table of addresses of the driver's functions, which has those of ``driver`` at their places and NULL elsewhere. A
code below 0 is a ``CUresult``, negated; ``error.check_id`` is then the number of the launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from jitgraph.runtime.loader.errors import CHECK_KINDS, LoadError
from jitgraph.runtime.loader.json_objects import Json, get_typed
from jitgraph.runtime.loader.records import FrozenRecord
from jitgraph.runtime.loader.signatures import Check
from jitgraph.runtime.loader.sizes import Expression
from jitgraph.runtime.loader.specs import Size

MAX_DRIVER_SLOTS: Final = 256
MAX_PTX_BYTES: Final = 256 << 20
_MAX_NAME: Final = 1024
_GENERATION: Final = re.compile(r"sm_([1-9][0-9]{1,2})")
_SYMBOL: Final = re.compile(r"cu[A-Z][A-Za-z0-9_]{1,99}")
_KERNEL: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class DeviceCode(FrozenRecord):
    """What the manifest says of the code of one entry for one generation of GPUs, such as ``sm_80``."""

    generation: str
    host: str  # members of the file: the host's image, and the PTX
    ptx: str
    functions: tuple[str, ...]  # kernels of the PTX
    constants: tuple[tuple[str, int], ...]  # keys among the weights, and their bytes
    driver: tuple[tuple[str, int], ...]  # functions of the driver, and their places in the table
    checks: tuple[Check, ...]  # by the numbers that kernels report
    reports: bool  # whether kernels may fail
    pinned: tuple[Size, ...]  # bytes, by the sizes of the call; none where the entry never waits

    @property
    def capability(self) -> int:
        """The compute capability, ten times its number."""
        return int(self.generation.removeprefix("sm_"))

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        return {
            "host": self.host,
            "ptx": self.ptx,
            "functions": list(self.functions),
            "constants": [{"key": key, "bytes": size} for key, size in self.constants],
            "driver": dict(self.driver),
            "checks": [{"message": c.message, "kind": c.kind, "location": c.location} for c in self.checks],
            "reports": self.reports,
            "pinned": list(self.pinned),
        }

    @staticmethod
    def from_json(generation: str, source: Json, dims: Iterable[str], where: str) -> DeviceCode:
        """Read what ``to_json`` gave, of an entry with these named sizes; LoadError where it is malformed."""
        where = f"{where}, {generation[:20]!r}"
        if not _GENERATION.fullmatch(generation):
            raise LoadError(f"{where}: this names no generation of GPUs; expected such as 'sm_80'")
        functions = tuple(get_typed(source, "functions", list, where))
        for name in functions:
            if not isinstance(name, str) or len(name) > _MAX_NAME or not _KERNEL.fullmatch(name):
                raise LoadError(f"{where}: {name!r:.60} is no name of a kernel")
        if len(set(functions)) != len(functions):
            raise LoadError(f"{where}: a kernel is named twice")
        driver = get_typed(source, "driver", dict, where)
        for symbol, slot in driver.items():
            if not _SYMBOL.fullmatch(symbol) or type(slot) is not int or not 0 <= slot < MAX_DRIVER_SLOTS:
                raise LoadError(f"{where}: {symbol!r:.60} at {slot!r:.20} is no function of the driver in a table")
        if len(set(driver.values())) != len(driver):
            raise LoadError(f"{where}: two functions of the driver have one place")
        checks = []
        for number, check in enumerate(get_typed(source, "checks", list, where)):
            parts = [
                get_typed(check, part, str, f"{where}, check {number}") for part in ("message", "kind", "location")
            ]
            if parts[1] not in CHECK_KINDS:
                raise LoadError(f"{where}: a check raises {parts[1]!r:.40}; one of {', '.join(CHECK_KINDS)}")
            checks.append(Check(*parts))
        constants = []
        for constant in get_typed(source, "constants", list, where):
            size = get_typed(constant, "bytes", int, where)
            if size < 0:
                raise LoadError(f"{where}: a constant of {size} bytes")
            constants.append((get_typed(constant, "key", str, where), size))
        pinned = get_typed(source, "pinned", list, where)
        for size in pinned:
            if isinstance(size, bool) or not isinstance(size, (int, str)) or (type(size) is int and size < 0):
                raise LoadError(f"{where}: {size!r:.60} is no size of pinned memory")
            if isinstance(size, str) and (unknown := Expression(size).names - set(dims)):
                raise LoadError(f"{where}: pinned memory uses the unknown dims {sorted(unknown)}")
        return DeviceCode(
            generation,
            get_typed(source, "host", str, where),
            get_typed(source, "ptx", str, where),
            functions,
            tuple(constants),
            tuple(driver.items()),
            tuple(checks),
            get_typed(source, "reports", bool, where),
            tuple(pinned),
        )


def verify_ptx(text: bytes | memoryview, where: str) -> None:
    """LoadError where bytes are no text that the driver's compiler could be given."""
    if len(text) > MAX_PTX_BYTES:
        raise LoadError(f"{where}: PTX of {len(text)} bytes, more than the {MAX_PTX_BYTES} allowed")
    data = bytes(text)
    if not data.isascii() or b"\0" in data or b".version" not in data:
        raise LoadError(f"{where}: this is no PTX")
