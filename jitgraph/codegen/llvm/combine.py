"""How two sets of accumulators of a reduction become one."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.kernels.kernel import Combine
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.operand import LlvmScalar


def combined(
    env: Environment, combine: Combine, left: Sequence[LlvmScalar], right: Sequence[LlvmScalar]
) -> list[LlvmScalar]:
    """``combine`` of two sets of accumulators, lane by lane."""
    scope = env.inner()
    for var, value in zip((*combine.left, *combine.right), (*left, *right), strict=True):
        scope.bind(var.name, value)
    scope.emit(combine.body)
    return [scope.ops.splat(scope[var.name], left[0].lanes) for var in combine.results]
