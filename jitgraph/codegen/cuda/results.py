"""The epilogue of a contraction: what a thread makes of its sums, and stores, neighbours together."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.cuda.indices import AxisPosition
from jitgraph.codegen.cuda.thread import ThreadStatements
from jitgraph.codegen.kernels.kernel import Contract
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, constant_of
from jitgraph.codegen.llvm.operand import LlvmScalar


class TileResults:
    """Emits the epilogue at the elements of a tile of these ``sides`` that lie inside of the result."""

    def __init__(
        self,
        contract: Contract,
        env: Environment,
        statements: ThreadStatements,
        extents: Sequence[LlvmScalar],
        sides: tuple[int, int],
    ) -> None:
        self.contract, self.env, self.statements = contract, env, statements
        self.extents, self.sides = extents[:2], sides

    def store(self, m: AxisPosition, n: AxisPosition, totals: Sequence[LlvmScalar]) -> None:
        """The elements of row ``m`` from column ``n`` on, which is a multiple of their number."""
        env, s, (rows, columns) = self.env, self.env.ops, self.extents
        together = _divides(len(totals), columns)
        with loops.only_if(env, None if _divides(self.sides[0], rows) else s.cmp("lt", m.value(env), rows)):
            for number, total in enumerate(totals):
                if number and together:
                    continue
                column = AxisPosition(n.first, n.distance + number)
                inside = None if _divides(self.sides[1], columns) else s.cmp("lt", column.value(env), columns)
                with loops.only_if(env, inside):
                    if together:
                        self._row(m, n, totals)
                    else:
                        self._element(m, column, total)

    def _row(self, m: AxisPosition, n: AxisPosition, totals: Sequence[LlvmScalar]) -> None:
        """Elements whose accesses LLVM makes one of: the first says how it is aligned."""
        for number, total in enumerate(totals):
            self.statements.first_of = None if number else (self.contract.n, len(totals))
            self._element(m, AxisPosition(n.first, n.distance + number), total)
        self.statements.first_of = None

    def _element(self, m: AxisPosition, n: AxisPosition, total: LlvmScalar) -> None:
        contract = self.contract
        scope = self.env.at({contract.m: m.value(self.env), contract.n: n.value(self.env)})
        scope.bind(contract.acc.name, scope.ops.cast(total, contract.acc.dtype))
        self.statements.places = {contract.m: m, contract.n: n}
        scope.emit(contract.epilogue)
        self.statements.places = {}


def _divides(side: int, extent: LlvmScalar) -> bool:
    known = constant_of(extent)
    return known is not None and known % side == 0
