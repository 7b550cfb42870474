"""Settings of PyTorch's that programs make: those that have a meaning here take effect, the others are remembered."""

from __future__ import annotations

from typing import Any, Final

from jitgraph.autograd import no_grad, set_grad_enabled
from jitgraph.ir import context

_settings: Final[dict[str, Any]] = {
    "deterministic": 0,  # 0: as it comes, 1: warn of what is not, 2: refuse it
    "precision": "highest",
    "warn_always": False,
    "anomaly": False,
    "check_nan": True,
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


def is_grad_enabled() -> bool:
    """Whether gradients are recorded."""
    return bool(context.current().grad_enabled)


def inference_mode(mode: Any = True) -> Any:
    """A block, or a decorator, in which no gradient is recorded, as ``no_grad``: its tensors are like others."""
    if callable(mode):
        return no_grad()(mode)
    return no_grad() if mode else set_grad_enabled(context.current().grad_enabled)


def is_inference_mode_enabled() -> bool:
    """Whether this is a block of ``inference_mode``, which is ``no_grad`` here."""
    return not context.current().grad_enabled


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Remember that anomalies are to be looked for; ``JITGRAPH_VERIFY=1`` and ``jg.debug`` look for them here."""
    _settings["anomaly"], _settings["check_nan"] = mode, check_nan


def is_anomaly_enabled() -> bool:
    """Whether anomalies were asked for."""
    return bool(_settings["anomaly"])


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaNs count as anomalies."""
    return bool(_settings["check_nan"])


def compiled_with_cxx11_abi() -> bool:
    """Of PyTorch's C++ library, which is not here: True."""
    return True


def is_vulkan_available() -> bool:
    """Whether there is a Vulkan device: no."""
    return False
