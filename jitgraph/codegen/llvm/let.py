"""The scalar ops of kernel statements."""

from __future__ import annotations

from typing import Any

from jitgraph.codegen.kernels.kernel import Let
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.operand import LlvmScalar


def emit_let(let: Let, env: Environment) -> LlvmScalar:
    """The value of one scalar op."""
    ops: Any = env.ops
    args = [env[arg.name] for arg in let.args]
    match let.op:
        case "const":
            return ops.const(let.param, let.var.dtype)  # type: ignore[no-any-return]
        case "cast" | "bitcast":
            return getattr(ops, let.op)(*args, let.var.dtype)  # type: ignore[no-any-return]
        case "cmp" | "call":
            return getattr(ops, let.op)(let.param, *args)  # type: ignore[no-any-return]
        case op:
            return getattr(ops, op)(*args)  # type: ignore[no-any-return]
