"""Tensors on GPUs: made, copied, shown, exchanged; what cannot be done with them yet says so and reads nothing.

Device memory seems to lie here where no process has memory, so whatever reads it as the CPU's ends the test run.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import DeviceError, HostAccessError, SharingError, UnsupportedOp
from tests.graphs import needs_native
from tests.runtime.cuda.machines import HIDDEN, Machine, machine

NUMBERS = np.array([[1.5, -2.0, 3.0], [4.0, 5.0, 6.5]], np.float32)
ALL = [jg.float16, jg.bfloat16, jg.float32, jg.float64, jg.int8, jg.int16, jg.int32, jg.int64, jg.bool]
ALL += [jg.uint8, jg.uint16, jg.uint32, jg.uint64]


@pytest.fixture
def here() -> Iterator[Machine]:
    with machine(hides=True) as actual:
        yield actual


@pytest.fixture
def x(here: Machine) -> jg.Tensor:
    return jg.asarray(NUMBERS, device="cuda")


def host(x: Any) -> Any:
    return x.detach().cpu().numpy()


# --- making and copying -----------------------------------------------------------------------------------------------


def test_device_names(here: Machine) -> None:
    assert jg.zeros(2).device == jg.zeros(2, device="cpu").device == "cpu"
    assert jg.zeros(2, device="cuda").device == jg.zeros(2, device="cuda:0").device == "cuda:0"
    assert jg.zeros(2, device="cuda:1").device == "cuda:1"
    with jg.cuda.device(1):
        assert jg.zeros(2, device="cuda").device == "cuda:1" and jg.cuda.current_device() == 1
    jg.cuda.set_device("cuda:1")
    assert jg.ones(2).cuda().device == "cuda:1"
    jg.cuda.set_device(0)
    assert jg.ones(2).cuda(1).device == jg.ones(2).cuda("cuda:1").device == "cuda:1"
    for name, message in {
        "cuda:2": "there is no cuda:2",
        "cuda:x": "names no CUDA device",
        "gpu": "not available",
        "mps": "not available",
        "disk": "names no device",
    }.items():
        with pytest.raises(DeviceError, match=message):
            jg.zeros(2, device=name)


def test_creation_functions(here: Machine) -> None:
    device = "cuda"
    like = jg.asarray(NUMBERS, device="cuda:1")
    for actual, expected in [
        (jg.asarray([[1, 2]], device=device), np.array([[1, 2]])),
        (jg.asarray(2.5, device=device), np.float32(2.5)),
        (jg.asarray(NUMBERS.T, dtype=jg.float64, device=device), NUMBERS.T.astype(np.float64)),
        (jg.zeros((2, 3), device=device), np.zeros((2, 3))),
        (jg.zeros((0, 3), device=device), np.zeros((0, 3))),
        (jg.empty((2,), device=device), np.zeros(2)),
        (jg.ones(3, dtype=jg.bfloat16, device=device), np.ones(3)),
        (jg.full((2,), 7, device=device), np.full(2, 7)),
        (jg.full((2,), jg.asarray(7), device=device), np.full(2, 7)),
        (jg.arange(2, 8, 2, device=device), np.arange(2, 8, 2)),
        (jg.linspace(0, 1, 3, device=device), np.linspace(0, 1, 3)),
        (jg.eye(2, device=device), np.eye(2)),
        (jg.zeros_like(like), np.zeros((2, 3))),
        (jg.ones_like(like, dtype=jg.int32), np.ones((2, 3))),
        (jg.full_like(like, 3), np.full((2, 3), 3)),
        (jg.ones_like(jg.ones(2), device="cuda:1"), np.ones(2)),
    ]:
        assert actual.device.startswith("cuda")
        np.testing.assert_array_equal(host(actual).astype(expected.dtype), expected)
    assert jg.zeros_like(like).device == "cuda:1" and jg.zeros_like(like, device="cpu").device == "cpu"


@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: dtype.name)
def test_every_dtype_comes_back_bit_for_bit(here: Machine, dtype: Any) -> None:
    bits = np.random.default_rng(1).integers(0, 2 if dtype == jg.bool else 256, 64, np.uint8)
    array = bits.view(dtype)
    actual = jg.asarray(array, device="cuda:1")
    assert actual.dtype == dtype and host(actual.to("cuda:0")).tobytes() == array.tobytes()


def test_to(x: jg.Tensor) -> None:
    assert x.to("cuda") is x and x.to(jg.float32) is not None and x.cuda() is x
    away = x.to("cuda:1")
    assert (away.device, x.device) == ("cuda:1", "cuda:0")
    np.testing.assert_array_equal(host(away), NUMBERS)
    half = x.to("cpu", jg.float16)
    assert (half.device, half.dtype) == ("cpu", jg.float16) and x.cpu().cpu().device == "cpu"
    both = half.to("cuda:1", jg.float64)
    assert (both.device, both.dtype) == ("cuda:1", jg.float64)
    like = half.to(x)
    assert (like.device, like.dtype) == (x.device, x.dtype)
    np.testing.assert_array_equal(host(like), NUMBERS)
    wide = x.to(jg.float64)
    assert (wide.device, wide.dtype) == (x.device, jg.float64)


def test_what_is_copied_may_change(here: Machine) -> None:
    array = NUMBERS.copy()
    actual = jg.asarray(array, device="cuda")
    array[:] = 0
    np.testing.assert_array_equal(host(actual), NUMBERS)


def test_asarray_of_device_tensors(x: jg.Tensor) -> None:
    assert jg.asarray(x).device == "cuda:0" and jg.asarray(x, device="cpu").device == "cpu"
    assert jg.asarray(x, copy=True)._value.buffer.address != x._value.buffer.address
    assert jg.asarray(x, copy=False)._value.buffer.address == x._value.buffer.address
    for inputs, device in ((x, "cpu"), (NUMBERS, "cuda")):
        with pytest.raises(SharingError, match="copy=False"):
            jg.asarray(inputs, device=device, copy=False)
    assert jg.asarray([1.0], device="cuda", requires_grad=True).requires_grad


def test_description(x: jg.Tensor) -> None:
    assert (x.shape, x.dtype, x.ndim, x.size) == ((2, 3), jg.float32, 2, 6)
    assert (x.nbytes, x.strides, len(x)) == (24, (12, 4), 2)
    assert not x.requires_grad and x.is_leaf and x.grad_fn is None and x.grad is None


# --- reading, as text and numbers -------------------------------------------------------------------------------------


def test_text_and_numbers(x: jg.Tensor) -> None:
    assert repr(jg.asarray([1.0, 2.0], device="cuda")) == "Tensor([1., 2.], dtype=float32, device='cuda:0')"
    assert str(x) == f"{x}" == repr(x) and "device='cuda:0'" in str(x)
    one = jg.asarray(2.5, device="cuda")
    assert (one.item(), float(one), int(one), bool(one), f"{one:.2f}", one.tolist()) == (2.5, 2.5, 2, True, "2.50", 2.5)
    assert x.tolist() == NUMBERS.tolist() and [10, 20][jg.asarray(1, device="cuda")] == 20
    with pytest.raises(jg.ShapeError):
        bool(x)


def test_printing(x: jg.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    print(x)
    jg.debug.print("x = {}", x)
    assert capsys.readouterr().out == f"{x}\nx = {x}\n"


def test_numpy_is_refused_with_the_way_out(x: jg.Tensor) -> None:
    for read in (
        lambda: x.numpy(),
        lambda: np.asarray(x),
        lambda: np.array(x),
        lambda: np.asarray(x, np.float64),
        lambda: np.array_equal(x, x),
        lambda: np.testing.assert_array_equal(x, NUMBERS),
        lambda: np.save(io.BytesIO(), x),
    ):
        with pytest.raises((HostAccessError, UnsupportedOp), match=r"tensor on cuda:0[\s\S]*hint: .*x\.cpu\(\)"):
            read()
    with pytest.raises(TypeError):
        memoryview(x)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        io.BytesIO().write(x)  # type: ignore[arg-type]
    np.testing.assert_array_equal(x.cpu().numpy(), NUMBERS)


# --- ops --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        lambda x: x + x,
        lambda x: x + 1,
        lambda x: 2.5 * x,
        lambda x: -x,
        lambda x: jg.exp(x),
        lambda x: x.sum(),
        lambda x: x.mean(axis=0),
        lambda x: x.T,
        lambda x: x.reshape(3, 2),
        lambda x: x[0],
        lambda x: x[:, 1:],
        lambda x: x > 0,
        lambda x: x == x,
        lambda x: jg.where(x > 0, x, x),
        lambda x: jg.softmax(x),
        lambda x: jg.concat([x, x]),
        lambda x: jg.sort(x),
        lambda x: x.astype(jg.float64),
        lambda x: x.clone(),
        lambda x: jg.nn.functional.relu(x),
        lambda x: jg.cond(jg.asarray(True), lambda: x, lambda: x * 2),
        lambda x: jg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (jg.asarray(0), x))[1],
        lambda x: x.__iadd__(1),
    ],
)
def test_ops_compute_on_the_device(x: jg.Tensor, op: Callable[[Any], Any]) -> None:
    jg.random.seed(1)
    actual = op(x)
    jg.random.seed(1)
    own = jg.asarray(NUMBERS)
    expected = op(own)
    for handle, result in ((x, actual), (own, expected)):
        assert result is None or result.device == handle.device
    for result, wanted in ((x, own), (actual, expected)):
        if wanted is not None:
            np.testing.assert_allclose(host(result), wanted.numpy(), rtol=2e-6)


def test_mixed_devices_name_both(x: jg.Tensor) -> None:
    y, z = jg.ones((2, 3)), jg.ones((2, 3), device="cuda:1")
    with pytest.raises(
        DeviceError, match=r"f32\[2, 3\] on cuda:0 and f32\[2, 3\] on cpu\n  at .*test_device_tensors.py"
    ):
        x + y
    with pytest.raises(DeviceError, match=r"on cpu and f32.* on cuda:0"):
        y.T @ x
    with pytest.raises(DeviceError, match=r"on cuda:0 and f32.* on cuda:1"):
        jg.where(jg.ones((2, 3), dtype=jg.bool, device="cuda"), x, z)
    np.testing.assert_array_equal(host(x + jg.asarray(1.0)), NUMBERS + 1)  # numbers go with tensors of any device
    with pytest.raises(DeviceError, match="different devices"):
        x + jg.ones(3)


# --- traced calls -----------------------------------------------------------------------------------------------------


@needs_native
@pytest.mark.parametrize("flag", ["0", "1"])
def test_warm_calls_decline_device_tensors(here: Machine, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    """Wherever a function that has served the CPU's tensors meets one on a GPU, it says so and changes nothing."""
    monkeypatch.setenv("JITGRAPH_DISPATCH", flag)
    weight, total = jg.nn.Parameter(jg.ones(3)), jg.zeros(3)
    box = {"state": jg.ones(3)}

    class Model:
        def __init__(self) -> None:
            self.bias = jg.ones(3)

        @jg.trace
        def method(self, v: Any) -> Any:
            return v + self.bias

    model = Model()
    plain = jg.trace(lambda v: v * 2)
    named = jg.trace(dynamic_shapes={"v": {0: "n"}})(lambda v: v * 3)

    @jg.trace
    def closure(v: Any) -> Any:
        return v * weight

    @jg.trace
    def updates(v: Any) -> Any:
        total[:] = total + v
        return total * 1

    @jg.trace
    def writes(v: Any) -> None:
        total[...] = v

    @jg.trace
    def items(v: Any) -> Any:
        return v + box["state"]

    functions: list[Any] = [plain, named, closure, updates, writes, items, model.method]
    on_cpu, on_gpu = jg.ones(3), jg.ones(3, device="cuda")
    for function in functions:
        for _ in range(8):
            function(on_cpu)
        if function in (plain, named):
            assert function(on_gpu).device == "cuda:0"
        else:  # what it has captured lies on the CPU
            with pytest.raises(DeviceError, match=r"different devices[\s\S]*cuda:0"):
                function(on_gpu)
        function(on_cpu)

    def refused_with(function: Any, handle: Any) -> None:
        before, held = handle._value, on_gpu._value
        handle._value = held
        for _ in range(4):
            with pytest.raises((UnsupportedOp, DeviceError), match="cuda:0"):
                function(on_cpu)
            assert handle._value is held
        handle._value = before
        function(on_cpu)

    refused_with(closure, weight)
    refused_with(updates, total)
    refused_with(writes, total)
    refused_with(items, box["state"])
    refused_with(model.method, model.bias)
    model.bias = on_gpu
    with pytest.raises(DeviceError):
        model.method(on_cpu)
    gc.collect()
    np.testing.assert_array_equal(host(on_gpu), np.ones(3))


