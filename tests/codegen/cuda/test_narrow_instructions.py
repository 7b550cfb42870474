"""Instructions on 8 and 16 bits: kernels have none but those that a GPU is known to compute rightly, or is asked about.

A driver's assembler once computed ``neg.s16`` and ``abs.s16`` in 32 bits and left the upper half as it was, which no
simulator shows. So a form that is not listed here must first pass tests on a GPU (``TEST_GPU=1``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.codegen.cuda import device_code
from jitgraph.ops import OPS
from tests.codegen.cuda.assembled import PTXAS, assemble
from tests.codegen.cuda.launched import SM_90, code_of, schedule_of
from tests.cuda.integer_pairs import DTYPES, FIRST, SECOND, edges, of_one_dtype
from tests.op_loop import cases, label, samples_of

_OF_PAIRS = """
    add.s16 and.b16 max.s16 max.u16 min.s16 min.u16 mul.hi.s16 mul.hi.u16 mul.lo.s16 not.b16 or.b16 selp.b16
    setp.gt.s16 setp.lt.s16 setp.lt.u16 setp.ne.b16 shl.b16 shr.s16 shr.u16 sub.s16 xor.b16 mov.b16
    cvt.s16.s8 cvt.s32.s16 cvt.s32.s8 cvt.s64.s16 cvt.s64.s8 cvt.s8.s32
    cvt.u16.u32 cvt.u16.u64 cvt.u32.u16 cvt.u64.u16
    ld.global.nc.b16 ld.global.nc.b8 ld.global.nc.s16 ld.global.nc.s8 st.global.b16 st.global.b8
"""
OF_PAIRS = frozenset(_OF_PAIRS.split())
"""What ``tests/cuda/test_integer_pairs.py`` reaches; an H200 was given 1,760 such pairs."""

_OF_OTHER_OPS = """
    div.s16 div.u16 mad.lo.s16 mul.wide.u16 setp.eq.b16 setp.ge.s16 setp.ge.u16 setp.gt.u16 setp.le.s16
    setp.le.u16 cvt.rn.f16.f32 cvt.rn.f32.s16 cvt.rn.f32.u16 cvt.rn.f64.s16 cvt.rn.f64.u16
    ld.global.b16 ld.global.b8 ld.global.s8 ld.global.nc.v4.b16 ld.local.b16 ld.local.b8 ld.local.s8
    ld.shared.b16 ld.shared.b8 ld.shared.s8 ld.shared.v2.b16
    st.global.v2.b16 st.global.v2.b8 st.global.v4.b16 st.local.b16 st.local.b8 st.shared.b16 st.shared.b8
    ldmatrix.sync.aligned.m8n8.x4.shared.b16
    mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
"""
OF_OTHER_OPS = frozenset(_OF_OTHER_OPS.split())
"""What other ops add; ``tests/cuda`` compares their results on a GPU, without each before and behind each."""

_NARROW = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*\.(?:[suf]|bf?)(?:16|8)(?:x2)?(?:\.\w+)*)\s", re.MULTILINE)
_EVERY = os.environ.get("CUDA_DTYPES") == "all"
_INTEGERS = {getattr(dtypes, name) for name in DTYPES} if _EVERY else {dtypes.int16}
CASES = [case for case in cases() if case[1] in _INTEGERS and OPS[case[0]].lowering != "host"]
"""Ops of int16, whose forms are those of the other narrow integers but for loads; ``make nightly`` takes all."""


def narrow(ptx: str) -> Iterator[str]:
    """The forms of a text that have operands of 8 or 16 bits."""
    return (actual[1] for actual in _NARROW.finditer(ptx))


@pytest.mark.parametrize("case", CASES, ids=label)
def test_ops_have_only_forms_that_a_gpu_was_asked_about(case: tuple[str, dtypes.DType]) -> None:
    text = code_of(schedule_of(samples_of(*case).graph)).texts["ptx"]
    assert set(narrow(text)) <= OF_PAIRS | OF_OTHER_OPS


def test_the_pairs_reach_what_is_said_of_them() -> None:
    actual = set()
    for dtype in DTYPES if _EVERY else ("int8", "int16", "uint8", "uint16"):
        every = jg.trace(of_one_dtype(list(FIRST), list(SECOND)))
        actual |= set(narrow(code_of(schedule_of(every.lower(jg.asarray(edges(dtype))).optimized)).texts["ptx"]))
    assert actual == OF_PAIRS


def test_what_llvm_itself_selects_is_wrapped() -> None:
    """Negations that LLVM makes of other instructions, too, with and without a guard."""
    body = "".join(
        f"  %v{k} = {result}\n  store i16 %v{k}, ptr addrspace(1) %to, align 2\n"
        for k, result in enumerate(("sub i16 0, %x", "mul i16 %x, -1"))
    )
    text = device_code.ptx_of(
        f'target triple = "{device_code.TRIPLE}"\n'
        "define ptx_kernel void @k(ptr addrspace(1) %from, ptr addrspace(1) %to) {\n"
        f"  %x = load volatile i16, ptr addrspace(1) %from, align 2\n{body}  ret void\n}}\n",
        SM_90,
    )
    if PTXAS is not None:
        assert len(assemble([text], "sm_90")) == 1
    assert "neg.s32" in text and not {"neg.s16", "abs.s16"} & set(narrow(text))
