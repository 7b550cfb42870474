"""Names of devices: "cuda" is the current one, "cuda:1" the second, and a number is one of CUDA's."""

from __future__ import annotations

from jitgraph.errors import DeviceError
from jitgraph.runtime.cuda.devices import KIND, Device, devices


def ordinal_of(name: str | int | None) -> int | None:
    """The number in a device's name; None for the current one. DeviceError for what is no name of a CUDA device."""
    if name is None or (isinstance(name, int) and not isinstance(name, bool)):
        return name
    kind, colon, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind != KIND or (colon and not number.isdecimal()):
        raise DeviceError(f"{name!r} names no CUDA device", hint='"cuda", "cuda:0", or a number')
    return int(number) if colon else None


def device_named(name: str | int | None) -> Device:
    """The device of a name, number, or the current one; DeviceError where there is none."""
    return devices().device(ordinal_of(name))
