"""A contraction's panels on their way through stages of shared memory: one is multiplied while others come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from jitgraph.codegen.cuda import panels
from jitgraph.codegen.cuda.int32_arithmetic import Int32Writer, word
from jitgraph.codegen.cuda.memory import SharedMemory
from jitgraph.codegen.cuda.panel_layout import PanelLayout
from jitgraph.codegen.cuda.panels import ComputedPanels, CopiedPanels, Side
from jitgraph.codegen.cuda.warp import wait_for_block
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, least, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar

T = TypeVar("T")

_MOST_STAGES: Final = 4
_ALIGNMENT: Final = 128
"""Of shared memory: all banks once."""


class Pipeline:
    """The panels of both operands, which lie in ``memories``, a stage behind another."""

    def __init__(
        self,
        env: Environment,
        sides: Sequence[tuple[Side, PanelLayout, int | None]],
        shared: SharedMemory,
        thread: LlvmScalar,
        threads: int,
        first: LlvmScalar,
    ) -> None:
        """Each side with its layout, and the bytes that can be copied at once; ``first`` is the first step."""
        self.env, self.first = env, first
        self.words = Int32Writer(env.function)
        self.depth = sides[0][1].depth
        self.steps = sides[0][0].depth
        self.stage_bytes = sum(layout.bytes for _, layout, _ in sides)
        copies = any(piece is not None for _, _, piece in sides)
        self.stages = min(_MOST_STAGES, shared.left // self.stage_bytes) if copies else 2
        memory = shared.variable(env, self.stage_bytes * self.stages, _ALIGNMENT)
        self.copied: list[tuple[CopiedPanels, str]] = []
        self.computed: list[tuple[ComputedPanels, str]] = []
        self.memories = []
        start = 0
        for side, layout, piece in sides:
            at = memory if not start else f"getelementptr (i8, ptr addrspace(3) {memory}, i32 {start})"
            if piece is None:
                self.computed.append((ComputedPanels(env, side, layout, thread, threads), at))
            else:
                self.copied.append((CopiedPanels(env, side, layout, piece, thread, threads), at))
            self.memories.append(at)
            start += layout.bytes

    def begin(self) -> None:
        """Ask for the panels of all stages but one; compute the first."""
        for stage in range(self.stages - 1):
            self._copy(word(stage * self.stage_bytes), add(self.env, self.first, integer(stage * self.depth)))

        def first(k: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            for each, memory in self.computed:
                each.put(memory, word(0), each.fetched(k))
            return []

        if self.computed:
            some = least(self.env, self.steps, add(self.env, self.first, integer(1)))
            loops.counted(self.env, self.first, some, 1, [], first)

    def last_panel(self, k: LlvmScalar, multiply: Callable[[LlvmScalar], T]) -> T:
        """As ``panel``, where no other comes after it."""
        self._arrive()
        return multiply(self._stage(k))

    def panel(self, k: LlvmScalar, multiply: Callable[[LlvmScalar], T]) -> T:
        """What ``multiply`` makes of the panel at step ``k``, whose stage it is given; later panels come meanwhile.

        All panels take their turn, in order.
        """
        env = self.env
        self._arrive()
        stage = self._stage(k)
        last = word(self.stage_bytes * (self.stages - 1))
        at_first, at_last = (env.ops.cmp("eq", stage, at) for at in (word(0), last))
        before = self.words.chosen(at_first, last, self.words.add(stage, -self.stage_bytes))
        self._copy(before, add(env, k, integer(self.depth * (self.stages - 1))))
        fetched = [each.fetched(add(env, k, integer(self.depth))) for each, _ in self.computed]
        result = multiply(stage)
        for (each, memory), chunks in zip(self.computed, fetched, strict=True):
            after = self.words.chosen(at_last, word(0), self.words.add(stage, self.stage_bytes))
            each.put(memory, after, chunks)
        return result

    def _arrive(self) -> None:
        """All threads have the next panel, and none reads the one before it any more."""
        if self.copied:
            panels.wait(self.env, self.stages - 2)
        wait_for_block(self.env.function)

    def _stage(self, k: LlvmScalar) -> LlvmScalar:
        """Where the stage of the panel at step ``k`` begins, in bytes."""
        number = self.words.divided(self.words.low(subtract(self.env, k, self.first)), self.depth)
        return self.words.times(self.words.rest(number, self.stages), self.stage_bytes)

    def _copy(self, stage: LlvmScalar, k: LlvmScalar) -> None:
        """Ask for the panel at step ``k``; behind the last step there is nothing but zeros."""
        for each, memory in self.copied:
            each.start(memory, stage, k)
        if self.copied:
            panels.commit(self.env)
