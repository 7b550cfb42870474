"""Operators of neural networks: convolutions, pooling, normalisation, activations, attention, recurrent layers."""

from __future__ import annotations

from jitgraph import dtypes
from jitgraph.nn import functional
from jitgraph.nn.functional import recurrent
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import layer_forms, operands

# ----------------------------------------------------------------------
# Convolutions.


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    step, pad, spread = layer_forms.window(stride), layer_forms.window(padding), layer_forms.window(dilation)
    return functional.conv1d(input, weight, bias, step, pad, spread, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    step, pad, spread = layer_forms.window(stride), layer_forms.window(padding), layer_forms.window(dilation)
    return functional.conv2d(input, weight, bias, step, pad, spread, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    step, pad, spread = layer_forms.window(stride), layer_forms.window(padding), layer_forms.window(dilation)
    return functional.conv3d(input, weight, bias, step, pad, spread, groups)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    step, pad, more = layer_forms.window(stride), layer_forms.window(padding), layer_forms.window(output_padding)
    return functional.conv_transpose1d(input, weight, bias, step, pad, more, groups, layer_forms.window(dilation))


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    step, pad, more = layer_forms.window(stride), layer_forms.window(padding), layer_forms.window(output_padding)
    return functional.conv_transpose2d(input, weight, bias, step, pad, more, groups, layer_forms.window(dilation))


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    step, pad, more = layer_forms.window(stride), layer_forms.window(padding), layer_forms.window(output_padding)
    return functional.conv_transpose3d(input, weight, bias, step, pad, more, groups, layer_forms.window(dilation))


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    spatial = weight.ndim - 2
    stride, padding, dilation, output_padding = (
        layer_forms.window(sizes) for sizes in (stride, padding, dilation, output_padding)
    )
    if transposed:
        apply = (conv_transpose1d, conv_transpose2d, conv_transpose3d)[spatial - 1]
        return apply(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return (conv1d, conv2d, conv3d)[spatial - 1](input, weight, bias, stride, padding, dilation, groups)


def _convolution(
    input,
    weight,
    bias,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    benchmark,
    deterministic,
    cudnn_enabled,
    allow_tf32=True,
):
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _conv_depthwise2d(self, weight, kernel_size, bias, stride, padding, dilation):
    return conv2d(self, weight, bias, stride, padding, dilation, self.shape[1])


def conv_depthwise3d(self, weight, kernel_size, bias, stride, padding, dilation):
    return conv3d(self, weight, bias, stride, padding, dilation, self.shape[1])


def thnn_conv2d(self, weight, kernel_size, bias=None, stride=1, padding=0):
    return conv2d(self, weight, bias, stride, padding)


def slow_conv3d(self, weight, kernel_size, bias=None, stride=1, padding=0):
    return conv3d(self, weight, bias, stride, padding)


def slow_conv_dilated2d(self, weight, kernel_size, bias=None, stride=1, padding=0, dilation=1):
    return conv2d(self, weight, bias, stride, padding, dilation)


def slow_conv_dilated3d(self, weight, kernel_size, bias=None, stride=1, padding=0, dilation=1):
    return conv3d(self, weight, bias, stride, padding, dilation)


def conv_tbc(self, weight, bias, pad=0):
    return functional.conv_tbc(self, weight, bias, pad)


# ----------------------------------------------------------------------
# Pooling, resampling.


def max_pool1d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return functional.max_pool1d(self, *layer_forms.windows(kernel_size, stride, padding, dilation), ceil_mode)


def max_pool2d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return functional.max_pool2d(self, *layer_forms.windows(kernel_size, stride, padding, dilation), ceil_mode)


def max_pool3d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return functional.max_pool3d(self, *layer_forms.windows(kernel_size, stride, padding, dilation), ceil_mode)


def max_pool1d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return functional.max_pool1d(self, *layer_forms.windows(kernel_size, stride, padding, dilation), ceil_mode, True)


def max_pool2d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return functional.max_pool2d(self, *layer_forms.windows(kernel_size, stride, padding, dilation), ceil_mode, True)


def max_pool3d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    return functional.max_pool3d(self, *layer_forms.windows(kernel_size, stride, padding, dilation), ceil_mode, True)


def max_unpool2d(self, indices, output_size):
    return layer_forms.unpooled(self, indices, output_size)


def max_unpool3d(self, indices, output_size, stride, padding):
    return layer_forms.unpooled(self, indices, output_size)


def avg_pool1d(self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True):
    kernel, step, pad, _ = layer_forms.windows(kernel_size, stride, padding, 1)
    return functional.avg_pool1d(self, kernel, step, pad, ceil_mode, count_include_pad)


def avg_pool2d(self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    kernel, step, pad, _ = layer_forms.windows(kernel_size, stride, padding, 1)
    return functional.avg_pool2d(self, kernel, step, pad, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    kernel, step, pad, _ = layer_forms.windows(kernel_size, stride, padding, 1)
    return functional.avg_pool3d(self, kernel, step, pad, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool1d(self, output_size):
    return functional.adaptive_avg_pool1d(self, layer_forms.window(output_size))


def adaptive_avg_pool2d(self, output_size):
    return functional.adaptive_avg_pool2d(self, layer_forms.window(output_size))


def adaptive_avg_pool3d(self, output_size):
    return functional.adaptive_avg_pool3d(self, layer_forms.window(output_size))


_adaptive_avg_pool2d = adaptive_avg_pool2d
_adaptive_avg_pool3d = adaptive_avg_pool3d


def adaptive_max_pool1d(self, output_size):
    return functional.adaptive_max_pool1d(self, layer_forms.window(output_size), True)


def adaptive_max_pool2d(self, output_size):
    return functional.adaptive_max_pool2d(self, layer_forms.window(output_size), True)


def adaptive_max_pool3d(self, output_size):
    return functional.adaptive_max_pool3d(self, layer_forms.window(output_size), True)


def fractional_max_pool2d(self, kernel_size, output_size, random_samples):
    return functional.fractional_max_pool2d(self, tuple(kernel_size), tuple(output_size), None, True, random_samples)


def fractional_max_pool3d(self, kernel_size, output_size, random_samples):
    return functional.fractional_max_pool3d(self, tuple(kernel_size), tuple(output_size), None, True, random_samples)


def upsample_nearest1d(self, output_size, scales=None):
    return layer_forms.resized(self, output_size, (scales,), "nearest")


def upsample_nearest2d(self, output_size, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_h, scales_w), "nearest")


def upsample_nearest3d(self, output_size, scales_d=None, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_d, scales_h, scales_w), "nearest")


def _upsample_nearest_exact1d(self, output_size, scales=None):
    return layer_forms.resized(self, output_size, (scales,), "nearest-exact")


def _upsample_nearest_exact2d(self, output_size, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_h, scales_w), "nearest-exact")


def _upsample_nearest_exact3d(self, output_size, scales_d=None, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_d, scales_h, scales_w), "nearest-exact")


def upsample_linear1d(self, output_size, align_corners, scales=None):
    return layer_forms.resized(self, output_size, (scales,), "linear", align_corners)


def upsample_bilinear2d(self, output_size, align_corners, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_h, scales_w), "bilinear", align_corners)


def upsample_bicubic2d(self, output_size, align_corners, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_h, scales_w), "bicubic", align_corners)


