"""What each NVVM intrinsic is on the host: LLVM IR of a function of the same type.

Names: LLVM 22, IntrinsicsNVVM.td. Meaning: PTX ISA 9.0. What crosses threads leaves its arguments in the fiber's
record and stops; ``warp_ops.py``, ``matrices.py`` and the scheduler know what comes of it.
"""

from __future__ import annotations

import re
from typing import Final

from jitgraph.errors import UnsupportedOp
from jitgraph_testing.simulator import fragments, matrices, native_text
from jitgraph_testing.simulator.arithmetic import formula
from jitgraph_testing.simulator.native import filled, native

_PREFIX: Final = "llvm.nvvm."
_SREGS: Final = {
    **{f"tid.{axis}": f"thread_id+{4 * i}" for i, axis in enumerate("xyz")},
    "laneid": "lane",
    "warpid": "warp",
}
_LAUNCH_SREGS: Final = {
    **{f"ntid.{axis}": ("block_dim", 4 * i) for i, axis in enumerate("xyz")},
    **{f"ctaid.{axis}": ("block_id", 4 * i) for i, axis in enumerate("xyz")},
    **{f"nctaid.{axis}": ("grid_dim", 4 * i) for i, axis in enumerate("xyz")},
    "dynamic_smem_size": ("dynamic_shared", 0),
}
_LANE_MASKS: Final = {
    "eq": "%one",
    "lt": "sub i32 %one, 1",
    "le": "or i32 %below, %one",
    "gt": "xor i32 %upto, -1",
    "ge": "xor i32 %below, -1",
}
_NOTHING: Final = re.compile(r"membar\..*|fence\..*|griddepcontrol\..*|prefetch.*|setmaxnreg\..*")
_EVENT: Final = re.compile(
    r"barrier\.cta\..*|bar\.warp\.sync|shfl\.sync\..*|vote\..*\.sync|match\..*|redux\.sync\..*|activemask|elect\.sync"
    r"|ldmatrix\..*|stmatrix\..*|mma\.m\d+n\d+k\d+\..*|nanosleep"
)
_COPY: Final = re.compile(r"cp\.async\.c[ag]\.shared\.global\.(4|8|16)(\.s)?")


def kind_of(name: str) -> int | None:
    """The number under which a fiber stops at an intrinsic; None where it stops at none, or Python gives a number."""
    short = name.removeprefix(_PREFIX)
    if match := re.fullmatch(r"shfl\.sync\.(\w+)\.(?:i32|f32)p?", short):
        return native_text.FIRST_SHUFFLE + native_text.SHUFFLES.index(match[1])
    if match := re.fullmatch(r"vote\.(\w+)\.sync", short):
        return native_text.FIRST_VOTE + native_text.VOTES.index(match[1])
    if short == "barrier.cta.sync.aligned.all":
        return native_text.BLOCK_BARRIER
    return native_text.WARP_BARRIER if short == "bar.warp.sync" else None


def crosses_threads(name: str) -> bool:
    """Whether a thread waits for others at an intrinsic."""
    return name.startswith(_PREFIX) and _EVENT.fullmatch(name.removeprefix(_PREFIX)) is not None


def needs_a_fiber(name: str) -> bool:
    """Whether threads need stacks and records of their own: they wait for others, or have copies under way."""
    return crosses_threads(name) or name.startswith(f"{_PREFIX}cp.async.")


def is_located(name: str) -> bool:
    """Whether it matters where an intrinsic is called: errors name the place, barriers must be the same one."""
    return crosses_threads(name) or _COPY.fullmatch(name.removeprefix(_PREFIX)) is not None


def definition(name: str, result: str, types: tuple[str, ...], kind: int) -> str:
    """The function ``@sim.<name>`` of the intrinsic ``name``; UnsupportedOp by name where it is not simulated."""
    short = name.removeprefix(_PREFIX)
    parameters = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(types))
    body = _body(short, result, types, kind)
    attributes = "" if crosses_threads(name) else " alwaysinline"
    return f"define internal {result} @sim.{short}({parameters}){attributes} nounwind {{\n{filled(body)}}}\n"


