"""A writer of LLVM IR text: modules, functions, blocks, fresh names, phis; and operands with their types."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import SHORT_NAMES, DType, bfloat16, bool_, float16, float32, float64, is_bool, is_float, is_signed
from jitgraph.records import NamedTuple, dataclass

# ----------------------------------------------------------------------
# A writer of LLVM IR text: modules, functions, blocks, fresh names, phis. It knows nothing of kernels.
#
# Text rather than a tree of objects, since the time to compile is part of the product: a line is one formatted string.

_NOT_ALIKE: Final = frozenset({"call", "load"})
"""Instructions of which two with one text may give different values."""


class LlvmValue(NamedTuple):
    """An operand: its name or literal, and its LLVM type."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


OK: Final = LlvmValue("0", "i32")
"""The code of a function that did not fail."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A finished function, and what is asked of it: where a module is cut, what is inlined, what has to be linked.

    ``head`` is the result, the name and the arguments; ``body`` the lines between the braces. ``uses`` counts by name
    the functions and constants that it mentions, ``returns`` its ``ret`` instructions. It is ``hot`` where it has loops
    or vectors.
    """

    name: str
    head: str
    body: str
    attributes: str = "nounwind"
    linkage: str = "internal"
    inlined: bool | None = None  # None: as LLVM likes
    hot: bool = True
    returns: int = 1
    uses: Mapping[str, int] = field(default_factory=dict)

    @property
    def lines(self) -> int:
        return self.body.count("\n") + 2

    def text(self, *, hidden: bool = False) -> str:
        """The definition; ``hidden`` makes an internal function one that other units see."""
        linkage = "hidden" if hidden and self.linkage == "internal" else self.linkage
        return f"{' '.join(('define ' + linkage).split())} {self._signature} {{\n{self.body}\n}}"

    @property
    def declaration(self) -> str:
        """For units that call it."""
        return f"declare hidden {self._signature}"

    @property
    def _signature(self) -> str:
        inlining = {None: "", True: " alwaysinline", False: " noinline"}[self.inlined]
        return f"{self.head} {self.attributes}{inlining}".rstrip()


class Phi:
    """A phi at the head of a block; ``add`` may come after the block is left."""

    def __init__(self, function: LlvmFunction, type: str) -> None:
        self.value = function.fresh(type)
        self._function = function
        self._line = len(function.lines)
        self._incoming: list[str] = []
        function.lines.append("")

    def add(self, value: str, block: str) -> None:
        """``value`` comes in from ``block``."""
        self._incoming.append(f"[{value}, %{block}]")
        self._function.lines[self._line] = f"  {self.value.name} = phi {self.value.type} {', '.join(self._incoming)}"