def upsample_trilinear3d(self, output_size, align_corners, scales_d=None, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_d, scales_h, scales_w), "trilinear", align_corners)


def _upsample_bilinear2d_aa(self, output_size, align_corners, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_h, scales_w), "bilinear", align_corners, antialias=True)


def _upsample_bicubic2d_aa(self, output_size, align_corners, scales_h=None, scales_w=None):
    return layer_forms.resized(self, output_size, (scales_h, scales_w), "bicubic", align_corners, antialias=True)


def upsample_nearest1d_vec(input, output_size, scale_factors):
    return layer_forms.resized_by(input, output_size, scale_factors, "nearest")


upsample_nearest2d_vec = upsample_nearest1d_vec
upsample_nearest3d_vec = upsample_nearest1d_vec


def _upsample_nearest_exact1d_vec(input, output_size, scale_factors):
    return layer_forms.resized_by(input, output_size, scale_factors, "nearest-exact")


_upsample_nearest_exact2d_vec = _upsample_nearest_exact1d_vec
_upsample_nearest_exact3d_vec = _upsample_nearest_exact1d_vec


def upsample_linear1d_vec(input, output_size, align_corners, scale_factors):
    return layer_forms.resized_by(input, output_size, scale_factors, "linear", align_corners)


def upsample_bilinear2d_vec(input, output_size, align_corners, scale_factors):
    return layer_forms.resized_by(input, output_size, scale_factors, "bilinear", align_corners)


