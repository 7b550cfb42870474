"""The scalar ops (``ir.scalar``) over LLVM scalars and fixed-width vectors. Every op is total.

A ``LlvmScalar`` of one lane is uniform; of more lanes a vector. Ops take a mix: a uniform operand is splat beside a
vector. Bool is ``i1``, float16 ``half``, bfloat16 its bits as ``i16``; ops on 16-bit floats compute in float32 and
round at once, but under ``fastmath`` values of 16-bit floats are kept as ``float`` until they are stored.

They stand in layers, each written in those below it: ``operand``, ``instructions``, ``conversions``, ``logic``,
``arithmetic``, ``division``; here is the whole, with ``call``. Math functions are themselves written in these ops:
their text is written once a process, and long scalar ones are compiled once.
"""

from __future__ import annotations

from functools import cache
from typing import Final, cast

from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.arithmetic import LlvmArithmetic
from jitgraph.codegen.llvm.builder import Definition, LlvmFunction, LlvmModule, LlvmValue
from jitgraph.codegen.llvm.division import float_remainder, floor_divide
from jitgraph.codegen.llvm.operand import LlvmScalar, element_type, lanes_of
from jitgraph.dtypes import SHORT_NAMES, DType, is_float
from jitgraph.ir.target import Target
from jitgraph.runtime import imports

LIBRARY_LINES: Final = 100
"""Length from which on a math function of single numbers is compiled once a process, and called."""


class LlvmScalarOps(LlvmArithmetic):
    """The scalar ops, writing into ``function``. ``dtype`` is the default of ``const``."""

    def div(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self.fdiv(x, y) if is_float(x.dtype) else floor_divide(self, *self.align(x, y))[0]

    def rem(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        return float_remainder(self, x, y) if is_float(x.dtype) else floor_divide(self, x, y)[1]

    def call(self, function: str, *args: LlvmScalar) -> LlvmScalar:
        """A math function: an LLVM function for each (name, dtype, lanes), made on first use."""
        wide = [self.widen(x) for x in self.align(*args)]  # 16-bit floats are rounded once, after the function
        x = wide[0]
        name = math_function(self.function.module, function, tuple(y.dtype for y in wide), x.lanes)
        value = self.make(self.function.call_of(x.type, name, *wide), x.dtype, x.lanes, x.type)
        return self.narrow(value, args[0].dtype)


def math_function(module: LlvmModule, function: str, dtypes: tuple[DType, ...], lanes: int) -> str:
    """The name of the LLVM function for a math function of ``ops.math_functions.functions``, for float32 and float64.

    It is inlined where it is called; a long one of single numbers is declared alone, and has to be linked.
    Fast math stops at its door: reassociation would undo the error terms of its arithmetic.
    """
    name = f"m_{function}_{'_'.join(SHORT_NAMES[dtype] for dtype in dtypes)}_{lanes}"
    if module.claim(name):
        module.math.add(name)
        inlined = _defined(name, function, dtypes, lanes, inlined=True)
        if lanes > 1 or not module.links or inlined.lines < LIBRARY_LINES:
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
    functions = imports.module("jitgraph.ops.math_functions.functions").FUNCTIONS  # here: most kernels call none
    value = ops.splat(cast("LlvmScalar", functions[function](ops, *args)), lanes)
    assert value.type == types[0], (function, value)
    writer.ret(LlvmValue(value.name, value.type))
    writer.finish()
    (definition,) = module.functions
    return definition


def math_module(target: Target, name: str, function: str, dtypes: tuple[DType, ...]) -> LlvmModule:
    """A module that defines a math function of single numbers."""
    module = LlvmModule(machine.TRIPLE)
    module.functions.append(_defined(name, function, dtypes, 1, inlined=False))
    return module
