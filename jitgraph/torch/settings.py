"""Settings of PyTorch's that programs make: those that have a meaning here take effect, the others are remembered."""

from __future__ import annotations

from typing import Any, Final

_settings: Final[dict[str, Any]] = {
    "deterministic": 0,  # 0: as it comes, 1: warn of what is not, 2: refuse it
    "precision": "highest",
    "warn_always": False,
}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for the same bits at each run, which kernels give anyway."""
    _settings["deterministic"] = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Whether the same bits at each run were asked for."""
    return bool(_settings["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether they were asked for with warnings alone."""
    return bool(_settings["deterministic"] == 1)


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """As ``use_deterministic_algorithms``, by 0 or "default", 1 or "warn", 2 or "error"."""
    words = {"default": 0, "warn": 1, "error": 2}
    mode = words.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, 2, default, warn, error, not {debug_mode}")
    _settings["deterministic"] = mode


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2, as ``set_deterministic_debug_mode`` says."""
    return int(_settings["deterministic"])


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 matrices may be: they are "highest" on processors whatever is asked for."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'")
    _settings["precision"] = precision


def get_float32_matmul_precision() -> str:
    """The precision that was asked for."""
    return str(_settings["precision"])


def set_flush_denormal(mode: bool) -> bool:
    """Whether denormal floats became zeros, which is never so here: they are computed with. Gives False."""
    return False


def set_warn_always(b: bool, /) -> None:
    """Ask for warnings each time, not once."""
    _settings["warn_always"] = b


def is_warn_always_enabled() -> bool:
    """Whether warnings were asked for each time."""
    return bool(_settings["warn_always"])


def compiled_with_cxx11_abi() -> bool:
    """Of PyTorch's C++ library, which is not here: True."""
    return True


def is_vulkan_available() -> bool:
    """Whether there is a Vulkan device: no."""
    return False


attention: Final[dict[str, bool]] = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}
"""Which of PyTorch's implementations of attention programs allow: the results are the same with each."""
