"""Codes of the driver (CUresult), with their names and what they say.

Source: NVIDIA CUDA Driver API 13.0, "CUresult".
"""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
INVALID_VALUE: Final = 1
OUT_OF_MEMORY: Final = 2
NOT_INITIALIZED: Final = 3
NO_DEVICE: Final = 100
INVALID_DEVICE: Final = 101
INVALID_CONTEXT: Final = 201
INVALID_PTX: Final = 218
INVALID_HANDLE: Final = 400
ILLEGAL_STATE: Final = 401
NOT_FOUND: Final = 500
NOT_READY: Final = 600
ILLEGAL_ADDRESS: Final = 700
LAUNCH_OUT_OF_RESOURCES: Final = 701
CONTEXT_IS_DESTROYED: Final = 709
ILLEGAL_INSTRUCTION: Final = 715
MISALIGNED_ADDRESS: Final = 716
LAUNCH_FAILED: Final = 719
CAPTURE_UNSUPPORTED: Final = 900
CAPTURE_INVALIDATED: Final = 901
CAPTURE_MERGE: Final = 902
CAPTURE_UNMATCHED: Final = 903
CAPTURE_UNJOINED: Final = 904
CAPTURE_IMPLICIT: Final = 906
CAPTURED_EVENT: Final = 907
CAPTURE_WRONG_THREAD: Final = 908
UNKNOWN: Final = 999

TEXTS: Final[dict[int, tuple[str, str]]] = {
    UNKNOWN: ("CUDA_ERROR_UNKNOWN", "unknown error"),
    SUCCESS: ("CUDA_SUCCESS", "no error"),
    INVALID_VALUE: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    OUT_OF_MEMORY: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    NOT_INITIALIZED: ("CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    NO_DEVICE: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    INVALID_DEVICE: ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    INVALID_CONTEXT: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    INVALID_PTX: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    INVALID_HANDLE: ("CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    ILLEGAL_STATE: ("CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"),
    NOT_FOUND: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    NOT_READY: ("CUDA_ERROR_NOT_READY", "device not ready"),
    ILLEGAL_ADDRESS: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    LAUNCH_OUT_OF_RESOURCES: ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"),
    CONTEXT_IS_DESTROYED: ("CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"),
    ILLEGAL_INSTRUCTION: ("CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"),
    MISALIGNED_ADDRESS: ("CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"),
    LAUNCH_FAILED: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    CAPTURE_UNSUPPORTED: (
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"
    ),
    CAPTURE_INVALIDATED: (
        "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"
    ),
    CAPTURE_MERGE: ("CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate captures"),
    CAPTURE_UNMATCHED: ("CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"),
    CAPTURE_UNJOINED: ("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"),
    CAPTURE_IMPLICIT: (
        "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing stream"
    ),
    CAPTURED_EVENT: (
        "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"
    ),
    CAPTURE_WRONG_THREAD: (
        "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture from another thread"
    ),
}  # fmt: skip


class DriverFault(Exception):  # not seen by users: the driver's stand-in answers with the code
    """A call ends with a code; ``note`` goes into the log."""

    def __init__(self, code: int, note: str = "") -> None:
        super().__init__(note or TEXTS[code][1])
        self.code, self.note = code, note
