"""Compiled functions called by their addresses: from C, from ctypes, from several threads, with red zones."""

from __future__ import annotations

import ctypes
import gc
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.native.function import FunctionPointer, NativeError, native_function
from jitgraph.native.header import header_text
from jitgraph.runtime import native_records as layout
from jitgraph.runtime.loader import Check, ValueSpec
from tests.graphs import needs_native

pytestmark = needs_native
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile a caller")
RED, ZONE = 0xA5, 128


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class Guarded:
    """An array at some distance from the next multiple of 64 bytes, between red zones."""

    def __init__(self, spec: ValueSpec, shift: int, value: Any = None) -> None:
        shape = tuple(map(int, spec.shape))
        dtype = np.dtype(spec.dtype)
        self.bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.room = np.full(2 * ZONE + self.bytes + 128, RED, np.uint8)
        self.start = ZONE + -(self.room.ctypes.data + ZONE) % 64 + shift
        self.array = np.frombuffer(self.room, dtype, int(np.prod(shape, dtype=np.int64)), self.start).reshape(shape)
        if value is not None:
            self.array[...] = value
        self.before = self.array.copy()

    def verify(self, *, is_input: bool) -> None:
        outside = np.concatenate([self.room[: self.start], self.room[self.start + self.bytes :]])
        assert (outside == RED).all(), "a red zone was written to"
        if is_input:
            assert self.array.tobytes() == self.before.tobytes(), "an input was written to"


def called(function: FunctionPointer, arrays: Sequence[Any], shift: int = 0) -> list[Any]:
    """The outputs of a call by the address, between red zones."""
    inputs = [Guarded(spec, shift, array) for spec, array in zip(function.inputs, arrays, strict=True)]
    outputs = [Guarded(spec, shift) for spec in function.outputs]
    error = NativeError()
    addresses = [(ctypes.c_void_p * 8)(*[each.array.ctypes.data for each in group]) for group in (inputs, outputs)]
    code = function.ctypes_function(function.data, *addresses, ctypes.byref(error))
    assert code == 0, (error.code, error.check)
    for each in inputs:
        each.verify(is_input=True)
    for each in outputs:
        each.verify(is_input=False)
    return [each.array.copy() for each in outputs]


weights = jg.asarray(normal(8, 5, seed=9))


def layer(x: Any, bias: Any) -> Any:
    y = jg.tanh(x @ weights) + bias
    return {"rows": y, "total": y.sum(), "argmax": jg.argmax(y, axis=-1), "big": y > 0}


