"""Mixed precision in PyTorch's names: parameters stay float32, products run in 16 bits, gradients arrive in float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, ContextDecorator
from typing import Any, Final, Self

from jitgraph import migration_hints
from jitgraph.dtypes import bfloat16, canonical, float16
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.ir import context
from jitgraph.optim.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "get_autocast_dtype", "is_autocast_enabled"]

_DEFAULTS: Final = {"cpu": bfloat16, "cuda": float16}


class autocast(ContextDecorator):  # noqa: N801 - PyTorch's name
    """A block (or decorator) in which products and convolutions run in bfloat16 or float16, as in PyTorch's autocast.

    Sums, exponentials, softmax, norms and losses run in float32, other ops in the widest dtype of their operands;
    float64 stays. Parameters keep their dtype (they are the master weights) and so do their gradients; ``backward()``
    runs in the dtypes of the ops that it goes back through. ``device_type`` ("cpu" or "cuda") gives the default dtype,
    bfloat16 or float16, and ops of every device are cast. Blocks nest, and one may be entered again and again;
    ``enabled=False`` switches casting off inside, with any dtype.
    ``cache_enabled`` changes nothing here. A function traced in one mode is traced anew in another.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        name = str(device_type).partition(":")[0]
        if name not in _DEFAULTS:
            hint = 'autocast("cpu", dtype=jg.bfloat16)'
            raise JitgraphError(f"autocast takes 'cpu' or 'cuda' first, not {device_type!r}\n  hint: {hint}")
        chosen = _DEFAULTS[name] if dtype is None else canonical(dtype)
        if enabled and chosen not in (bfloat16, float16):
            hint = "jg.bfloat16 or jg.float16; enabled=False switches autocast off"
            raise DTypeError(f"autocast runs products in a 16-bit float dtype, not {chosen.name}", hint=hint)
        self._dtype = chosen if enabled else None
        self._entered: tuple[AbstractContextManager[Any], ...] = ()

    def __enter__(self) -> Self:
        block = context.using(autocast=self._dtype)
        block.__enter__()
        self._entered = (*self._entered, block)
        return self

    def __exit__(self, *raised: Any) -> None:
        block, self._entered = self._entered[-1], self._entered[:-1]
        block.__exit__(*raised)


def is_autocast_enabled() -> bool:
    """Whether autocast is active here."""
    return context.current().autocast is not None


def get_autocast_dtype(device_type: str = "cpu") -> Any:
    """The dtype in which products run here; outside of autocast the device's default."""
    dtype = context.current().autocast
    return _DEFAULTS[device_type.partition(":")[0]] if dtype is None else dtype


def __getattr__(name: str) -> Any:
    hint = migration_hints.of_module(__name__, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
