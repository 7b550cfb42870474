"""Native functions in njit functions of numba: what is verified when those compile and run, and what comes out."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.native.function import native_function
from tests import ROOT
from tests.graphs import needs_native

numba = pytest.importorskip("numba")
pytestmark = needs_native
RED = 0xA5


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


weights = jg.asarray(normal(4, 2, seed=7))


def layer(x: Any, bias: Any) -> Any:
    y = jg.tanh(x @ weights) + bias
    return {"rows": y, "count": (y > 0).sum(), "any": (y > 1).any(), "total": y.sum()}


LAYER = native_function(layer, normal(3, 4), normal(2))
SINE = native_function(lambda t: jg.sin(t) * 2, jg.TensorSpec((), jg.float64))
PICK = native_function(lambda x, i: x[i] * 2, normal(5), jg.asarray(0))


def test_arrays_and_numbers_go_in_and_out_with_the_bits_of_a_traced_call() -> None:
    @numba.njit
    def f(x, bias):  # type: ignore[no-untyped-def]
        return LAYER(x, bias)

    x, bias = normal(3, 4, seed=1), normal(2, seed=2)
    expected = [np.asarray(leaf.numpy()) for leaf in jg.tree.flatten(jg.trace(layer)(x, bias))[0]]
    for results in (f(x, bias), LAYER.njit(x, bias)):
        assert [np.asarray(r, e.dtype).tobytes() for r, e in zip(results, expected, strict=True)] == [
            e.tobytes() for e in expected
        ]
        assert results[0].ctypes.data % 64 == 0 and results[0].flags.c_contiguous and results[0].flags.writeable

    @numba.njit
    def summed(n, t):  # type: ignore[no-untyped-def]
        total = 0.0
        for i in range(n):
            total += SINE(t + i) + SINE(i)
        return total

    expected_sum = 0.0
    for i in range(5):
        expected_sum += float(SINE(0.5 + i)) + float(SINE(np.float64(i)))
    assert summed(5, 0.5) == expected_sum


def test_what_does_not_fit_is_refused_when_the_caller_is_compiled() -> None:
    @numba.njit
    def f(x, bias):  # type: ignore[no-untyped-def]
        return LAYER(x, bias)[0]

    x, bias = normal(3, 4), normal(2)
    wrong = {
        "an array array(float64, 2d, C)": (x.astype(np.float64), bias),
        "an array array(float32, 1d, C)": (x[0], bias),
        "that is not C-contiguous: np.ascontiguousarray(x)": (np.asfortranarray(x), bias),
        "got float64": (1.5, bias),
        "got unicode_type": (x, "bias"),
    }
    wrong["is not C-contiguous"] = (np.zeros((6, 4), np.float32)[::2], bias)
    for message, args in wrong.items():
        with pytest.raises(numba.TypingError) as raised:
            f(*args)
        assert message in str(raised.value)
    unaligned = np.frombuffer(bytearray(49), np.float32, 12, 1).reshape(3, 4)
    with pytest.raises(ValueError, match="is not aligned"):
        f(unaligned, bias)
    read_only = x.copy()
    read_only.flags.writeable = False
    assert f(read_only, bias).tobytes() == f(x, bias).tobytes()

    @numba.njit
    def too_few(x):  # type: ignore[no-untyped-def]
        return LAYER(x)

    with pytest.raises(numba.TypingError, match=r"argument|layer"):
        too_few(x)

    @numba.njit
    def whole(x, i):  # type: ignore[no-untyped-def]
        return PICK(x, i)

    for index in (1.0, np.uint64(1), True):
        with pytest.raises(numba.TypingError, match=r"expected i: int64\[\]"):
            whole(normal(5), index)
    assert whole(normal(5), np.int32(1)) == whole(normal(5), 1)


def test_what_goes_wrong_at_a_call_raises() -> None:
    @numba.njit
    def f(x, bias):  # type: ignore[no-untyped-def]
        return LAYER(x, bias)[0]

    @numba.njit
    def pick(x, i):  # type: ignore[no-untyped-def]
        try:
            return PICK(x, i)
        except Exception:
            return np.float32(-1)

    with pytest.raises(ValueError, match=r"layer: x: float32\[3, 4\] is given an array of another shape"):
        f(normal(4, 4), normal(2))
    assert pick(normal(5), 9) == -1
    with pytest.raises(IndexError, match="index 9 is out of range for an axis of 5"):
        PICK.njit(normal(5), 9)
    for _ in range(100):  # outputs of calls that failed are freed
        with pytest.raises(IndexError):
            PICK.njit(normal(5), -7)


def test_nothing_outside_of_the_arrays_is_touched() -> None:
    x = np.full(64 + 48 + 64, RED, np.uint8)
    inner = x[64:112].view(np.float32).reshape(3, 4)
    inner[...] = normal(3, 4)
    before = x.copy()
    bias = normal(2)
    results = [LAYER.njit(inner, bias)[0] for _ in range(50)]
    assert (x == before).all()
    assert len({result.ctypes.data for result in results}) == 50
    assert len({result.tobytes() for result in results}) == 1


def test_threads_without_the_gil() -> None:
    @numba.njit(nogil=True)
    def many(x, bias, n):  # type: ignore[no-untyped-def]
        total = np.zeros((3, 2), np.float32)
        for _ in range(n):
            total += LAYER(x, bias)[0]
        return total

    inputs = [(normal(3, 4, seed=s), normal(2, seed=s)) for s in range(4)]
    expected = [many(*each, 500).tobytes() for each in inputs]
    actual: dict[int, bytes] = {}
    threads = [
        threading.Thread(target=lambda s=s: actual.__setitem__(s, many(*inputs[s], 500).tobytes())) for s in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [actual[s] for s in range(4)] == expected


def test_addresses_are_kept_in_no_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "cached.py"
    source.write_text(
        "import numba\n"
        "from tests.native.test_njit_calls import SINE\n"
        "@numba.njit(cache=True)\n"
        "def f(t):\n    return SINE(t)\n"
        "print(f(0.5))\n"
    )
    outputs = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(source)], cwd=ROOT, capture_output=True, text=True, check=False,
            env={**__import__("os").environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "Cannot cache compiled function" in done.stderr
        outputs.add(done.stdout)
    assert outputs == {f"{float(SINE(0.5))}\n"}


def test_dtypes_that_numba_lacks_are_refused() -> None:
    with pytest.raises(jg.DTypeError, match=r"x: bfloat16\[3\] is of a dtype that njit functions do not compute with"):
        _ = native_function(lambda x: x, jg.TensorSpec((3,), jg.bfloat16)).njit
