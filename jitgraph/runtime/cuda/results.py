"""What the driver's results mean: each ``CUresult`` that is no success as an error with CUDA's own name and text.

Source: the enumeration CUresult of NVIDIA's CUDA Driver API 13.0.
"""

from __future__ import annotations

from typing import Final

from jitgraph.errors import CudaError, OutOfMemoryError

SUCCESS: Final = 0
OUT_OF_MEMORY: Final = 2
NOT_READY: Final = 600

_RESTART: Final = "the device's context is lost for this process: start a new one; compute-sanitizer names the kernel"
_DRIVER: Final = "nvidia-smi shows the driver; a newer one serves programs of older CUDA versions as well"
_CAPTURE: Final = "leave out of a capture what waits for the device, allocates or uses the default stream"

HINTS: Final[dict[int, str]] = {
    1: "an argument of the driver's function is out of its range",
    OUT_OF_MEMORY: "jg.cuda.memory_summary() shows what is held; drop tensors, or make batches smaller",
    3: "the driver was not initialised in this process",
    4: "the driver is shutting down: this is the end of the process",
    100: "nvidia-smi lists the GPUs; CUDA_VISIBLE_DEVICES may hide them",
    101: "jg.cuda.device_count() says how many devices there are; the first one is 0",
    200: "the code is neither PTX nor a binary for GPUs",
    201: "another library has destroyed or replaced the device's primary context",
    209: "the code was compiled for another kind of GPU",
    218: "the PTX does not fit this driver",
    222: f"the PTX is of a newer version than this driver knows: {_DRIVER}",
    400: "the stream, event, module or graph is gone, or of another device",
    500: "the module has no kernel of this name",
    700: f"a kernel read or wrote outside of its memory; {_RESTART}",
    701: "a block of the kernel needs more registers or shared memory than this device has",
    702: f"a kernel ran for longer than the system allows; {_RESTART}",
    710: f"an assertion in a kernel did not hold; {_RESTART}",
    715: f"a kernel ran an instruction that is none; {_RESTART}",
    716: f"a kernel used an address that is not aligned; {_RESTART}",
    719: f"a kernel failed; {_RESTART}",
    801: "this driver or device cannot do that",
    803: f"the driver of the kernel and libcuda.so.1 are of different versions: {_DRIVER}",
    804: f"this GPU needs a newer driver: {_DRIVER}",
    **dict.fromkeys(range(900, 909), _CAPTURE),
}
"""What to do about a result, by its number."""


def error(code: int, name: str, text: str, action: str) -> CudaError:
    """The error of a call that gave ``code``, whose name and text are CUDA's; ``action`` says what the call was for."""
    kind = OutOfMemoryError if code == OUT_OF_MEMORY else CudaError
    described = f"{name} ({text})" if text else name
    return kind(f"{action}: {described}", code=code, hint=HINTS.get(code, f"result {code} of the CUDA driver"))
