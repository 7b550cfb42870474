"""Large plain products by cuBLASLt, over the simulator's stand-in for it, and what stays with kernels of our own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import CudaError
from jitgraph.runtime.cuda import cublas
from jitgraph.runtime.cuda.devices import devices
from jitgraph.runtime.device_payload import LibraryProduct
from jitgraph_testing.simulator.cublas import FakeCublas
from jitgraph_testing.simulator.simulated_driver import SimulatedDriver
from tests.graphs import needs_native
from tests.runtime.cuda.machines import machine

pytestmark = needs_native
Case = tuple[Any, tuple[tuple[int, ...], ...], tuple[int, int, int, int] | None]

M, K, N = 256, 1024, 512
CASES: dict[str, Case] = {
    "rows": (lambda x, y: x @ y, ((M, K), (K, N)), (N, M, K, 1)),
    "the left factor transposed": (lambda x, y: x.T @ y, ((K, M), (K, N)), (N, M, K, 1)),
    "both transposed": (lambda x, y: x.T @ y.T, ((K, M), (N, K)), (N, M, K, 1)),
    "the result transposed": (lambda x, y: (x @ y).T, ((M, K), (K, N)), (N, M, K, 1)),
    "a part of wider rows": (lambda x, y: x[:, 64 : 64 + K] @ y, ((M, 2 * K), (K, N)), (N, M, K, 1)),
    "many": (lambda x, y: x @ y, ((4, M, K // 2), (4, K // 2, N)), (N, M, K // 2, 4)),
    "one right factor for many": (lambda x, y: x @ y[None], ((4, M, K // 2), (K // 2, N)), (N, M, K // 2, 4)),
    "something behind": (lambda x, y: jg.nn.functional.relu(x @ y) + 1, ((M, K), (K, N)), (N, M, K, 1)),
    "much before": (lambda x, y: jg.exp(x) @ y, ((M, K), (K, N)), (N, M, K, 1)),
    "steps of a row": (lambda x, y: x[:, ::2] @ y, ((M, 2 * K), (K, N)), None),
    "a small one": (lambda x, y: x @ y, ((M, K), (K, 128)), None),
    "no alignment": (lambda x, y: x[:, 1 : 1 + K] @ y, ((M, 2 * K), (K, N)), None),
}


class _Machine:
    def __init__(self, fake: Any, driver: SimulatedDriver) -> None:
        self.fake, self.driver = fake, driver
        self.library = driver.fake_cublas = FakeCublas(fake)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Machine]:
    """A machine that has the library; at its end all is given back."""
    monkeypatch.setenv("JITGRAPH_CUDA_ORDER", "free")
    with machine(hides=False) as actual:
        driver = devices().driver
        assert isinstance(driver, SimulatedDriver)
        output = _Machine(actual.fake, driver)
        yield output
    assert output.library.live == [] and output.library.notes == []


def numbers(dtype: Any, *shape: int) -> Any:
    actual = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) / 8
    return jg.asarray(actual).astype(dtype)


def ptx_of(function: Any, *arguments: Any) -> str:
    return str(jg.trace(function).lower(*arguments).compile().ptx)


def require_near(function: Any, arguments: list[Any], actual: Any) -> None:
    expected = function(*(x.astype(jg.float64) for x in arguments)).numpy()
    loss = {"bfloat16": 2.0**-7, "float16": 2.0**-9, "float32": 1e-4}.get(str(np.dtype(actual.dtype)), 1e-11)
    np.testing.assert_allclose(actual.cpu().astype(jg.float64).numpy(), expected, rtol=loss, atol=loss * 2)


@pytest.mark.parametrize("case", CASES)
def test_which_products_go_there_and_how_they_lie(there: _Machine, case: str) -> None:
    function, shapes, requested = CASES[case]
    if requested is None:
        assert "mma.sync" in ptx_of(function, *(numbers(jg.bfloat16, *shape).cuda() for shape in shapes))
        return
    arguments = [numbers(jg.float32, *shape) for shape in shapes]
    require_near(function, arguments, jg.trace(function)(*(x.cuda() for x in arguments)))
    assert there.library.products == [requested]


@pytest.mark.parametrize("dtype", [jg.float64, jg.bfloat16, jg.float16])
@pytest.mark.parametrize("way", ["rows", "something behind"])
def test_dtypes(there: _Machine, dtype: Any, way: str) -> None:
    function, shapes, requested = CASES[way]
    arguments = [numbers(dtype, *shape) for shape in shapes]
    traced = jg.trace(function)(*(x.cuda() for x in arguments))
    assert traced.dtype == dtype and there.library.products == [requested]
    require_near(function, arguments, traced)


def test_calls_that_come_back_are_replayed(there: _Machine) -> None:
    """From a graph of the driver, in the order of the stream: what is read was written before."""
    x, y = numbers(jg.float32, M, K), numbers(jg.float32, K, N)
    function = jg.trace(lambda x, y: jg.sin(jg.cos(jg.exp(x).T).T @ y).sum(axis=0) + (x @ y).sum())
    inputs = [x.cuda(), y.cuda()]
    first = function(*inputs).cpu().numpy()
    for _ in range(5):
        np.testing.assert_array_equal(function(*inputs).cpu().numpy(), first)
    assert there.fake.calls and any(call.symbol == "cuGraphLaunch" for call in there.fake.calls)


def test_in_order_nothing_goes_there(there: _Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITGRAPH_CUDA_ORDER")
    x, y = numbers(jg.bfloat16, 8, 64), numbers(jg.bfloat16, 64, 8)
    jg.trace(lambda x, y: x @ y)(x.cuda(), y.cuda())
    assert there.library.live == []


def test_float32_is_tf32_where_it_was_asked_for(there: _Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []
    for order in ("free", "tf32"):
        monkeypatch.setenv("JITGRAPH_CUDA_ORDER", order)
        x, y = numbers(jg.float32, M, K).cuda(), numbers(jg.float32, K, N).cuda()
        jg.trace(lambda x, y: x @ y)(x, y)
        products = [each for each in there.library._held.values() if each.kind == "product"]
        kinds.append(products[-1].given[0])
    assert kinds == [cublas.COMPUTE_32F, cublas.COMPUTE_32F_FAST_TF32]


def test_behind_a_check_nothing_goes_there(there: _Machine) -> None:
    """A library would write although the check failed."""
    x, y = numbers(jg.bfloat16, M, K).cuda(), numbers(jg.bfloat16, K, N).cuda()
    device_names = jg.asarray(np.zeros(M, np.int64), device="cuda")
    assert "mma.sync" in ptx_of(lambda x, y, i: x @ y + jg.take(y, i, axis=0), x, y, device_names)
    assert "mma.sync" not in ptx_of(lambda x, y, i: x @ y + 1, x, y, device_names)


def test_a_failed_call_names_the_library(there: _Machine) -> None:
    x, y = numbers(jg.float32, M, K).cuda(), numbers(jg.float32, K, N).cuda()
    function = jg.trace(lambda x, y: x @ y)
    function(x, y)
    (handle,) = [each for each, held in there.library._held.items() if held.kind == "handle"]
    held = there.library._held.pop(handle)
    with pytest.raises(CudaError, match=r"launch 0: CUBLAS_STATUS_INVALID_VALUE of cuBLASLt"):
        function(x, y)
    there.library._held[handle] = held
    there.library.notes.clear()


def test_a_device_that_the_library_does_not_serve(there: _Machine) -> None:
    there.library.serves = False
    x, y = numbers(jg.bfloat16, 16, 64), numbers(jg.bfloat16, 64, 16)
    function = jg.trace(lambda x, y: x @ y)
    with pytest.warns(RuntimeWarning, match="cuBLASLt does not serve cuda:0 .*NOT_INITIALIZED"):
        require_near(lambda x, y: x @ y, [x, y], function(x.cuda(), y.cuda()))
    there.library.notes.clear()


def test_files_have_none_of_it(there: _Machine, tmp_path: Path) -> None:
    x, y = numbers(jg.bfloat16, M, K), numbers(jg.bfloat16, K, N)
    path = tmp_path / "product.jg"
    jg.save(jg.trace(lambda x, y: x @ y), path, example_inputs=(x, y), targets=["sm_80"])
    assert b"mma.sync" not in path.read_bytes() and b"dot" in path.read_bytes()
    assert there.library.products == []


def test_products_outlive_the_process_in_the_cache(
    there: _Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path))
    function, shapes, requested = CASES["many"]
    arguments = [numbers(jg.float32, *shape) for shape in shapes]
    for _ in range(2):
        from jitgraph.eager import device_emitter

        device_emitter._process_cache().clear()
        require_near(function, arguments, jg.trace(function)(*(x.cuda() for x in arguments)))
    assert there.library.products == [requested, requested]


def _real() -> cublas.CublasLibrary | None:
    path = os.environ.get("TEST_CUBLASLT")
    return cublas.of_library(ctypes.CDLL(path), path) if path else cublas.load()


@pytest.mark.skipif(_real() is None, reason="nvidia-cublas is not installed, and TEST_CUBLASLT names no library")
def test_the_library_itself_takes_the_descriptors() -> None:
    """Handles need a GPU, descriptors do not: sizes and numbers of attributes are the library's own."""
    library = _real()
    assert library is not None
    products = cublas.CublasProducts.__new__(cublas.CublasProducts)
    products.library, products._made = library, []
    results: list[tuple[int, ...]] = []

    def algorithm(*handles: int) -> cublas.HeuristicResult:
        results.append(handles)
        return cublas.HeuristicResult()

    products._handle = 0
    products._algorithm = algorithm  # type: ignore[method-assign]
    matrix = (64, 32, 64, 1, 4096)
    for dtype, result in (("float32", "float32"), ("float64", "float64"), ("bfloat16", "float32"), ("float16",) * 2):
        products._prepare(LibraryProduct(dtype, result, dtype == "float32", 3, matrix, matrix, matrix))
    assert len(results) == 4
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        products._set("cublasLtMatmulDesc", results[0][0], cublas.TRANSPOSE_LEFT, ctypes.c_int64(1))
    wanted = products._new("cublasLtMatmulPreference")
    for attribute in (cublas.REDUCTION_SCHEMES, *cublas.LEAST_ALIGNMENTS):
        products._set("cublasLtMatmulPreference", wanted, attribute, ctypes.c_uint32(2))
    products._set("cublasLtMatmulPreference", wanted, cublas.MOST_WORKSPACE, ctypes.c_uint64(1 << 20))
    for symbol, handle in reversed(products._made):
        library.call(symbol, handle)
