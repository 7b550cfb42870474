"""Public names of PyTorch, NumPy and SciPy that are spelt otherwise here, or have no place, and what to write instead.

Read where an error about a missing name is made. ``migration_hints.py`` has the names that ask for a sentence of their
own; a test walks the public names of the three libraries, and finds each here, there, or in ``jg``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from jitgraph.foreign_special import of_scipy

_ELSEWHERE: Final[Mapping[str, str]] = {  # module -> its functions that others have beside the array functions
    "jg.nn.functional": (
        "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear "
        "binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d conv_transpose1d "
        "conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity ctc_loss dropout embedding "
        "embedding_bag feature_alpha_dropout group_norm hardshrink hinge_embedding_loss instance_norm layer_norm "
        "margin_ranking_loss max_pool1d max_pool2d max_pool3d pairwise_distance pixel_shuffle pixel_unshuffle "
        "poisson_nll_loss prelu rms_norm rrelu selu threshold triplet_margin_loss"
    ),
    "jg.special": (
        "bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u "
        "chebyshev_polynomial_v chebyshev_polynomial_w digamma entr erfc erfcx erfinv expit gammainc gammaincc "
        "gammaln hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e kl_div laguerre_polynomial_l "
        "legendre_polynomial_p lgamma log_ndtr logit modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
        "modified_bessel_k1 multigammaln ndtr ndtri polygamma psi scaled_modified_bessel_k0 "
        "scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
        "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sinc spherical_bessel_j0 xlog1py xlogy "
        "zeta"
    ),
    "jg.linalg": (
        "cholesky cholesky_inverse cholesky_solve cross det eig eigh eigvals eigvalsh householder_product inv "
        "lstsq lu lu_factor lu_solve matrix_exp matrix_norm matrix_power matrix_rank multi_dot pinv qr slogdet "
        "solve solve_triangular svd svdvals vander vector_norm"
    ),
    "jg.random": "cauchy exponential geometric get_state normal set_state uniform",
    "jg": (
        "addbmm addmm addmv addr apply_along_axis baddbmm bernoulli binomial chain_matmul dot einsum inner istft kron "
        "mm multinomial mv poisson stft vdot"
    ),
}
_RENAMED: Final[Mapping[str, str]] = {
    **{name: f"jg.a{name.removeprefix('arc')}" for name in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh")},
    "absolute": "jg.abs",
    "adjoint": "jg.conj(x.mT)",
    "affine_grid_generator": "jg.nn.functional.affine_grid",
    "amax": "jg.max",
    "amin": "jg.min",
    "arctan2": "jg.atan2",
    "arctanh": "jg.atanh",
    "argwhere": "jg.stack(jg.nonzero(x), axis=-1)",
    "around": "jg.round",
    "array_equiv": "jg.all(jg.equal(x, y))",
    "array_split": "jg.tensor_split",
    "asanyarray": "jg.asarray",
    "asarray_chkfinite": "jg.asarray, with jg.all(jg.isfinite(x)) before",
    "ascontiguousarray": "jg.asarray",
    "asfortranarray": "jg.asarray",
    "asmatrix": "jg.asarray",
    "base": "nothing; every tensor is a value of its own",
    "bitwise_not": "jg.bitwise_invert",
    "block": "jg.concat of jg.concat along two axes, or jg.block_diag",
    "bmat": "jg.concat of jg.concat along two axes",
    "broadcast": "jg.broadcast_shapes, jg.broadcast_arrays",
    "broadcast_tensors": "jg.broadcast_arrays",
    "clamp_max": "jg.clip(x, None, max)",
    "clamp_min": "jg.clip(x, min, None)",
    "common_type": "jg.result_type",
    "complexfloating": 'jg.isdtype(x.dtype, "complex floating")',
    "compress": "jg.take(x, jg.nonzero(mask)[0], axis), or x[mask]",
    "conj_physical": "jg.conj",
    "conjugate": "jg.conj",
    "constant_pad_nd": "jg.nn.functional.pad",
    "convolution": "jg.nn.functional.conv2d, or that of its rank",
    "copy": "jg.clone",
    "copyto": "y[...] = x",
    "degrees": "jg.rad2deg",
    "detach": "x.detach()",
    "diag_indices_from": "jg.diag_indices(x.shape[0])",
    "div": "jg.divide",
    "dump": "jg.save_checkpoint, or np.save of np.asarray(x)",
    "dumps": "np.asarray(x).dumps()",
    "ediff1d": "jg.diff(x.reshape(-1))",
    "embedding_renorm": "jg.renorm",
    "empty_permuted": "jg.empty",
    "empty_strided": "jg.empty",
    "eq": "jg.equal",
    "euler_gamma": "0.5772156649015329",
    "extract": "x[mask]",
    "feature_dropout": "jg.nn.functional.dropout2d",
    "fill": "jg.full_like(x, value)",
    "fill_diagonal": "jg.diagonal_scatter(x, jg.full(n, value))",
    "fix": "jg.trunc",
    "flatnonzero": "jg.nonzero(x.reshape(-1))[0]",
    "frobenius_norm": "jg.linalg.matrix_norm",
    "ge": "jg.greater_equal",
    "geqrf": "jg.linalg.qr",
    "ger": "jg.outer",
    "grid_sampler": "jg.nn.functional.grid_sample",
    "gru": "jg.nn.GRU",
    "gru_cell": "jg.nn.GRUCell",
    "gt": "jg.greater",
    "identity": "jg.eye",
    "igamma": "jg.special.gammainc",
    "igammac": "jg.special.gammaincc",
    "index": "x[i]",
    "index_exp": "slices, as in x[1:3, None]",
    "inverse": "jg.linalg.inv",
    "is_complex": 'jg.isdtype(x.dtype, "complex floating")',
    "is_floating_point": 'jg.isdtype(x.dtype, "real floating")',
    "is_nonzero": "bool(x)",
    "is_same_size": "x.shape == y.shape",
    "is_signed": "x.dtype.kind",
    "iscomplexobj": 'jg.isdtype(x.dtype, "complex floating")',
    "isrealobj": 'jg.isdtype(x.dtype, "complex floating")',
    "isscalar": "x.ndim == 0",
    "issubdtype": "jg.isdtype",
    "itruediv": "x /= y",
    "kaiser": "jg.kaiser_window(n, False, beta)",
    "bartlett": "jg.bartlett_window(n, False)",
    "blackman": "jg.blackman_window(n, False)",
    "hamming": "jg.hamming_window(n, False)",
    "hanning": "jg.hann_window(n, False)",
    "le": "jg.less_equal",
    "lobpcg": "jg.linalg.eigh",
    "logdet": "jg.linalg.slogdet(x).logabsdet",
    "lstm": "jg.nn.LSTM",
    "lstm_cell": "jg.nn.LSTMCell",
    "lt": "jg.less",
    "lu_unpack": "jg.linalg.lu",
    "mH": "jg.conj(x.mT)",
    "H": "jg.conj(x.mT)",
    "mask_indices": "jg.tril_indices, or jg.nonzero of a mask",
    "matrix": "jg.asarray",
    "matvec": "jg.matmul(x, y[..., None])[..., 0]",
    "vecmat": "jg.matmul(jg.conj(x)[..., None, :], y)[..., 0, :]",
    "max_pool1d_with_indices": "jg.nn.functional.max_pool1d with return_indices=True",
    "mgrid": "jg.meshgrid of jg.arange, indexing='ij', or jg.indices",
    "min_scalar_type": "jg.result_type",
    "mul": "jg.multiply",
    "mvlgamma": "jg.special.multigammaln",
    "ndim": "x.ndim",
    "ndimension": "x.ndim",
    "ne": "jg.not_equal",
    "neg": "jg.negative",
    "new": "jg.zeros",
    "new_empty": "jg.empty(shape, dtype=x.dtype, device=x.device)",
    "new_empty_strided": "jg.empty(shape, dtype=x.dtype, device=x.device)",
    "new_full": "jg.full(shape, value, dtype=x.dtype, device=x.device)",
    "new_ones": "jg.ones(shape, dtype=x.dtype, device=x.device)",
    "new_tensor": "jg.asarray(data, dtype=x.dtype, device=x.device)",
    "new_zeros": "jg.zeros(shape, dtype=x.dtype, device=x.device)",
    "nonzero_static": "jg.stack(jg.nonzero(x, size=n), axis=-1)",
    "norm_except_dim": "jg.linalg.vector_norm",
    "nuclear_norm": "jg.linalg.matrix_norm(x, ord='nuc')",
    "ogrid": "jg.indices(shape, sparse=True)",
    "orgqr": "jg.linalg.householder_product",
    "ormqr": "jg.linalg.householder_product(a, tau) @ x",
    "pca_lowrank": "jg.linalg.svd(x - jg.mean(x, axis=-2, keepdims=True), full_matrices=False)",
    "permute": "jg.permute_dims",
    "pinverse": "jg.linalg.pinv",
    "place": "x[mask] = v",
    "power": "jg.pow",
    "promote_types": "jg.result_type",
    "putmask": "x[mask] = v",
    "r_": "jg.concat, or jg.arange",
    "c_": "jg.column_stack",
    "s_": "slices, as in x[1:3, None]",
    "radians": "jg.deg2rad",
    "range": "jg.arange",
    "real_if_close": "jg.real(x)",
    "repeat_interleave": "jg.repeat",
    "reshape_as": "x.reshape(y.shape)",
    "resize_as": "jg.resize(x, y.shape)",
    "resolve_conj": "x; conjugates are computed at once",
    "resolve_neg": "x; negatives are computed at once",
    "rint": "jg.round",
    "rnn_relu": "jg.nn.RNN with nonlinearity='relu'",
    "rnn_tanh": "jg.nn.RNN",
    "rnn_relu_cell": "jg.nn.RNNCell with nonlinearity='relu'",
    "rnn_tanh_cell": "jg.nn.RNNCell",
    "row_stack": "jg.vstack",
    "rsub": "y - x",
    "scalar_tensor": "jg.asarray",
    "sgn": "jg.sign",
    "shape": "x.shape",
    "size": "x.size",
    "slice_inverse": "jg.slice_scatter",
    "sort_complex": "x[jg.lexsort([x])]",
    "spacing": "jg.nextafter(x, jg.inf) - x",
    "split_with_sizes": "jg.split",
    "sub": "jg.subtract",
    "sum_to_size": "jg.sum over the axes that were broadcast",
    "svd_lowrank": "jg.linalg.svd(x, full_matrices=False)",
    "symeig": "jg.linalg.eigh",
    "take_along_dim": "jg.take_along_axis",
    "to_dlpack": "x.__dlpack__()",
    "tobytes": "np.asarray(x).tobytes()",
    "tofile": "np.asarray(x).tofile(file)",
    "trapz": "jg.trapezoid",
    "triangular_solve": "jg.linalg.solve_triangular",
    "tril_indices_from": "jg.tril_indices(x.shape[0])",
    "triu_indices_from": "jg.triu_indices(x.shape[0])",
    "trim_zeros": "x[start:stop], between the first and the last of jg.nonzero(x)",
    "true_divide": "jg.divide",
    "unbind": "jg.unstack",
    "unsafe_chunk": "jg.chunk",
    "unsafe_split": "jg.split",
    "unsafe_split_with_sizes": "jg.split",
    "volatile": "with jg.no_grad():",
    "where": "jg.where(condition, x, y)",
    "argpartition": "jg.argpartition",
    "hsplit": "jg.hsplit",
    "apply": "jg.vectorize(f)(x)",
    "map": "jg.vectorize(f)(x, y)",
    "map2": "jg.vectorize(f)(x, y, z)",
    "random": "jg.random.randint",
    "log_normal": "jg.random.lognormal",
    "frompyfunc": "jg.vectorize",
    "ndenumerate": "np.ndenumerate(np.asarray(x)) outside of traces",
    "ndindex": "np.ndindex",
    "register_post_accumulate_grad_hook": "what shall be done with x.grad after backward()",
    "retains_grad": "jg.autograd.grad(loss, x), which takes any tensor of the tape",
    "output_nr": "x.grad_fn",
    "grad_dtype": "x.grad.dtype",
    "as_subclass": "a class that holds the tensor",
    "set": "y = x",
    "requires": "x.requires_grad_()",
    "squeeze_multiple": "jg.squeeze",
    "resize": "jg.resize(x, shape), another tensor",
    "random_integers": "jg.random.randint",
    "ranf": "jg.random.uniform(shape)",
    "sample": "jg.random.uniform(shape)",
    "True_": "True",
    "False_": "False",
    "require": "jg.asarray",
    "vectorize": "jg.vectorize",
    "array2string": "repr(x), or np.array2string(np.asarray(x))",
    "array_repr": "repr(x)",
    "array_str": "str(x)",
    "iterable": "x.ndim > 0",
    "get_default_dtype": "jg.float32, which it is",
    "get_default_device": '"cpu", which it is',
    "get_device": "x.device",
    "get_rng_state": "jg.random.get_state()",
    "set_rng_state": "jg.random.set_state(state)",
    "seed": "jg.random.seed(n)",
    "initial_seed": "jg.random.get_state()[0]",
    "default_generator": "jg.random.get_state, jg.random.set_state, jg.random.seed",
    "fork_rng": "jg.random.get_state() before and jg.random.set_state(state) after",
    "thread_safe_generator": "jg.Generator(seed) for each thread",
    "get_num_threads": "JITGRAPH_NUM_THREADS in the environment",
    "is_grad_enabled": "jg.autograd, whose no_grad and enable_grad are blocks",
    "inference_mode": "jg.no_grad()",
    "is_storage": "isinstance(x, jg.Tensor)",
    "Size": "a tuple; x.shape is one",
    "dtype": "jg.float32 and so on, which are NumPy's dtypes",
    "ndarray": "jg.Tensor",
    "Storage": "x.nbytes, np.asarray(x)",
    "compiled_with_cxx11_abi": "nothing; there is no C++ library",
    "Event": "jg.cuda.Event",
    "Stream": "jg.cuda.Stream",
    "record_stream": "nothing; memory waits for the streams that use it",
    "GradScaler": "jg.amp.GradScaler",
    "is_anomaly_enabled": "with jg.detect_anomaly():",
    "set_anomaly_enabled": "with jg.detect_anomaly():",
    "use_deterministic_algorithms": "nothing; the same program gives the same bits",
    "ModuleDict": "jg.nn.ModuleDict",
    "hash_tensor": "hash(np.asarray(x).tobytes())",
    "unravel": "jg.unravel_index",
}
_INTEGERS: Final = {
    **dict.fromkeys(("byte", "char"), "int8"),
    **dict.fromkeys(("ubyte",), "uint8"),
    **dict.fromkeys(("ushort",), "uint16"),
    **dict.fromkeys(("intc",), "int32"),
    **dict.fromkeys(("uintc",), "uint32"),
    **dict.fromkeys(("int_", "intp", "longlong", "integer", "signedinteger"), "int64"),
    **dict.fromkeys(("uint", "uintp", "ulong", "ulonglong", "unsignedinteger"), "uint64"),
    **dict.fromkeys(("single", "floating", "inexact", "number", "generic"), "float32"),
    **dict.fromkeys(("csingle", "cfloat", "chalf", "complex32"), "complex64"),
    **dict.fromkeys(("cdouble",), "complex128"),
    **dict.fromkeys(("longdouble", "float128"), "float64, the widest there is"),
    **dict.fromkeys(("clongdouble", "complex256"), "complex128, the widest there is"),
}
_LAYOUT: Final = "nothing; how a tensor lies in memory is not to be seen"
_DENSE: Final = "a dense tensor; there are no sparse ones, and x[i] and jg.scatter_add read and add at places"
_QUANTISED: Final = "x.astype(jg.float16) or jg.bfloat16; there are no quantised tensors"
_ARRAYS: Final = "it with np and np.asarray(x), outside of traces"
_PATTERNS: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"(as_strided\w*|stride|storage\w*|\w*[sS]torage|const_data_ptr|dim_order|set_|layout|is_set_to)", _LAYOUT),
        (r"(strided|jagged|\w+_format|channels_last\w*|memory_format|is_contiguous|isfortran|flags|setflags)", _LAYOUT),
        (r"(byteswap|getfield|setfield|ctypes|may_share_memory|shares_memory|module_load)", _LAYOUT),
        (r"\w*(sparse|ccol_indices|crow_indices|col_indices|row_indices|coalesce)\w*", _DENSE),
        (r"(to_dense|dense_dim|sspaddmm|saddmm|[dhs]+p?mm|spmm|hsmm|indices_copy|values|values_copy)", _DENSE),
        (
            r"\w*(quant|fbgemm|qparams|fake_quant|fused_moving_avg)\w*|q_\w+|int_repr|qscheme|quint\w+|qint\w+",
            _QUANTISED,
        ),
        (r"per_(tensor|channel)_\w+", _QUANTISED),
        (r"(float[48]_\w+|u?int[1-7]|bits\w*|bit)", "jg.int8, jg.uint8 or jg.float16; there is nothing smaller"),
        (r"(cudnn|miopen|mkldnn|native)_\w+|batch_norm_\w+|conv_tbc", "the function of jg.nn.functional"),
        (r"(Bool|Byte|Char|Short|Int|Long|Half|Float|Double|BFloat16)Tensor", "jg.asarray(data, dtype=dtype)"),
        (r"(set|get|is|clear)_autocast\w*|autocast_\w+", "with jg.amp.autocast(device_type):"),
        (r"sym_\w+|Sym\w+", "dynamic_shapes= of jg.trace, which names sizes"),
        (r"is_(cpu|ipu|maia|mps|mtia|vulkan|xla|xpu|mkldnn)|ipu|mtia|xpu|to_mkldnn", 'x.device, "cpu" or "cuda:0"'),
        (
            r"is_(meta|nested|inference\w*|distributed|neg|conj|shared|pinned)|share_memory_?",
            "nothing; no tensor is one",
        ),
        (r"to_padded_tensor|reinforce|name", "nothing; there is no such tensor"),
        (r"(set|get|are|is)_(deterministic\w*|flush_denormal|float32_matmul_precision|warn_always\w*)", "nothing"),
        (r"(set|get|init)_num_(interop_)?threads", "JITGRAPH_NUM_THREADS in the environment"),
        (r"set_printoptions|get_printoptions|printoptions", "np.set_printoptions, which counts for tensors, too"),
        (r"(seterr|geterr|errstate|setbufsize|getbufsize)\w*", "jg.detect_anomaly(), or jg.isfinite"),
        (
            r"(save(txt|z|z_compressed)|loadtxt|genfromtxt|from(file|string|buffer|iter|regex)|from_file|memmap)",
            _ARRAYS,
        ),
        (
            r"(datetime|timedelta|busday|is_busday|isnat|busdaycalendar|rec|str_|bytes_|void|object_|character)\w*",
            _ARRAYS,
        ),
        (r"(nditer|nested_iters|flatiter|format_float\w*|base_repr|binary_repr|einsum_path|poly1d|flexible)", _ARRAYS),
        (r"(mintypecode|typename|typecodes|sctypeDict|ScalarType|ufunc)", _ARRAYS),
    )
)
_DRAWN: Final = (
    "hypergeometric logseries multivariate_normal noncentral_chisquare noncentral_f power triangular vonmises wald zipf"
)
_GENERATORS: Final = "BitGenerator MT19937 PCG64 PCG64DXSM Philox RandomState SFC64 SeedSequence"


def instead(name: str, owner: str) -> str | None:
    """What to write for a public name that ``owner`` ("jg", "x", "jg.random" ...) lacks; None for one nobody has."""
    if owner == "jg.special":
        return of_scipy(name)
    if owner == "jg.random":
        return _of_random(name)
    if owner not in ("jg", "x"):
        return None
    if name in _RENAMED:
        return _RENAMED[name]
    if name in _INTEGERS:
        dtype = _INTEGERS[name]
        return f"jg.{dtype}" if owner == "jg" else f"x.astype(jg.{dtype.partition(',')[0]})"
    for module, names in _ELSEWHERE.items():
        if name in names.split() and (owner, module) != ("jg", "jg"):
            return f"{module}.{name}"
    for pattern, hint in _PATTERNS:
        if pattern.fullmatch(name):
            return hint
    if name.endswith("_copy"):
        return instead(name.removesuffix("_copy"), owner) or f"jg.{name.removesuffix('_copy')}"
    return None


def _of_random(name: str) -> str | None:
    if name in _DRAWN.split():
        return f"np.random.default_rng(seed).{name}(...) outside of traces"
    if name in _GENERATORS.split():
        return "jg.Generator(seed)"
    return {
        "bytes": "jg.random.randint(shape, 0, 256, dtype=jg.uint8)",
        "random_integers": "jg.random.randint",
        "ranf": "jg.random.uniform(shape)",
        "sample": "jg.random.uniform(shape)",
        "standard_cauchy": "jg.random.cauchy(shape)",
        "standard_exponential": "jg.random.exponential(shape)",
        "standard_gamma": "jg.random.gamma(concentration, shape)",
        "get_rng_state": "jg.random.get_state()",
        "set_rng_state": "jg.random.set_state(state)",
        "initial_seed": "jg.random.get_state()[0]",
        "default_generator": "jg.random.get_state, jg.random.set_state, jg.random.seed",
        "fork_rng": "jg.random.get_state() before and jg.random.set_state(state) after",
        "thread_safe_generator": "jg.Generator(seed) for each thread",
    }.get(name)
