"""Files with code for GPUs in the written ``loader.c``, over a driver whose launches are simulated."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.driver import FUNCTIONS
from tests.bits import bits_of
from tests.graphs import needs_native
from tests.runtime.c_library import DTYPES, CError, Library, Tensor, given
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
    rows, actual = there(np.array([4, 0]))
    assert np.array_equal(rows, table[[4, 0]]) and actual == 1
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


# --- the caller's memory on the device -------------------------------------------------------------------------------


class Place:
    """Memory of a simulated device, as a program beside the loader has it."""

    def __init__(self, stub: Stub, ordinal: int = 0) -> None:
        self.driver = ctypes.CDLL(str(stub.path))
        self.held: list[int] = []
        context, before = ctypes.c_void_p(), ctypes.c_void_p()
        self.ordinal = ordinal
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        self.call("cuCtxGetCurrent", ctypes.byref(before))
        self.context, self.before = context, before

    def call(self, name: str, *arguments: Any) -> None:
        assert getattr(self.driver, name)(*arguments) == 0, name

    def put(self, array: Any, *, offset: int = 0) -> Any:
        """A tensor there with the elements of an array, ``offset`` bytes behind an aligned address."""
        address = ctypes.c_uint64()
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, array.nbytes + offset)))
        self.held.append(address.value)
        tensor = given(array)
        tensor.data = address.value + offset
        if array.nbytes:
            at = ctypes.c_size_t(tensor.data)
            self.call(
                "cuMemcpyHtoDAsync_v2", at, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), None
            )
            self.call("cuStreamSynchronize", None)
        self.call("cuCtxSetCurrent", self.before)
        return tensor

    def read(self, tensor: Any) -> Any:
        actual = np.empty(tensor.shape[: tensor.rank], loader.dtype_named(DTYPES[tensor.dtype]))
        self.call("cuCtxSetCurrent", self.context)
        if actual.nbytes:
            at, size = ctypes.c_size_t(tensor.data), ctypes.c_size_t(actual.nbytes)
            self.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(actual.ctypes.data), at, size, None)
            self.call("cuStreamSynchronize", None)
        self.call("cuCtxSetCurrent", self.before)
        return actual

    def close(self) -> None:
        self.call("cuCtxSetCurrent", self.context)
        for address in self.held:
            self.call("cuMemFree_v2", ctypes.c_uint64(address))
        self.call("cuCtxSetCurrent", self.before)
        self.call("cuDevicePrimaryCtxRelease_v2", self.ordinal)


@pytest.fixture
def beside(stub: Stub) -> Iterator[Callable[..., Place]]:
    """What makes such places, once there are devices, and closes them."""
    results: list[Place] = []

    def begin(ordinal: int = 0) -> Place:
        results.append(Place(stub, ordinal))
        return results[-1]

    yield begin
    for device_name in results:
        device_name.close()


def test_memory_there_is_taken_and_given(path: Path, serve: Any, library: Library, beside: Any) -> None:
    mlp(path, targets=BOTH)
    fake = serve(path)
    there, device_name = library.load(path, "cuda"), beside()
    host = loader.load(path)
    x = normal(5, 4)
    expected = bits_of(host(x)["p"])
    count = lambda symbol: sum(call.symbol == symbol for call in fake.calls)
    a, result = device_name.put(x), device_name.put(np.zeros((5, 3), np.float32))
    a.on = result.on = there.model.value
    for _ in range(2):
        before = count("cuMemcpyHtoDAsync_v2"), count("cuMemcpyDtoHAsync_v2"), count("cuMemcpyDtoDAsync_v2")
        there.run([a], [result])
        after = count("cuMemcpyHtoDAsync_v2"), count("cuMemcpyDtoHAsync_v2"), count("cuMemcpyDtoDAsync_v2")
        assert after == before  # nothing is copied
        assert (result.rank, tuple(result.shape[:2]), result.dtype) == (2, (5, 3), DTYPES.index("float32"))
        assert bits_of(device_name.read(result)) == expected
    own = Tensor(on=there.model.value)
    there.run([a], [own])
    assert own.bytes == 60 and own.data and bits_of(device_name.read(own)) == expected
    first = own.data
    other = Tensor(on=there.model.value)
    there.run([given(x)], [other])  # from the host to the device
    assert other.data != first and bits_of(device_name.read(own)) == bits_of(device_name.read(other)) == expected
    back = Tensor()
    there.run([a], [back])  # and from there to the host
    assert bits_of(there.taken(back)) == expected
    for tensor in (own, other):
        there.free(tensor)
        assert tensor.data is None
        there.free(tensor)
    there.close()


def test_memory_there_may_lie_and_overlap_as_it_likes(path: Path, serve: Any, library: Library, beside: Any) -> None:
    turned = jg.trace(lambda x: (jg.flip(x, 0), x + 1), dynamic_shapes={"x": {0: "n"}})
    jg.save(turned, path, example_inputs=(normal(4),), targets=BOTH)
    serve(path)
    there, device_name = library.load(path, "cuda"), beside()
    x = normal(9)
    expected = [bits_of(x[::-1].copy()), bits_of(x + np.float32(1))]
    unaligned = device_name.put(x, offset=4)
    first, second = (
        device_name.put(np.zeros(9, np.float32), offset=4),
        device_name.put(np.zeros(9, np.float32), offset=64),
    )
    for tensor in (unaligned, first, second):
        tensor.on = there.model.value
    there.run([unaligned], [first, second])
    assert [bits_of(device_name.read(tensor)) for tensor in (first, second)] == expected
    over = device_name.put(x)
    over.on = there.model.value
    result = Tensor.from_buffer_copy(over)
    there.run([over], [result, second])  # the output lies on the input
    assert [bits_of(device_name.read(tensor)) for tensor in (result, second)] == expected
    nothing = device_name.put(x[:0])
    empty = Tensor(on=there.model.value, dtype=nothing.dtype, rank=1)
    nothing.on = there.model.value
    for tensor in (nothing, empty):
        outputs = [Tensor(on=there.model.value), Tensor()]
        there.run([tensor], outputs)
        assert [output.shape[0] for output in outputs] == [0, 0]
        for output in outputs:
            there.free(output)
    there.close()


def test_a_training_step_takes_batches_there(path: Path, serve: Any, library: Library, beside: Any) -> None:
    x, y = step(path, targets=BOTH)
    serve(path)
    host, there, device_name = loader.load(path), library.load(path, "cuda"), beside()
    a, b = device_name.put(x), device_name.put(y)
    a.on = b.on = there.model.value
    for _ in range(3):
        loss = Tensor(on=there.model.value)
        there.run([a, b, *[Tensor()] * 4], [loss])
        assert bits_of(device_name.read(loss)) == bits_of(host(x, y))
        there.free(loss)
    for key, value in host.state.items():
        assert bits_of(there.state(key)) == bits_of(value)
    there.close()


def test_state_is_copied_within_the_device(path: Path, serve: Any, library: Library, beside: Any) -> None:
    step(path, targets=BOTH)
    fake = serve(path)
    there, elsewhere, host = (library.load(path, name) for name in ("cuda", "cuda:1", None))
    device_name, second = beside(), beside(1)

    def asked(function: str, model: Any, key: str, value: Any) -> None:
        model.check(
            getattr(library.c, function)(model.model, key.encode(), ctypes.byref(value), ctypes.byref(model.error))
        )

    def copies() -> int:
        return sum(call.symbol.startswith(("cuMemcpyHtoD", "cuMemcpyDtoH")) for call in fake.calls)

    keys = list(loader.load(path).state)
    for key in keys:
        value = there.state(key)
        changed = np.asarray(value + 1, value.dtype)
        put, room, actual = device_name.put(changed), device_name.put(value), Tensor(on=there.model.value)
        put.on = room.on = there.model.value
        before = copies()
        asked("jg_state_set", there, key, put)
        asked("jg_state_get", there, key, actual)
        asked("jg_state_get", there, key, room)
        assert copies() == before
        for tensor in (actual, room):
            assert tuple(tensor.shape[: tensor.rank]) == value.shape
            assert bits_of(device_name.read(tensor)) == bits_of(changed)
        there.free(actual)
        assert bits_of(there.state(key)) == bits_of(changed)
        there.set_state(key, value)
        assert bits_of(there.state(key)) == bits_of(value)
    far = second.put(there.state(keys[0]))
    far.on = elsewhere.model.value
    why = {there: "it lies on cuda:1, and the model on cuda:0", host: "it lies on cuda:1, and the model on cpu"}
    for function in ("jg_state_get", "jg_state_set"):
        for model, words in why.items():
            with pytest.raises(CError, match=f"the state '{keys[0]}': {words}"):
                asked(function, model, keys[0], far)
        wrong = Tensor.from_buffer_copy(far)
        wrong.on = there.model.value
        with pytest.raises(CError, match=f"the state '{keys[0]}'.*cuda:"):
            asked(function, there, keys[0], wrong)
    for model in why:
        model.close()
    elsewhere.close()


def test_memory_that_does_not_fit_is_refused(path: Path, serve: Any, library: Library, beside: Any) -> None:
    mlp(path, targets=BOTH)
    fake = serve(path)
    there, elsewhere, host = (library.load(path, name) for name in ("cuda", "cuda:1", None))
    device_name, second = beside(), beside(1)
    x = normal(5, 4)
    here, room = device_name.put(x), device_name.put(np.zeros((5, 3), np.float32))
    far = second.put(x)
    launches = sum(call.symbol == "cuLaunchKernel" for call in fake.calls)

    def changed(tensor: Any, **fields: Any) -> Any:
        actual = Tensor.from_buffer_copy(tensor)
        actual.on = there.model.value
        for name, value in fields.items():
            setattr(actual, name, value)
        return actual

    shape = (ctypes.c_int64 * 64)(6, 4)
    short = (ctypes.c_int64 * 64)(5, 5)
    on_far = elsewhere.model.value
    for model, given_there, taken, message in (
        (there, changed(far), changed(room), r"input 0 \(x\): it lies on cuda:1, and the model on cuda:0"),
        (there, changed(far, on=on_far), changed(room), "input 0 .*: it lies on cuda:1, and the model on cuda:0"),
        (host, changed(here), Tensor(), "it lies on cuda:0, and the model on cpu"),
        (host, given(x), changed(room), "output 0 .*: it lies on cuda:0, and the model on cpu"),
        (there, given(x), changed(room, on=on_far), "output 0 .*: it lies on cuda:1, and the model on cuda:0"),
        (there, changed(given(x)), changed(room), "is not memory of cuda:0"),
        (there, changed(here, shape=shape), changed(Tensor()), "it needs 96 bytes, more than its memory on cuda:0 has"),
        (there, changed(here, shape=short), changed(room), "expected x: float32"),
        (there, changed(here, dtype=DTYPES.index("float64")), changed(room), "expected x: float32"),
        (there, changed(here, data=here.data + 2), changed(room), "not aligned to its element"),
        (there, changed(here, data=None), changed(room), "the argument .* is missing"),
        (there, changed(here), changed(room, bytes=59), "needs 60 bytes, but has room for 59"),
        (there, changed(here), changed(room, bytes=1000, data=room.data + 32), "it needs 60 bytes, more than"),
        (there, changed(here), changed(given(np.zeros((5, 3), np.float32))), "output 0 .*is not memory of cuda:0"),
    ):
        with pytest.raises(CError, match=message):
            model.run([given_there], [taken])
    assert sum(call.symbol == "cuLaunchKernel" for call in fake.calls) == launches
    there.run([changed(here)], [result := changed(room)])
    assert bits_of(device_name.read(result)) == bits_of(loader.load(path)(x)["p"])
    for model in (there, elsewhere, host):
        model.close()


def test_the_host_does_not_look_at_bools_there(path: Path, serve: Any, library: Library, beside: Any) -> None:
    jg.save(jg.trace(jg.logical_not), path, example_inputs=(np.zeros(3, bool),), targets=BOTH)
    serve(path)
    there, device_name = library.load(path, "cuda"), beside()
    x = np.array([2, 0, 1], np.uint8).view(bool)  # the first of which the host would refuse
    with pytest.raises(CError, match="a bool that is neither 0 nor 1"):
        there(x)
    a, output = device_name.put(x), Tensor()
    a.on = there.model.value
    there.run([a], [output])
    assert there.taken(output)[1:].tolist() == [True, False]
    there.close()


def test_a_failure_leaves_nothing_of_the_callers_behind(path: Path, serve: Any, library: Library, beside: Any) -> None:
    counting_rows(path, targets=BOTH)
    fake = serve(path)
    there, device_name = library.load(path, "cuda"), beside()
    good, bad = device_name.put(np.array([1])), device_name.put(np.array([1, 7]))
    good.on = bad.on = there.model.value
    held = fake.live_bytes()
    outputs = [Tensor(on=there.model.value), Tensor(on=there.model.value)]
    with pytest.raises(CError, match="index 7 is out of range"):
        there.run([bad], outputs)
    assert [output.data for output in outputs] == [None, None]
    there.run([good], outputs)
    assert device_name.read(outputs[1]) == 1  # the count was not changed by the failure
    for output in outputs:
        there.free(output)
    assert fake.live_bytes() >= held
    there.close()
