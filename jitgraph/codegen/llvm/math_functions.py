"""Math functions as LLVM functions: their text is written once a process, and long scalar ones are compiled once."""

from __future__ import annotations

from functools import cache
from typing import Final, cast

from jitgraph.codegen.kernels.math.functions import FUNCTIONS
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import Definition, LlvmFunction, LlvmModule, LlvmValue
from jitgraph.codegen.llvm.scalars import LlvmScalar, LlvmScalarOps, element_type, lanes_of
from jitgraph.dtypes import SHORT_NAMES, DType
from jitgraph.ir.target import Target

LIBRARY_LINES: Final = 100
"""Length from which on a math function of single numbers is compiled once a process, and called."""


def math_function(module: LlvmModule, function: str, dtypes: tuple[DType, ...], lanes: int) -> str:
    """The name of the LLVM function for a math function of ``codegen.kernels.math.functions``, for float32 and float64.

    It is inlined where it is called; a long one of single numbers is declared alone, and has to be linked.
    Fast math stops at its door: reassociation would undo the error terms of its arithmetic.
    """
    name = f"m_{function}_{'_'.join(SHORT_NAMES[dtype] for dtype in dtypes)}_{lanes}"
    if module.claim(name):
        module.math.add(name)
        inlined = _defined(name, function, dtypes, lanes, inlined=True)
        if lanes > 1 or inlined.lines < LIBRARY_LINES:
            module.functions.append(inlined)
        else:
            module.require("math", name, function, dtypes)
            types = [element_type(dtype) for dtype in dtypes]
            module.declare(f"declare hidden {types[0]} @{name}({', '.join(types)}) nounwind memory(none)")
    return name


@cache
def _defined(name: str, function: str, dtypes: tuple[DType, ...], lanes: int, *, inlined: bool) -> Definition:
    module = LlvmModule("")
    types = [lanes_of(element_type(dtype), lanes) for dtype in dtypes]
    linkage = "internal" if inlined else "hidden"
    writer = LlvmFunction(module, name, types[0], linkage=linkage, attributes="nounwind", inlined=inlined or None)
    ops = LlvmScalarOps(writer, dtypes[0])
    args = [
        LlvmScalar(writer.argument(type).name, type, dtype, lanes) for type, dtype in zip(types, dtypes, strict=True)
    ]
    value = ops.splat(cast("LlvmScalar", FUNCTIONS[function](ops, *args)), lanes)
    assert value.type == types[0], (function, value)
    writer.ret(LlvmValue(value.name, value.type))
    writer.finish()
    (definition,) = module.functions
    return definition


@cache
def math_object(target: Target, name: str, function: str, dtypes: tuple[DType, ...]) -> bytes:
    """The object that defines a math function of single numbers; made once a process."""
    module = LlvmModule(machine.TRIPLE)
    module.functions.append(_defined(name, function, dtypes, 1, inlined=False))
    return machine.assemble(module.text(), target)