def test_code_of_the_cpu_takes_no_device_tensors(x: jg.Tensor) -> None:
    executable = jg.trace(lambda y: y + 1).lower(jg.ones((2, 3))).compile()
    with pytest.raises(jg.JitgraphError, match="y is on cuda:0, not on cpu"):
        executable(x)


def test_without_compiled_traces(x: jg.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISABLE_JIT", "1")
    np.testing.assert_array_equal(host(jg.trace(lambda y: y * 2)(x)), NUMBERS * 2)


# --- gradients --------------------------------------------------------------------------------------------------------


def test_gradients_flow_through_copies(here: Machine) -> None:
    leaf = jg.asarray([1.0, 2.0], requires_grad=True)
    there = (leaf * 3).cuda()
    assert there.requires_grad and there.grad_fn is not None and not there.is_leaf
    (there.to("cuda:1").cpu() * 2).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [6, 6])
    leaf.grad = None
    (leaf * 3).cuda().backward(jg.asarray([1.0, 10.0], device="cuda"))
    np.testing.assert_array_equal(leaf.grad.numpy(), [3, 30])
    on_gpu = jg.asarray([1.0, 2.0], device="cuda", requires_grad=True)
    assert on_gpu.is_leaf
    (on_gpu.cpu() * 5).sum().backward()
    assert on_gpu.grad.device == "cuda:0"
    np.testing.assert_array_equal(host(on_gpu.grad), [5, 5])
    one = jg.asarray([2.0], requires_grad=True)
    one.cuda().backward()
    assert one.grad.item() == 1
    one.grad = None
    (first,) = jg.autograd.grad(one.cuda().cpu() * one, one, create_graph=True)
    first.backward()
    assert (first.item(), one.grad.item()) == (4, 2)
    with jg.no_grad():
        assert not leaf.cuda().requires_grad
    assert not on_gpu.detach().requires_grad
    on_gpu.requires_grad_(False)
    assert not on_gpu.requires_grad and on_gpu.grad_fn is None
    with pytest.raises(DeviceError, match="grad is on cpu, the tensor on cuda:0"):
        on_gpu.grad = jg.ones(2)
    with pytest.raises(DeviceError, match="the cotangent is on cpu, the tensor on cuda:0"):
        leaf.cuda().backward(jg.ones(2))