def grown(x: Any) -> Any:
    """Its loop has residual stacks, whose blocks the caller frees."""

    def loss(x: Any) -> Any:
        return jg.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * jg.sin(s[1])), (jg.asarray(0), x))[1].sum()

    return jg.grad(loss)(x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a layer": (layer, (normal(7, 8), normal(5, seed=1))),
    "one row": (layer, (normal(1, 8), normal(5, seed=1))),
    "a number": (lambda t: jg.sin(t) * 2, (np.float64(0.5),)),
    "a large product": (lambda x: x @ x.T, (normal(150, 150),)),
    "a sort": (lambda x: (jg.sort(x), jg.argsort(x)), (normal(1000),)),
    "nothing in it": (lambda x: (x + 1, x.sum()), (normal(0, 3),)),
    "no inputs": (lambda: weights * 2, ()),
    "its input": (lambda x: (x, x), (normal(3),)),
    "ints": (lambda x, y: (x // y, x % y), (np.arange(10), np.arange(10) - 5)),
    "complex": (lambda x: jg.fft.fft(x), (normal(12, dtype=np.complex128),)),
    "a loop": (grown, (normal(4),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_gives_the_bits_of_a_traced_call_and_touches_nothing_else(name: str) -> None:
    function, args = PROGRAMS[name]
    native = native_function(function, *args)
    expected = [np.asarray(leaf.detach().numpy()) for leaf in jg.tree.flatten(jg.trace(function)(*args))[0]]
    itemsizes = [np.dtype(spec.dtype).itemsize for spec in (*native.inputs, *native.outputs)]
    for shift in (0, max(itemsizes), 24 if max(itemsizes) <= 8 else 48):
        for _ in range(2):
            results = called(native, args, shift)
            assert [r.tobytes() for r in results] == [e.tobytes() for e in expected]
    direct = jg.tree.flatten(native(*args))[0]
    assert [r.tobytes() for r in direct] == [e.tobytes() for e in expected]


def test_structures_are_flat_by_name_and_values_are_fixed() -> None:
    def f(batch: Any, mode: str, rate: float, *, shift: float = 0.25) -> Any:
        return (batch["x"] * rate + batch["pair"][0] + shift if mode == "a" else batch["x"]) * weights[0, 0]

    native = native_function(f, {"x": normal(3), "pair": [normal(3, seed=1)]}, "a", 0.5)
    assert [spec.name for spec in native.inputs] == ["batch.x", "batch.pair.0", "rate"]
    assert repr(native).startswith("<native f(batch.x: float32[3], batch.pair.0: float32[3], rate: float64[]) -> out0")
    x, y = normal(3, seed=2), normal(3, seed=3)
    expected = jg.trace(f)({"x": x, "pair": [y]}, "a", 0.125).numpy()
    assert native(x, y, 0.125).tobytes() == expected.tobytes()
    weight = jg.asarray(2.0)
    scaled = native_function(lambda x: x * weight, normal(2))
    weight += 1  # which is not seen
    assert scaled(np.ones(2, np.float32)).tolist() == [2.0, 2.0]


def test_what_no_compiled_caller_can_have_is_refused() -> None:
    counter = jg.asarray(0)

    def counted(x: Any) -> Any:
        nonlocal counter
        counter += 1
        return x

    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def named(x: Any) -> Any:
        return x + 1

    op = jg.custom_op("halved", lambda x: x / 2, lambda x: jg.TensorSpec(x.shape, x.dtype))
    cases = {
        counted: "counted writes the state counter, which calls from several threads would share",
        (lambda x: x + jg.random.normal(3)): "writes the state random.state",
        (lambda x: (jg.debug.print("{}", x), x)[1]): "prints, which needs Python",
        named: "named has the named sizes n",
        op: "is evaluated by Python",
    }
    for function, message in cases.items():
        with pytest.raises(jg.JitgraphError, match=message):
            native_function(function, normal(3))


def test_errors_come_with_a_code_and_what_was_compared() -> None:
    native = native_function(lambda x, i: x[i] * 2, normal(5), jg.asarray(0))
    error, results = NativeError(), (ctypes.c_void_p * 1)(np.empty((), np.float32).ctypes.data)
    arrays = [normal(5), np.asarray(7)]
    inputs = (ctypes.c_void_p * 2)(*[array.ctypes.data for array in arrays])
    assert native.ctypes_function(native.data, inputs, results, ctypes.byref(error)) == 1
    assert (error.code, error.index, error.bound) == (1, 7, 5)
    assert native.ctypes_function(native.data, inputs, results, None) == 1
    with pytest.raises(IndexError, match="index 7 is out of range for an axis of 5"):
        native(*arrays)
    for args, message in (
        ((normal(5),), "takes 2 inputs"),
        ((normal(4), 1), r"expected x: float32\[5\], got the shape \[4\]"),
        ((normal(5, dtype=np.float64), 1), "x"),
    ):
        with pytest.raises(jg.ArgumentError, match=message):
            native(*args)


def test_threads_call_at_once_and_workspaces_come_back() -> None:
    x = normal(120, 120)
    native = native_function(lambda x, s: jg.softmax(x @ x.T * s, axis=-1).sum(axis=0), x, np.float32(1))
    expected = {s: native(x, np.float32(s)).tobytes() for s in range(1, 5)}
    wrong: list[int] = []

    def work(s: int) -> None:
        wrong.extend(s for _ in range(30) if called(native, (x, np.float32(s)), 4)[0].tobytes() != expected[s])

    threads = [threading.Thread(target=work, args=(1 + number % 4,)) for number in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    kept = [native._record[layout.NATIVE["arenas"] // 8 + number] for number in range(layout.ARENAS)]
    assert 1 <= sum(map(bool, kept)) <= layout.ARENAS and len(set(filter(None, kept))) == sum(map(bool, kept))


def test_the_ctypes_function_lives_as_long_as_what_it_calls() -> None:
    pointer, data = (lambda native: (native.ctypes_function, native.data))(native_function(lambda x: x + 1, normal(3)))
    gc.collect()
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    tables = [(ctypes.c_void_p * 1)(each.ctypes.data) for each in (x, y)]
    assert pointer(data, *tables, None) == 0 and y.tolist() == [2.0] * 3


C_CALLER = """
#include "native.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct Caller { jg_native_call *call; void *data; int failures; } Caller;

static void *work(void *argument) {
    Caller *caller = argument;
    for (int round = 0; round < 5000; round++) {
        struct { unsigned char before[64]; float x[3][4]; unsigned char after[64]; } in;
        struct { unsigned char before[60]; float y[3]; unsigned char after[60]; } out; /* not aligned to 64 */
        int64_t row = round % 4;
        memset(&in, 0xa5, sizeof in);
        memset(&out, 0xa5, sizeof out);
        for (int i = 0; i < 12; i++) ((float *)in.x)[i] = (float)(i * round);
        void *inputs[MY_PICK_INPUTS] = {in.x, &row}, *outputs[MY_PICK_OUTPUTS] = {out.y};
        jg_native_error error = {0};
        int32_t code = caller->call(caller->data, inputs, outputs, &error);
        if (row < 4 && code != 0) caller->failures++;
        for (int i = 0; i < 3; i++)
            if (code == 0 && out.y[i] != 2 * in.x[i][row]) caller->failures++;
        for (int i = 0; i < 60; i++) caller->failures += (out.before[i] != 0xa5) + (out.after[i] != 0xa5);
        row = 9;
        if (caller->call(caller->data, inputs, outputs, &error) != 1 || error.index != 9 || error.bound != 4)
            caller->failures++;
        if (strstr(my_pick_checks[error.check], "IndexError: ") != my_pick_checks[error.check]) caller->failures++;
    }
    return NULL;
}

int run(jg_native_call *call, void *data) {
    pthread_t threads[4];
    Caller callers[4];
    int failures = 0;
    for (int i = 0; i < 4; i++) {
        callers[i] = (Caller){call, data, 0};
        pthread_create(&threads[i], NULL, work, &callers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        failures += callers[i].failures;
    }
    return failures;
}
"""


@needs_gcc
def test_c_calls_it_as_the_header_says(tmp_path: Path) -> None:
    native = native_function(lambda x, row: x[:, row] * 2, normal(3, 4), jg.asarray(0))
    (tmp_path / "native.h").write_text(native.header("my pick"))
    (tmp_path / "caller.c").write_text(C_CALLER)
    strict = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-shared", "-fPIC")
    target = tmp_path / "caller.so"
    subprocess.run(["gcc", *strict, str(tmp_path / "caller.c"), "-lpthread", "-o", str(target)], check=True)
    run = ctypes.CDLL(str(target)).run
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    assert run(native.address, native.data) == 0


@needs_gcc
def test_headers_are_sound_c_whatever_names_and_messages_are(tmp_path: Path) -> None:
    specs = (ValueSpec("a */ b", "bfloat16", (2,)), ValueSpec("größe", "bool", ()))
    checks = (Check('"quoted" \\ ??( \t größe\n'), Check("%s"))
    texts = [header_text(name, specs, specs, checks) for name in ("2 fast", "größe", "<lambda>")]
    (tmp_path / "a.c").write_text("\n".join(texts) + "\nint main(void) { return F_2_FAST_CHECKS; }\n")
    done = subprocess.run(
        ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-const-variable", "-Wno-unused-variable",
         "-fsyntax-only", str(tmp_path / "a.c")], capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(re.search(r"jg_native_call", text) for text in texts)