def _body(short: str, result: str, types: tuple[str, ...], kind: int) -> str:
    if short.startswith("read.ptx.sreg."):
        return _special_register(short.removeprefix("read.ptx.sreg."), result)
    if _EVENT.fullmatch(short):
        if short.startswith("mma."):
            matrices.shape_of(short)
        elif short.startswith(("ldmatrix.", "stmatrix.")):
            fragments.shape_of(short)
        return _event(result, types, kind)
    if match := _COPY.fullmatch(short):
        return _copy(int(match[1]), types, bool(match[2]))
    if short == "cp.async.commit.group":
        return _call("commit", "") + "  ret void\n"
    if short == "cp.async.wait.group":
        return "  %groups = zext i32 %a0 to i64\n" + _call("land", "i64 %groups") + "  ret void\n"
    if short == "cp.async.wait.all":
        return _call("land", "i64 -1") + "  ret void\n"
    if short == "exit":
        return _call("stop", f"i32 {native_text.DONE}") + "  unreachable\n"
    if _NOTHING.fullmatch(short):
        return "  ret void\n"
    if text := formula(short, result, types):
        return text
    raise UnsupportedOp(
        f"the simulator does not know the intrinsic llvm.nvvm.{short}",
        hint="jitgraph_testing/simulator/intrinsics.py says which it knows; LLVM 22 may spell it otherwise",
    )


def _call(function: str, arguments: str) -> str:
    return f"  call void inttoptr (i64 {native().addresses[function]} to ptr)({arguments})\n"


def _special_register(name: str, result: str) -> str:
    if name in _SREGS:
        field, _, offset = _SREGS[name].partition("+")
        text = f"  %fiber = load ptr, ptr <L.current>\n  %field = getelementptr i8, ptr %fiber, i64 <F.{field}>\n"
        return (
            f"{text}  %at = getelementptr i8, ptr %field, i64 {offset or 0}\n  %r = load i32, ptr %at\n  ret i32 %r\n"
        )
    if name in _LAUNCH_SREGS:
        field, position = _LAUNCH_SREGS[name]
        return f"  %at = getelementptr i8, ptr <L.{field}>, i64 {position}\n  %r = load i32, ptr %at\n  ret i32 %r\n"
    if name == "warpsize":
        return "  ret i32 32\n"
    if name in ("clock", "clock64", "globaltimer", "globaltimer.lo"):
        text = "  %t = load i64, ptr <L.ticks>\n  %n = add i64 %t, 32\n  store i64 %n, ptr <L.ticks>\n"
        return text + ("  %r = trunc i64 %n to i32\n  ret i32 %r\n" if result.endswith("i32") else "  ret i64 %n\n")
    if name.startswith("lanemask."):
        lane = _special_register("laneid", "i32").rsplit("\n", 2)[0]
        last = _LANE_MASKS[name.removeprefix("lanemask.")]
        text = f"{lane}\n  %one = shl i32 1, %r\n  %below = sub i32 %one, 1\n  %upto = or i32 %below, %one\n"
        return text + ("  ret i32 %one\n" if last == "%one" else f"  %m = {last}\n  ret i32 %m\n")
    raise UnsupportedOp(f"the simulator does not know the special register {name}")


def _event(result: str, types: tuple[str, ...], kind: int) -> str:
    text = "  %fiber = load ptr, ptr <L.current>\n  %arguments = getelementptr i8, ptr %fiber, i64 <F.arguments>\n"
    for i, each in enumerate(types):
        text += f"  %p{i} = getelementptr i8, ptr %arguments, i64 {16 * i}\n  store {each} %a{i}, ptr %p{i}, align 8\n"
    text += _call("stop", f"i32 {kind}")
    if result == "void":
        return text + "  ret void\n"
    return (
        f"{text}  %result = getelementptr i8, ptr %fiber, i64 <F.result>\n"
        f"  %r = load {result}, ptr %result, align 8\n  ret {result} %r\n"
    )


def _copy(size: int, types: tuple[str, ...], partly: bool) -> str:
    text = f"  %to = ptrtoint {types[0]} %a0 to i64\n  %from = ptrtoint {types[1]} %a1 to i64\n"
    text += "  %site = load i64, ptr <L.site>\n"
    text += "  %read = zext i32 %a2 to i64\n" if partly else ""
    read = "%read" if partly else str(size)
    return text + _call("copy", f"i64 %to, i64 %from, i64 {size}, i64 {read}, i64 %site") + "  ret void\n"
