"""Makes host code of a module for PTX: the same functions, with each access looked at and each intrinsic defined."""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jitgraph.errors import UnsupportedOp
from jitgraph.records import dataclass
from jitgraph.simulator import arithmetic, intrinsics, ir_text, native_text
from jitgraph.simulator.accesses import SITE_WORDS, AccessSite, checks
from jitgraph.simulator.ir_text import IrFunction
from jitgraph.simulator.native import filled, native
from jitgraph.simulator.state import ARGUMENT_BYTES, MOST_THREADS, SHARED_BYTES, memory

_SHARED: Final = re.compile(r"@([\w.$-]+) = (.*?)addrspace\(3\) global (.*)")
_GLOBAL: Final = re.compile(r"@([\w.$-]+) = (?!.*addrspace\(3\))(?!.*\bconstant\b).*\bglobal\b")
_HOST_INTRINSICS: Final = re.compile(
    r"llvm\.(?:fma|fmuladd|sqrt|floor|ceil|trunc|rint|nearbyint|round|roundeven|minnum|maxnum|minimum|maximum"
    r"|minimumnum|maximumnum|fabs|copysign|canonicalize|is\.fpclass|ldexp|powi?|sin|cos|tan|tanh|exp|exp2|log|log2"
    r"|ctpop|ctlz|cttz|bswap|bitreverse|fsh[lr]|[su]min|[su]max|abs|[su](?:add|sub|mul)\.with\.overflow"
    r"|[su](?:add|sub)\.sat|fpto[su]i\.sat|vector\.reduce\..*|memcpy|memmove|memset|lifetime\..*|assume|expect"
    r"|experimental\.noalias\.scope\.decl|invariant\..*|trap|debugtrap)\b.*"
)
_GROUP: Final = re.compile(r"^attributes #(\d+) = \{(.*)\}", re.MULTILINE)
_MOST_THREADS: Final = re.compile(r'"nvvm\.(?:maxntid|reqntid)"="([\d,]+)"')
_GAP: Final = 128
"""Bytes between variables of shared memory, in which nothing may be touched: as many as all banks have."""

STATIC_SHARED_LIMIT: Final = 48 << 10


class SharedVariable(NamedTuple):
    """A variable in shared memory: where it lies, and its bytes; those of a dynamic one are said by the launch."""

    name: str
    address: int
    size: int
    dynamic: bool


@dataclass(frozen=True, slots=True)
class HostText:
    """Host code as text, and what is known of it."""

    text: str
    kernels: dict[str, IrFunction]
    crossing: frozenset[str]  # kernels in which threads wait for each other
    shared: tuple[SharedVariable, ...]
    dynamic_at: int
    sites: tuple[AccessSite, ...]
    bounds: NDArray[np.int64]  # a row a site, at the address that the code has
    limits: dict[str, int]  # of threads in a block, where a kernel has one
    events: dict[int, str]  # names of intrinsics by the numbers under which fibers stop

    def thunk(self, kernel: str) -> str:
        """The function that calls a kernel with the arguments of the launch."""
        return f"simulator_kernel_{list(self.kernels).index(kernel)}"

    def most_threads(self, kernel: str) -> int:
        """The threads that a block may have: those that the kernel's attributes say, or 1024."""
        return self.limits.get(kernel, MOST_THREADS)

    def offsets(self, kernel: str) -> list[int]:
        """Where each argument lies among those of the launch."""
        return _offsets(self.kernels[kernel])


