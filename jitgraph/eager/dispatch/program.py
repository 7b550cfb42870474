"""Program: the checks of one table as they are written, with the registers that they fill and what they refer to."""

from __future__ import annotations

import struct
from typing import Any, Final

from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.cpython.api import half_word

_NUMBERS: Final = {name: number for number, name in enumerate(layout.OPS)}
_FORM: Final = struct.Struct(layout.OP_FORM)
_HEAP_TYPE: Final = 1 << 9


class Unsupported(Exception):
    """Why a plan cannot be checked natively, or not now."""


class Program:
    """Ops in order. ``keep`` holds every object that an op names by its address."""

    def __init__(self, arguments: int) -> None:
        """The first registers are those of the arguments."""
        self.ops: list[bytes] = []
        self.keep: list[Any] = []
        self._registers = arguments
        self._constants: dict[int, int] = {}
        self._versions: set[int] = set()
        self._types: set[tuple[int, int]] = set()
        self._tensors: dict[int, int] = {}  # registers of which is checked that they hold tensors: by which op

    def refer(self, obj: Any) -> int:
        """The address of an object, which lives as long as the table."""
        self.keep.append(obj)
        return id(obj)

    def register(self) -> int:
        """A register that nothing uses yet."""
        self._registers += 1
        if self._registers >= layout.COUNT_REGISTER:
            raise Unsupported(f"it reads more than {layout.COUNT_REGISTER} values")
        return self._registers - 1

    def op(
        self, name: str, source: int = 0, target: int = 0, *, flags: int = 0, number: int = 0, form: int = 0,
        a: int = 0, b: int = 0, offset: int = 0, expected: int = 0,
    ) -> int:  # fmt: skip
        """Write an op; gives its target."""
        self.ops.append(
            _FORM.pack(_NUMBERS[name], flags, source, target, number, form, *map(_signed, (a, b, offset, expected)))
        )
        return target

    def load(self, name: str, source: int, *, expected: Any = None, **fields: int) -> int:
        """Write an op that loads into a register of its own; ``expected`` is a tuple with the object to be found."""
        expected_id = self.refer(expected[0]) if expected is not None else 0
        return self.op(name, source, self.register(), expected=expected_id, **fields)

    def constant(self, obj: Any) -> int:
        """The register with an object."""
        known = self._constants.get(id(obj))
        if known is None:
            known = self._constants[id(obj)] = self.op("constant", 0, self.register(), a=self.refer(obj))
        return known

    def require_type(self, register: int, kind: type) -> None:
        """What a register holds is of exactly this class."""
        if (register, id(kind)) not in self._types:
            self._types.add((register, id(kind)))
            self.op("type", register, a=self.refer(kind))

    def require_tensor(self, register: int) -> None:
        """What a register holds is a tensor."""
        if register not in self._tensors:
            self._tensors[register] = len(self.ops)
            self.op("is_tensor", register)

    def tensor(self, register: int, operand: int, **fields: int) -> None:
        """Write the op that finds the memory of a tensor, which it checks to be one."""
        self._tensors[register] = len(self.ops)
        self.op("tensor", register, operand, **fields)

    def forbid_hooks(self, register: int) -> bool:
        """Let the op that found the memory of a tensor see that it has no hooks, too; False where there is none."""
        number = self._tensors.get(register)
        if number is None or self.ops[number][0] not in (_NUMBERS["tensor"], _NUMBERS["unhooked_tensor"]):
            return False
        self.ops[number] = bytes([_NUMBERS["unhooked_tensor"]]) + self.ops[number][1:]
        return True

    def require_version(self, kind: type) -> None:
        """A class is as it is now, its bases included."""
        if id(kind) in self._versions or not any(base.__flags__ & _HEAP_TYPE for base in kind.__mro__):
            return
        getattr(kind, "no attribute has this name", None)  # which gives the class a version
        version = half_word(id(kind) + cpython.TYPE_VERSION)
        if not version:
            raise Unsupported(f"{kind.__qualname__} was changed so often that its changes are no longer seen")
        self._versions.add(id(kind))
        self.op("version", a=self.refer(kind), number=version - (version >> 31 << 32))

    def text(self) -> bytes:
        """The ops, with the one that ends them."""
        return b"".join([*self.ops, _FORM.pack(_NUMBERS["end"], *[0] * 9)])


def _signed(value: int) -> int:
    return value - (value >> 63 << 64) if value >= 0 else value
