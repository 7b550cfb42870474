"""Makes host code of a module for PTX: the same functions, with each access looked at and each intrinsic defined."""

from __future__ import annotations

import math
import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jitgraph.errors import UnsupportedOp
from jitgraph.records import dataclass
from jitgraph_testing.simulator import arithmetic, intrinsics, ir_text, native_text
from jitgraph_testing.simulator.accesses import SITE_WORDS, AccessSite, checks
from jitgraph_testing.simulator.counters import counting
from jitgraph_testing.simulator.ir_text import IrFunction
from jitgraph_testing.simulator.native import filled, native
from jitgraph_testing.simulator.shared_variables import SharedVariable, is_variable, laid_out, of_kernel, with_addresses
from jitgraph_testing.simulator.state import ARGUMENT_BYTES, MOST_THREADS, STACK_BYTES, memory

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

_MOST_LOCAL: Final = STACK_BYTES // 2
_ALLOCA: Final = re.compile(r"\s*\S+ = alloca (.*)")


@dataclass(frozen=True, slots=True)
class HostText:
    """Host code as text, and what is known of it."""

    text: str
    kernels: dict[str, IrFunction]
    crossing: frozenset[str]  # kernels whose threads each have a stack, as they wait or copy
    shared: dict[str, tuple[SharedVariable, ...]]  # of each kernel
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
    if match := _GLOBAL.search(canonical):
        raise UnsupportedOp(f"the simulator has no device variables, such as @{match[1]}", hint="pass a buffer")
    if (local := _local_bytes(functions)) > _MOST_LOCAL:
        raise UnsupportedOp(f"{local} bytes of local arrays; the simulator gives a thread {_MOST_LOCAL}")
    variables = laid_out(canonical)
    addresses = {each.name: each.address for each in variables}
    sites: list[AccessSite] = []
    lines = canonical.splitlines()
    bounds = np.zeros((len(lines) + 1, SITE_WORDS), np.int64)
    inside, out = "", []
    for line in lines:
        if line.startswith("define "):
            inside = ir_text.called_name(line)
            out.append(_plain(line))
            continue
        if line.startswith(("declare ", "target ", "source_filename")) or is_variable(line):
            continue
        line = _plain(line) if inside else line
        if inside and line == "}":
            inside = ""
        elif inside:
            out += checks(line, inside, sites, bounds, checked=checked, noted=noted)
            line = _rewritten(line)
        out.append(line)
    events: dict[int, str] = {}
    text = with_addresses("\n".join(out), addresses) + "\n" + _declared(functions, events)
    kernels = {each.name: each for each in functions if each.is_kernel and each.body}
    thunks = "".join(_thunk(i, each) for i, each in enumerate(kernels.values()))
    if counted:
        text = counting(text)
    by_name = {each.name: each for each in functions}
    reached = {name: ir_text.reached(name, by_name) for name in kernels}
    crossing = frozenset(name for name in kernels if any(map(intrinsics.needs_a_fiber, reached[name])))
    shared = {
        name: of_kernel(name, variables, "\n".join(line for each in reached[name] for line in by_name[each].body))
        for name in kernels
    }
    limits = _limits(canonical, kernels)
    return HostText(text + thunks, kernels, crossing, shared, tuple(sites), bounds, limits, events)


def _local_bytes(functions: list[IrFunction]) -> int:
    """The bytes of all arrays that threads have for themselves."""
    matches = (_ALLOCA.match(line) for each in functions for line in each.body)
    return sum(ir_text.layout(ir_text.type_at(match[1]))[0] for match in matches if match)


def _limits(canonical: str, kernels: dict[str, IrFunction]) -> dict[str, int]:
    groups = dict(_GROUP.findall(canonical))
    limits = {}
    for name, kernel in kernels.items():
        number = re.search(r" #(\d+) ", kernel.head)
        match = _MOST_THREADS.search(groups.get(number[1], "") if number else "")
        if match:
            limits[name] = math.prod(int(extent) for extent in match[1].split(","))
    return limits


def _plain(line: str) -> str:
    """Without what only a GPU's code generator knows."""
    line = re.sub(r"\bptx_(?:kernel|device) |syncscope\(\"[^\"]*\"\) ?", "", line)
    return line if "@llvm.nvvm." not in line else re.sub(r" #\d+$", "", line)


def _rewritten(line: str) -> str:
    return line.replace("@llvm.nvvm.", "@sim.").replace("@llvm.trap(", "@sim.trap(")


def _declared(functions: list[IrFunction], events: dict[int, str]) -> str:
    """Declarations of what the host has, definitions of what it has not."""
    text, known = "", set()
    for each in functions:
        if each.body:
            continue
        if each.name.startswith("llvm.nvvm."):
            if not each.head.endswith(tuple("0123456789")):  # LLVM gives those that it knows attributes
                raise UnsupportedOp(f"LLVM knows no intrinsic {each.name}", hint="ptxas would refuse the name")
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
    offsets, offset = [], 0
    for parameter in kernel.parameters:
        offset = -(-offset // parameter.alignment) * parameter.alignment
        offsets.append(offset)
        offset += parameter.size
    if offset > ARGUMENT_BYTES:
        raise UnsupportedOp(f"{kernel.name} takes {offset} bytes of arguments; CUDA passes {ARGUMENT_BYTES}")
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
