"""What a wheel brings along compiled: ``python -m jitgraph.codegen.prebuilt`` writes its files.

Every function of a library that any module may require, for the targets that code is made for, as objects; and the
dispatcher's image. Objects are found by the text of their units, and the image by its sources, so files that are out of
date are merely of no use. A wheel is built with them; a checkout may have them, and needs none, as it keeps what is in
them in the persistent cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from jitgraph.codegen.cpu import skinny_gemm, tile
from jitgraph.codegen.cpu.objects import FILE, in_threads, key_of, library, packed
from jitgraph.codegen.cpu.panels import pack_name
from jitgraph.codegen.dispatch import calls
from jitgraph.codegen.llvm import machine, scalars
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.codegen.llvm.machine import Unit
from jitgraph.codegen.lower.schedules.cpu import SQUARE_SIDES
from jitgraph.dtypes import DTYPES, DType, float32, float64, is_bool, is_float
from jitgraph.ir.target import Target
from jitgraph.ops.math_functions.functions import FUNCTIONS
from jitgraph.runtime import dispatcher_image
from jitgraph.runtime.atomic_file import replacing

TARGETS: Final = ("x86-64-v3", "x86-64-v4")


def functions(target: Target) -> Iterator[tuple[Any, ...]]:
    """What modules for ``target`` may require, as they say it."""
    yield ("runtime",)
    yield ("ranges",)
    for itemsize, dtype in tile.SQUARES.items():
        for lanes in sorted({min(side, target.lanes(itemsize)) for side in SQUARE_SIDES} | {target.lanes(itemsize)}):
            yield "square", dtype, lanes
    for dtype in DTYPES:
        if not is_bool(dtype) and not (is_float(dtype) and dtype.itemsize < 4):  # 16-bit floats are summed in float32
            yield from _of_products(target, dtype)
    for name in FUNCTIONS:
        for dtype in float32, float64:
            yield from _of_numbers(name, dtype)


def _of_products(target: Target, dtype: DType) -> Iterator[tuple[Any, ...]]:
    panels = tile.tile_of(target, dtype)
    for rows in {*(few for few in tile.FEW_ROWS if few < panels.rows), panels.rows}:
        for vectors in range(1, panels.vectors + 1):
            yield "tile", dtype, rows, vectors
    if is_float(dtype):
        yield from (("crossed", dtype, rows) for rows in range(1, skinny_gemm.MOST_TRANSPOSED_ROWS + 1))
    for width in panels.rows, panels.columns:
        for along_depth in False, True:
            yield "pack", pack_name(dtype, width, along_depth), dtype, width, along_depth


def _of_numbers(name: str, dtype: DType) -> Iterator[tuple[Any, ...]]:
    """A math function of single numbers, where it is long enough to be called."""
    module = LlvmModule(machine.TRIPLE)
    dtypes = (dtype,) * (len(inspect.signature(FUNCTIONS[name]).parameters) - 1)
    scalars.math_function(module, name, dtypes, 1)
    yield from module.required


def objects() -> dict[str, bytes]:
    """The objects by their keys."""
    units: dict[str, tuple[Unit, Target]] = {}
    required = [(Target.named(name), function) for name in TARGETS for function in functions(Target.named(name))]
    for target, function in [*required, (calls.TARGET, ("memory",))]:
        unit = library(target, *function).unit
        units[key_of(unit, target)] = unit, target
    compiled = in_threads([partial(machine.assemble_unit, *unit) for unit in units.values()])
    return dict(zip(units, compiled, strict=True))


def write(path: str = FILE) -> None:
    """Write the objects where the package looks for them, or elsewhere."""
    with replacing(path) as file:
        file.write(packed(objects()))


def write_dispatcher(path: str = dispatcher_image.FILE) -> None:
    """Write the dispatcher's image where the package looks for it, or elsewhere."""
    dispatcher_image.DispatcherImage().write(calls.dispatcher_image(), path)


if __name__ == "__main__":
    write()
    write_dispatcher()
