"""The functions of the CUDA driver that jitgraph calls, with the C types of their parameters.

This is the one list of them. A driver is a table of addresses in the order of this list: those of ``libcuda.so.1``,
those that pycuda has loaded, or those of the simulator. Every function returns a ``CUresult`` (0 is success). Symbols
carry the suffix of the version that ``cuda.h`` of CUDA 13 names (``cuMemAlloc`` alone is an older interface).

Source: NVIDIA CUDA Driver API 13.0, https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

from typing import Final

FUNCTIONS: Final[dict[str, str]] = {
    # p: pointer or handle (void *), i: int, u: unsigned int, z: size_t or CUdeviceptr (8 bytes), s: const char *
    "cuInit": "u",
    "cuDriverGetVersion": "p",
    "cuGetErrorName": "ip",
    "cuGetErrorString": "ip",
    "cuDeviceGetCount": "p",
    "cuDeviceGet": "pi",
    "cuDeviceGetName": "pii",
    "cuDeviceGetAttribute": "pii",
    "cuDeviceTotalMem_v2": "pi",
    "cuDevicePrimaryCtxRetain": "pi",
    "cuDevicePrimaryCtxRelease_v2": "i",
    "cuCtxSetCurrent": "p",
    "cuCtxGetCurrent": "p",
    "cuCtxSynchronize": "",
    "cuModuleLoadDataEx": "ppupp",
    "cuModuleUnload": "p",
    "cuModuleGetFunction": "pps",
    "cuFuncSetAttribute": "pii",
    "cuFuncGetAttribute": "pip",
    "cuLaunchKernel": "puuuuuuuppp",
    "cuMemGetInfo_v2": "pp",
    "cuMemAlloc_v2": "pz",
    "cuMemFree_v2": "z",
    "cuMemHostAlloc": "pzu",
    "cuMemFreeHost": "p",
    "cuMemcpyHtoD_v2": "zpz",
    "cuMemcpyDtoH_v2": "pzz",
    "cuMemcpyHtoDAsync_v2": "zpzp",
    "cuMemcpyDtoHAsync_v2": "pzzp",
    "cuMemcpyDtoDAsync_v2": "zzzp",
    "cuMemsetD8Async": "zuzp",
    "cuMemsetD32Async": "zuzp",
    "cuPointerGetAttribute": "piz",
    "cuStreamCreate": "pu",
    "cuStreamDestroy_v2": "p",
    "cuStreamSynchronize": "p",
    "cuStreamQuery": "p",
    "cuStreamWaitEvent": "ppu",
    "cuStreamBeginCapture_v2": "pi",
    "cuStreamEndCapture": "pp",
    "cuStreamIsCapturing": "pp",
    "cuEventCreate": "pu",
    "cuEventDestroy_v2": "p",
    "cuEventRecord": "pp",
    "cuEventQuery": "p",
    "cuEventSynchronize": "p",
    "cuEventElapsedTime": "ppp",
    "cuGraphInstantiateWithFlags": "ppz",
    "cuGraphLaunch": "pp",
    "cuGraphExecDestroy": "p",
    "cuGraphDestroy": "p",
    "cuMemAllocAsync": "pzp",
    "cuMemFreeAsync": "zp",
}
"""The letters of each function's parameters, by its symbol."""

SLOTS: Final[dict[str, int]] = {symbol: slot for slot, symbol in enumerate(FUNCTIONS)}
"""Where a function's address stands in a driver's table of 8-byte addresses."""
