"""Files with code for GPUs in the written ``loader.py``, over a driver whose launches are simulated."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.bits import bits_of
from tests.graphs import needs_native
from tests.runtime.cuda.machines import leaks
from tests.runtime.device_files import (
    BOTH,
    counting_rows,
    mlp,
    newton,
    normal,
    set_capability,
    step,
)

pytestmark = [needs_native, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")]


def test_results_have_the_bits_of_the_cpu_at_any_size(path: Path, serve: Any, written_loader: Any) -> None:
    mlp(path, targets=BOTH)
    fake = serve(path)
    host, there = written_loader.load(path), written_loader.load(path, device="cuda:1")
    assert (host.device, host.target, there.device, there.target) == ("cpu", "x86-64-v3", "cuda:1", "sm_90")
    assert there.inputs == host.inputs and there.outputs == host.outputs and there.metadata == {}
    for batch in (1, 3, 40, 0):
        x = normal(batch, 4, seed=batch)
        a, b = host(x), there(x)
        assert bits_of(a["p"]) == bits_of(b["p"]) and a["n"] == b["n"] == 3 and b["p"].shape == (batch, 3)
    assert {key: bits_of(x) for key, x in there.state.items()} == {key: bits_of(x) for key, x in host.state.items()}
    uploads = sum(call.symbol == "cuMemcpyHtoDAsync_v2" for call in fake.calls)
    there(normal(3, 4))
    assert sum(call.symbol == "cuMemcpyHtoDAsync_v2" for call in fake.calls) == uploads + 1  # weights stay there
    with pytest.raises(written_loader.ArgumentError, match="expected x: float32"):
        there(normal(3, 5))
    with pytest.raises(written_loader.ArgumentError, match="argument 0"):
        there(np.zeros((3, 4)))


def test_a_file_may_have_code_for_gpus_alone(path: Path, serve: Any, written_loader: Any) -> None:
    mlp(path, targets="cuda")
    serve(path)
    with pytest.raises(written_loader.LoadError, match="native code for no target"):
        written_loader.load(path)
    x = normal(6, 4)
    expected = jg.load(path)(x)["p"].numpy()
    assert bits_of(written_loader.load(path, device="cuda")(x)["p"]) == bits_of(expected)


def test_a_training_step_goes_on_there(path: Path, serve: Any, written_loader: Any) -> None:
    x, y = step(path, targets=BOTH)
    serve(path)
    host, there = written_loader.load(path), written_loader.load(path, device="cuda")
    before = there.state
    losses = [(host(x, y), there(x, y)) for _ in range(4)]
    assert all(bits_of(a) == bits_of(b) for a, b in losses) and losses[-1][1] < losses[0][1]
    assert {key: bits_of(v) for key, v in host.state.items()} == {key: bits_of(v) for key, v in there.state.items()}
    assert any(bits_of(before[key]) != bits_of(value) for key, value in there.state.items())
    there.set_state(before)
    assert bits_of(there(x, y)) == bits_of(losses[0][1])
    with pytest.raises(written_loader.ArgumentError, match="there is no state"):
        there.set_state({**before, "nothing": x})


def test_a_failed_check_tells_its_line_and_leaves_the_state(path: Path, serve: Any, written_loader: Any) -> None:
    table = counting_rows(path, targets=BOTH)
    serve(path)
    there = written_loader.load(path, device="cuda")
    rows, actual = there(np.array([4, 0]))
    assert np.array_equal(rows, table[[4, 0]]) and actual == 1
    with pytest.raises(IndexError, match=r"index 7 is out of range[\s\S]*at .*device_files\.py:\d+"):
        there(np.array([1, 7]))
    assert there(np.array([1]))[1] == 2


def test_loops_branches_and_prints_wait_for_the_device(
    path: Path, serve: Any, written_loader: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    newton(path, targets=("x86-64-v3", "sm_90"))
    serve(path)
    host, there = written_loader.load(path), written_loader.load(path, device="cuda")
    for n in (4, 9, 1):
        x = normal(n, seed=n) ** 2 + 1
        assert list(map(bits_of, host(x))) == list(map(bits_of, there(x)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == lines[1::2] and len(lines) == 6 and lines[0].endswith(" turns")


def test_large_constants_are_uploaded_once(path: Path, serve: Any, written_loader: Any) -> None:
    from jitgraph import ops
    from jitgraph.ir.types import Constant
    from jitgraph.tensor import wrap

    table = normal(200, 3)
    f = jg.trace(lambda i: jg.take(wrap(ops.constant(value=Constant(table))), i, axis=0))
    jg.save(f, path, example_inputs=(np.arange(5),), targets=BOTH)
    serve(path)
    i = np.array([3, 199, 0, 7, 7])
    assert np.array_equal(written_loader.load(path, device="cuda")(i), table[i])


def test_arrays_of_other_libraries_there_are_taken_and_given(path: Path, serve: Any, written_loader: Any) -> None:
    mlp(path, targets=BOTH)
    relu = jg.trace(lambda p: jg.maximum(p, 0.25) * 2, dynamic_shapes={"p": {0: "n"}})
    second = path.with_name("second.jg")
    jg.save(relu, second, example_inputs=(normal(4, 3),), targets=BOTH)
    fake = serve(path, second)
    there = written_loader.load(path, device="cuda", results="device")
    after = written_loader.load(second, device="cuda")
    x = normal(4, 4)
    first = there(x)["p"]
    shown = first.__cuda_array_interface__
    assert (shown["shape"], shown["typestr"], shown["version"]) == ((4, 3), "<f4", 3)
    assert bits_of(np.asarray(first)) == bits_of(written_loader.load(path)(x)["p"])

    class Foreign:
        """What another library has there: memory, and work on a stream."""

        def __init__(self, array: Any, **changes: Any) -> None:
            self.held = array
            self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}

    p = there(x)["p"]
    uploads = sum(call.symbol == "cuMemcpyHtoDAsync_v2" for call in fake.calls)
    assert (
        bits_of(after(Foreign(p))) == bits_of(after(Foreign(p, stream=1))) == bits_of(np.maximum(p.numpy(), 0.25) * 2)
    )
    assert sum(call.symbol == "cuMemcpyHtoDAsync_v2" for call in fake.calls) == uploads
    rows = Foreign(p, shape=(3, 3), data=(p.address + 12, False))  # not at a multiple of 16
    assert bits_of(after(rows)) == bits_of(np.maximum(p.numpy()[1:], 0.25) * 2)
    assert sum(call.symbol == "cuMemcpyDtoDAsync_v2" for call in fake.calls) == 1  # which kernels rely on
    for changes, message in (
        ({"strides": (4, 16)}, "row-major"),
        ({"typestr": "<f8"}, "got float64"),
    ):
        with pytest.raises(written_loader.ArgumentError, match=message):
            after(Foreign(p, **changes))
    host = written_loader.load(second, device="cuda:1")
    with pytest.raises(written_loader.ArgumentError, match="lies on cuda:0, and the model on cuda:1"):
        host(Foreign(p))


def test_the_best_code_that_fits_is_taken(
    path: Path, serve: Any, written_loader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlp(path, targets="cuda")
    serve(path)
    fitting = {(8, 0): "sm_80", (8, 9): "sm_80", (9, 0): "sm_90", (10, 0): "sm_90", (12, 1): "sm_90"}
    for capability, expected in fitting.items():
        set_capability(monkeypatch, *capability)
        assert written_loader.load(path, device="cuda").target == expected
    set_capability(monkeypatch, 7, 5)
    with pytest.raises(written_loader.LoadError, match=r"code for GPUs from sm_80 on, but cuda:0 \(.*\) is sm_75"):
        written_loader.load(path, device="cuda")


def test_what_is_not_there_is_said(
    path: Path, serve: Any, written_loader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlp(path)
    fake = serve(path)
    load = written_loader.load
    for device, message in (
        ("cuda", "has no code for GPUs; save it with targets"),
        ("cuda:2", "there is no cuda:2; the devices are: cuda:0, cuda:1"),
        ("gpu", "'gpu' names no device"),
        ("cuda:x", "names no device"),
    ):
        with pytest.raises(written_loader.LoadError, match=message):
            load(path, device=device)
    with pytest.raises(written_loader.ArgumentError, match="neither 'numpy' nor 'device'"):
        load(path, device="cuda", results="both")
    for code, message in ((100, "finds no device"), (3, "does not start: CUDA_ERROR_NOT_INIT")):
        fake.fail("cuInit", code=code)
        with pytest.raises(written_loader.LoadError, match=message):
            load(path, device="cuda")
    monkeypatch.setattr(written_loader, "CUDA_LIBRARY", "libjgnothing.so.1")
    with pytest.raises(written_loader.LoadError, match=r"no CUDA driver \(libjgnothing.so.1"):
        load(path, device="cuda")


def test_what_the_driver_refuses_is_said_and_leaves_nothing(path: Path, serve: Any, written_loader: Any) -> None:
    mlp(path, targets="cuda")
    fake = serve(path)
    for symbol, kind, message in (
        ("cuModuleLoadDataEx", written_loader.LoadError, "loading its PTX"),
        ("cuModuleGetFunction", written_loader.LoadError, "the kernel k_"),
        ("cuMemcpyHtoDAsync_v2", written_loader.JitgraphError, "a copy of .* bytes to cuda:0"),
        ("cuStreamCreate", written_loader.JitgraphError, "a stream of cuda:0"),
    ):
        fake.fail(symbol, code=1)
        with pytest.raises(kind, match=message):
            written_loader.load(path, device="cuda")
        assert leaks(fake) == {}
    there = written_loader.load(path, device="cuda")
    x = normal(2, 4)
    expected = there(x)["p"]
    fake.fail("cuLaunchKernel", after=1, code=1)
    with pytest.raises(written_loader.JitgraphError, match="launch 1: CUDA_ERROR_INVALID_VALUE"):
        there(x)
    fake.fail("cuMemAlloc_v2", code=2)
    fake.fail("cuMemAlloc_v2", code=2)
    assert bits_of(there(x)["p"]) == bits_of(expected)
    fake.set_memory(fake.live_bytes())
    with pytest.raises(MemoryError, match="bytes of cuda:0"):
        there(normal(5000, 4))
