"""jg.cuda: devices, properties, streams and memory, by the names and meanings of PyTorch's."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import DeviceError, DTypeError, OutOfMemoryError
from tests.runtime.cuda.machines import has_gpu, machine

MIB = 1 << 20


def test_devices() -> None:
    with machine(3):
        assert jg.cuda.is_available() and jg.cuda.device_count() == 3 and jg.cuda.current_device() == 0
        with jg.cuda.device(2):
            assert jg.cuda.current_device() == 2
            results: list[int] = []
            thread = threading.Thread(target=lambda: results.append(jg.cuda.current_device()))
            thread.start()
            thread.join()
            assert results == [0], "the current device is a thread's own"
            with jg.cuda.device("cuda:1"):
                assert jg.cuda.current_device() == 1
            with jg.cuda.device(None):
                assert jg.cuda.current_device() == 2
        assert jg.cuda.current_device() == 0
        with pytest.raises(DeviceError, match="there is no cuda:3"), jg.cuda.device(3):
            pass
        for wrong in ("cpu", True, "cuda:", "cuda:-1"):
            with pytest.raises(DeviceError, match="names no CUDA device"):
                jg.cuda.set_device(wrong)
        with pytest.raises(DeviceError, match="there is no cuda:-1"):
            jg.cuda.set_device(-1)


def test_a_number_names_a_device() -> None:
    with machine(2):
        x = jg.ones(3)
        assert (
            x.to(0).device == "cuda:0"
            and x.to(1).device == x.to(device=1).device == x.to(np.int64(1)).device == "cuda:1"
        )
        both = x.to(1, jg.float64)
        assert both.device == "cuda:1" and both.dtype == jg.float64
        model = jg.nn.Linear(3, 2).to(1)
        assert [p.device for p in model.parameters()] == ["cuda:1"] * 2
        moved = jg.trace(lambda x, n: x.to(n) + n)
        for n in (0, 1, 0, 1):
            result = moved(x.to(n), n)
            assert result.device == f"cuda:{n}" and result.tolist() == [1 + n] * 3
        for absent in (2, -1):
            with pytest.raises(DeviceError, match=f"there is no cuda:{absent}"):
                x.to(absent)
        for wrong in (True, 1.5):
            with pytest.raises(DTypeError, match="is not a dtype"):
                x.to(wrong)


def test_arrays_beside_tensors_of_a_gpu() -> None:
    """As in PyTorch they are not copied without being asked; the error says how. Numbers go with every device."""
    array = np.ones(3, np.float32)
    with machine(1):
        x, both = jg.ones(3, device="cuda"), jg.trace(lambda x, y: x + y)
        for call in (lambda: x + array, lambda: array + x, lambda: both(x, array), lambda: both(array, x)):
            with pytest.raises(
                DeviceError, match=r"different devices[\s\S]*cuda:0[\s\S]*jg\.asarray\(x, device=\"cuda:0\"\)"
            ):
                call()
        with pytest.raises(DeviceError, match=r'hint: x\.to\("cuda:0"\) brings x to the other'):
            both(x, jg.ones(3))
        for actual in (x + np.float32(2), both(x, np.float32(2)), both(x, jg.asarray(array, device="cuda")) + 1):
            assert actual.device == "cuda:0" and actual.tolist() == [3, 3, 3]


def test_properties() -> None:
    with machine():
        result = jg.cuda.get_device_properties("cuda:1")
        assert jg.cuda.get_device_name(1) == result.name == "Simulated GPU 1"
        assert jg.cuda.get_device_capability() == (result.major, result.minor) == (9, 0)
        assert (result.total_memory, result.warp_size, result.multi_processor_count) == (1 << 30, 32, 4)
        assert result.shared_memory_per_block_optin == 227 << 10


def test_memory() -> None:
    with machine(memory=64 * MIB) as here:
        assert jg.cuda.memory_allocated() == jg.cuda.memory_reserved() == 0
        x = jg.zeros(3 * MIB, device="cuda")
        assert jg.cuda.memory_allocated() == jg.cuda.max_memory_allocated() == 12 * MIB
        assert jg.cuda.memory_allocated(1) == 0
        del x
        assert jg.cuda.memory_allocated() == 0
        assert jg.cuda.memory_reserved() == jg.cuda.max_memory_reserved() == 12 * MIB
        jg.cuda.reset_peak_memory_stats()
        assert jg.cuda.max_memory_allocated() == 0
        assert "12.00 MiB" in jg.cuda.memory_summary()
        jg.cuda.empty_cache()
        assert jg.cuda.memory_reserved() == here.fake.live_bytes() == 0
        with pytest.raises(OutOfMemoryError, match=r"cuda:0 has no 400\.00 MiB left[\s\S]*test_cuda\.py[\s\S]*hint: "):
            jg.zeros(100 * MIB, device="cuda")
        assert jg.zeros(3, device="cuda").tolist() == [0, 0, 0]


def test_synchronize() -> None:
    with machine():
        x = jg.ones(4, device="cuda")
        side = jg.cuda.Stream()
        with jg.cuda.stream(side):
            y = x.to("cuda:1")
        assert not jg.cuda.current_stream().query()
        jg.cuda.synchronize()
        jg.cuda.synchronize("cuda:1")
        assert side.query() and jg.cuda.current_stream().query()
        np.testing.assert_array_equal(y.cpu().numpy(), np.ones(4))


@pytest.mark.skipif(not has_gpu(), reason="no GPU here")
def test_on_the_gpu_of_this_machine() -> None:
    numbers = np.random.default_rng(0).standard_normal(3 << 20).astype(np.float32)
    before = jg.cuda.memory_allocated()
    x = jg.asarray(numbers, device="cuda")
    side = jg.cuda.Stream()
    with jg.cuda.stream(side):
        y = jg.asarray(x, copy=True)
    np.testing.assert_array_equal(y.cpu().numpy(), numbers)
    assert jg.cuda.memory_allocated() == before + 2 * numbers.nbytes
    print(jg.cuda.get_device_properties(), jg.cuda.memory_summary(), sep="\n")
    del x, y
    assert jg.cuda.memory_allocated() == before
