"""The op table: every primitive and composite by its name, ``ops.add``, each in the module of its family.

A family is loaded when one of its ops is first used, as most programs need few; ``OPS`` loads them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jitgraph.errors import GraphError
from jitgraph.ir import table
from jitgraph.ir.op import Op
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.ops.op_names import *  # noqa: F403  (what ``__getattr__`` finds, for type checkers)

_NAMES_OF: Final[dict[str, str]] = {  # family -> what its module gives to those above, in the order of reading
    "creation": "constant full full_like iota zeros_like",
    "comparison": "SWAPPED eq ge gt le lt ne select",
    "arithmetic": "abs add div floor_divide maximum minimum mul neg remainder sign sub",
    "bits": "bitwise_and bitwise_not bitwise_or bitwise_xor shift_left shift_right",
    "conversion": "bitcast cast optimization_barrier stop_gradient",
    "transcendental": (
        "acos acosh asin asinh atan atan2 atanh ceil cos cosh erf erfc erfinv exp exp2 expm1 floor gaussian "
        "hypot log log1p ndtr pow rint rsqrt sin sinh sqrt tan tanh trunc"
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
    "bessel_second_kind": "j0 j1 k0 k0e k1 k1e y0 y1",
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
    "layers": "conv_nd conv_transpose_nd embedding linear",
    "pooling": "avg_pool2d max_pool2d",
    "distributions": "dropout normal uniform",
    "complex_parts": "complex_ imag real",
    "complex_arithmetic": (
        "complex_abs complex_angle complex_conj complex_div complex_dot complex_eq complex_isfinite "
        "complex_isinf complex_isnan complex_mul complex_ne complex_reciprocal complex_sign complex_square"
    ),
    "complex_functions": (
        "complex_acos complex_acosh complex_asin complex_asinh complex_atan complex_atanh complex_cos "
        "complex_cosh complex_exp complex_expm1 complex_log complex_log10 complex_log1p complex_log2 complex_pow "
        "complex_sin complex_sinh complex_sqrt complex_tan complex_tanh"
    ),
    "fourier": "fft irfft rfft",
    "draws": "exponential gamma_candidate gumbel poisson_candidate",
    "determinants": "cofactors cofactors_gradient det slogdet",
    "linear_systems": "inv pinv solve",
    "decompositions": "cholesky eigh qr svd",
    "spectral_functions": "eigenvalue_gradient eigenvalues singular_value_gradient singular_values",
    "triangular": "lu_factor order_of_pivots solve_triangular",
    "least_squares": "lstsq",
    "general_eigenvalues": "eig eig_of_real",
    "matrix_exponential": "matrix_exp",
}
_FAMILY_OF: Final = {name: family for family, names in _NAMES_OF.items() for name in names.split()}


def _op_named(name: str) -> Op | None:
    for known in (name, f"{name}_"):  # those whose names mean something else in Python end in _
        if known in _FAMILY_OF:
            op = _named(known)
            return op if isinstance(op, Op) else None
    return None


def _every_op() -> dict[str, Op]:
    """The ops of all families by their names; GraphError for a name that two different ops share."""
    by_name: dict[str, Op] = {}
    for family in _NAMES_OF:
        for op in vars(imports.module(f"{__name__}.{family}")).values():
            if isinstance(op, Op) and by_name.setdefault(op.name, op) is not op:
                raise GraphError(f"two ops are named {op.name!r}")
    return by_name


_named = imports.attributes(__name__, _FAMILY_OF)


def _resolve(name: str) -> Any:
    if name != "OPS":
        return _named(name)
    globals()[name] = ops = _every_op()
    return ops


table.register(_op_named, _every_op)

if TYPE_CHECKING:
    OPS: Final[dict[str, Op]] = _every_op()
else:  # type checkers shall miss what is not there
    __getattr__ = _resolve
