"""Every op of the table as PTX: CUDA's assembler takes it, and the simulator gives what the executor gives, to the bit.

The executor runs the same schedule, whose nests are those of a GPU; ``tests/codegen/lower`` and the op loop of the
processor hold executor and interpreter against each other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.codegen.cuda.backend import CudaCode
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.kernels.schedule_verifier import verify_schedule
from jitgraph.ir.interpreter import interpret
from jitgraph.ops import OPS
from jitgraph.runtime import loader
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda.assembled import PROCESSORS, assemble, needs_ptxas
from tests.codegen.cuda.launched import code_of, run, schedule_of
from tests.codegen.cuda.planned import Planned
from tests.op_loop import (
    TRANSFORMS,
    Case,
    as_stored,
    cases,
    label,
    require_same,
    require_same_transforms,
    samples_by_names,
    samples_of,
)

CONTROL = {"cond", "scan", "scatter_product", "while"}
"""Ops whose launches the host's entry decides about."""

ALL = [case for case in cases() if OPS[case[0]].lowering != "host"]  # refused: ``tests/linalg``
_FIRST = dict([*reversed(ALL), *(case for case in ALL if case[1] == dtypes.float32)])
CASES = ALL if os.environ.get("CUDA_DTYPES") == "all" else [case for case in ALL if _FIRST[case[0]] == case[1]]
"""Each op with float32, or with the first dtype that it has samples for; ``make nightly`` takes all dtypes."""

_made: dict[str, tuple[Case, Schedule, CudaCode]] = {}


def made(case: tuple[str, dtypes.DType]) -> tuple[Case, Schedule, CudaCode]:
    """The samples of an op and their code, which the tests of this file share."""
    name = label(case)
    if name not in _made:
        samples = samples_of(*case)
        schedule = schedule_of(samples.graph)
        verify_schedule(schedule)
        _made[name] = samples, schedule, code_of(schedule)
    return _made[name]


def outputs(op: str, schedule: Schedule, code: CudaCode, arguments: Sequence[Any], seed: int) -> list[Any]:
    """What the simulator gives: launch by launch, or by the host's entry where that has more to do."""
    arguments = [as_stored(np.asarray(x)) for x in arguments]
    if op not in CONTROL:
        return run(schedule, code, arguments, seed)
    planned = Planned(schedule, list(arguments))
    assert planned.run() == loader.OK
    return planned.results()


@pytest.mark.parametrize("case", CASES, ids=label)
def test_ops_give_the_bits_of_the_executor(case: tuple[str, dtypes.DType]) -> None:
    samples, schedule, code = made(case)
    expected = execute_schedule(schedule, samples.arguments)
    require_same(expected, outputs(case[0], schedule, code, samples.arguments, seed=1), ulps=0)
    evaluated = [np.asarray(value) for value in interpret(samples.graph, samples.arguments)]
    if case[0] in TRANSFORMS:
        require_same_transforms(evaluated, expected)
    else:
        require_same(evaluated, expected, ulps=64 if case[0] == "complex_pow" else 8)  # exp of a rounded product


@pytest.mark.parametrize("case", [case for case in CASES if case[1] == dtypes.float32], ids=label)
def test_ops_with_named_sizes_give_the_bits_of_the_executor(case: tuple[str, dtypes.DType]) -> None:
    samples = samples_by_names(*case)
    if not samples.samples:
        pytest.skip("no sample takes names for its sizes")
    schedule = schedule_of(samples.graph)
    result = outputs(case[0], schedule, code_of(schedule), samples.arguments, seed=2)
    require_same(execute_schedule(schedule, samples.arguments), result, ulps=0)


@needs_ptxas
@pytest.mark.parametrize("arch", PROCESSORS)
def test_the_assembler_takes_every_op_without_spills(arch: str) -> None:
    quick = [case for case in CASES if arch == "sm_90" or case[1] == dtypes.float32]
    by_op = {case: made(case)[2].texts["ptx"] for case in quick}
    used = assemble(list(by_op.values()), arch)
    assert len(used) > 300
    assert not [function for function in used if function.spilled]
