"""``torch.autocast``: blocks in which products run in 16 bits, and functions that take no part in it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jitgraph as jg
from jitgraph import amp, tree
from jitgraph.torch.scalar_types import scalar_type


class autocast(amp.autocast):  # noqa: N801 - PyTorch's name
    """A block (or decorator) in which products run in bfloat16 or float16; see ``jitgraph.amp.autocast``.

    For "cuda" without a GPU it warns and does nothing, and for a dtype that autocast of the device does not take.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type.partition(":")[0]
        if not is_autocast_available(self.device):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{self.device}'")
        if enabled and self.device == "cuda" and not jg.cuda.is_available():
            warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2)
            enabled = False
        if enabled and dtype is not None and dtype not in (jg.bfloat16, jg.float16):
            warnings.warn(
                f"In {self.device.upper()} autocast, but the target dtype is not supported. Disabling autocast.",
                stacklevel=2,
            )
            enabled = False
        super().__init__(self.device, dtype if enabled else None, enabled)
        self.fast_dtype = amp.get_autocast_dtype(self.device) if dtype is None else dtype
        self.fast_dtype = scalar_type(self.fast_dtype)

    def __reduce__(self) -> Any:
        return type(self), (self.device, self.fast_dtype, self._dtype is not None)


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a device: "cpu" and "cuda"."""
    return device_type in ("cpu", "cuda")


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is active here, for every device."""
    return amp.is_autocast_enabled()


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype in which products run here; outside of autocast the device's default."""
    return scalar_type(amp.get_autocast_dtype(device_type))


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str = "cuda", cast_inputs: Any = None
) -> Callable[..., Any]:
    """The ``forward`` of an autograd function, with ``cast_inputs`` without autocast on floats of that dtype."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    function = fwd

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args[0]._fwd_used_autocast = cast_inputs is None and amp.is_autocast_enabled()
        if cast_inputs is None or not amp.is_autocast_enabled():
            return function(*args, **kwargs)
        with amp.autocast("cpu", enabled=False):
            return function(*tree.map_leaves(_cast(cast_inputs), args), **tree.map_leaves(_cast(cast_inputs), kwargs))

    return call


def _cast(dtype: Any) -> Callable[[Any], Any]:
    def cast(x: Any) -> Any:
        is_wide = isinstance(x, jg.Tensor) and jg.isdtype(x.dtype, "real floating") and x.dtype != jg.float64
        return x.to(dtype) if is_wide else x

    return cast


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cuda") -> Callable[..., Any]:
    """The ``backward`` of an autograd function, in the mode of autocast in which ``forward`` ran."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    function = bwd

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with amp.autocast("cpu", enabled=getattr(args[0], "_fwd_used_autocast", False)):
            return function(*args, **kwargs)

    return call
