"""Functions of the Array API, of layers and of losses, by the names that jitgraph and PyTorch have for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.coverage.case import Case, case, integers, positive, uniform

M, N = (3, 4), (2, 3, 4)
MASK = np.arange(12).reshape(3, 4) % 3 == 0


def _unary(names: str, operand: Any) -> list[Case]:
    return [case(name, lambda m, x, name=name: getattr(m, name)(x), None, operand) for name in names.split()]


def _binary(names: str, *operands: Any) -> list[Case]:
    return [case(name, lambda m, x, y, name=name: getattr(m, name)(x, y), None, *operands) for name in names.split()]


def _reduced(name: str, theirs: str | None = None, **options: Any) -> list[Case]:
    """Of all elements, along an axis, and along two that are kept."""

    def whole(m: Any, x: Any) -> Any:
        return getattr(m, name)(x, **options)

    results = [case(name, whole, None, N)]
    for axis in (1, (0, 2)):
        keep = isinstance(axis, tuple)
        if name == "prod" and keep:
            continue
        results.append(
            case(
                f"{name}, axis={axis}{', keepdims' if keep else ''}",
                lambda m, x, axis=axis, keep=keep: getattr(m, name)(x, axis=axis, keepdims=keep, **options),
                lambda t, x, axis=axis, keep=keep: getattr(t, theirs or name)(x, dim=axis, keepdim=keep, **options),
                N,
            )
        )
    return results


def _layer(name: str, *operands: Any, **options: Any) -> Case:
    shown = "".join(f", {key}={value}" for key, value in options.items())
    return case(
        f"nn.functional.{name}{shown}", lambda m, *xs: getattr(m.nn.functional, name)(*xs, **options), None, *operands
    )


CASES = [
    *_unary("abs ceil cos cosh exp exp2 expm1 floor negative positive relu round sigmoid sign sin sinh square tanh", M),
    *_unary("tan trunc erf isnan isinf isfinite logical_not signbit asinh atan", M),
    *_unary("log log1p log2 log10 sqrt rsqrt reciprocal", positive(M)),
    *_unary("acos asin atanh", uniform(M, -0.9, 0.9)),
    *_unary("acosh", uniform(M, 1.2, 4)),
    *_binary("add subtract multiply divide atan2 hypot maximum minimum logaddexp copysign", M, (4,)),
    *_binary("remainder floor_divide", M, positive((4,))),
    *_binary("less less_equal greater greater_equal not_equal logical_and logical_or logical_xor", M, M),
    *_binary("bitwise_and bitwise_or bitwise_xor", integers(M, -9, 9), integers(M, -9, 9)),
    *_binary("bitwise_left_shift bitwise_right_shift", integers(M, -9, 9), integers(M, 0, 5)),
    case("pow", lambda m, x, y: m.pow(x, y), None, positive(M), M),
    case("pow, a number", lambda m, x: x**2.5, None, positive(M)),
    case("clamp", lambda m, x: m.clamp(x, -0.5, 0.7), None, M),
    case("where", lambda m, k, x, y: m.where(k, x, y), None, MASK, M, M),
    *_reduced("sum"),
    *_reduced("mean"),
    *_reduced("prod")[:2],
    *_reduced("logsumexp")[1:],
    *_reduced("var", correction=1),
    *_reduced("std", correction=0),
    case("max", lambda m, x: m.max(x), None, M),
    case("max, axis", lambda m, x: m.max(x, axis=1), lambda t, x: t.amax(x, 1), M),
    case("min, axis", lambda m, x: m.min(x, axis=0), lambda t, x: t.amin(x, 0), M),
    case("argmax", lambda m, x: m.argmax(x, axis=1), None, M),
    case("argmin", lambda m, x: m.argmin(x), None, M),
    case("all", lambda m, x: m.all(x > 0, axis=1), None, M),
    case("any", lambda m, x: m.any(x > 0, axis=1), None, M),
    case("matmul", lambda m, x, y: m.matmul(x, y), None, M, (4, 2)),
    case("matmul of stacks", lambda m, x, y: m.matmul(x, y), None, N, (4, 2)),
    case("outer", lambda m, x, y: m.outer(x, y), None, (3,), (4,)),
    case("tensordot", lambda m, x, y: m.tensordot(x, y, 2), None, N, (3, 4, 2)),
    case("reshape", lambda m, x: m.reshape(x, (4, -1)), None, N),
    case("flatten", lambda m, x: m.flatten(x), None, N),
    case("squeeze", lambda m, x: m.squeeze(x, 0), None, (1, 3)),
    case("unsqueeze", lambda m, x: m.unsqueeze(x, 1), None, M),
    case("transpose", lambda m, x: m.transpose(x, 0, 2), None, N),
    case("permute_dims", lambda m, x: m.permute_dims(x, (2, 0, 1)), lambda t, x: t.permute(x, (2, 0, 1)), N),
    case("moveaxis", lambda m, x: m.moveaxis(x, 0, -1), None, N),
    case("swapaxes", lambda m, x: m.swapaxes(x, 0, 1), None, N),
    case("broadcast_to", lambda m, x: m.broadcast_to(x, (2, 3, 4)), None, M),
    case("concat", lambda m, x, y: m.concat([x, y], 1), None, M, (3, 2)),
    case("stack", lambda m, x, y: m.stack([x, y], 1), None, M, M),
    case("split", lambda m, x: m.split(x, 2, 1), None, (3, 5)),
    case("chunk", lambda m, x: m.chunk(x, 2, 1), None, (3, 5)),
    case("flip", lambda m, x: m.flip(x, (0, 1)), None, M),
    case("roll", lambda m, x: m.roll(x, 2, 1), None, M),
    case("repeat", lambda m, x: m.repeat(x, 2, 1), lambda t, x: t.repeat_interleave(x, 2, 1), M),
    case("tile", lambda m, x: m.tile(x, (2, 1)), None, M),
    case("tril", lambda m, x: m.tril(x, -1), None, M),
    case("triu", lambda m, x: m.triu(x, 1), None, M),
    case("index, a slice", lambda m, x: x[1:, ::2], None, N),
    case("index, integers", lambda m, x, i: x[:, i], None, N, np.array([2, 0, 2])),
    case("index, a mask", lambda m, x, k: x[k], None, M, MASK, traced=False),
    *(_layer(name, M) for name in ("relu6", "silu", "softplus", "elu", "hardtanh", "leaky_relu", "logsigmoid", "gelu")),
    _layer("gelu", M, approximate="tanh"),
    _layer("softmax", M, dim=1),
    _layer("log_softmax", M, dim=0),
    _layer("normalize", M, dim=1),
    _layer("linear", M, (5, 4), (5,)),
    _layer("layer_norm", N, normalized_shape=(4,)),
    _layer("group_norm", (2, 4, 3), num_groups=2),
    _layer("rms_norm", N, normalized_shape=(4,), eps=1e-6),
    _layer("conv1d", (2, 3, 7), (4, 3, 3), (4,), stride=2, padding=1),
    _layer("conv2d", (1, 2, 5, 6), (3, 2, 3, 2), (3,), padding=1),
    _layer("conv2d", (1, 4, 5, 6), (4, 2, 3, 3), groups=2, dilation=2, padding=2),
    _layer("conv3d", (1, 2, 3, 4, 3), (2, 2, 2, 2, 2)),
    _layer("max_pool1d", (2, 3, 8), kernel_size=2),
    _layer("max_pool2d", (2, 3, 6, 6), kernel_size=3, stride=2, padding=1),
    _layer("avg_pool1d", (2, 3, 8), kernel_size=2),
    _layer("avg_pool2d", (2, 3, 6, 6), kernel_size=3, stride=2, padding=1),
    _layer("adaptive_avg_pool2d", (2, 3, 6, 4), output_size=(3, 2)),
    _layer("embedding", integers((2, 3), 0, 5), (5, 4)),
    _layer("scaled_dot_product_attention", (2, 3, 4), (2, 5, 4), (2, 5, 4)),
    _layer("mse_loss", M, M),
    _layer("mse_loss", M, M, reduction="sum"),
    _layer("l1_loss", M, M),
    _layer("smooth_l1_loss", M, M),
    _layer("cross_entropy", M, integers((3,), 0, 4)),
    _layer("nll_loss", M, integers((3,), 0, 4)),
    _layer("binary_cross_entropy", uniform(M), uniform(M)),
    _layer("binary_cross_entropy_with_logits", M, uniform(M)),
    _layer("cosine_similarity", M, M),
    _layer("one_hot", integers((3,), 0, 4), num_classes=4),
]