# --- modules, optimisers, pickles -------------------------------------------------------------------------------------


def test_modules_move(here: Machine) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(2, 3), jg.nn.BatchNorm1d(3))
    expected = model.state_dict()
    next(iter(model.parameters())).grad = jg.ones((3, 2))
    parameters = list(model.parameters())
    assert model.cuda() is model and list(map(id, model.parameters())) == list(map(id, parameters))
    assert {tensor.device for tensor in (*model.parameters(), *model.buffers())} == {"cuda:0"}
    assert parameters[0].grad.device == "cuda:0" and parameters[0].requires_grad and parameters[0].is_leaf
    state = model.state_dict()
    for name in expected:
        np.testing.assert_array_equal(state[name], expected[name])
    model.load_state_dict({name: array + 1 for name, array in expected.items()})
    assert {tensor.device for tensor in model.parameters()} == {"cuda:0"}
    optimizer = jg.optim.Adam(model.parameters())
    assert {value.device for state in optimizer.state.values() for value in state.values() if value.ndim} == {"cuda:0"}
    optimizer.load_state_dict(optimizer.state_dict())
    assert {value.device for state in optimizer.state.values() for value in state.values() if value.ndim} == {"cuda:0"}
    with pytest.raises(DeviceError):
        model(jg.ones((4, 2)))
    assert model.to("cuda:1").cpu() is model and parameters[0].grad.device == "cpu"
    np.testing.assert_array_equal(model.state_dict()["0.weight"], expected["0.weight"] + 1)
    assert model(jg.ones((4, 2))).shape == (4, 3)


