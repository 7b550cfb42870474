"""DLPack: arrays handed from one library to another without a copy, out and in.

NumPy reads and writes the capsules of every dtype that it has itself. It has no bfloat16: such elements travel as
uint16, and the type in the capsule's descriptor is put right, of what goes out by us and of what comes in before NumPy
reads it. The descriptor belongs to whoever holds the capsule, so nobody else sees the change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from jitgraph.dtypes import bfloat16
from jitgraph.errors import DeviceError, DTypeError, SharingError
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.runtime.loader.capsules import Descriptor

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

CPU_DEVICE: Final = (1, 0)
_READABLE: Final = frozenset({1, 3, 11, 13})  # the CPU's memory; that which a GPU's driver lets the CPU read
_DEVICES: Final = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi"}
_UINT16: Final = (1, 16, 1)
_NUMPYS: Final = frozenset(  # the types that NumPy reads: integers, floats, complex numbers and bools
    (code, bits, 1)
    for code, widths in {0: (8, 16, 32, 64), 1: (8, 16, 32, 64), 2: (16, 32, 64), 5: (64, 128), 6: (8,)}.items()
    for bits in widths
)


def exported(array: Array, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """A capsule for a read-only array on the CPU.

    Before version 1 a capsule cannot say that memory is read-only, so a caller who asks for no more gets a copy;
    SharingError where that is not allowed, for a stream and for another device.
    """
    if stream is not None:
        raise SharingError(f"stream={stream!r} for a tensor on the CPU", hint="leave stream out")
    if dl_device is not None and tuple(map(int, dl_device)) != CPU_DEVICE:
        raise SharingError(f"dl_device={dl_device!r} for a tensor on the CPU", hint="leave dl_device out")
    versioned = max_version is not None and max_version[0] >= 1
    if copy is False and not versioned:
        raise SharingError(
            "DLPack before version 1 cannot hand over memory that is read-only without a copy",
            hint="max_version=(1, 0), or leave copy out",
        )
    viewed = array.view(np.uint16) if array.dtype == bfloat16 else array
    capsule = viewed.__dlpack__(max_version=(1, 0) if versioned else None, copy=copy or not versioned)
    if viewed is not array:
        _set_type(descriptor(capsule), _capsules().BFLOAT16)
    return capsule


def imported(x: Any, text: str, borrow: bool = False) -> Array:
    """An array over the memory of ``x``, which has ``__dlpack__``; its library may copy unless ``borrow``.

    DeviceError where the memory is out of the CPU's reach, DTypeError for elements that have no dtype here, and what
    the library raises where it does not hand the memory over, such as BufferError.
    """
    require_readable(x, text)
    capsule = _asked(x, borrow)
    tensor = descriptor(capsule)
    kind = (tensor.code, tensor.bits, tensor.lanes)
    if kind == _capsules().BFLOAT16:
        _set_type(tensor, _UINT16)
        return np.from_dlpack(_Borrowed(capsule)).view(bfloat16)
    try:
        return np.from_dlpack(_Borrowed(capsule))
    except (BufferError, RuntimeError) as error:
        if kind in _NUMPYS:  # it is the version, the device or the number of axes that NumPy does not take
            raise
        raise DTypeError(f"{text} has elements of DLPack's type {kind}, which has no dtype here: {error}") from None


def require_readable(x: Any, text: str) -> None:
    """DeviceError for an array in the memory of another device, by ``__dlpack_device__``."""
    kind, number = x.__dlpack_device__()
    if int(kind) not in _READABLE:
        where = f"{_DEVICES.get(int(kind), f'device type {int(kind)}')}:{number}"
        conversions = conversion_calls(x, "x" if " " in text else text, ("cpu", "get"))
        raise DeviceError(
            f"{text} is a {type(x).__module__}.{type(x).__qualname__} on {where}, not on the CPU",
            hint=f"pass {' or '.join(conversions) or 'a copy of it on the CPU'}",
        )


def conversion_calls(x: Any, text: str, methods: tuple[str, ...]) -> list[str]:
    """Calls of those methods that ``x`` has."""
    return [f"{text}.{method}()" for method in methods if hasattr(type(x), method)]


class _Borrowed:
    """A capsule as an array that has it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE


def _asked(x: Any, borrow: bool) -> Any:
    """The capsule of ``x``, by the newest form of the protocol that its library takes."""
    forms: list[dict[str, Any]] = [{"max_version": (1, 0), "copy": False}] if borrow else []
    for options in (*forms, {"max_version": (1, 0)}):
        try:
            return x.__dlpack__(**options)
        except TypeError:  # from before these options; then nobody copied
            continue
    return x.__dlpack__()


def descriptor(capsule: Any) -> Descriptor:
    """The descriptor in a capsule that has not been taken yet; SharingError for what is none."""
    return _table(capsule, takes=False).tensor  # type: ignore[no-any-return]


def take(capsule: Any) -> Any:
    """The table in a capsule, which cannot be taken again: the taker calls the table's deleter.

    SharingError for what is no capsule, or was taken before.
    """
    return _table(capsule, takes=True)


def _table(capsule: Any, *, takes: bool) -> Any:
    table = _capsules().table_in(capsule, takes=takes)
    if table is None:
        raise SharingError(
            "what __dlpack__ gives is no capsule of DLPack 1 or before, or was taken already",
            hint="np.asarray(x), where x has __array__",
        )
    return table


def _capsules() -> Any:
    """What knows the tables in capsules; few programs ask for it."""
    return imports.module("jitgraph.runtime.loader.capsules")


def _set_type(descriptor: Descriptor, kind: tuple[int, int, int]) -> None:
    descriptor.code, descriptor.bits, descriptor.lanes = kind