def upsample_bicubic2d_vec(input, output_size, align_corners, scale_factors):
    return layer_forms.resized_by(input, output_size, scale_factors, "bicubic", align_corners)


def upsample_trilinear3d_vec(input, output_size, align_corners, scale_factors):
    return layer_forms.resized_by(input, output_size, scale_factors, "trilinear", align_corners)


def _upsample_bilinear2d_aa_vec(input, output_size, align_corners, scale_factors):
    return layer_forms.resized_by(input, output_size, scale_factors, "bilinear", align_corners, antialias=True)


def _upsample_bicubic2d_aa_vec(input, output_size, align_corners, scale_factors):
    return layer_forms.resized_by(input, output_size, scale_factors, "bicubic", align_corners, antialias=True)


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    return functional.grid_sample(input, grid, mode, padding, align_corners)


grid_sampler_2d = grid_sampler
grid_sampler_3d = grid_sampler


def affine_grid_generator(theta, size, align_corners):
    return functional.affine_grid(theta, tuple(size), align_corners)


# ----------------------------------------------------------------------
# Normalisation. Running statistics are tensors whose handles are set anew, as PyTorch writes into them.


def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    if not training and running_mean is None:
        training = True
    return functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    mean, rstd = layer_forms.batch_statistics(input, training, eps)
    out = functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return out, mean, rstd


_native_batch_norm_legit = native_batch_norm


def _native_batch_norm_legit_no_stats(input, weight, bias, training, momentum, eps):
    return native_batch_norm(input, weight, bias, None, None, training, momentum, eps)


def _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    return native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


def _native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, training, momentum, eps):
    mean, var = fn.clone(running_mean), fn.clone(running_var)
    out, save_mean, save_rstd = native_batch_norm(input, weight, bias, mean, var, training, momentum, eps)
    return out, save_mean, save_rstd, mean, var


def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    reserve = fn.zeros((0,), dtype=dtypes.uint8)
    return (*native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps), reserve)


def _batch_norm_with_update_functional(input, weight, bias, running_mean, running_var, momentum, eps):
    out, mean, rstd, new_mean, new_var = _native_batch_norm_legit_functional(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return out, mean, rstd, fn.zeros((0,), dtype=dtypes.uint8), new_mean, new_var


def _batch_norm_no_update(input, weight, bias, running_mean, running_var, momentum, eps):
    reserve = fn.zeros((0,), dtype=dtypes.uint8)
    return (*native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps), reserve)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    return functional.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True):
    return functional.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    mean, rstd = layer_forms.statistics(input, axes, eps)
    return functional.layer_norm(input, tuple(normalized_shape), weight, bias, eps), mean, rstd


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True):
    return functional.group_norm(input, num_groups, weight, bias, eps)