def test_pickles_and_copies(x: jg.Tensor) -> None:
    x.note = "kept"  # type: ignore[attr-defined]
    leaf = jg.asarray([1.0], device="cuda:1", requires_grad=True)
    leaf.grad = jg.asarray([2.0], device="cuda:1")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        actual, same = pickle.loads(pickle.dumps((x, leaf), protocol))
        assert (actual.device, actual.note, same.device, same.requires_grad) == ("cuda:0", "kept", "cuda:1", True)
        np.testing.assert_array_equal(host(actual), NUMBERS)
        np.testing.assert_array_equal(host(same.grad), [2])
    deep = copy.deepcopy(leaf)
    assert deep.device == "cuda:1" and deep.requires_grad and deep.grad.tolist() == [2.0]
    assert copy.copy(x).device == "cuda:0" and copy.deepcopy(x).note == "kept"
    with pytest.raises(jg.JitgraphError, match="pickling"):
        pickle.dumps((leaf.cpu() * 2).cuda())


def test_a_pickle_for_a_device_that_is_absent(x: jg.Tensor) -> None:
    text = pickle.dumps(x.to("cuda:1"))
    with machine(1), pytest.raises(DeviceError, match="there is no cuda:1"):
        pickle.loads(text)


# --- other libraries --------------------------------------------------------------------------------------------------