def host_text(canonical: str, *, checked: bool, noted: bool, counted: bool) -> HostText:
    """Host code of a module as LLVM prints it; UnsupportedOp for what cannot be simulated, by name.

    ``checked``: each access is looked at. ``noted``: and written down. ``counted``: instructions are counted.
    """
    functions = list(ir_text.functions(canonical))
    if "asm " in canonical and re.search(r"\bcall .*\basm\b", canonical):
        raise UnsupportedOp("the simulator runs no inline assembly", hint="use the intrinsic of that instruction")
    if found := _GLOBAL.search(canonical):
        raise UnsupportedOp(f"the simulator has no device variables, such as @{found[1]}", hint="pass a buffer")
    shared, dynamic_at = _shared(canonical)
    places = {each.name: each.address for each in shared}
    sites: list[AccessSite] = []
    lines = canonical.splitlines()
    bounds = np.zeros((len(lines) + 1, SITE_WORDS), np.int64)
    inside, out = "", []
    for line in lines:
        if line.startswith("define "):
            inside = ir_text.called_name(line)
            out.append(_plain(line))
            continue
        if line.startswith(("declare ", "target ", "source_filename")) or _SHARED.match(line):
            continue
        line = _plain(line) if inside else line
        if inside and line == "}":
            inside = ""
        elif inside:
            out += checks(line, inside, sites, bounds, checked=checked, noted=noted)
            line = _rewritten(line)
        out.append(line)
    events: dict[int, str] = {}
    text = _placed("\n".join(out), places) + "\n" + _declared(functions, events)
    kernels = {each.name: each for each in functions if each.is_kernel and each.body}
    thunks = "".join(_thunk(i, each) for i, each in enumerate(kernels.values()))
    if counted:
        text = _counted(text)
    crossing = frozenset(name for name in kernels if _crosses(name, {each.name: each for each in functions}))
    return HostText(
        text + thunks, kernels, crossing, shared, dynamic_at, tuple(sites), bounds, _limits(canonical, kernels), events
    )


def _limits(canonical: str, kernels: dict[str, IrFunction]) -> dict[str, int]:
    groups = dict(_GROUP.findall(canonical))
    found = {}
    for name, kernel in kernels.items():
        number = re.search(r" #(\d+) ", kernel.head)
        said = _MOST_THREADS.search(groups.get(number[1], "") if number else "")
        if said:
            found[name] = math.prod(int(extent) for extent in said[1].split(","))
    return found


def _plain(line: str) -> str:
    """Without what only a GPU's code generator knows."""
    line = re.sub(r"\bptx_(?:kernel|device) |syncscope\(\"[^\"]*\"\) ?", "", line)
    return line if "@llvm.nvvm." not in line else re.sub(r" #\d+$", "", line)


def _rewritten(line: str) -> str:
    return line.replace("@llvm.nvvm.", "@sim.").replace("@llvm.trap(", "@sim.trap(")


def _placed(text: str, places: dict[str, int]) -> str:
    if not places:
        return text
    names = "|".join(re.escape(name) for name in sorted(places, key=len, reverse=True))
    pattern = re.compile(rf"@({names})(?![\w.$-])")
    return pattern.sub(lambda found: f"inttoptr (i64 {places[found[1]]} to ptr addrspace(3))", text)


