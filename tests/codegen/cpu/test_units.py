"""Cutting modules into units: every function stands in one of them, and together they compute what the module does."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from jitgraph.codegen.cpu.backend import emit_module
from jitgraph.codegen.cpu.objects import UNIT_LINES, units
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.ir.target import Target
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.codegen.native_kernels import Native, schedule_of


def shifted(position: int) -> Kernel:
    """``y_place = exp(x * place)``: no two are equal, and all call one math function."""
    return parse_kernel(
        f"""
kernel @shift{position}(read x: f32[n], write y{position}: f32[n]) sizes(n) {{
  _v9: f32 = const {position}.0
  vector _i0 < n {{
    _v0: f32 = load x[_i0]
    _v1: f32 = mul(_v0, _v9)
    _v2: f32 = call exp(_v1)
    store y{position}[_i0] = _v2
  }}
}}
"""
    )


KERNELS = [shifted(place) for place in range(12)]


def test_each_function_is_defined_once() -> None:
    module = emit_module(schedule_of(*KERNELS), Target.host())
    parts, ir = units(module), module.text()
    heads = [re.findall(r"^define .*", part.llvm_ir, re.MULTILINE) for part in parts]
    kept = Counter(
        re.search(r"@([\w.]+)", head)[1] for actual in heads for head in actual if "alwaysinline" not in head
    )  # type: ignore[index]
    full = re.findall(r"^define .*", ir, re.MULTILINE)
    assert kept == Counter(re.search(r"@([\w.]+)", head)[1] for head in full if "alwaysinline" not in head)  # type: ignore[index]
    assert sum(part.hot for part in parts) > 1 and not parts[-1].hot
    assert "@jg_entry" in parts[-1].llvm_ir and not re.search(r" phi |<\d+ x ", parts[-1].llvm_ir)


def test_a_unit_is_no_longer_than_it_has_to_be() -> None:
    assert len(units(emit_module(schedule_of(KERNELS[0]), Target.host()))) == 2
    assert all(
        part.llvm_ir.count("\n") < 4 * UNIT_LINES for part in units(emit_module(schedule_of(*KERNELS), Target.host()))
    )


def test_linked_units_compute_what_the_module_does() -> None:
    n = 9001
    x = np.linspace(-2, 2, n).astype(np.float32)
    together = [np.zeros(n, np.float32) for _ in KERNELS]
    Native(schedule_of(*KERNELS))([array.ctypes.data for array in (x, *together)], {"n": n})
    for kernel, array in zip(KERNELS, together, strict=True):
        alone = np.zeros(n, np.float32)
        Native(schedule_of(kernel))([x.ctypes.data, alone.ctypes.data], {"n": n})
        np.testing.assert_array_equal(alone, array)
    np.testing.assert_allclose(together[1], np.exp(x), rtol=1e-6)