class ByDlpack:
    """An array of a library that speaks DLPack."""

    def __init__(self, x: Any, **options: Any) -> None:
        self.x, self.options = x, options

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**{**options, **self.options})

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()  # type: ignore[no-any-return]


class ByInterface:
    """An array of a library that has ``__cuda_array_interface__`` alone."""

    def __init__(self, x: Any, **changes: Any) -> None:
        self.__cuda_array_interface__ = {**x.__cuda_array_interface__, **changes}
        self.x = x


ByInterface.__cuda_array_interface__ = None  # type: ignore[attr-defined]  # the class has it, too


@pytest.mark.parametrize("dtype", [*ALL, jg.complex64, jg.complex128], ids=lambda dtype: dtype.name)
def test_dlpack_out_and_in(here: Machine, dtype: Any) -> None:
    x = jg.asarray(np.arange(6).reshape(2, 3).astype(dtype), device="cuda:1")
    assert x.__dlpack_device__() == (2, 1)
    borrowed = jg.asarray(ByDlpack(x), copy=False)
    copied = jg.asarray(ByDlpack(x))
    assert borrowed._value.buffer.address == x._value.buffer.address != copied._value.buffer.address
    for actual in (borrowed, copied, jg.asarray(ByDlpack(x, max_version=None))):
        assert (actual.device, actual.dtype, actual.shape) == ("cuda:1", dtype, (2, 3))
        assert host(actual).tobytes() == host(x).tobytes()


