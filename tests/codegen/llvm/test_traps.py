"""Code that LLVM's instruction selection is known to get wrong comes out right all the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from jitgraph.compiler import compile
from jitgraph.dtypes import BY_SHORT_NAME
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.ir.target import Target
from jitgraph.runtime.executable import Executable
from jitgraph_testing.kernels.executor import execute_kernel
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.codegen.native_kernels import run_native

TARGETS = [name for name in ("x86-64-v3", "x86-64-v4") if name <= Target.host().name]

MERGES = {
    "or": "%xm: T[37] = bitwise_and(%x, %m)\n %ym: T[37] = bitwise_and(%y, %n)\n %o: T[37] = bitwise_or(%xm, %ym)",
    "add": "%xm: T[37] = bitwise_and(%x, %m)\n %ym: T[37] = bitwise_and(%y, %n)\n %o: T[37] = add(%ym, %xm)",
    "xor": "%d: T[37] = bitwise_xor(%x, %y)\n %dm: T[37] = bitwise_and(%d, %m)\n %o: T[37] = bitwise_xor(%dm, %y)",
}


@pytest.mark.parametrize("short", ["i32", "i64"])
@pytest.mark.parametrize("merge", MERGES)
def test_select_of_bits_merged_by_a_constant(merge: str, short: str) -> None:
    """LLVM folds the select into a masked vpternlog with the wrong table."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-(2**31), 2**31, 37).astype(BY_SHORT_NAME[short]) for _ in range(2))
    picks = rng.integers(0, 2, 37).astype(bool)
    for mask, order in product((5, 2**31 - 1), ("%x, %o", "%o, %x", "%y, %o", "%o, %y")):
        text = f"""graph @merge(%x: T[37], %y: T[37], %c: bool[37]) -> T[37] {{
  %m: T[37] = full() {{dtype=T, shape=[37], value={mask}}}
  %n: T[37] = full() {{dtype=T, shape=[37], value={~mask}}}
  {MERGES[merge]}
  %r: T[37] = select(%c, {order})
  return %r
}}"""
        graph = parse(text.replace("T", short))
        compiled = compile(graph)
        assert isinstance(compiled, Executable)
        (wanted,), (actual,) = interpret(graph, [x, y, picks]), compiled.run([x, y, picks])
        np.testing.assert_array_equal(actual, wanted, err_msg=f"mask {mask}, select {order}")


@pytest.mark.parametrize("target", TARGETS)
def test_a_tail_of_one_narrowed_element_writes_one_element(target: str) -> None:
    """LLVM scalarises a masked store of truncated values to a store of one wide element."""
    narrowing = [("f32", "bf16"), ("i64", "i32"), ("i32", "i16"), ("i16", "i8"), ("i64", "i8")]
    for (wide, narrow), n, ahead in product(narrowing, (1, 3, 17, 33, 65), (True, False)):
        location = "_i0 + 2" if ahead else f"{n + 1} - _i0"
        kernel = parse_kernel(
            f"""
kernel @narrow(read x: {wide}[{n}], write y: {narrow}[{n + 4}]) {{
  vector _i0 < {n} {{
    _v0: {wide} = load x[_i0]
    _v1: {narrow} = cast(_v0)
    store y[{location}] = _v1
  }}
}}
"""
        )
        x = np.arange(1, n + 1).astype(BY_SHORT_NAME[wide])
        wanted, actual = ({"x": x, "y": np.full(n + 4, 7, BY_SHORT_NAME[narrow])} for _ in range(2))
        execute_kernel(kernel, wanted, {})
        run_native(kernel, actual, {}, target=Target.named(target))
        np.testing.assert_array_equal(actual["y"], wanted["y"], err_msg=f"{wide} to {narrow}, {n} elements")
