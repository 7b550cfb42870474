"""Stores that update an element in one step: text, meaning and rules, and that the processor's code refuses them."""

from __future__ import annotations

import numpy as np
import pytest

from jitgraph.codegen.kernels.kernel_text import print_kernel
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.errors import GraphError, UnsupportedOp
from jitgraph_testing.kernels.executor import execute_kernel
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.codegen.native_kernels import run_native

COUNTS = """
kernel @counts(read i: i64[n], readwrite y: i64[5]) sizes(n) {
  parallel _i0 < n {
    _v0: i64 = load i[_i0]
    _v1: i64 = const 2
    _v2: bool = cmp lt(_v0, _v1)
    store y[_v0] add= _v1 if _v2
  }
}
"""


def test_iterations_may_update_one_element() -> None:
    kernel = parse_kernel(COUNTS)
    verify_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    for vectorise in (True, False):
        y = np.arange(5)
        execute_kernel(kernel, {"i": np.array([1, 0, 1, 4, 1]), "y": y}, {"n": 5}, vectorise=vectorise)
        assert y.tolist() == [2, 7, 2, 3, 4]


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("readwrite y", "write y", "is read and written"),
        ("add= _v1 if _v2", "add= _v1\n    _v3: i64 = load y[_i0] if _v2", "has no order"),
        ("add= _v1 if _v2", "add= _v1\n    store y[_i0] max= _v1 if _v2", "has no order"),
        ("readwrite y: i64[5]", "readwrite y: f16[5]", "should be float16"),
    ],
)
def test_what_an_update_may_not_be(old: str, new: str, why: str) -> None:
    assert old in COUNTS
    with pytest.raises(GraphError, match=why):
        verify_kernel(parse_kernel(COUNTS.replace(old, new)))


def test_small_elements_are_not_updated() -> None:
    text = """
kernel @small(readwrite y: i16[5]) {
  parallel _i0 < 5 {
    _v0: i16 = const 1
    store y[0] add= _v0
  }
}
"""
    with pytest.raises(GraphError, match="elements of int16 are not updated by add"):
        verify_kernel(parse_kernel(text))


def test_a_processor_has_no_updates() -> None:
    with pytest.raises(UnsupportedOp, match="updates y in one step"):
        run_native(parse_kernel(COUNTS), {"i": np.zeros(3, np.int64), "y": np.zeros(5, np.int64)}, {"n": 3})
