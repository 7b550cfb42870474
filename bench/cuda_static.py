"""CUDA kernels by numbers that need no GPU: what they move, execute and occupy, beside the least possible.

Bytes are 32 for each sector that a launch loads or stores, counted in the simulator: of memory each sector once a
launch, of the second cache once for each block, as a block's own cache keeps what it has loaded. The least are the
bytes of all inputs and outputs. Instructions are those of LLVM IR (the assembler folds some of them) for each element
of the largest operand or result. Registers and spills are what ``ptxas -v`` says for sm_90; occupancy is
that of the launch which moves most (``cuda_occupancy.py``). Turns are those at the banks of shared memory against the
fewest possible.

For tensor cores the model of a multiprocessor of sm_80: four schedulers issue one instruction of a warp a cycle each, a
product of 16 x 8 x 16 takes 8 cycles of its scheduler's tensor core, shared memory serves one turn a cycle, the cache
behind it 64 bytes a cycle. The share is that of the tensor cores' cycles in the longest of the four, as if all else
overlapped with it.

``python -m bench cuda_static`` prints the table; ``python -m tests.cuda_page`` puts it into docs/cuda.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import jitgraph as jg
from bench.cuda_families import FAMILIES, Family
from bench.cuda_occupancy import Occupancy, occupancy
from jitgraph.codegen.cuda.backend import CudaCode
from jitgraph.codegen.cuda.launches import KernelLaunch
from jitgraph.ir.target import Target
from jitgraph_testing.simulator.counts import LaunchCounts
from tests.codegen.cuda.assembled import PTXAS, FunctionUsage, assemble
from tests.codegen.cuda.launched import code_of, run, schedule_of

GENERATIONS = (80, 90, 120)
_SECTOR = 32
_SCHEDULERS, _MMA_CYCLES, _CACHE_BYTES = 4, 8, 64  # of a multiprocessor of sm_80
_MMA = re.compile(r"mma\.sync")


class Figures(NamedTuple):
    """The numbers of one family."""

    launches: int
    memory_bytes: int
    cache_bytes: int
    least_bytes: int
    instructions: float
    turns: int
    least_turns: int
    mma_share: float | None

    @property
    def traffic(self) -> float:
        """Bytes of memory, as a multiple of the least."""
        return self.memory_bytes / self.least_bytes

    @property
    def cache_traffic(self) -> float:
        """Bytes of the second cache, as a multiple of the least."""
        return self.cache_bytes / self.least_bytes

    @property
    def conflicts(self) -> float:
        """Turns at the banks of shared memory, as a multiple of the fewest."""
        return self.turns / self.least_turns if self.least_turns else 1.0


class Compiled(NamedTuple):
    """A family's device code, the arrays that it is called with, and what its launches did."""

    code: CudaCode
    arrays: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]
    counts: Sequence[LaunchCounts]


def compiled(family: Family, sm: int = 90) -> CudaCode:
    """The device code of a family."""
    target = _target(family, sm)
    return code_of(schedule_of(jg.trace(family.function).lower(*family.arguments).graph, target), target)


def _target(family: Family, sm: int) -> Target:
    target = Target.named(f"sm_{sm}")
    return target.in_any_order() if family.any_order else target


def counted(family: Family) -> Compiled:
    """The family run in the simulator."""
    target, counts = _target(family, 90), list[LaunchCounts]()
    schedule = schedule_of(jg.trace(family.function).lower(*family.arguments).graph, target)
    code, arrays = code_of(schedule, target), [argument.numpy() for argument in family.arguments]
    return Compiled(code, arrays, run(schedule, code, arrays, profile=counts), counts)


def figures(actual: Compiled) -> Figures:
    """What the launches of a family did, together."""
    arrays = [*actual.arrays, *actual.outputs]
    moved = _SECTOR * sum(count.sectors_of_blocks for count in actual.counts)
    executed = sum(count.instructions for count in actual.counts)
    turns = sum(count.shared.transactions for count in actual.counts)
    return Figures(
        launches=len(actual.counts),
        memory_bytes=_SECTOR * sum(count.sectors_of_launch for count in actual.counts),
        cache_bytes=moved,
        least_bytes=sum(array.nbytes for array in arrays),
        instructions=executed / max(array.size for array in arrays),
        turns=turns,
        least_turns=sum(count.shared.least for count in actual.counts),
        mma_share=_mma_share(actual, executed, turns, moved),
    )


def _mma_share(actual: Compiled, instructions: int, turns: int, moved: int) -> float | None:
    """The share of cycles in which a multiprocessor's tensor cores multiply; None where there is no such product."""
    if not _MMA.search(actual.code.texts["ptx"]):
        return None
    (left, right), (result,) = actual.arrays, actual.outputs
    assert result.shape == (left.shape[0], right.shape[1])
    products = result.size * left.shape[1] / (16 * 8 * 16)
    multiplying = products * _MMA_CYCLES / _SCHEDULERS
    return multiplying / max(multiplying, instructions / 32 / _SCHEDULERS, turns, moved / _CACHE_BYTES)


def usage(codes: Sequence[CudaCode], sm: int) -> list[list[FunctionUsage]]:
    """What the assembler says of the functions of each code, by their own names; needs ``ptxas``."""
    results = []
    for code in codes:
        used = assemble([code.texts["ptx"]], f"sm_{sm}")
        results.append([replace(each, name=each.name.removesuffix("_m0")) for each in used])
    return results


def occupancies(launch: KernelLaunch, used: Sequence[FunctionUsage], sm: int) -> Occupancy:
    """The occupancy of a launch, whose function is one of ``used``."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    (of,) = (each for each in used if each.name == launch.function)
    return occupancy(sm, threads, of.registers, of.shared)


def table() -> list[str]:
    """The figures as a table of Markdown; needs ``ptxas``."""
    families = {name: make() for name, make in FAMILIES.items()}
    runs = {name: counted(family) for name, family in families.items()}
    used = {sm: usage([compiled(family, sm) for family in families.values()], sm) for sm in GENERATIONS}
    moved, names = "bytes of memory, of the second cache / least", ", ".join(f"sm_{sm}" for sm in GENERATIONS)
    lines = [
        f"| family | launches | {moved} | instructions an element | registers, spills | occupancy {names} | turns |",
        "| --- " * 7 + "|",
    ]
    for number, (name, actual) in enumerate(runs.items()):
        of = figures(actual)
        largest = max(range(of.launches), key=lambda i: actual.counts[i].sectors_of_blocks)
        here = used[90][number]
        shares = ", ".join(
            f"{100 * occupancies(actual.code.launches[largest], used[sm][number], sm).share:.0f} %"
            for sm in GENERATIONS
        )
        registers = f"{max(each.registers for each in here)}, {sum(each.spilled for each in here)}"
        turns = f"{of.conflicts:.2f}" if of.least_turns else ""
        traffic = f"{of.traffic:.2f}, {of.cache_traffic:.2f}"
        lines.append(
            f"| {name} | {of.launches} | {traffic} | {of.instructions:.3g} | {registers} | {shares} | {turns} |"
        )
        if of.mma_share is not None:
            lines.append(f"| {name}: share of cycles in mma | | | | | {100 * of.mma_share:.0f} % (sm_80) | |")
    return lines


def main() -> None:
    print("\n".join(table()) if PTXAS is not None else "no ptxas here, which says how many registers kernels take")


if __name__ == "__main__":
    main()
