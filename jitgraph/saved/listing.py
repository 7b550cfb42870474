"""A loaded function at each stage of the compiler, as text, for this machine or for a target by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from jitgraph.codegen.kernels.kernel_text import print_schedule
from jitgraph.errors import DeviceError
from jitgraph.ir import dims
from jitgraph.ir.printer import print_graph
from jitgraph.ir.target import Target
from jitgraph.saved.arguments import shape_of, sizes_for
from jitgraph.saved.reading import SavedModel
from jitgraph.saved.writing import compiled_for
from jitgraph.tracing.call.arguments import TensorSpec
from jitgraph.tracing.report.explain import explain
from jitgraph.tracing.report.quantities import bytes_text

PTX_TARGET: Final = "sm_80"
"""The generation of GPUs that PTX is shown for where none is named: the driver compiles it for every later one."""


def specs_of(model: SavedModel, sizes: Mapping[str, int] | None = None) -> list[Any]:
    """What stands for the arguments where the function is lowered: named sizes keep their names, unless one is said.

    Sizes that are no names, such as ``2*n``, are those of the first sizes that the function takes.
    """
    said = dict(sizes or {})
    plain = all(isinstance(s, int) or s.isidentifier() for spec in model.inputs for s in spec.shape)
    known = said if plain else sizes_for(model.signature, said)
    specs: list[Any] = []
    for spec in model.inputs:
        if plain:
            shape = tuple(known.get(size, size) if isinstance(size, str) else size for size in spec.shape)
        else:
            shape = shape_of(spec, known)
        is_number = spec.dtype == "float64" and not spec.shape and spec.default is not None
        specs.append(float(spec.default or 0) if is_number else TensorSpec(shape, spec.dtype))
    return model.arguments_of(specs)


def listing(model: SavedModel, view: str, target: str | None = None, sizes: Mapping[str, int] | None = None) -> str:
    """The text of one of ``VIEWS``; nothing is run.

    ``target`` is a level such as "x86-64-v3" or a generation of GPUs such as "sm_90"; ``sizes`` are values for named
    sizes where bytes are told. DeviceError for assembly of a GPU and PTX of a CPU, CompileError, UnsupportedOp.
    """
    return VIEWS[view](model, target, sizes)


def _stage(name: str) -> Callable[[SavedModel, str | None, Any], str]:
    return lambda model, target, sizes: print_graph(getattr(compiled_for(model, target).stages, name))


def _asm(model: SavedModel, target: str | None, sizes: Any) -> str:
    if target is not None and Target.named(target).sm is not None:
        raise DeviceError(f"{target} is a GPU, whose code is PTX", hint="--ptx shows it")
    return str(compiled_for(model, target).asm)


def _ptx(model: SavedModel, target: str | None, sizes: Any) -> str:
    name = target or PTX_TARGET
    if Target.named(name).sm is None:
        raise DeviceError(f"{name} is no GPU, and has no PTX", hint="--asm shows its assembly")
    return str(compiled_for(model, name).asm)


def _memory(model: SavedModel, target: str | None, sizes: Mapping[str, int] | None) -> str:
    return "\n".join(_memory_lines(model, target, sizes_for(model.signature, dict(sizes or {}))))


def _memory_lines(model: SavedModel, target: str | None, sizes: Mapping[str, int]) -> Iterator[str]:
    schedule = compiled_for(model, target).stages.schedule
    if sizes:
        yield "for " + ", ".join(f"{name} = {size}" for name, size in sizes.items())
    offsets = {} if schedule.plan is None else schedule.plan.offsets
    rows = [("buffer", "role", "type", "bytes", "offset")]
    for buffer in schedule.buffers:
        size = dims.evaluate(buffer.bytes, sizes)
        offset = str(dims.evaluate(offsets[buffer.name], sizes)) if buffer.name in offsets else ""
        rows.append((buffer.name, buffer.role, str(buffer.type), str(size), offset))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            text.rjust(n) if at > 2 else text.ljust(n) for at, (text, n) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
    if schedule.plan is None:
        yield "temporaries: none"
        return
    arena, without = (dims.evaluate(size, sizes) for size in (schedule.plan.arena_bytes, schedule.plan.unplanned))
    yield f"temporaries: {bytes_text(arena)} with the plan, {bytes_text(without)} without"
    for output, source in schedule.plan.donations.items():
        yield f"{output} may take over the memory of {source}"


VIEWS: Final[Mapping[str, Callable[[SavedModel, str | None, Any], str]]] = {
    "graph": lambda model, target, sizes: print_graph(model.graph),
    "optimized": _stage("optimized"),
    "fused": _stage("fused"),
    "kernels": lambda model, target, sizes: print_schedule(compiled_for(model, target).stages.schedule),
    "memory": _memory,
    "llvm": lambda model, target, sizes: str(compiled_for(model, target).llvm_ir),
    "asm": _asm,
    "ptx": _ptx,
    "dot": lambda model, target, sizes: model.graph.to_dot(),
    "html": lambda model, target, sizes: explain(model, *specs_of(model, sizes)).html(),
}
