"""Every scalar op in native code, as vectors and as scalars, against its meaning in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Body, Kernel, Let, Load, Loop, LoopKind, Param, Store, Var
from jitgraph.dtypes import DTYPES, SHORT_NAMES, DType, bool_
from jitgraph.ir.dims import Dim
from jitgraph.ir.target import Target
from jitgraph.ops.scalar_numpy import NumpyScalars
from jitgraph.runtime import loader
from tests.bits import same_bits
from tests.codegen.native_kernels import Array, Native, schedule_of

FLOATS = [dtype for dtype in DTYPES if dtypes.is_float(dtype)]
INTEGERS = [dtype for dtype in DTYPES if dtypes.is_integer(dtype)]
TARGETS = [name for name in ("x86-64-v3", "x86-64-v4") if name in loader.cpu_levels()]
_N, _AXIS = Dim.name("n"), Dim.name("_i0")


@dataclass(frozen=True)
class Case:
    """A scalar op on args of these dtypes."""

    op: str
    args: tuple[DType, ...]
    result: DType
    param: Any = None

    def let(self, var: Var, args: tuple[Var, ...]) -> Let:
        return Let(var, self.op, args, self.param)

    def expected(self, args: list[Array]) -> Array:
        s: Any = NumpyScalars(self.args[0])
        if self.op in ("cast", "bitcast"):
            return np.asarray(getattr(s, self.op)(args[0], self.result))
        return np.asarray(getattr(s, self.op)(*([self.param] if self.op in ("cmp", "call") else []), *args))


def edge_values(dtype: DType) -> Array:
    """Values at which something may go wrong, and some that are random."""
    rng = np.random.default_rng(7)
    if dtypes.is_bool(dtype):
        return np.array([False, True])
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        small = [0, 1, 2, 3, 5, 7, 10, 31, 32, 63, 64, 65, 100]
        wanted = [*small, -1, -2, -7, info.max, info.max - 1, info.min, info.min + 1]
        actual = np.array([value for value in wanted if info.min <= value <= info.max], dtype)
        return np.concatenate([actual, rng.integers(info.min, info.max, 15, dtype=dtype, endpoint=True)])
    with np.errstate(all="ignore"):
        wanted_floats = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.25, 127.5, 128.0, 255.5, 256.0, 32767.5, 65519.0, 65520.0]
        wanted_floats += [
            2.0**31,
            2.0**32,
            2.0**63,
            2.0**64,
            1e-7,
            6e-8,
            2.98e-8,
            1e-45,
            1.17e-38,
            3.4e38,
            5e-324,
            1e308,
        ]
        positive = np.array([*wanted_floats, np.inf, 2047.5, 2049.0, 1.0009765625, 16777217.0, 0.1]).astype(dtype)
    noise = rng.integers(0, 256, 14 * dtype.itemsize, dtype=np.uint8).view(dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype), noise])


def grid(args: tuple[DType, ...]) -> list[Array]:
    """All tuples of edge values; for three args a sample of them."""
    axes = [edge_values(dtype) for dtype in args]
    product = [np.ascontiguousarray(axis.reshape(-1)) for axis in np.meshgrid(*axes, indexing="ij")]
    if product[0].size <= 6000:
        return product
    chosen = np.random.default_rng(8).choice(product[0].size, 6000, replace=False)
    return [axis[chosen] for axis in product]


def kernel_of(cases: list[Case], kind: LoopKind) -> Kernel:
    """``out<i>[j] = cases[i](in<i>_0[j], ...)`` for j < n in one loop."""
    body: list[Any] = []
    params: list[Param] = []
    number = 0
    for index, case in enumerate(cases):
        loaded = []
        for position, dtype in enumerate(case.args):
            name = f"in{index}_{position}"
            params.append(Param(name, dtype, _N, "read"))
            loaded.append(Var(f"_v{number}", dtype))
            body.append(Load(loaded[-1], name, _AXIS))
            number += 1
        result = Var(f"_v{number}", case.result)
        number += 1
        body += [case.let(result, tuple(loaded)), Store(f"out{index}_{kind}", _AXIS, result)]
        params.append(Param(f"out{index}_{kind}", case.result, _N, "write"))
    loop_body: Body = tuple(body)
    return Kernel(f"scalar_ops_{kind}", tuple(params), (Loop("_i0", _N, kind, loop_body),), ("n",))


def check(cases: list[Case], target: str) -> None:
    """Native results against the expected ones, as vectors with a tail and as scalars."""
    for inputs in sorted({case.args for case in cases}, key=str):
        chosen = [case for case in cases if case.args == inputs]
        arrays = grid(inputs)
        n = arrays[0].size
        native = Native(schedule_of(kernel_of(chosen, "vector"), kernel_of(chosen, "serial")), Target.named(target))
        memory: dict[str, Array] = {}
        for buffer in native.schedule.buffers:
            position = buffer.name.partition("_")[2]
            memory[buffer.name] = arrays[int(position)] if buffer.name[0] == "i" else np.zeros(n, buffer.type.dtype)
        native([memory[buffer.name].ctypes.data for buffer in native.schedule.buffers], {"n": n})
        for index, case in enumerate(chosen):
            with np.errstate(all="ignore"):
                expected = case.expected(arrays)
            assert expected.dtype == case.result, case
            for kind in ("vector", "serial"):
                actual = memory[f"out{index}_{kind}"]
                wrong = np.flatnonzero(~same_bits(actual, expected))
                assert wrong.size == 0, (
                    f"{case.op} {case.param} {case.args} -> {case.result} {kind}: "
                    f"{[[a[i] for a in arrays] for i in wrong[:3]]} give {actual[wrong[:3]]}, not {expected[wrong[:3]]}"
                )


def cases_of(dtype: DType) -> list[Case]:
    one, two = (dtype,), (dtype, dtype)
    results = [Case("cmp", two, bool_, relation) for relation in ("eq", "ne", "lt", "le", "gt", "ge")]
    results += [Case("select", (bool_, dtype, dtype), dtype)]
    if dtypes.is_bool(dtype):
        return results + [Case(op, two, dtype) for op in ("and_", "or_", "xor")] + [Case("not_", one, dtype)]
    results += [Case(op, two, dtype) for op in ("add", "sub", "mul", "div", "rem", "min", "max")]
    results += [Case(op, one, dtype) for op in ("neg", "abs")]
    if dtypes.is_float(dtype):
        results += [Case(op, one, dtype) for op in ("sqrt", "floor", "ceil", "rint", "trunc")]
        return [*results, Case("fma", (dtype,) * 3, dtype)]
    return results + [Case(op, two, dtype) for op in ("and_", "or_", "xor", "shl", "shr")] + [Case("not_", one, dtype)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=SHORT_NAMES.get)
def test_scalar_ops(dtype: DType, target: str) -> None:
    check(cases_of(dtype), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=SHORT_NAMES.get)
def test_casts(dtype: DType, target: str) -> None:
    cases = [Case("cast", (dtype,), other) for other in DTYPES]
    if not dtypes.is_bool(dtype):
        same_width = [other for other in DTYPES if other.itemsize == dtype.itemsize and not dtypes.is_bool(other)]
        cases += [Case("bitcast", (dtype,), other) for other in same_width]
    check(cases, target)
