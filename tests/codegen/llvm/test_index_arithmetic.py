"""Index arithmetic: quotients over lanes by every divisor that is near their number, and lengths known as literals."""

from __future__ import annotations

import numpy as np
import pytest

from jitgraph.codegen.cpu.kernel_function import Scratch
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, Names, constant_of, integer
from jitgraph.codegen.llvm.index import add, end_of_block, subtract
from jitgraph.dtypes import int64
from jitgraph.ir.target import Target
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.codegen.llvm.test_scalar_ops import TARGETS
from tests.codegen.native_kernels import Native, schedule_of

DIVISORS = range(2, 70)
EXTENT, FIRST = 200, 3


@pytest.mark.parametrize("level", TARGETS)
@pytest.mark.parametrize("short", ["i8", "f32", "i64"])  # a vector has 32 or 64 lanes, 8 or 16, 4 or 8
def test_known_divisors(short: str, level: str) -> None:
    steps = []
    for number, divisor in enumerate(DIVISORS):
        for operator, buffer in (("//", "quotients"), ("%", "rests")):
            name = 2 * (2 * number + (operator == "%"))
            steps += [
                f"    _v{name}: i64 = index ((_i0 + {FIRST}) {operator} {divisor})",
                f"    _v{name + 1}: {short} = cast(_v{name})",
                f"    store {buffer}[_i0 + {number * EXTENT}] = _v{name + 1}",
            ]
    size = len(DIVISORS) * EXTENT
    heading = f"kernel @divided(write quotients: {short}[{size}], write rests: {short}[{size}]) {{"
    kernel = parse_kernel("\n".join([heading, f"  vector _i0 < {EXTENT} {{", *steps, "  }", "}"]))
    dtype = {"i8": np.int8, "f32": np.float32, "i64": np.int64}[short]
    quotients, rests = (np.full(size, -1, dtype) for _ in range(2))
    Native(schedule_of(kernel), Target.named(level))([quotients.ctypes.data, rests.ctypes.data], {})
    indices = np.arange(FIRST, FIRST + EXTENT)
    expected = [divmod(indices, divisor) for divisor in DIVISORS]
    np.testing.assert_array_equal(quotients.reshape(-1, EXTENT), np.array([q for q, _ in expected]).astype(dtype))
    np.testing.assert_array_equal(rests.reshape(-1, EXTENT), np.array([r for _, r in expected]).astype(dtype))


def test_blocks_that_are_known_to_be_full_are_not_compared_with_the_end() -> None:
    module = LlvmModule(machine.TRIPLE)
    function = LlvmFunction(module, "f", "void")
    env = Environment(function, Kernel("f", (), ()), Target.host(), Names(), Scratch("f"), lambda statement, env: None)
    first, other = (LlvmScalar(function.argument("i64").name, "i64", int64, 1) for _ in range(2))

    def length(size: int, full: tuple[LlvmScalar, LlvmScalar]) -> int | None:
        return constant_of(subtract(env, end_of_block(env, first, integer(size), full), first))

    assert length(14, (integer(0), integer(140))) == 14
    assert length(14, (other, add(env, add(env, other, integer(8)), integer(20)))) == 14
    assert length(14, (integer(0), integer(141))) is None
    assert length(14, (integer(0), other)) is None
    assert constant_of(subtract(env, add(env, first, integer(3)), add(env, integer(5), first))) == -2
    assert constant_of(subtract(env, add(env, first, integer(3)), other)) is None
    assert constant_of(subtract(env, add(env, first, integer(2**63 - 1)), add(env, first, integer(-1)))) == -(2**63)


def test_the_one_block_of_an_empty_range_is_empty() -> None:
    module = LlvmModule(machine.TRIPLE)
    function = LlvmFunction(module, "f", "void")
    env = Environment(function, Kernel("f", (), ()), Target.host(), Names(), Scratch("f"), lambda statement, env: None)
    for size in (1, 14, 384):
        assert constant_of(end_of_block(env, integer(0), integer(size), (integer(0), integer(0)))) == 0
        assert constant_of(end_of_block(env, integer(7), integer(size), (integer(7), integer(7)))) == 7
