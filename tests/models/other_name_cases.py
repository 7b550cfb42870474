"""Functions by PyTorch's further names, and losses reduced as older code asks for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.models.case import LayerCase, labels, normal, positive

IMAGE, SCORES = normal(2, 3, 6, 6), normal(5, 4)


def quietly(make: Callable[[Any], Callable[..., Any]]) -> Callable[[Any], Callable[..., Any]]:
    """A function of either library, without PyTorch's warnings that a name or parameter is an older one."""

    def made(lib: Any) -> Callable[..., Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function = make(lib)

        def call(*args: Any, **kwargs: Any) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return function(*args, **kwargs)

        return call if lib.__name__ == "torch" else function

    return made


def function(name: str, *inputs: Any, **options: Any) -> LayerCase:
    words = "".join(f", {key}={value}" for key, value in options.items())
    return LayerCase(
        f"functional.{name}{words}",
        quietly(lambda lib: getattr(lib.nn.functional, name)),
        inputs,
        call=lambda lib, called, *tensors: called(*tensors, **options),
    )


def first(name: str, *argument: Any) -> LayerCase:
    """Of a pool that gives values and their places."""
    return LayerCase(
        f"functional.{name}, {', '.join(map(str, argument))}",
        lambda lib: getattr(lib.nn.functional, name),
        (IMAGE,),
        call=lambda lib, called, x: called(x, *argument)[0],
    )


SEPARATE = (normal(5, 2, 8), normal(4, 2, 6), normal(4, 2, 7), normal(24))
WEIGHTS = (normal(3, 8), normal(3), normal(8, 8, seed=1), normal(8, 6), normal(8, 7))


def separately(lib: Any, attention: Any, *tensors: Any) -> Any:
    """Projections of their own and an output of another size, as where attention pools the places of an image."""
    q, k, v, bias, out, out_bias, *weights = tensors
    settings = (8, 2, None, bias, None, None, False, 0.0, out, out_bias)
    return attention(
        q, k, v, *settings, training=True, use_separate_proj_weight=True, need_weights=False,
        q_proj_weight=weights[0], k_proj_weight=weights[1], v_proj_weight=weights[2],
    )[0]  # fmt: skip


def together(lib: Any, attention: Any, x: Any, *weights: Any) -> Any:
    """One projection of all three, with learned keys and one of zeros, and the weights."""
    full, bias, k, v, out, out_bias = weights
    values, shares = attention(x, x, x, 8, 2, full, bias, k, v, True, 0.0, out, out_bias, average_attn_weights=False)
    return (values * 2.0).sum() + (shares * shares).sum()


CASES = [
    LayerCase(
        "functional.multi_head_attention_forward, use_separate_proj_weight=True",
        lambda lib: lib.nn.functional.multi_head_attention_forward,
        (*SEPARATE, *WEIGHTS),
        call=separately,
    ),
    LayerCase(
        "functional.multi_head_attention_forward, add_zero_attn=True",
        lambda lib: lib.nn.functional.multi_head_attention_forward,
        (normal(5, 2, 8), normal(24, 8), normal(24), normal(1, 1, 8), normal(1, 1, 8, seed=1), normal(8, 8), normal(8)),
        call=together,
    ),
    function("upsample", IMAGE, scale_factor=2, mode="bilinear", align_corners=False),
    function("upsample", IMAGE, size=(4, 9)),
    function("upsample_nearest", IMAGE, scale_factor=2),
    function("upsample_bilinear", IMAGE, size=(4, 9)),
    function("conv_tbc", normal(7, 2, 3), normal(3, 3, 4), normal(4), pad=1),
    function("linear_cross_entropy", normal(5, 3), normal(4, 3), labels(4, 5), label_smoothing=0.1),
    first("max_pool2d_with_indices", 2),
    first("adaptive_max_pool2d_with_indices", (2, 3)),
    function("cross_entropy", SCORES, labels(4, 5), size_average=False),
    function("nll_loss", SCORES, labels(4, 5), reduce=False),
    function("mse_loss", SCORES, normal(5, 4, seed=1), size_average=False),
    function("binary_cross_entropy", positive(5, 4), positive(5, 4, seed=1), reduce=True),
    function("kl_div", SCORES, positive(5, 4), size_average=True),
]
