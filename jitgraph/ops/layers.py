"""linear, conv_nd, conv_transpose_nd and embedding: the products with weights that layers are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op, OpenShape, Sample
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add
from jitgraph.ops.composite import composite
from jitgraph.ops.contraction import dot
from jitgraph.ops.convolution import conv, conv_back, conv_weight_gradient
from jitgraph.ops.gathering import gather
from jitgraph.ops.movement import broadcast, reduce_sum
from jitgraph.ops.sampling import samples_for


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if not x.shape or len(weight.shape) != 2:
        raise ShapeError(f"linear: expected x[..., in] and weight[out, in], not {x.type} and {weight.type}")
    last = len(x.shape) - 1
    product = dot(x, weight, batch=((), ()), contract=((last,), (1,)))
    return product if bias is None else add(product, broadcast(bias, shape=product.shape, axes=(last,)))


linear: Op = composite(
    "linear",
    _linear,
    batch="leading",
    samples=samples_for(
        "linear",
        rules.FLOATS,
        lambda array: [
            Sample((array(*x), array(out, x[-1]), *((array(out),) if biased else ())))
            for x, out, biased in [
                ((2, 3), 4, True),
                ((2, 3), 4, False),
                ((3,), 2, True),
                ((2, 0, 3), 2, True),
                ((5, 33), 17, True),
            ]
        ],
    ),
    onnx="Gemm",
    doc="x[..., in] @ weight[out, in].T, plus bias[out] where it is given.",
    traits=["autocast_low"],
)


def _conv_nd(x: Any, weight: Any, bias: Any = None, *, strides: Any, padding: Any, dilation: Any, groups: int) -> Any:
    unit = (1,) * len(strides)
    product = conv(x, weight, strides=strides, padding=padding, lhs_dilation=unit, rhs_dilation=dilation, groups=groups)
    return product if bias is None else add(product, broadcast(bias, shape=product.shape, axes=(1,)))


def _conv_nd_attributes(
    stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1, spatial: int = 2
) -> dict[str, Any]:
    plain = {"strides": (stride,) * spatial, "padding": ((pad, pad),) * spatial}
    return plain | {"dilation": (dilation,) * spatial, "groups": groups}


conv_nd: Op = composite(
    "conv_nd",
    _conv_nd,
    formerly=("conv2d",),
    samples=samples_for(
        "conv_nd",
        rules.FLOATS,
        lambda array: [
            Sample((array(*x), array(*w), *((array(w[0]),) if biased else ())), attrs)
            for x, w, biased, attrs in [
                ((2, 3, 5, 5), (4, 3, 3, 3), True, _conv_nd_attributes(pad=1)),
                ((1, 2, 4, 6), (2, 2, 2, 3), False, _conv_nd_attributes(stride=2)),
                ((1, 2, 5, 5), (4, 1, 2, 2), True, _conv_nd_attributes(dilation=2, groups=2)),
                ((2, 2, 6), (4, 1, 3), True, _conv_nd_attributes(stride=2, pad=1, groups=2, spatial=1)),
                ((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), True, _conv_nd_attributes(dilation=2, pad=1, spatial=3)),
            ]
        ],
    ),
    onnx="Conv",
    doc="conv of x[N, C, *S] with weight[O, C / groups, *K], plus bias[O] where it is given.",
    traits=["autocast_low"],
)


def _conv_transpose_nd(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    spans = [step * (extent - 1) for step, extent in zip(dilation, weight.shape[2:], strict=True)]
    low = [span - each for span, each in zip(spans, padding, strict=True)]
    around = tuple((first, first + more) for first, more in zip(low, output_padding, strict=True))
    settings = {"lhs_dilation": strides, "rhs_dilation": dilation, "groups": groups}
    spread = conv_back(x, weight, padding=around, **settings)
    return spread if bias is None else add(spread, broadcast(bias, shape=spread.shape, axes=(1,)))


def _conv_transpose_nd_vjp(
    ct: Any,
    out: Any,
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    strides: Any,
    padding: Any,
    output_padding: Any,
    **rest: Any,
) -> tuple[Any, ...]:
    """The op is what a convolution's gradient is, so its gradients are a convolution and that one's other gradient."""
    around = tuple((pad, pad - more) for pad, more in zip(padding, output_padding, strict=True))
    settings = {"strides": strides, "padding": around, "rhs_dilation": rest["dilation"], "groups": rest["groups"]}
    settings["lhs_dilation"] = (1,) * len(strides)
    gradients = conv(ct, weight, **settings), conv_weight_gradient(x, ct, weight, **settings)
    if bias is None:
        return gradients
    return *gradients, reduce_sum(ct, axes=(0, *range(2, len(ct.shape))))


def _conv_transpose_nd_open_shapes(
    x: tuple[int, ...], weight: tuple[int, ...], *bias: tuple[int, ...], groups: int, **attrs: Any
) -> tuple[OpenShape, ...]:
    """A name for each extent but those of windows, by which outputs are parted, and of channels that are cut."""
    channels: tuple[int | str, int | str] = weight[0], weight[1]
    if groups == 1:
        channels = rules.open_extent(weight[0], "c"), rules.open_extent(weight[1], "o")
    spatial = [rules.open_extent(extent, f"s{axis}") for axis, extent in enumerate(x[2:])]
    shapes = (rules.open_extent(x[0], "n"), channels[0], *spatial), (*channels, *weight[2:])
    return (*shapes, *((channels[1],) if groups == 1 else each for each in bias))


def _conv_transpose_attributes(
    stride: int = 1, pad: int = 0, more: int = 0, dilation: int = 1, groups: int = 1, spatial: int = 2
) -> dict[str, Any]:
    plain = {"strides": (stride,) * spatial, "padding": (pad,) * spatial, "output_padding": (more,) * spatial}
    return plain | {"dilation": (dilation,) * spatial, "groups": groups}


conv_transpose_nd: Op = composite(
    "conv_transpose_nd",
    _conv_transpose_nd,
    vjp=_conv_transpose_nd_vjp,
    open_shapes=_conv_transpose_nd_open_shapes,
    samples=samples_for(
        "conv_transpose_nd",
        rules.FLOATS,
        lambda array: [
            Sample((array(*x), array(*w), *((array(w[1] * attrs["groups"]),) if biased else ())), attrs)
            for x, w, biased, attrs in [
                ((2, 3, 3, 2), (3, 2, 4, 4), True, _conv_transpose_attributes(stride=2, pad=1)),
                ((1, 2, 3, 3), (2, 2, 3, 3), False, _conv_transpose_attributes(stride=2, pad=1, more=1)),
                ((2, 4, 4), (4, 1, 2), True, _conv_transpose_attributes(stride=3, groups=2, spatial=1)),
                ((1, 2, 4), (2, 3, 2), True, _conv_transpose_attributes(stride=2, dilation=2, spatial=1)),
                ((1, 2, 2, 2, 2), (2, 1, 3, 2, 2), True, _conv_transpose_attributes(stride=2, spatial=3)),
            ]
        ],
    ),
    onnx="ConvTranspose",
    doc="The adjoint of conv_nd: x[N, C, *S] with weight[C, O / groups, *K], plus bias[O] where it is given.",
    traits=["autocast_low"],
)
embedding: Op = composite(
    "embedding",
    lambda weight, indices: gather(weight, indices, axis=0, negative=False),
    samples=samples_for(
        "embedding",
        rules.FLOATS,
        lambda array: [
            Sample((array(5, 3), np.array(indices, np.int64)))
            for indices in ([0, 4, 4], [[1, 2], [3, 0]], 2, np.zeros((0,)))
        ],
    ),
    onnx="Gather",
    doc="Rows of weight[V, D] at int64 indices of any shape, from 0 to V - 1.",
)
