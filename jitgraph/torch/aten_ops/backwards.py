"""Operators that PyTorch's derivatives are made of: each is the derivative of jitgraph's own function."""

from __future__ import annotations

from jitgraph.nn import functional
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import layers, operands


def convolution_backward(
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    def forward(x, w):
        return layers.convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups)

    by_input, by_weight = operands.pulled_back(forward, (input, weight), grad_output)
    by_bias = fn.sum(grad_output, (0, *range(2, grad_output.ndim))) if output_mask[2] else None
    return by_input if output_mask[0] else None, by_weight if output_mask[1] else None, by_bias


def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    shape = tuple(normalized_shape)
    scale = fn.ones(shape, dtype=input.dtype) if weight is None else weight
    standard = fn.multiply(fn.subtract(input, mean), rstd)
    axes = tuple(range(input.ndim - len(shape)))
    inner = tuple(range(input.ndim - len(shape), input.ndim))
    scaled = fn.multiply(grad_out, scale)
    by_input = fn.multiply(
        rstd,
        fn.subtract(
            fn.subtract(scaled, fn.mean(scaled, inner, keepdims=True)),
            fn.multiply(standard, fn.mean(fn.multiply(scaled, standard), inner, keepdims=True)),
        ),
    )
    by_weight = fn.sum(fn.multiply(grad_out, standard), axes)
    by_bias = fn.sum(grad_out, axes)
    given = (True, weight is not None, bias is not None)
    results = (by_input, by_weight, by_bias)
    return tuple(
        result if wanted and there else None for result, wanted, there in zip(results, output_mask, given, strict=True)
    )


def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    scale = fn.ones((C,), dtype=input.dtype) if weight is None else weight
    eps = fn.subtract(fn.reciprocal(fn.square(rstd)), fn.var(fn.reshape(input, (N, group, -1)), 2))

    def forward(x, w):
        rows = fn.reshape(x, (N, group, -1))
        center = fn.subtract(rows, fn.mean(rows, 2, keepdims=True))
        spread = fn.rsqrt(fn.add(fn.var(rows, 2, keepdims=True), fn.expand_dims(eps, 2)))
        standard = fn.reshape(fn.multiply(center, spread), input.shape)
        return fn.multiply(standard, fn.reshape(w, (C,) + (1,) * (input.ndim - 2)))

    by_input, by_weight = operands.pulled_back(forward, (input, scale), grad_out)
    by_bias = fn.sum(grad_out, (0, *range(2, input.ndim)))
    return (
        by_input if output_mask[0] else None,
        by_weight if output_mask[1] else None,
        by_bias if output_mask[2] else None,
    )


def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    table = fn.zeros((num_weights, grad_output.shape[-1]), dtype=grad_output.dtype)

    def forward(weight):
        rows = None if padding_idx == -1 else padding_idx
        return functional.embedding(indices, weight, rows, None, 2.0, scale_grad_by_freq)

    return operands.pulled_back(forward, (table,), grad_output)[0]


def max_pool2d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    def forward(x):
        return layers.max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode)

    return operands.pulled_back(forward, (self,), grad_output)[0]


def max_pool3d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    def forward(x):
        return layers.max_pool3d(x, kernel_size, stride, padding, dilation, ceil_mode)

    return operands.pulled_back(forward, (self,), grad_output)[0]


def avg_pool2d_backward(
    grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    def forward(x):
        return layers.avg_pool2d(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    return operands.pulled_back(forward, (self,), grad_output)[0]


def avg_pool3d_backward(
    grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    def forward(x):
        return layers.avg_pool3d(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    return operands.pulled_back(forward, (self,), grad_output)[0]


def _adaptive_avg_pool2d_backward(grad_output, self):
    def forward(x):
        return layers.adaptive_avg_pool2d(x, grad_output.shape[-2:])

    return operands.pulled_back(forward, (self,), grad_output)[0]


def _adaptive_avg_pool3d_backward(grad_output, self):
    def forward(x):
        return layers.adaptive_avg_pool3d(x, grad_output.shape[-3:])

    return operands.pulled_back(forward, (self,), grad_output)[0]


def upsample_nearest2d_backward(grad_output, output_size, input_size, scales_h=None, scales_w=None):
    def forward(x):
        return layers.upsample_nearest2d(x, output_size, scales_h, scales_w)

    zeros = fn.zeros(tuple(input_size), dtype=grad_output.dtype)
    return operands.pulled_back(forward, (zeros,), grad_output)[0]


def upsample_bilinear2d_backward(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    def forward(x):
        return layers.upsample_bilinear2d(x, output_size, align_corners, scales_h, scales_w)

    zeros = fn.zeros(tuple(input_size), dtype=grad_output.dtype)
    return operands.pulled_back(forward, (zeros,), grad_output)[0]


def upsample_bicubic2d_backward(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    def forward(x):
        return layers.upsample_bicubic2d(x, output_size, align_corners, scales_h, scales_w)

    zeros = fn.zeros(tuple(input_size), dtype=grad_output.dtype)
    return operands.pulled_back(forward, (zeros,), grad_output)[0]


def grid_sampler_2d_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    def forward(x, positions):
        return layers.grid_sampler(x, positions, interpolation_mode, padding_mode, align_corners)

    by_input, by_grid = operands.pulled_back(forward, (input, grid), grad_output)
    return by_input if output_mask[0] else None, by_grid if output_mask[1] else None


def reflection_pad2d_backward(grad_output, self, padding):
    def forward(x):
        return functional.pad(x, tuple(padding), "reflect")

    return operands.pulled_back(forward, (self,), grad_output)[0]


reflection_pad1d_backward = reflection_pad2d_backward
reflection_pad3d_backward = reflection_pad2d_backward


def replication_pad2d_backward(grad_output, self, padding):
    def forward(x):
        return functional.pad(x, tuple(padding), "replicate")

    return operands.pulled_back(forward, (self,), grad_output)[0]


replication_pad1d_backward = replication_pad2d_backward
replication_pad3d_backward = replication_pad2d_backward


def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    def forward(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, scale)

    return operands.pulled_back(forward, (query, key, value), grad_out)


def _cdist_backward(grad, x1, x2, p, cdist):
    def forward(x):
        return fn.cdist(x, x2, p)

    return operands.pulled_back(forward, (x1,), grad)[0]


def _pdist_backward(grad, self, p, pdist):
    def forward(x):
        return fn.pdist(x, p)

    return operands.pulled_back(forward, (self,), grad)[0]