def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    mean, rstd = layer_forms.statistics(fn.reshape(input, (N, group, C // group * HxW)), (2,), eps)
    out = functional.group_norm(input, group, weight, bias, eps)
    return out, fn.squeeze(mean, 2), fn.squeeze(rstd, 2)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    return functional.rms_norm(input, tuple(normalized_shape), weight, eps)


def _fused_rms_norm(input, normalized_shape, weight, eps):
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    small = layer_forms.epsilon(input) if eps is None else eps
    rstd = fn.rsqrt(fn.add(fn.mean(fn.square(input), axes, keepdims=True), small))
    return functional.rms_norm(input, tuple(normalized_shape), weight, eps), rstd


def renorm(self, p, dim, maxnorm):
    return fn.renorm(self, p, dim, maxnorm)


def cosine_similarity(x1, x2, dim=1, eps=1e-08):
    return functional.cosine_similarity(x1, x2, dim, eps)


def pairwise_distance(x1, x2, p=2, eps=1e-06, keepdim=False):
    return functional.pairwise_distance(x1, x2, p, eps, keepdim)


# ----------------------------------------------------------------------
# Activations.

hardsigmoid = operands.unary(functional.hardsigmoid)
hardswish = operands.unary(functional.hardswish)
log_sigmoid = operands.unary(functional.logsigmoid)
mish = operands.unary(functional.mish)
relu = operands.unary(functional.relu)
selu = operands.unary(functional.selu)
sigmoid = operands.unary_float(functional.sigmoid)
special_expit = sigmoid
silu = operands.unary(functional.silu)


def relu6(self):
    return hardtanh(self, 0, 6)


def gelu(self, *, approximate="none"):
    return functional.gelu(self, approximate)


def elu(self, alpha=1, scale=1, input_scale=1):
    negative = fn.multiply(fn.expm1(fn.minimum(operands.scaled(self, input_scale), 0.0)), alpha)
    if input_scale == 1 and scale == 1:
        return functional.elu(self, alpha)
    return operands.scaled(fn.where(fn.greater(self, 0), self, negative), scale)


def celu(self, alpha=1.0):
    return functional.celu(self, alpha)


def leaky_relu(self, negative_slope=0.01):
    return functional.leaky_relu(self, negative_slope)


def prelu(self, weight):
    return functional.prelu(self, weight)


def _prelu_kernel(self, weight):
    return fn.where(fn.greater(self, 0), self, fn.multiply(self, weight))


def hardtanh(self, min_val=-1, max_val=1):
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return operands.cast(functional.hardtanh(self, min_val, max_val), self.dtype)


def hardshrink(self, lambd=0.5):
    return functional.hardshrink(self, lambd)


def softshrink(self, lambd=0.5):
    return functional.softshrink(self, lambd)


def softplus(self, beta=1, threshold=20):
    return functional.softplus(self, beta, threshold)


def log_sigmoid_forward(self):
    return functional.logsigmoid(self), fn.exp(fn.negative(fn.abs(self)))


# ----------------------------------------------------------------------
# Attention.


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )


def _scaled_dot_product_flash_attention_for_cpu(
    query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None
):
    out = functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return out, fn.logsumexp(layer_forms.attention_scores(query, key, attn_mask, is_causal, scale), -1)


def _scaled_dot_product_attention_math(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    dropout_mask=None,
    *,
    scale=None,
    enable_gqa=False,
):
    weights = fn.softmax(layer_forms.attention_scores(query, key, attn_mask, is_causal, scale), -1)
    out = functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return out, weights


# ----------------------------------------------------------------------
# Recurrent layers.


def lstm_input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return layer_forms.recurrent_layers(
        recurrent.lstm_step, input, hx, params, has_biases, dropout, train, bidirectional, batch_first
    )


def gru_input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return layer_forms.recurrent_layers(
        recurrent.gru_step, input, (hx,), params, has_biases, dropout, train, bidirectional, batch_first
    )


def rnn_tanh_input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return layer_forms.recurrent_layers(
        recurrent.rnn_tanh_step, input, (hx,), params, has_biases, dropout, train, bidirectional, batch_first
    )


def rnn_relu_input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return layer_forms.recurrent_layers(
        recurrent.rnn_relu_step, input, (hx,), params, has_biases, dropout, train, bidirectional, batch_first
    )


def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return recurrent.lstm_step(functional.linear(input, w_ih, b_ih), tuple(hx), (w_hh, b_hh))


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return recurrent.gru_step(functional.linear(input, w_ih, b_ih), (hx,), (w_hh, b_hh))[0]


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return recurrent.rnn_tanh_step(functional.linear(input, w_ih, b_ih), (hx,), (w_hh, b_hh))[0]


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return recurrent.rnn_relu_step(functional.linear(input, w_ih, b_ih), (hx,), (w_hh, b_hh))[0]
