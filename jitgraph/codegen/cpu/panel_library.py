"""Packing of plain matrices as functions: compiled once a process for a dtype and a width of panels, and linked.

A factor of a contraction that is nothing but a matrix in memory needs no code of its own: the function is told where it
lies and how far its lines are apart.
"""

from __future__ import annotations

from jitgraph.codegen.cpu.access import emit_load
from jitgraph.codegen.cpu.panels import Panels, pack_here
from jitgraph.codegen.cpu.scratch import Scratch
from jitgraph.codegen.kernels.kernel import Kernel, Load, Operand, Param, Statement, Var
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule
from jitgraph.codegen.llvm.environment import Environment, Names
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import DType, int64
from jitgraph.ir.dims import Dim
from jitgraph.ir.target import Target


def pack_module(target: Target, name: str, dtype: DType, width: int, along_depth: bool) -> LlvmModule:
    """A module with ``void name(ptr from, i64 stride, ptr to, i64 begin, i64 end, i64 first, i64 last, i64 extent)``.

    It packs places ``begin .. end`` and depths ``first .. last`` of a matrix into panels of ``width`` places. Elements
    lie side by side along k where ``along_depth``, else along the factor's own axis, which has ``extent`` places; along
    the other axis they are ``stride`` elements apart. ``from`` is the element at place 0 and depth 0.
    """
    module = LlvmModule(machine.TRIPLE)
    function = LlvmFunction(module, name, "void", linkage="hidden", attributes="nounwind")
    own, k, stride, value = "_i0", "_i1", "stride", Var("_v0", dtype)
    across, lined = (own, k) if along_depth else (k, own)
    load = Load(value, "from", Dim.name(stride) * Dim.name(across) + Dim.name(lined))
    kernel = Kernel(name, (Param("from", dtype, Dim.name(stride), "read"),), (), (stride,))
    env = Environment(function, kernel, target, Names(), Scratch(name), _emit_load)
    env.bind("&from", LlvmScalar(function.argument("ptr", "noalias readonly").name, "ptr", dtype, 1))
    env.bind(stride, LlvmScalar(function.argument("i64").name, "i64", int64, 1))
    memory = LlvmScalar(function.argument("ptr", "noalias").name, "ptr", dtype, 1)
    begin, end, first, last, extent = (LlvmScalar(function.argument("i64").name, "i64", int64, 1) for _ in range(5))
    panels = Panels(memory, width, (begin, end), (first, last))
    pack_here(Operand((load,), value), (own, k), env, panels, extent, along_depth)
    function.ret()
    function.finish()
    return module


def _emit_load(statement: Statement, env: Environment) -> None:
    """A plain matrix is read by nothing else."""
    assert isinstance(statement, Load), statement
    emit_load(statement, env)
