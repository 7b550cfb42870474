"""Indices in 32 bits: the same places as in 64, also where a part of an index does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from jitgraph.codegen.cuda import device_code
from jitgraph.codegen.cuda.grid import emit_kernel
from jitgraph.codegen.cuda.indices import Indices, alignment
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.dims import parse_dim
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from jitgraph_testing.simulator.module import SimulatedModule
from tests.codegen.cuda.launched import SM_90

FAR = 1 << 33
KERNEL = f"""kernel @far(read p0: f32[64], write p1: f32[64]) {{
vector _i0 < 64 {{
_v0: f32 = load p0[({FAR}*_i0 + 3*_i0) % 60]
store p1[_i0] = _v0
}}
}}"""


def test_what_may_not_fit_is_divided_in_64_bits() -> None:
    kernel = parse_kernel(KERNEL)
    verify_kernel(kernel)
    assert Indices(kernel).narrow
    module = LlvmModule(device_code.TRIPLE, links=False)
    ((shape, _),) = emit_kernel(kernel, module, SM_90, reports=False)
    simulated = SimulatedModule(module.text())
    source, result = (simulated.memory.allocate(256) for _ in range(2))
    x = np.arange(64, dtype=np.float32)
    simulated.memory.bytes_at(source, 256)[:] = x.view(np.uint8)
    arguments = [address.to_bytes(8, "little") for address in (source, result)]
    simulated.launch(shape.function, (1,), shape.block, 0, arguments)
    actual = simulated.memory.bytes_at(result, 256).view(np.float32)
    np.testing.assert_array_equal(actual, [(FAR + 3) * i % 60 for i in range(64)])


@pytest.mark.parametrize(("index", "expected"), [("4*_i0 + 8*_i1", 8), ("_i0 + 12*_i1", 4), ("_i0 + 1", 1), ("_i1", 1)])
def test_what_divides_an_index(index: str, expected: int) -> None:
    assert alignment(parse_dim(index), "_i0", 4) == expected
