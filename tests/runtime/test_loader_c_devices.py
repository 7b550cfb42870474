"""Files with code for GPUs in the written ``loader.c``, over a driver whose launches are simulated."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitgraph.runtime import loader
from jitgraph.runtime.cuda.driver_functions import FUNCTIONS
from tests.bits import bits_of
from tests.graphs import needs_native
from tests.runtime.c_library import CError, Library
from tests.runtime.cuda.machines import has_gpu, leaks
from tests.runtime.device_files import (
    BOTH,
    Stub,
    counting_rows,
    mlp,
    newton,
    normal,
    serving,
    set_capability,
    step,
)

pytestmark = [needs_native, pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")]


OPTIONAL = (None,) * 4  # the settings of the optimiser


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, stub: Stub) -> Library:
    return Library(tmp_path_factory.mktemp("library"), f'-DJG_CUDA_LIBRARY="{stub.path}"', "-O0")


@pytest.fixture
def serve(stub: Stub) -> Iterator[Callable[..., Any]]:
    with serving(stub) as begin:
        yield begin


def test_results_have_the_bits_of_the_cpu_at_any_size(path: Path, serve: Any, library: Library) -> None:
    mlp(path, targets=BOTH)
    fake = serve(path)
    host, there = loader.load(path), library.load(path, "cuda:1")
    assert there.place == ("cuda:1", "sm_90") and library.load(path).place == ("cpu", "x86-64-v3")
    for batch in (1, 3, 40, 0, 3):
        x = normal(batch, 4, seed=batch)
        assert bits_of(there(x)[0]) == bits_of(host(x)["p"])
    before = [sum(call.symbol == symbol for call in fake.calls) for symbol in ("cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2")]
    there(normal(3, 4))
    after = [sum(call.symbol == symbol for call in fake.calls) for symbol in ("cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2")]
    assert after == [before[0], before[1] + 1]  # memory is used again, and weights stay there
    with pytest.raises(CError, match="expected x: float32"):
        there(normal(3, 5))
    there.close()


def test_a_training_step_goes_on_there(path: Path, serve: Any, library: Library) -> None:
    x, y = step(path, targets=BOTH)
    serve(path)
    host, there = loader.load(path), library.load(path, "cuda")
    assert [bits_of(there(x, y, *OPTIONAL)[0]) for _ in range(3)] == [bits_of(host(x, y)) for _ in range(3)]
    for key, value in host.state.items():
        assert bits_of(there.state(key)) == bits_of(value)
    first = {key: np.array(value) for key, value in loader.load(path).state.items()}
    for key, value in first.items():
        there.set_state(key, value)
    assert bits_of(there(x, y, *OPTIONAL)[0]) == bits_of(loader.load(path)(x, y))
    there.close()


def test_a_failed_check_tells_its_line_and_leaves_the_state(path: Path, serve: Any, library: Library) -> None:
    table = counting_rows(path, targets=BOTH)
    serve(path)
    there = library.load(path, "cuda")
    rows, found = there(np.array([4, 0]))
    assert np.array_equal(rows, table[[4, 0]]) and found == 1
    with pytest.raises(CError, match=r"index 7 is out of range[\s\S]*at .*device_files\.py:\d+"):
        there(np.array([1, 7]))
    assert there.error.kind == b"IndexError"
    assert there(np.array([1]))[1] == 2
    there.close()


def test_loops_branches_and_prints_wait_for_the_device(
    path: Path, serve: Any, library: Library, capfd: pytest.CaptureFixture[str]
) -> None:
    newton(path, targets=("x86-64-v3", "sm_90"))
    serve(path)
    host, there = library.load(path), library.load(path, "cuda")
    for n in (4, 9, 1):
        x = normal(n, seed=n) ** 2 + 1
        assert list(map(bits_of, host(x))) == list(map(bits_of, there(x)))
    host.c.fflush(None)
    lines = capfd.readouterr().out.splitlines()
    assert lines[::2] == lines[1::2] and len(lines) == 6 and lines[0].endswith(" turns")
    host.close()
    there.close()


def test_what_is_not_there_is_said(path: Path, serve: Any, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    mlp(path, targets=("x86-64-v3", "sm_90"))
    fake = serve(path)
    plain = path.with_name("plain.jg")
    counting_rows(plain, targets="x86-64-v3")
    for code, message in ((100, "finds no device"), (3, "CUDA_ERROR_NOT_INITIALIZED")):
        fake.fail("cuInit", code=code)
        with pytest.raises(CError, match=message):
            library.load(path, "cuda")
    set_capability(monkeypatch, 8, 6)
    for file, device, message in (
        (plain, "cuda", "has no code for GPUs; save it with targets"),
        (path, "cuda", r"code for GPUs from sm_90 on, but cuda:0 \(.*\) is sm_86"),
        (path, "cuda:2", "there is no cuda:2; the driver finds 2 devices"),
        (path, "cuda:x", "'cuda:x' names no device"),
        (path, "tpu", "'tpu' names no device"),
    ):
        with pytest.raises(CError, match=message):
            library.load(file, device)


@pytest.mark.skipif(has_gpu(), reason="this machine has a driver")
def test_a_machine_without_a_driver(path: Path, c_library: Library) -> None:
    mlp(path, targets=BOTH)
    with pytest.raises(CError, match=r"no CUDA driver \(libcuda\.so\.1"):
        c_library.load(path, "cuda")


def test_what_the_driver_refuses_is_said_and_leaves_nothing(path: Path, serve: Any, library: Library) -> None:
    mlp(path, targets="cuda")
    fake = serve(path)
    for symbol, message in (
        ("cuModuleLoadDataEx", "loading its PTX"),
        ("cuModuleGetFunction", "the kernel k_"),
        ("cuMemcpyHtoDAsync_v2", "a copy to it"),
        ("cuMemAlloc_v2", "memory for"),
        ("cuStreamCreate", "a stream"),
    ):
        fake.fail(symbol, code=1)
        with pytest.raises(CError, match=message):
            library.load(path, "cuda")
        assert leaks(fake) == {}
    there = library.load(path, "cuda")
    x = normal(2, 4)
    expected = there(x)[0]
    fake.fail("cuLaunchKernel", after=1, code=1)
    with pytest.raises(CError, match="launch 1: CUDA_ERROR_INVALID_VALUE"):
        there(x)
    assert bits_of(there(x)[0]) == bits_of(expected)
    fake.set_memory(fake.live_bytes())
    with pytest.raises(CError, match=r"memory for a call: CUDA_ERROR_OUT_OF_MEMORY"):
        there(normal(5000, 4))
    there.close()


def test_a_child_of_a_fork_is_told(path: Path, serve: Any, library: Library) -> None:
    mlp(path, targets="cuda")
    serve(path)
    there = library.load(path, "cuda")

    if (child := os.fork()) == 0:
        try:
            there(normal(2, 4))
        except CError as error:
            os._exit(0 if "was in use before this process was forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    there.close()


def test_the_functions_that_loaders_call_are_those_of_the_driver(written: Path, written_loader: Any) -> None:
    text = (written / "loader.c").read_text()
    named = [line.split("(")[1].split(",")[0] for line in text.splitlines() if line.startswith("    X(cu")]
    assert len(named) > 20 and set(named) <= set(FUNCTIONS)
    letters = written_loader._PARAMETERS
    assert {symbol: FUNCTIONS[symbol] for symbol in letters} == letters
