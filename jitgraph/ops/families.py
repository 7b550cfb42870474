"""Which module of this folder holds which ops, for those above, who load a family when they first ask for one of it."""

from __future__ import annotations

from typing import Final

NAMES_OF: Final[dict[str, str]] = {  # family -> what its module gives to those above, in the order of reading
    "creation": "constant full full_like iota zeros_like",
    "comparison": "SWAPPED eq ge gt le lt ne select",
    "arithmetic": "abs add div floor_divide maximum minimum mul neg remainder sign sub",
    "bits": "bitwise_and bitwise_not bitwise_or bitwise_xor shift_left shift_right",
    "conversion": "bitcast cast optimization_barrier stop_gradient",
    "transcendental": (
        "acos acosh asin asinh atan atan2 atanh ceil cos cosh erf erfc erfinv exp exp2 expm1 floor hypot log "
        "log1p pow rint rsqrt sin sinh sqrt tan tanh trunc"
    ),
    "gamma_functions": "digamma lgamma polygamma",
    "movement": "flip reshape transpose",
    "broadcasting": "broadcast reduce_sum sum_to",
    "windows": "concat pad slice",
    "reduction": "argmax argmin reduce_max reduce_min reduce_prod",
    "contraction": "dot",
    "convolution": "conv",
    "gathering": "dynamic_slice dynamic_update_slice gather scatter scatter_add",
    "cumulative": "cummax cummin cumprod cumsum",
    "sorting": "sort",
    "philox": "random_bits",
    "bessel_functions": "i0 i0e i1 i1e",
    "combining_scatters": "scatter_extreme scatter_product",
    "control": "call cond fused grad scan while_",
    "custom_rules": "custom_gradient recompute",
    "effects": "check print_ stack_new stack_pop stack_push token",
    "predicates": "clamp isfinite isinf isnan logical_and logical_not logical_or logical_xor",
    "activation": ("elu gelu leaky_relu log2 log10 log_sigmoid logaddexp reciprocal relu sigmoid silu softplus square"),
    "statistics": "log_softmax logsumexp masked_softmax mean softmax std var",
    "dot_product_attention": "attention attention_gradient",
    "normalization": "batch_norm batch_norm_train layer_norm",
    "optimisers": "adam_step",
    "loss": "cross_entropy l1_loss mse_loss nll_loss",
    "layers": "conv_nd embedding linear",
    "pooling": "avg_pool2d max_pool2d",
    "distributions": "dropout normal uniform",
    "complex_parts": "complex_ imag real",
    "complex_arithmetic": (
        "complex_abs complex_angle complex_conj complex_div complex_dot complex_eq complex_isfinite "
        "complex_isinf complex_isnan complex_mul complex_ne complex_reciprocal complex_sign complex_square"
    ),
    "complex_logarithms": "complex_expm1 complex_log10 complex_log1p complex_log2",
    "complex_functions": (
        "complex_acos complex_acosh complex_asin complex_asinh complex_atan complex_atanh complex_cos "
        "complex_cosh complex_exp complex_log complex_pow complex_sin complex_sinh complex_sqrt complex_tan "
        "complex_tanh"
    ),
    "fourier": "fft irfft rfft",
    "draws": "exponential gamma_candidate gumbel poisson_candidate",
    "linear_systems": "cofactors det inv pinv slogdet solve",
    "decompositions": "cholesky eigh qr svd",
    "triangular": "lu_factor order_of_pivots solve_triangular",
    "least_squares": "lstsq",
    "general_eigenvalues": "eig eig_of_real",
    "matrix_exponential": "matrix_exp",
}
