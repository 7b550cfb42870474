"""What ``torch.cuda`` says of devices and of itself."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from jitgraph import cuda
from jitgraph.runtime.cuda.devices import devices

has_half: Final = True
has_magma: Final = False


def init() -> None:
    """Start the use of CUDA, which happens by itself; RuntimeError without a GPU."""
    cuda.current_device()


def is_initialized() -> bool:
    """Whether a device was used."""
    return cuda.is_available() and bool(devices().used())


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current GPU computes in bfloat16: of itself from capability 8.0 on, or by way of float32."""
    return cuda.is_available() and (including_emulation or cuda.get_device_capability() >= (8, 0))


def is_tf32_supported() -> bool:
    """Whether the current GPU has products of TF32."""
    return cuda.is_available() and cuda.get_device_capability() >= (8, 0)


def device_of(obj: Any) -> AbstractContextManager[None]:
    """A block in which the device of a tensor is the current one; without effect for tensors on the CPU."""
    where = str(getattr(obj, "device", "cpu"))
    return cuda.device(where) if where.startswith("cuda") else nullcontext()


def set_stream(stream: Any) -> None:
    """Make a stream its device's current one for this thread."""
    if stream is not None:
        devices().current = stream._device.ordinal
        stream._context.stream = stream.cuda_stream


def get_arch_list() -> list[str]:
    """The architectures for which code is there: those of the GPUs here, as it is generated for them."""
    pairs = {cuda.get_device_capability(number) for number in range(cuda.device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(pairs)]


def get_gencode_flags() -> str:
    """NVCC's flags, which has no part in this."""
    return ""


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a device reads another's memory, which is not made use of."""
    return False


def is_current_stream_capturing() -> bool:
    """Whether a CUDA graph is being captured by this API, which has none."""
    return False


def ipc_collect() -> None:
    """Nothing: no memory is shared with other processes."""


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """RuntimeError for any mode but "default" (0): waits for the GPU are not reported."""
    if debug_mode not in (0, "default"):
        raise RuntimeError("waits for the GPU are not reported: the mode is 'default'")


def get_sync_debug_mode() -> int:
    """0: waits for the GPU are not reported."""
    return 0
