"""``torch._foreach_add`` and its kind: a function of ``torch`` on each of several tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jitgraph.torch.tensors import Tensor

PREFIX: Final = "_foreach_"
_NAMES: Final = {
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "copy", "cos",
    "cosh", "div", "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2",
    "max", "maximum", "minimum", "mul", "neg", "norm", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc", "zero",
}  # fmt: skip
_VALUE: Final = ("addcmul", "addcdiv")  # whose third argument is a keyword of the function of one tensor
_BOUNDS: Final = {"maximum": "clamp_min", "minimum": "clamp_max"}  # which take numbers


def function(name: str) -> Callable[..., Any]:
    """``torch._foreach_NAME``; AttributeError where PyTorch has none."""
    own = name.removeprefix(PREFIX)
    base = own.removesuffix("_")
    if base not in _NAMES or own in ("zero", "max_", "norm_"):
        raise AttributeError(f"module 'torch' has no attribute '{name}'")

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if base in _VALUE and len(args) > 2:
            args, kwargs = args[:2], {**kwargs, "value": args[2]}
        lists = [x for x in (self, *args, *kwargs.values()) if isinstance(x, list | tuple)]
        if any(len(x) != len(lists[0]) for x in lists):
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {[len(x) for x in lists]}")
        results = tuple(
            _of_one(own, _item(self, i), [_item(x, i) for x in args], {k: _item(x, i) for k, x in kwargs.items()})
            for i in range(len(lists[0]))
        )
        return None if own != base else results

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``{own}`` of each tensor; other lists have an item for each, other arguments are of all."
    return call


def _item(argument: Any, i: int) -> Any:
    return argument[i] if isinstance(argument, list | tuple) else argument


def _of_one(name: str, x: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    from jitgraph import torch  # here, as its functions load this module

    if name == "norm":
        return torch.linalg.vector_norm(x, *args, **kwargs)
    if name == "copy":
        return args[0].to(x.dtype, copy=True)
    base = name.removesuffix("_")
    if base in _BOUNDS and not isinstance(args[0], Tensor):
        name = name.replace(base, _BOUNDS[base])
    if base == "pow" and not isinstance(x, Tensor):
        return torch.pow(x, *args)
    if base in _BOUNDS and name.endswith("imum_"):
        return x.copy_(getattr(torch, base)(x, *args))
    return getattr(x, name)(*args, **kwargs)
