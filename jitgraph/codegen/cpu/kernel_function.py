"""A kernel as one LLVM function: ``i32 kernel(ptr host, ptr call, ptr scratch, params..., sizes...)`` gives a code."""

from __future__ import annotations

from jitgraph.codegen.cpu.body import emit_statement
from jitgraph.codegen.cpu.scratch import Scratch
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmValue
from jitgraph.codegen.llvm.environment import Environment, Names, integer
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import int64
from jitgraph.ir.target import Target


def emit_kernel(kernel: Kernel, module: LlvmModule, target: Target) -> tuple[str, int]:
    """Emit ``kernel`` into ``module``; gives the name of its function and the bytes of scratch memory that it takes."""
    function = LlvmFunction(module, module.unique(f"k_{kernel.name}"), "i32", attributes="nounwind", inlined=False)
    scratch = Scratch(kernel.name)
    env = Environment(function, kernel, target, Names(), scratch, emit_statement, outermost=True)
    for name in ("$host", "$call"):
        env.bind(name, LlvmScalar(function.argument("ptr").name, "ptr", int64, 1))
    env.bind("$scratch", LlvmScalar(function.argument("ptr", "noalias").name, "ptr", int64, 1))
    env.bind("$order", integer(0))
    for param in kernel.params:
        attributes = ["noalias"] if param.name in env.unaliased else []
        if param.access == "read":
            attributes.append("readonly")
        argument = function.argument("ptr", " ".join(attributes))
        env.bind("&" + param.name, LlvmScalar(argument.name, "ptr", param.dtype, 1))
    for size in kernel.sizes:
        env.bind(size, LlvmScalar(function.argument("i64").name, "i64", int64, 1))
    env.emit(kernel.body)
    function.ret(LlvmValue("0", "i32"))
    function.finish()
    return function.name, scratch.bytes
