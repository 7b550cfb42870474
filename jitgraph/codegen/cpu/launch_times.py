"""What a timed entry notes of a call: when its steps began and ended, and how long each launch took.

The table of 64-bit words that the caller gives, zeroed, stands behind the addresses of outputs: the ticks of the
processor's time stamp counter at begin and end, and then for each timed step its runs, their ticks together, and the
ticks at which it began first. The end of a call that failed stays 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.kernels.schedule import HostStep, Launch, Step
from jitgraph.codegen.kernels.steps import all_steps
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmValue

BEGIN, END, FIRST_STEP, WORDS_OF_STEP = 0, 1, 2, 3
RUNS, TICKS, BEGAN = range(WORDS_OF_STEP)


def timed_steps(steps: Sequence[Step]) -> list[Launch | HostStep]:
    """The steps that are timed, in the order of the table: launches and calls of Python, those of loops included."""
    return [step for step in all_steps(steps) if isinstance(step, Launch | HostStep)]


class LaunchTimes:
    """Writes the code that fills the table into ``function``; ``table`` is the address of it."""

    def __init__(self, function: LlvmFunction, table: str, steps: Sequence[Step]) -> None:
        self.function = function
        self.table = table
        self._numbers = {id(step): number for number, step in enumerate(timed_steps(steps))}

    def note(self, word: int) -> None:
        """Put what the counter shows into a word."""
        self.function.do(f"store {self.now()}, {self._at(word)}, align 8")

    def now(self) -> LlvmValue:
        """What the counter shows. Memory is neither read nor written across this."""
        return self.function.emit("i64", "call i64 @llvm.readcyclecounter()")

    def ran(self, step: Launch | HostStep, began: LlvmValue) -> None:
        """Count a run of a step that began at ``began`` and has just ended."""
        function, now = self.function, self.now()
        first = FIRST_STEP + WORDS_OF_STEP * self._numbers[id(step)]
        took = function.emit("i64", f"sub {now}, {began.name}")
        runs, ticks, begin = (self._at(first + word) for word in (RUNS, TICKS, BEGAN))
        before = function.emit("i64", f"load i64, {runs}, align 8")
        sum_before = function.emit("i64", f"load i64, {ticks}, align 8")
        began_before = function.emit("i64", f"load i64, {begin}, align 8")
        is_first = function.emit("i1", f"icmp eq {before}, 0")
        begun = function.emit("i64", f"select {is_first}, {began}, {began_before}")
        for address, value in (
            (runs, function.emit("i64", f"add {before}, 1")),
            (ticks, function.emit("i64", f"add {sum_before}, {took.name}")),
            (begin, begun),
        ):
            function.do(f"store {value}, {address}, align 8")

    def _at(self, word: int) -> LlvmValue:
        return self.function.emit("ptr", f"getelementptr i64, ptr {self.table}, i64 {word}")
