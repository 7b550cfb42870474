"""The op table: every primitive and composite by its name, ``ops.add``, each in the module of its family.

A family is loaded when one of its ops is first used, as most programs need few; ``OPS`` loads them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jitgraph.errors import GraphError
from jitgraph.ir import table
from jitgraph.ir.op import Op
from jitgraph.ops.families import NAMES_OF
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.ops.activation import (
        elu,
        gelu,
        leaky_relu,
        log2,
        log10,
        log_sigmoid,
        logaddexp,
        reciprocal,
        relu,
        sigmoid,
        silu,
        softplus,
        square,
    )
    from jitgraph.ops.arithmetic import abs, add, div, floor_divide, maximum, minimum, mul, neg, remainder, sign, sub
    from jitgraph.ops.bessel_functions import i0, i0e, i1, i1e
    from jitgraph.ops.bits import bitwise_and, bitwise_not, bitwise_or, bitwise_xor, shift_left, shift_right
    from jitgraph.ops.broadcasting import broadcast, reduce_sum, sum_to
    from jitgraph.ops.combining_scatters import scatter_extreme, scatter_product
    from jitgraph.ops.comparison import SWAPPED, eq, ge, gt, le, lt, ne, select
    from jitgraph.ops.complex_arithmetic import (
        complex_abs,
        complex_angle,
        complex_conj,
        complex_div,
        complex_dot,
        complex_eq,
        complex_isfinite,
        complex_isinf,
        complex_isnan,
        complex_mul,
        complex_ne,
        complex_reciprocal,
        complex_sign,
        complex_square,
    )
    from jitgraph.ops.complex_functions import (
        complex_acos,
        complex_acosh,
        complex_asin,
        complex_asinh,
        complex_atan,
        complex_atanh,
        complex_cos,
        complex_cosh,
        complex_exp,
        complex_log,
        complex_pow,
        complex_sin,
        complex_sinh,
        complex_sqrt,
        complex_tan,
        complex_tanh,
    )
    from jitgraph.ops.complex_logarithms import complex_expm1, complex_log1p, complex_log2, complex_log10
    from jitgraph.ops.complex_parts import complex_, imag, real
    from jitgraph.ops.contraction import dot
    from jitgraph.ops.control import call, cond, fused, grad, scan, while_
    from jitgraph.ops.conversion import bitcast, cast, optimization_barrier, stop_gradient
    from jitgraph.ops.convolution import conv
    from jitgraph.ops.creation import constant, full, full_like, iota, zeros_like
    from jitgraph.ops.cumulative import cummax, cummin, cumprod, cumsum
    from jitgraph.ops.custom_rules import custom_gradient, recompute
    from jitgraph.ops.decompositions import cholesky, eigh, qr, svd
    from jitgraph.ops.distributions import dropout, normal, uniform
    from jitgraph.ops.dot_product_attention import attention, attention_gradient
    from jitgraph.ops.draws import exponential, gamma_candidate, gumbel, poisson_candidate
    from jitgraph.ops.effects import check, print_, stack_new, stack_pop, stack_push, token
    from jitgraph.ops.fourier import fft, irfft, rfft
    from jitgraph.ops.gamma_functions import digamma, lgamma, polygamma
    from jitgraph.ops.gathering import dynamic_slice, dynamic_update_slice, gather, scatter, scatter_add
    from jitgraph.ops.general_eigenvalues import eig, eig_of_real
    from jitgraph.ops.layers import conv_nd, embedding, linear
    from jitgraph.ops.least_squares import lstsq
    from jitgraph.ops.linear_systems import cofactors, det, inv, pinv, slogdet, solve
    from jitgraph.ops.loss import cross_entropy, l1_loss, mse_loss, nll_loss
    from jitgraph.ops.matrix_exponential import matrix_exp
    from jitgraph.ops.movement import flip, reshape, transpose
    from jitgraph.ops.normalization import batch_norm, batch_norm_train, layer_norm
    from jitgraph.ops.optimisers import adam_step
    from jitgraph.ops.philox import random_bits
    from jitgraph.ops.pooling import avg_pool2d, max_pool2d
    from jitgraph.ops.predicates import clamp, isfinite, isinf, isnan, logical_and, logical_not, logical_or, logical_xor
    from jitgraph.ops.reduction import argmax, argmin, reduce_max, reduce_min, reduce_prod
    from jitgraph.ops.sorting import sort
    from jitgraph.ops.statistics import log_softmax, logsumexp, masked_softmax, mean, softmax, std, var
    from jitgraph.ops.transcendental import (
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        ceil,
        cos,
        cosh,
        erf,
        erfc,
        erfinv,
        exp,
        exp2,
        expm1,
        floor,
        hypot,
        log,
        log1p,
        pow,
        rint,
        rsqrt,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
        trunc,
    )
    from jitgraph.ops.triangular import lu_factor, order_of_pivots, solve_triangular
    from jitgraph.ops.windows import concat, pad, slice

_FAMILY_OF: Final = {name: family for family, names in NAMES_OF.items() for name in names.split()}


def _op_named(name: str) -> Op | None:
    for known in (name, f"{name}_"):  # those whose names mean something else in Python end in _
        if known in _FAMILY_OF:
            found = _named(known)
            return found if isinstance(found, Op) else None
    return None


def _every_op() -> dict[str, Op]:
    """The ops of all families by their names; GraphError for a name that two different ops share."""
    found: dict[str, Op] = {}
    for family in NAMES_OF:
        for op in vars(imports.module(f"{__name__}.{family}")).values():
            if isinstance(op, Op) and found.setdefault(op.name, op) is not op:
                raise GraphError(f"two ops are named {op.name!r}")
    return found


_named = imports.attributes(__name__, _FAMILY_OF)


def _found(name: str) -> Any:
    if name != "OPS":
        return _named(name)
    globals()[name] = found = _every_op()
    return found


table.register(_op_named, _every_op)

if TYPE_CHECKING:
    OPS: Final[dict[str, Op]] = _every_op()
else:  # type checkers shall miss what is not there
    __getattr__ = _found

__all__ = [
    "OPS",
    "SWAPPED",
    "abs",
    "acos",
    "acosh",
    "adam_step",
    "add",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "attention",
    "attention_gradient",
    "avg_pool2d",
    "batch_norm",
    "batch_norm_train",
    "bitcast",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast",
    "call",
    "cast",
    "ceil",
    "check",
    "cholesky",
    "clamp",
    "cofactors",
    "complex_",
    "complex_abs",
    "complex_acos",
    "complex_acosh",
    "complex_angle",
    "complex_asin",
    "complex_asinh",
    "complex_atan",
    "complex_atanh",
    "complex_conj",
    "complex_cos",
    "complex_cosh",
    "complex_div",
    "complex_dot",
    "complex_eq",
    "complex_exp",
    "complex_expm1",
    "complex_isfinite",
    "complex_isinf",
    "complex_isnan",
    "complex_log",
    "complex_log1p",
    "complex_log2",
    "complex_log10",
    "complex_mul",
    "complex_ne",
    "complex_pow",
    "complex_reciprocal",
    "complex_sign",
    "complex_sin",
    "complex_sinh",
    "complex_sqrt",
    "complex_square",
    "complex_tan",
    "complex_tanh",
    "concat",
    "cond",
    "constant",
    "conv",
    "conv_nd",
    "cos",
    "cosh",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "custom_gradient",
    "det",
    "digamma",
    "div",
    "dot",
    "dropout",
    "dynamic_slice",
    "dynamic_update_slice",
    "eig",
    "eig_of_real",
    "eigh",
    "elu",
    "embedding",
    "eq",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "exponential",
    "fft",
    "flip",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "fused",
    "gamma_candidate",
    "gather",
    "ge",
    "gelu",
    "grad",
    "gt",
    "gumbel",
    "hypot",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "imag",
    "inv",
    "iota",
    "irfft",
    "isfinite",
    "isinf",
    "isnan",
    "l1_loss",
    "layer_norm",
    "le",
    "leaky_relu",
    "lgamma",
    "linear",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "lstsq",
    "lt",
    "lu_factor",
    "masked_softmax",
    "matrix_exp",
    "max_pool2d",
    "maximum",
    "mean",
    "minimum",
    "mse_loss",
    "mul",
    "ne",
    "neg",
    "nll_loss",
    "normal",
    "optimization_barrier",
    "order_of_pivots",
    "pad",
    "pinv",
    "poisson_candidate",
    "polygamma",
    "pow",
    "print_",
    "qr",
    "random_bits",
    "real",
    "reciprocal",
    "recompute",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "relu",
    "remainder",
    "reshape",
    "rfft",
    "rint",
    "rsqrt",
    "scan",
    "scatter",
    "scatter_add",
    "scatter_extreme",
    "scatter_product",
    "select",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "slice",
    "slogdet",
    "softmax",
    "softplus",
    "solve",
    "solve_triangular",
    "sort",
    "sqrt",
    "square",
    "stack_new",
    "stack_pop",
    "stack_push",
    "std",
    "stop_gradient",
    "sub",
    "sum_to",
    "svd",
    "tan",
    "tanh",
    "token",
    "transpose",
    "trunc",
    "uniform",
    "var",
    "while_",
    "zeros_like",
]