def test_dlpack_keeps_the_memory(here: Machine) -> None:
    x = jg.ones(3, device="cuda")
    capsule = x.__dlpack__(max_version=(1, 0))
    address, used = x._value.buffer.address, jg.cuda.memory_allocated()
    del x
    gc.collect()
    assert jg.cuda.memory_allocated() == used and jg.zeros(3, device="cuda")._value.buffer.address != address
    del capsule  # nobody took it
    gc.collect()
    assert jg.cuda.memory_allocated() == 0
    taken = jg.asarray(ByDlpack(jg.ones(3, device="cuda")), copy=False)
    gc.collect()
    assert taken.tolist() == [1, 1, 1]
    del taken
    gc.collect()
    assert jg.cuda.memory_allocated() == 0


def test_dlpack_to_the_cpu_and_elsewhere(x: jg.Tensor) -> None:
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), NUMBERS)  # type: ignore[arg-type]
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(x)  # type: ignore[arg-type]
    for options, error in [
        ({"dl_device": (1, 0), "copy": False}, SharingError),
        ({"dl_device": (2, 1)}, SharingError),
        ({"copy": False}, SharingError),
        ({"stream": 0, "max_version": (1, 0)}, DeviceError),
        ({"stream": "first", "max_version": (1, 0)}, DeviceError),
    ]:
        with pytest.raises(error):
            x.__dlpack__(**options)
    with pytest.raises(SharingError, match=r"x\.detach\(\)"):
        jg.asarray([1.0], device="cuda", requires_grad=True).__dlpack__()


def test_cuda_array_interface(x: jg.Tensor) -> None:
    actual = x.__cuda_array_interface__
    address = x._value.buffer.address
    assert actual == {
        "shape": (2, 3), "typestr": "<f4", "data": (address, True), "strides": None, "version": 3, "stream": 1
    }  # fmt: skip
    assert address > HIDDEN
    side = jg.cuda.Stream()
    with jg.cuda.stream(side):
        assert jg.ones(2, device="cuda").__cuda_array_interface__["stream"] == side.cuda_stream
    for absent in (x.cpu(), jg.ones(2, dtype=jg.bfloat16, device="cuda"), x.detach().requires_grad_()):
        assert not hasattr(absent, "__cuda_array_interface__")
    for copy_, same in ((None, False), (False, True)):
        taken = jg.asarray(ByInterface(x), copy=copy_)
        assert taken.device == "cuda:0" and (taken._value.buffer.address == address) is same
        np.testing.assert_array_equal(host(taken), NUMBERS)
    with pytest.raises(SharingError, match="row-major"):
        jg.asarray(ByInterface(x, strides=(4, 8)))
    there = jg.asarray(NUMBERS, device="cuda:1")
    assert jg.asarray(ByInterface(there, stream=None)).device == "cuda:1"


def test_what_an_interface_has_shown_stays(here: Machine) -> None:
    """Who has it keeps the handle, and that may get another value."""
    x = jg.ones(3, device="cuda")
    address = x.__cuda_array_interface__["data"][0]
    with jg.no_grad():
        x._rebind(jg.zeros(3, device="cuda").value)
    gc.collect()
    assert jg.ones(3, device="cuda")._value.buffer.address != address
    del x
    gc.collect()
    assert jg.cuda.memory_allocated() == 0


def test_operands_of_other_libraries_on_a_gpu_are_refused(x: jg.Tensor) -> None:
    for operand in (ByDlpack(x), ByInterface(x)):
        with pytest.raises(DeviceError, match="on cuda"):
            jg.ones((2, 3)) + operand  # type: ignore[operator]


# --- what is left -----------------------------------------------------------------------------------------------------


def test_nothing_is_left(here: Machine) -> None:
    for _ in range(2000):
        x = jg.asarray(NUMBERS, device="cuda")
        x.to("cuda:1").cpu()
    del x
    gc.collect()
    assert jg.cuda.memory_allocated() == jg.cuda.memory_allocated(1) == 0
    assert jg.cuda.memory_reserved() == 2 << 20 and jg.cuda.max_memory_allocated() <= 2048
    jg.cuda.empty_cache()
    assert here.fake.live_bytes(0) == here.fake.live_bytes(1) == 0