class LlvmFunction:
    """One function under construction; instructions go to the end of the current ``block``.

    An instruction without effects is not written again where the block, or one that it always follows, has it already.
    ``attributes`` of an argument go before its name. Allocas and loads of captured values go to the ``prologue``, which
    runs before everything else. ``finish`` hands the text to the module.
    """

    def __init__(
        self,
        module: LlvmModule,
        name: str,
        result: str,
        linkage: str = "internal",
        attributes: str = "",
        inlined: bool | None = None,
    ) -> None:
        self.module = module
        self.name = name
        self.result = result
        self.linkage = linkage
        self.attributes = attributes
        self.inlined = inlined
        self.hot = False
        self.uses: Counter[str] = Counter()
        self.arguments: list[str] = []
        self.prologue: list[str] = []
        self.lines: list[str] = []
        self.block = "start"
        self.ands: set[str] = set()  # the names of results of ``and`` instructions on integers
        self.known: dict[
            str, LlvmValue
        ] = {}  # the values of instructions that have run wherever the current block runs
        self.offsets: dict[str, tuple[str, int]] = {}  # integers that are another one plus a literal
        self._names = 0
        self._returns = 0

    def argument(self, type: str, attributes: str = "") -> LlvmValue:
        """Append an argument."""
        value = self.fresh(type)
        self.arguments.append(f"{type} {attributes} {value.name}" if attributes else str(value))
        return value

    def named(self, name: str) -> str:
        """The operand that stands for a function or constant of the module, or one that is linked to it."""
        self.uses[name] += 1
        return f"@{name}"

    def call_of(self, result: str, name: str, *arguments: object) -> str:
        """The instruction that calls a function of the module, or one that is linked to it."""
        return f"call {result} {self.named(name)}({', '.join(map(str, arguments))})"

    def fresh(self, type: str) -> LlvmValue:
        """A name that nothing else has."""
        self._names += 1
        return LlvmValue(f"%v{self._names}", type)

    def label(self, hint: str) -> str:
        """A fresh label; ``start_block`` begins the block."""
        self._names += 1
        return f"{hint}{self._names}"

    def start_block(self, label: str, known: dict[str, LlvmValue] | None = None) -> None:
        """Begin the block ``label``; the block before it must have ended.

        ``known`` is what a block knew through which every way to this one goes.
        """
        self.lines.append(f"{label}:")
        self.block = label
        self.known = {} if known is None else dict(known)

    def emit(self, type: str, instruction: str) -> LlvmValue:
        """``%fresh = instruction``, a value of ``type``; the one that is known already where it must be the same."""
        known = self.known.get(instruction)
        if known is not None:
            return known
        self._names += 1
        name = f"%v{self._names}"
        self.lines.append(f"  {name} = {instruction}")
        value = LlvmValue(name, type)
        if instruction[:4] not in _NOT_ALIKE:
            self.known[instruction] = value
        return value

    def do(self, instruction: str) -> None:
        """An instruction without a result."""
        self.lines.append("  " + instruction)

    def alloca(self, type: str, count: int = 1, align: int = 64) -> LlvmValue:
        """Stack memory of the function's frame, whatever block is current."""
        value = self.fresh("ptr")
        self.prologue.append(f"  {value.name} = alloca [{count} x {type}], align {align}")
        return value

    def phi(self, type: str) -> Phi:
        """A phi; the current block must hold nothing but phis yet."""
        self.hot = True
        return Phi(self, type)

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(
        self, condition: str, then: str, otherwise: str, likely: bool | None = None, *, rolled: bool = False
    ) -> None:
        """Branch on an i1; ``likely`` says which way it mostly goes.

        ``rolled`` is for the branch back of a loop that neither LLVM nor an assembler is to unroll.
        """
        hint = "" if likely is None else f", !prof !{0 if likely else 1}"
        if rolled:
            self.module.declare('!2 = distinct !{!2, !3}\n!3 = !{!"llvm.loop.unroll.disable"}')
            hint += ", !llvm.loop !2"
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}{hint}")

    def ret(self, value: LlvmValue | None = None) -> None:
        self._returns += 1
        self.do(f"ret {value}" if value else "ret void")

    def finish(self) -> None:
        """Hand the definition to the module."""
        self.module.functions.append(
            Definition(
                self.name,
                f"{self.result} @{self.name}({', '.join(self.arguments)})",
                "\n".join(["start:", *self.prologue, *self.lines]),
                self.attributes,
                self.linkage,
                self.inlined,
                self.hot,
                self._returns,
                self.uses,
            )
        )


def check(function: LlvmFunction, call: str) -> None:
    """Make a call that gives an error code, and return the code where it is not zero."""
    code = function.emit("i32", call)
    failed, passed = function.label("failed"), function.label("passed")
    bad = function.emit("i1", f"icmp ne {code}, 0")
    function.branch(bad.name, failed, passed, likely=False)
    function.start_block(failed)
    function.ret(code)
    function.start_block(passed)