def _shared(canonical: str) -> tuple[tuple[SharedVariable, ...], int]:
    """The variables laid out one behind another, apart; dynamic ones share the place behind them."""
    found, place, total = [], memory().shared_at, 0
    dynamic: list[str] = []
    for line in canonical.splitlines():
        if not (match := _SHARED.match(line)):
            continue
        kind = ir_text.type_at(match[3])
        if "external" in match[2]:
            dynamic.append(match[1])
            continue
        size, _ = ir_text.layout(kind)
        found.append(SharedVariable(match[1], place, size, False))
        total += size
        place = -(-(place + size) // _GAP) * _GAP + _GAP
    if total > STATIC_SHARED_LIMIT:
        raise UnsupportedOp(f"{total} bytes of static shared memory; PTX allows {STATIC_SHARED_LIMIT}")
    if place + 2 * _GAP > memory().shared_at + SHARED_BYTES:
        raise UnsupportedOp(f"{total} bytes of static shared memory do not fit")
    place = -(-place // 1024) * 1024  # swizzles go by the bits of an address
    found += [SharedVariable(name, place, 0, True) for name in dynamic]
    return tuple(found), place


def _declared(functions: list[IrFunction], events: dict[int, str]) -> str:
    """Declarations of what the host has, definitions of what it has not."""
    text, known = "", set()
    for each in functions:
        if each.body:
            continue
        if each.name.startswith("llvm.nvvm."):
            kind = intrinsics.kind_of(each.name)
            if kind is None and intrinsics.crosses_threads(each.name):
                kind = native_text.FIRST_RARE + len(events)
            if kind is not None:
                events[kind] = each.name.removeprefix("llvm.nvvm.")
            types = tuple(parameter.type for parameter in each.parameters)
            text += intrinsics.definition(each.name, _result(each), types, kind or 0)
        elif each.name == "llvm.trap":
            text += _trap()
        elif _HOST_INTRINSICS.fullmatch(each.name):
            known.add(each.name)
            text += f"declare {_result(each)} @{each.name}({', '.join(p.type for p in each.parameters)})\n"
        else:
            raise UnsupportedOp(f"the simulator does not know the function {each.name}")
    needed = (line for line in arithmetic.DECLARATIONS.splitlines() if ir_text.called_name(line) not in known)
    return text + "\n".join(needed) + "\n"


def _result(function: IrFunction) -> str:
    """The type alone: attributes stand before it."""
    text = re.sub(
        r"\b(?:noundef|signext|zeroext|internal|private|dso_local|range\([^)]*\)) ", "", function.result + " "
    )
    return text.strip()


def _trap() -> str:
    stop = f"inttoptr (i64 {native().addresses['fault']} to ptr)"
    text = filled("  %site = load i64, ptr <L.site>\n")
    text += f"  call void {stop}(i64 {native_text.TRAP}, i64 0, i64 0, i64 0, i64 %site)\n  unreachable\n"
    return f"define internal void @sim.trap() {{\n{text}}}\n"


def _offsets(kernel: IrFunction) -> list[int]:
    offsets, place = [], 0
    for parameter in kernel.parameters:
        place = -(-place // parameter.alignment) * parameter.alignment
        offsets.append(place)
        place += parameter.size
    if place > ARGUMENT_BYTES:
        raise UnsupportedOp(f"{kernel.name} takes {place} bytes of arguments; CUDA passes {ARGUMENT_BYTES}")
    return offsets


def _thunk(number: int, kernel: IrFunction) -> str:
    text, passed = "", []
    base = memory().of_launch("arguments")
    for i, (parameter, offset) in enumerate(zip(kernel.parameters, _offsets(kernel), strict=True)):
        at = f"inttoptr (i64 {base + offset} to ptr)"
        if "byval" in parameter.text:
            passed.append(f"{parameter.text} {at}")
            continue
        text += f"  %a{i} = load {parameter.type}, ptr {at}\n"
        passed.append(f"{parameter.text} %a{i}")
    call = f"  call void @{kernel.name}({', '.join(passed)})\n"
    return f"define hidden void @simulator_kernel_{number}() {{\n{text}{call}  ret void\n}}\n"


def _crosses(name: str, functions: dict[str, IrFunction]) -> bool:
    """Whether a function, or one that it calls, waits for other threads."""
    seen, open_names = set(), [name]
    while open_names:
        each = open_names.pop()
        if each in seen or each not in functions:
            continue
        seen.add(each)
        if each.startswith("llvm.nvvm.") and intrinsics.crosses_threads(each):
            return True
        open_names += functions[each].called
    return False


def _counted(text: str) -> str:
    """Each block adds the number of its own instructions to that of the launch."""
    out: list[str] = []
    place, count, inside = 0, 0, False
    at = f"inttoptr (i64 {memory().of_launch('instructions')} to ptr)"

    def close() -> None:
        name = f"%sim.count.{place}"
        if count:
            out[place:place] = [
                f"  {name} = load i64, ptr {at}", f"  {name}.n = add i64 {name}, {count}",
                f"  store i64 {name}.n, ptr {at}",
            ]  # fmt: skip

    for line in text.splitlines():
        stripped = line.strip()
        if line.startswith("define ") and "@sim." not in line:
            inside, place, count = True, len(out) + 1, 0
        elif inside and (line == "}" or re.match(r'[\w.$"-]+:', line)):
            close()
            inside, place, count = line != "}", len(out) + 1, 0
        elif inside and " phi " in line:
            place = len(out) + 1
        elif inside and stripped and not stripped.startswith((";", "]")) and "sim.check" not in line:
            count += 1
        out.append(line)
    return "\n".join(out) + "\n"
