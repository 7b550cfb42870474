"""Math functions as LLVM functions: their text is written once a process, and long scalar ones are compiled once."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Final, cast

from jitgraph.codegen.kernels.math.functions import FUNCTIONS
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import Function, Module, Value
from jitgraph.codegen.llvm.scalars import Scalar, ScalarOps, element_type, lanes_of
from jitgraph.dtypes import BY_SHORT_NAME, SHORT_NAMES, DType
from jitgraph.ir.target import Target

LIBRARY_LINES: Final = 100
"""Length from which on a math function of single numbers is compiled once a process, and called."""

_DECLARED: Final = re.compile(r"^declare hidden \w+ @(m_([a-z0-9]+)_(\w+)_1)\(", re.MULTILINE)


def math_function(module: Module, function: str, dtypes: tuple[DType, ...], lanes: int) -> str:
    """The name of the LLVM function for a math function of ``codegen.kernels.math.functions``, for float32 and float64.

    It is inlined where it is called; a long one of single numbers is declared alone, and ``tasks`` makes it.
    Fast math stops at its door: reassociation would undo the error terms of its arithmetic.
    """
    name = f"m_{function}_{'_'.join(SHORT_NAMES[dtype] for dtype in dtypes)}_{lanes}"
    if module.claim(name):
        text = _math_text(name, function, dtypes, lanes, "internal", "alwaysinline nounwind")
        if lanes > 1 or text.count("\n") < LIBRARY_LINES:
            module.functions.append(text)
        else:
            types = [element_type(dtype) for dtype in dtypes]
            module.declare(f"declare hidden {types[0]} @{name}({', '.join(types)}) nounwind memory(none)")
    return name


@cache
def _math_text(name: str, function: str, dtypes: tuple[DType, ...], lanes: int, linkage: str, attributes: str) -> str:
    module = Module("")
    types = [lanes_of(element_type(dtype), lanes) for dtype in dtypes]
    writer = Function(module, name, types[0], linkage=linkage, attributes=attributes)
    ops = ScalarOps(writer, dtypes[0])
    args = [Scalar(writer.argument(type).name, type, dtype, lanes) for type, dtype in zip(types, dtypes, strict=True)]
    value = ops.splat(cast("Scalar", FUNCTIONS[function](ops, *args)), lanes)
    assert value.type == types[0], (function, value)
    writer.ret(Value(value.name, value.type))
    writer.finish()
    (text,) = module.functions
    return text


def tasks(llvm_ir: str, target: Target) -> list[Callable[[], bytes]]:
    """What makes the objects that define the math functions which ``llvm_ir`` declares, each once a process."""
    return [partial(_math_object, *match.groups(), target) for match in _DECLARED.finditer(llvm_ir)]


@cache
def _math_object(name: str, function: str, shorts: str, target: Target) -> bytes:
    module = Module(machine.TRIPLE)
    dtypes = tuple(BY_SHORT_NAME[short] for short in shorts.split("_"))
    module.functions.append(_math_text(name, function, dtypes, 1, "hidden", "nounwind"))
    return machine.assemble(module.text(), target)
