"""``torch.autograd``'s search for the op that gives NaN.

It is jitgraph's: an op that gives NaN or infinity from finite operands raises AnomalyError, a RuntimeError, also in the
forward pass, where PyTorch looks at gradients alone.
"""

from __future__ import annotations

from jitgraph.ir import context
from jitgraph.torch.autograd.modes import Mode, SetMode


class detect_anomaly(Mode):  # noqa: N801 - PyTorch's name
    """A block in which ops that give NaN raise, by their lines; ``check_nan=False`` looks for nothing."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        super().__init__(anomaly=check_nan)


class set_detect_anomaly(SetMode):  # noqa: N801 - PyTorch's name
    """Look for such ops from here on, or no longer; a block, too."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(anomaly=bool(mode) and check_nan)


def is_anomaly_enabled() -> bool:
    """Whether such ops are looked for just now."""
    return context.current().anomaly


is_anomaly_check_nan_enabled = is_anomaly_enabled


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Look for such ops from here on, or no longer."""
    set_detect_anomaly(mode, check_nan)
