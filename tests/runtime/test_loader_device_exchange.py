"""Arrays that the written ``loader.py`` lends to other libraries on a GPU, and those that it borrows from them."""

from __future__ import annotations

import ctypes
import gc
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.bits import bits_of
from tests.graphs import needs_native
from tests.runtime.cuda.machines import leaks
from tests.runtime.device_files import BOTH, counting_rows, mlp, normal, saved_once

pytestmark = [needs_native, pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")]

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def calls(fake: Any, symbol: str) -> int:
    return sum(call.symbol == symbol for call in fake.calls)


@saved_once
def doubled(path: Path, **options: Any) -> None:
    f = jg.trace(lambda p: jg.maximum(p, 0.25) * 2, dynamic_shapes={"p": {0: "n"}})
    jg.save(f, path, example_inputs=(normal(4, 3),), **options)


@saved_once
def halves(path: Path, **options: Any) -> None:
    f = jg.trace(lambda p: p + p, dynamic_shapes={"p": {0: "n"}})
    jg.save(f, path, example_inputs=(jg.ones(4, dtype=jg.bfloat16),), **options)


@saved_once
def running(path: Path, **options: Any) -> None:
    """A state that is a result as well."""
    total = jg.zeros(3)

    @jg.trace
    def f(x: Any) -> Any:
        nonlocal total
        total += x
        return total

    jg.save(f, path, example_inputs=(normal(3),), **options)


class Lent:
    """What another library has there: a tensor whose capsule counts how often its deleter runs."""

    def __init__(self, loader: Any, array: Any, **changes: Any) -> None:
        """``changes`` put fields of the capsule's table right, as another library would fill them."""
        self.loader, self.array, self.changes = loader, array, changes
        self.asked: list[dict[str, Any]] = []
        self.numbers: list[Any] = []
        self.deleted = 0
        self.place: tuple[Any, int] = array.__dlpack_device__()

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self.place

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        capsule = self.array.__dlpack__()
        table = self.loader.table_in(capsule)
        native = _DELETER(table.deleter)

        def delete(address: int) -> None:
            self.deleted += 1
            native(address)

        self.kept = _DELETER(delete)
        table.deleter = ctypes.cast(self.kept, ctypes.c_void_p).value
        for name, value in self.changes.items():
            if name in ("shape", "strides"):
                self.numbers.append((ctypes.c_int64 * len(value))(*value))
                value = ctypes.addressof(self.numbers[-1])
            setattr(table.tensor, name, value)
        return capsule


class OldLent(Lent):
    """As libraries from before versions."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


def taken(loader: Any, capsule: Any) -> Any:
    actual = loader.table_in(capsule, takes=True)
    assert actual is not None and loader.table_in(capsule) is None
    return actual


def test_a_capsule_says_where_its_elements_lie_and_keeps_them(path: Path, serve: Any, written_loader: Any) -> None:
    mlp(path, targets=BOTH)
    fake = serve(path)
    x = normal(4, 4)
    there = written_loader.load(path, device="cuda:1", results="device")
    result = there(x)["p"]
    assert result.__dlpack_device__() == (2, 1)
    table = taken(written_loader, result.__dlpack__(stream=1, max_version=(1, 0)))
    actual = table.tensor
    assert (*actual.device, actual.code, actual.bits, actual.lanes) == (2, 1, 2, 32, 1)
    assert written_loader.extents(actual) == (4, 3) and actual.data == result.address and actual.byte_offset == 0
    expected = bits_of(written_loader.load(path)(x)["p"])
    owner = written_loader.TakenTable(table)
    address = result.address
    del there, result
    gc.collect()
    assert fake.live_bytes(1) == 512 and leaks(fake)["retained"] == 1  # the one result, and its context
    back = np.empty((4, 3), np.float32)
    device = written_loader.CudaDevice("cuda:1")
    with device.current():
        device.download(back.ctypes.data, address, back.nbytes)
        device.wait()
    device.release()
    assert bits_of(back) == expected
    del owner, table, actual
    gc.collect()
    assert leaks(fake) == {}


def test_a_capsule_that_nobody_took_lets_the_memory_go(path: Path, serve: Any, written_loader: Any) -> None:
    doubled(path, targets="cuda")
    fake = serve(path)
    there = written_loader.load(path, device="cuda", results="device")
    there(normal(2, 3)).__dlpack__()
    interface = there(normal(2, 3)).__cuda_array_interface__
    assert interface["data"][1] is False
    del there
    gc.collect()
    assert leaks(fake) == {}


def test_what_others_were_shown_serves_again_after_all_work(path: Path, serve: Any, written_loader: Any) -> None:
    doubled(path, targets="cuda")
    fake = serve(path)
    there = written_loader.load(path, device="cuda", results="device")
    for _ in range(3):
        there(normal(2, 3))
    assert calls(fake, "cuCtxSynchronize") == 0
    pool = there._resources.pool
    for show in (lambda y: y.__dlpack__(), lambda y: y.__cuda_array_interface__):
        before = calls(fake, "cuCtxSynchronize")
        shown = there(normal(2, 3))
        show(shown)
        address = shown.address
        del shown
        gc.collect()
        with there._resources.device.current():
            waited, held = [], []
            for _ in range(8):
                held.append(pool.take(24))
                waited.append((held[-1].address == address, calls(fake, "cuCtxSynchronize") - before))
        assert (True, 1) in waited and (True, 0) not in waited and (False, 0) in waited
        del held


def test_a_model_borrows_and_gives_back(path: Path, serve: Any, written_loader: Any) -> None:
    mlp(path, targets=BOTH)
    second = path.with_name("second.jg")
    doubled(second, targets=BOTH)
    fake = serve(path, second)
    first = written_loader.load(path, device="cuda", results="device")
    after = written_loader.load(second, device="cuda")
    p = first(normal(4, 4))["p"]
    expected = bits_of(np.maximum(p.numpy(), 0.25) * 2)
    uploads = calls(fake, "cuMemcpyHtoDAsync_v2")
    for kind in (Lent, OldLent):
        lent = kind(written_loader, p)
        assert bits_of(after(lent)) == expected
        gc.collect()
        assert lent.deleted == 1
        assert lent.asked[-1]["stream"] == after._resources.device.stream > 2
    assert bits_of(after(p)) == expected  # one model's result is another one's argument
    offset = Lent(written_loader, p, byte_offset=12, shape=(3, 3), ndim=2)  # not at a multiple of 16
    assert bits_of(after(offset)) == bits_of(np.maximum(p.numpy()[1:], 0.25) * 2)
    flat = Lent(written_loader, p, shape=(1, 3), strides=(7, 1))  # the stride of one row says nothing
    assert bits_of(after(flat)) == bits_of(np.maximum(p.numpy()[:1], 0.25) * 2)
    assert calls(fake, "cuMemcpyHtoDAsync_v2") == uploads


def test_what_cannot_be_borrowed_is_refused_and_given_back(path: Path, serve: Any, written_loader: Any) -> None:
    doubled(path, targets=BOTH)
    fake = serve(path)
    there = written_loader.load(path, device="cuda", results="device")
    y = there(normal(4, 3))
    before = leaks(fake)["bytes"]
    for changes, message in (
        ({"bits": 64}, r"expected p: float32.*, got float64\[4, 3\] on cuda:0"),
        ({"code": 17}, r"got elements of DLPack's type \(17, 32, 1\)"),
        ({"lanes": 4}, r"DLPack's type \(2, 32, 4\)"),
        ({"bits": 12}, r"DLPack's type \(2, 12, 1\)"),
        ({"strides": (1, 4)}, "not lie in row-major order"),
        ({"shape": (3, 4), "strides": (4, 1)}, "axis 1"),
    ):
        lent = Lent(written_loader, y, **changes)
        with pytest.raises(written_loader.ArgumentError, match=message):
            there(lent)
        gc.collect()
        assert lent.deleted == 1, changes
    elsewhere = Lent(written_loader, y)
    elsewhere.place = (2, 1)
    with pytest.raises(written_loader.ArgumentError, match="lies on cuda:1, and the model on cuda:0"):
        there(elsewhere)
    assert not elsewhere.asked
    other = written_loader.load(path, device="cuda:1")
    lying = Lent(written_loader, y)
    lying.place = (2, 1)
    with pytest.raises(written_loader.ArgumentError, match="lies on cuda:0, and the model on cuda:1"):
        other(lying)
    assert bits_of(other(y)) == bits_of(np.maximum(y.numpy(), 0.25) * 2)  # a copy by way of the host

    class Refusing(Lent):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it requires a gradient")

    class Empty(Lent):
        def __dlpack__(self, **options: Any) -> Any:
            return object()

    for kind, message in ((Refusing, "does not hand over its elements: it requires a gradient"), (Empty, "no capsule")):
        with pytest.raises(written_loader.ArgumentError, match=message):
            there(kind(written_loader, y))
    del lent, elsewhere, lying, other
    gc.collect()
    assert leaks(fake)["bytes"] == before


def test_what_is_asked_of_a_capsule_is_done_or_refused(path: Path, serve: Any, written_loader: Any) -> None:
    doubled(path, targets=BOTH)
    serve(path)
    there = written_loader.load(path, device="cuda", results="device")
    y = there(normal(4, 3))
    for options, message in (
        ({"stream": 0}, "stream=0 names no stream"),
        ({"stream": -2}, "names no stream"),
        ({"stream": "1"}, "names no stream"),
        ({"dl_device": (2, 1)}, "for an array on cuda:0"),
        ({"dl_device": (1, 0), "copy": False}, "copy=False: the array is on cuda:0"),
    ):
        with pytest.raises(BufferError, match=message):
            y.__dlpack__(**options)
    for options in ({}, {"stream": None}, {"stream": -1}, {"stream": 2}, {"copy": False}, {"max_version": (2, 1)}):
        assert written_loader.table_in(y.__dlpack__(**options)).tensor.data == y.address
    copied = y.__dlpack__(copy=True)
    assert written_loader.table_in(copied).tensor.data != y.address
    assert bits_of(there(Capsule(copied))) == bits_of(there(y))
    host = np.from_dlpack(OnTheHost(y))
    assert bits_of(host) == bits_of(y.numpy())


class Capsule:
    """An array that has this capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


class OnTheHost:
    """An array of a device as a consumer of the host's memory asks for it."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return self.array.__dlpack__(dl_device=(1, 0))


def test_a_result_is_no_part_of_the_state(path: Path, serve: Any, written_loader: Any) -> None:
    running(path, targets=BOTH)
    serve(path)
    there = written_loader.load(path, device="cuda", results="device")
    total = there(normal(3))
    with total.device.current():
        total.device.upload(total.address, (zeros := np.zeros(3, np.float32)).ctypes.data, 12)
    assert bits_of(total.numpy()) == bits_of(zeros)
    assert bits_of(there(normal(3)).numpy()) == bits_of(normal(3) + normal(3))


def test_bfloat16_goes_by_capsules_alone(path: Path, serve: Any, written_loader: Any) -> None:
    halves(path, targets=BOTH)
    serve(path)
    there = written_loader.load(path, device="cuda", results="device")
    x = np.arange(5).astype(jg.bfloat16)
    y = there(x)
    with pytest.raises(AttributeError, match="__dlpack__"):
        _ = y.__cuda_array_interface__
    actual = written_loader.table_in(y.__dlpack__()).tensor
    assert (actual.code, actual.bits, actual.lanes) == (4, 16, 1)
    assert bits_of(there(Lent(written_loader, y)).numpy()) == bits_of(x + x + x + x)


def test_nothing_and_single_elements_go_both_ways(path: Path, serve: Any, written_loader: Any) -> None:
    counting_rows(path, targets=BOTH)
    second = path.with_name("second.jg")
    doubled(second, targets=BOTH)
    serve(path, second)
    rows, count = written_loader.load(path, device="cuda", results="device")(np.arange(0))
    assert written_loader.extents(written_loader.table_in(count.__dlpack__()).tensor) == () and rows.shape == (0, 2)
    there = written_loader.load(second, device="cuda", results="device")
    nothing = there(np.zeros((0, 3), np.float32))
    assert there(Lent(written_loader, nothing)).shape == (0, 3)
    with pytest.raises(written_loader.ArgumentError, match="argument 0"):
        there(count)
