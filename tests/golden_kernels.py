"""The steps of golden files that take the text of a kernel: which memory it may share, and its LLVM IR."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from jitgraph.codegen.cpu.entry import emit_module
from jitgraph.codegen.kernels.aliasing import aliasing_pairs
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.ir import dims
from jitgraph_testing.kernels.executor import execute_kernel
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.bits import same_bits
from tests.codegen.native_kernels import Native, schedule_of
from tests.golden_files import Case
from tests.graphs import TARGET

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 5, 8, 19)


def kernel_result(case: Case) -> str:
    """The text that the case's step gives for its kernel."""
    kernel = parse_kernel(case.kernel)
    verify_kernel(kernel)
    (name,) = case.steps
    return {"aliasing": _aliasing, "llvm": _llvm}[name](kernel)


def _memory(kernel: Kernel, size: int) -> tuple[dict[str, Array], dict[str, int]]:
    sizes = dict.fromkeys(kernel.sizes, size)
    rng = np.random.default_rng(size)
    lengths = {param.name: dims.evaluate(param.size, sizes) for param in kernel.params}
    return {p.name: rng.integers(-9, 9, lengths[p.name]).astype(p.dtype) for p in kernel.params}, sizes


def _aliasing(kernel: Kernel) -> str:
    """Each pair of params that may be one buffer; run so, the kernel gives what it gives apart."""
    pairs = sorted(aliasing_pairs(kernel))
    for written, read in pairs:
        shared = replace(kernel, aliases=((written, read),))
        verify_kernel(shared)
        for size in SIZES:
            apart, sizes = _memory(kernel, size)
            together = {name: array.copy() for name, array in apart.items()}
            together[written] = together[read]
            execute_kernel(kernel, apart, sizes)
            execute_kernel(shared, together, sizes)
            for name in {param.name for param in kernel.params if "write" in param.access}:
                assert same_bits(together[name], apart[name]).all(), (written, read, name, size)
    return "\n".join(f"{written} may be {read}" for written, read in pairs) or "none"


def _llvm(kernel: Kernel) -> str:
    """The functions that compute, without those that share the work and the entry; run here, they give the same."""
    schedule = schedule_of(kernel)
    text = emit_module(schedule, TARGET).text()
    native = Native(schedule)
    for size in SIZES:
        expected, sizes = _memory(kernel, size)
        actual = {name: array.copy() for name, array in expected.items()}
        execute_kernel(kernel, expected, sizes)
        native([actual[param.name].ctypes.data for param in kernel.params], sizes)
        for name, array in actual.items():
            assert same_bits(array, expected[name]).all(), (name, size)
    functions = re.findall(r"^define .*?^}$", text, flags=re.MULTILINE | re.DOTALL)
    bodies = [function for function in functions if re.match(r"define \S+ \S+ @k_\w+_body\(", function)]
    assert bodies, "the kernel has no function of its own"
    return "\n\n".join(bodies)
