"""``torch.cpu``: the processor as a device; what is asked of it has been computed when a call returns."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is a processor: yes."""
    return True


def device_count() -> int:
    """How many devices the processor is: one."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Wait for what was asked of the processor, which was done at once."""
