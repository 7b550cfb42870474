"""Small entries in hand-written LLVM IR, for tests of what lies below code generation."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.cpu import linker, pool
from jitgraph.codegen.cpu.objects import library_object
from jitgraph.codegen.llvm import machine
from jitgraph.ir.target import Target
from jitgraph.runtime import loader

ENTRY = "define i32 @entry(ptr %host, ptr %call, ptr %buffers, ptr %dims) nounwind"


def image(ir: str, exports: dict[str, str] | None = None, *, runtime: bool = False, target: str = "x86-64-v2") -> bytes:
    """The flat image of a module that defines ``entry``, with the native runtime where it is asked for."""
    chosen = Target.named(target)
    objects = [machine.assemble((pool.DECLARATIONS if runtime else "") + ir, chosen)]
    if runtime:
        objects.append(library_object(chosen, *pool.REQUIRED))
    return linker.link(objects, {"entry": "entry", **(exports or {}), **(pool.EXPORTS if runtime else {})})


def buffer(name: str, index: int) -> str:
    """Lines that load buffer ``index`` of an entry as ``name``."""
    return f"  {name}.at = getelementptr ptr, ptr %buffers, i64 {index}\n  {name} = load ptr, ptr {name}.at\n"


def spec(name: str, dtype: str, *shape: int | str, default: float | None = None) -> loader.ValueSpec:
    """A tensor of a signature."""
    return loader.ValueSpec(name, dtype, shape, default)


def entry(
    data: bytes,
    inputs: Sequence[loader.ValueSpec],
    outputs: Sequence[loader.ValueSpec],
    *,
    runtime: loader.Runtime | None = None,
    callback: loader.CallbackFunction | None = None,
    threads: int = 0,
    **rest: object,
) -> loader.Entry:
    """The entry of an image under a signature of the given parts."""
    signature = loader.Signature(tuple(inputs), tuple(outputs), **rest)  # type: ignore[arg-type]
    return loader.Entry(loader.Image(data), signature, runtime=runtime, callback=callback, threads=threads)


# y[i] = x[i] * s[0] for n float32; then s'[0] = s[0] + 1, unless s[0] is 7, which is check 0
SCALE = f"""
{ENTRY} {{
{buffer("%x", 0)}{buffer("%s", 1)}{buffer("%y", 2)}{buffer("%s.new", 3)}
  %n = load i64, ptr %dims
  %scale = load float, ptr %s
  %seven = fcmp oeq float %scale, 7.0
  br i1 %seven, label %bad, label %head
bad:
  %code = call i32 @jg_fail(ptr %call, i32 0, i64 41, i64 42, i64 0)
  ret i32 %code
head:
  %i = phi i64 [ 0, %0 ], [ %j, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %x.i = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %x.i
  %w = fmul float %v, %scale
  %y.i = getelementptr float, ptr %y, i64 %i
  store float %w, ptr %y.i
  %j = add i64 %i, 1
  br label %head
done:
  %up = fadd float %scale, 1.0
  store float %up, ptr %s.new
  ret i32 0
}}
"""
SCALE_SIGNATURE = loader.Signature(
    inputs=(spec("x", "float32", "n"),),
    outputs=(spec("y", "float32", "n"), spec("s_new", "float32")),
    state=(loader.StateSpec("s", "float32", (), key="layer.s"),),
    writes=((1, 0),),
    aliases=((1, 0 + 1),),
    dims=("n",),
    checks=(loader.Check("index {index} is out of range for size {bound}", "IndexError", "model.py:3"),),
    prints=(loader.Print(("s = ", "\n"), (loader.PrintOperand("p", "float32", (), style="tensor", form=".2f"),)),),
    structure={"dict": {"y": 0, "version": {"value": 3}, "none": None}},
)
