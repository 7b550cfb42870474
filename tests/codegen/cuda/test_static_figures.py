"""Static figures that must hold: bytes near the least, no turns too many, no spills; occupancy by CUDA's own rules."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import pytest

from bench.cuda_families import FAMILIES
from bench.cuda_occupancy import MULTIPROCESSORS, occupancy
from bench.cuda_static import compiled, counted, figures, usage
from tests import cuda_page
from tests.codegen.cuda.assembled import PROCESSORS, needs_ptxas

NIGHTLY = len(PROCESSORS) > 1
NEAR_THE_LEAST = ["pointwise chain", "sums of rows", "softmax", "transpose"]
"""In ``make nightly`` the others whose traffic is settled as well."""

MORE = ["pointwise, bfloat16", "pointwise, a row", "sum of all", "sums of columns", "layer norm", "gradient of softmax"]
HEADERS = sorted(Path("/usr/local").glob("cuda*/include/cuda_occupancy.h"))


@pytest.mark.parametrize("name", [*NEAR_THE_LEAST, *(MORE if NIGHTLY else ())])
def test_kernels_move_little_more_than_they_must(name: str) -> None:
    result = figures(counted(FAMILIES[name]()))
    assert result.traffic <= 1.1
    assert result.turns == result.least_turns
    if name not in ("pointwise, a row", "layer norm"):  # whose weights every block asks the second cache for
        assert result.cache_traffic <= 1.1


@needs_ptxas
@pytest.mark.parametrize("sm", sorted(MULTIPROCESSORS) if NIGHTLY else [90])
def test_families_spill_nothing(sm: int) -> None:
    names = list(FAMILIES) if NIGHTLY else NEAR_THE_LEAST
    for name, used in zip(names, usage([compiled(FAMILIES[name](), sm) for name in names], sm), strict=True):
        assert not [function for function in used if function.spilled], name


@pytest.mark.skipif(not HEADERS, reason="no cuda_occupancy.h here")
def test_occupancy_is_what_cuda_calculates(tmp_path: Path) -> None:
    cases = list(
        product(sorted(MULTIPROCESSORS), (32, 96, 256, 512, 1024), (16, 33, 40, 64, 128), (0, 1, 20_000, 49_152))
    )
    rows = []
    for sm, threads, registers, shared in cases:
        of = MULTIPROCESSORS[sm]
        rows.append(
            f"one({sm // 10}, {sm % 10}, {of.warps * 32}, {of.shared_bytes}, {threads}, {registers}, {shared});"
        )
    source = tmp_path / "occupancy.cpp"
    source.write_text(
        """
#include <cstdio>
#include <cstddef>
#include <cuda_occupancy.h>
static void one(int major, int minor, int threads_of_all, size_t shared_of_all, int threads, int registers,
                size_t shared) {
    cudaOccDeviceProp device;
    device.computeMajor = major; device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = threads_of_all;
    device.regsPerBlock = 65536; device.regsPerMultiprocessor = 65536; device.warpSize = 32;
    device.sharedMemPerBlock = 49152; device.sharedMemPerMultiprocessor = shared_of_all; device.numSms = 1;
    device.sharedMemPerBlockOptin = shared_of_all - 1024; device.reservedSharedMemPerBlock = 1024;
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = 1024; function.numRegs = registers; function.sharedSizeBytes = shared;
    function.partitionedGCConfig = PARTITIONED_GC_OFF; function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = 0; function.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.cacheConfig = CACHE_PREFER_NONE; state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    int code = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, 0);
    std::printf("%d\\n", code ? -code : result.activeBlocksPerMultiprocessor);
}
int main() {
"""
        + "\n".join(rows)
        + "\n}\n"
    )
    program = tmp_path / "occupancy"
    subprocess.run(["g++", "-w", f"-I{HEADERS[-1].parent}", str(source), "-o", str(program)], check=True)
    result = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    ours = [str(occupancy(sm, threads, registers, shared).blocks) for sm, threads, registers, shared in cases]
    assert [(case, x, y) for case, x, y in zip(cases, ours, result, strict=True) if x != y] == []


def test_the_page_names_what_is_refused() -> None:
    text = cuda_page.PAGE.read_text()
    assert cuda_page.part(text, "refused") == cuda_page.refusals(every=NIGHTLY), "python -m tests.cuda_page"


@needs_ptxas
@pytest.mark.skipif(not NIGHTLY, reason="the figures are counted anew in make nightly")
def test_the_page_has_the_figures() -> None:
    from bench.cuda_static import table

    rows = cuda_page.part(cuda_page.PAGE.read_text(), "figures").splitlines()
    assert rows == table(), "python -m tests.cuda_page"