class LlvmModule:
    """A module under construction: finished functions, constants, the set of names it has, and what it calls of others.

    ``required`` are the functions of libraries that have to be linked, each with what makes it (``cpu/objects.py``).
    ``math`` are the names of the math functions that are called, whether they stand here or are linked.
    """

    def __init__(self, triple: str, written: str = "", *, links: bool = True) -> None:
        """``written`` is LLVM IR that is part of it as it stands; without ``links`` no function of it is linked."""
        self.triple = triple
        self.links = links
        self.written = written
        self.functions: list[Definition] = []
        self.required: dict[tuple[Any, ...], None] = {}
        self.math: set[str] = set()
        self._constants: dict[tuple[bytes, int], str] = {}
        self._declarations: dict[str, None] = {}
        self._names: set[str] = set()

    def claim(self, name: str) -> bool:
        """True the first time that ``name`` is claimed: the caller then defines it."""
        if name in self._names:
            return False
        self._names.add(name)
        return True

    def declare(self, declarations: str) -> None:
        """Add lines of declarations, once; intrinsics need none."""
        self._declarations[declarations] = None

    def require(self, library: str, *details: Any) -> None:
        """What is linked must have a function of this library, or all of it."""
        self.required[library, *details] = None

    def unique(self, stem: str) -> str:
        """A global name that begins with ``stem``; characters that LLVM would quote become underscores."""
        stem = "".join(character if character.isalnum() and character.isascii() else "_" for character in stem)
        name, count = stem, 1
        while not self.claim(name):
            count += 1
            name = f"{stem}_{count}"
        return name

    def constant(self, data: bytes, align: int = 64) -> str:
        """The name of a constant with these bytes in read-only memory; equal bytes share one."""
        key = (data, align)
        if key not in self._constants:
            self._constants[key] = f"c{len(self._constants)}"
        return self._constants[key]

    @property
    def heading(self) -> list[str]:
        """What each part of the module has: the target, declarations, and how likely branches are."""
        weights = '!0 = !{!"branch_weights", i32 2000, i32 1}\n!1 = !{!"branch_weights", i32 1, i32 2000}'
        return [f'target triple = "{self.triple}"', *self._declarations, weights]

    @property
    def constants(self) -> dict[str, str]:
        """The definitions of constants, by name."""
        return {name: _constant_text(name, data, align) for (data, align), name in self._constants.items()}

    def text(self) -> str:
        """The whole module."""
        functions = [function.text() for function in self.functions]
        return "\n\n".join([*self.heading, *self.constants.values(), *functions, self.written]).rstrip() + "\n"


def _constant_text(name: str, data: bytes, align: int) -> str:
    pairs = data.hex("\\")
    text = f'c"\\{pairs}"' if data else "zeroinitializer"
    return f"@{name} = private unnamed_addr constant [{len(data)} x i8] {text}, align {align}"


# ----------------------------------------------------------------------
# Operands of kernel code: a name or literal with its LLVM type, its dtype and its number of lanes.


class LlvmScalar(NamedTuple):
    """An operand of kernel code: name or literal, its LLVM type, dtype and number of lanes (1: uniform)."""

    name: str
    type: str
    dtype: DType
    lanes: int

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def is_literal(self) -> bool:
        return self.name[0] != "%"


def lanes_of(type: str, lanes: int) -> str:
    """The type of ``lanes`` elements of ``type``; the type itself for one lane."""
    return type if lanes == 1 else f"<{lanes} x {type}>"


_TYPES: dict[DType, str] = {
    dtype: {float16: "half", bfloat16: "i16", float32: "float", float64: "double", bool_: "i1"}.get(
        dtype, f"i{8 * dtype.itemsize}"
    )
    for dtype in SHORT_NAMES
}


def element_type(dtype: DType, fastmath: bool = False) -> str:
    """The LLVM type of one value of ``dtype`` in a register."""
    return "float" if fastmath and dtype.itemsize == 2 and is_float(dtype) else _TYPES[dtype]


def overload(type: str) -> str:
    """``type`` as intrinsics have it in their names: f32, v16f32, i64."""
    if type[0] == "<":
        count, _, element = type[1:-1].split()
        return f"v{count}{overload(element)}"
    return {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(type, type)


def literal(value: float | int | bool, dtype: DType, fastmath: bool = False) -> str:
    """The literal of ``value`` rounded (floats) or wrapped (integers) to ``dtype``."""
    if is_bool(dtype):
        return "true" if value else "false"
    if not is_float(dtype):
        bits = 8 * dtype.itemsize
        wrapped = int(value) & ((1 << bits) - 1)
        return str(wrapped - (1 << bits) if is_signed(dtype) and wrapped >> (bits - 1) else wrapped)
    with np.errstate(all="ignore"):
        rounded = np.asarray(value).astype(dtype)
    if dtype.itemsize == 2 and not fastmath:
        (bits,) = struct.unpack("<H", rounded.tobytes())
        return f"0xH{bits:04X}" if dtype == float16 else str(bits)
    (bits,) = struct.unpack("<Q", rounded.astype(np.float64).tobytes())
    return f"0x{bits:016X}"


def fetch_line(function: LlvmFunction, address: str, *, write: bool = False) -> None:
    """Ask for a line of memory that will be used soon; any address will do."""
    function.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n")
    function.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 {int(write)}, i32 3, i32 1)")
