"""What users of PyTorch, NumPy and JAX write out of habit, and what to write here; read where a name is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CLOSE: Final = "jg.all(jg.abs(x - y) <= tolerance), or np.allclose(x, y) outside of traces"
_SELECT: Final = "jg.where(mask, x, 0) keeps the shape; x.numpy()[mask.numpy()] outside of traces"
_COMPILE: Final = "jg.trace, or jg.script for Python loops and branches on tensors"
_DEVICE: Final = 'device="cpu" or device="cuda" by name, or x.to("cuda")'
_LOOP: Final = "for i in range(n): in a @jg.script, or jg.scan"
_SCATTER: Final = "jg.index_add, x[i] = v, or a product with jg.nn.functional.one_hot"
_DTYPE: Final = "dtype= where a tensor is made; the defaults are float32 and int64"

MODULE: Final[Mapping[str, str]] = {
    "absolute": "jg.abs",
    "allclose": _CLOSE,
    "arccos": "jg.acos",
    "arccosh": "jg.acosh",
    "arcsin": "jg.asin",
    "arcsinh": "jg.asinh",
    "arctan": "jg.atan",
    "arctan2": "jg.atan2",
    "arctanh": "jg.atanh",
    "array": "jg.asarray",
    "as_tensor": "jg.asarray",
    "Module": "jg.nn.Module",
    "Variable": "jg.asarray(data, requires_grad=True)",
    "cat": "jg.concat",
    "autocast": "x.astype(jg.bfloat16) where it pays",
    "compile": _COMPILE,
    "cross": "products of slices: x[..., 1] * y[..., 2] - x[..., 2] * y[..., 1] and so on",
    "device": _DEVICE,
    "devices": _DEVICE,
    "diag": "x * jg.eye(n) to make one, jg.sum(x * jg.eye(n), axis=-1) to read one",
    "diff": "x[1:] - x[:-1]",
    "digamma": "jg.special.digamma",
    "double": "jg.float64",
    "dstack": "jg.stack(xs, axis=-1)",
    "erfc": "jg.special.erfc",
    "erfinv": "jg.special.erfinv",
    "fabs": "jg.abs",
    "float": "jg.float32",
    "for_loop": _LOOP,
    "fori_loop": _LOOP,
    "from_dlpack": "jg.asarray, which takes arrays of any library",
    "from_numpy": "jg.asarray",
    "fromfunction": "the function of jg.arange(n)[:, None] and jg.arange(m)",
    "gather": "jg.take_along_axis(x, indices, axis)",
    "half": "jg.float16",
    "hstack": "jg.concat(xs, axis=1)",
    "inference_mode": "jg.no_grad()",
    "int": "jg.int32",
    "invert": "jg.bitwise_invert",
    "is_tensor": "isinstance(x, jg.Tensor)",
    "isclose": _CLOSE,
    "jit": _COMPILE,
    "lax": "jg.cond, jg.while_loop, jg.scan",
    "left_shift": "jg.bitwise_left_shift",
    "lgamma": "jg.special.lgamma",
    "long": "jg.int64",
    "manual_seed": "jg.random.seed",
    "masked_select": _SELECT,
    "matrix_power": "a loop of x @ x",
    "median": "jg.sort(x, axis=-1)[..., n // 2]",
    "meshgrid": "jg.broadcast_arrays(x[:, None], y[None, :])",
    "mod": "jg.remainder",
    "nonzero": "jg.where(mask, x, y) keeps the shape; np.nonzero(np.asarray(mask)) outside of traces",
    "norm": "jg.sqrt(jg.sum(x * x, axis))",
    "numel": "x.size",
    "one_hot": "jg.nn.functional.one_hot",
    "numpy": "jg itself: its functions are the Array API's",
    "permute": "jg.permute_dims",
    "pmap": "jg.trace; loops of a compiled function run on all cores",
    "power": "jg.pow",
    "ravel": "jg.reshape(x, -1)",
    "right_shift": "jg.bitwise_right_shift",
    "set_default_device": _DEVICE,
    "set_default_dtype": _DTYPE,
    "set_default_tensor_type": _DTYPE,
    "set_num_threads": "JITGRAPH_NUM_THREADS in the environment",
    "short": "jg.int16",
    "swapdims": "jg.swapaxes",
    "t": "x.T",
    "tree_map": "jg.tree.map_leaves",
    "true_divide": "jg.divide",
    "unique": "np.unique(np.asarray(x)) outside of traces; its size depends on the data",
    "utils": "jg.data for data sets and loaders, jg.nn.utils for gradients",
    "vstack": "jg.concat(xs, axis=0)",
}

TENSOR: Final[Mapping[str, str]] = {
    "__array_interface__": "np.asarray(x) or np.from_dlpack(x); a handle, which can be rebound, keeps no memory alive",
    "__cuda_array_interface__": "x.__dlpack__(); this tensor is on the CPU, requires a gradient, or is bfloat16",
    "add_": "x += y",
    "addmm": "jg.addmm(x, y, z)",
    "at": "x[i] = v; it changes this handle alone",
    "block_until_ready": "x; a call returns when its result is there",
    "bmm": "x @ y",
    "bool": "x.astype(jg.bool)",
    "byte": "x.astype(jg.uint8)",
    "contiguous": "x; how a tensor lies in memory is not to be seen",
    "copy": "x.clone()",
    "copy_": "x[...] = y",
    "data": "`with jg.no_grad(): p += ...` to change a parameter, p.detach() to read it",
    "data_ptr": "np.asarray(x).ctypes.data while that array lives",
    "devices": "x.device",
    "dim": "x.ndim",
    "div": "x / y",
    "div_": "x /= y",
    "dot": "x @ y",
    "double": "x.astype(jg.float64)",
    "element_size": "x.itemsize",
    "eq": "x == y",
    "expand": "x.broadcast_to(shape)",
    "expand_as": "x.broadcast_to(y.shape)",
    "fill": "x[...] = value",
    "fill_": "x[...] = value",
    "flat": "x.reshape(-1)",
    "float": "x.astype(jg.float32)",
    "gather": "jg.take_along_axis(x, indices, axis)",
    "get_device": "x.device",
    "half": "x.astype(jg.float16)",
    "int": "x.astype(jg.int32)",
    "is_contiguous": "nothing; how a tensor lies in memory is not to be seen",
    "is_cuda": 'x.device != "cpu"',
    "is_floating_point": "x.dtype.kind",
    "long": "x.astype(jg.int64)",
    "masked_fill_": "x[mask] = value",
    "mm": "x @ y",
    "mul": "x * y",
    "mul_": "x *= y",
    "mv": "x @ y",
    "nelement": "x.size",
    "norm": "jg.sqrt(jg.sum(x * x))",
    "nonzero": MODULE["nonzero"],
    "numel": "x.size",
    "permute": "x.permute_dims(axes)",
    "pin_memory": "x; data is read where it lies",
    "ravel": "x.reshape(-1)",
    "register_hook": "the change of the gradient into the function itself, or change x.grad after backward()",
    "retain_grad": "jg.autograd.grad(loss, x), which takes any tensor of the tape",
    "short": "x.astype(jg.int16)",
    "softmax_": "x[...] = x.softmax()",
    "stride": "x.strides, in bytes",
    "sub": "x - y",
    "sub_": "x -= y",
    "t": "x.T",
    "type": "x.astype(dtype)",
    "type_as": "x.astype(y.dtype)",
    "view": "x.reshape(shape)",
    "view_as": "x.reshape(y.shape)",
    "zero_": "x[...] = 0",
}

RANDOM: Final[Mapping[str, str]] = {
    "PRNGKey": "jg.random.seed(n); a stream goes on by itself, in traces too",
    "default_rng": "jg.Generator(seed), passed as generator=",
    "key": "jg.random.seed(n); a stream goes on by itself, in traces too",
    "manual_seed": "jg.random.seed",
    "random": "jg.random.uniform(shape)",
    "random_sample": "jg.random.uniform(shape)",
    "shuffle": "x[...] = jg.random.permutation(x)",
    "split": "jg.random.seed(n); a stream goes on by itself, in traces too",
    "standard_normal": "jg.random.normal(shape)",
}

NN: Final[Mapping[str, str]] = {
    "ParameterList": "jg.nn.ModuleList, or one attribute for each parameter",
    "parameter": "jg.nn.Parameter",
}

PLANNED: Final[Mapping[str, str]] = {  # names of the public API that later versions bring, and what serves until then
    "amp": "cast with x.astype(jg.bfloat16)",
    **dict.fromkeys(
        ("save_checkpoint", "load_checkpoint"),
        "state_dict() and load_state_dict() of model and optimiser; what they hold are NumPy arrays and numbers",
    ),
    "checkpoint": "memory of a traced step is saved by its own rematerialisation",
    **dict.fromkeys(("complex64", "complex128"), "real and imaginary parts as two tensors"),
    **dict.fromkeys(("custom_vjp", "custom_jvp"), "write the function over jg's own"),
    **dict.fromkeys(("jacfwd", "jacrev"), "jg.jacobian"),
    "linearize": "jg.jvp",
    "functional_call": "a function of the parameters as a dict of tensors, or module.load_state_dict(dict)",
    "profiler": "jg.explain(f, x) lists kernels, bytes and operations",
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), _SCATTER),
    "logcumsumexp": "jg.log(jg.cumulative_sum(jg.exp(x - m))) + m with the maximum m",
    "elementwise": "write the function over jg's own; it is fused",
    "fft": "np.fft outside of traces",
    "onnx": "jg.save for files of our own",
    "vmap": "write the function for tensors with a leading axis",
}

PLANNED_NN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RNN", "LSTM", "GRU"), "jg.scan over jg.nn.Linear layers"),
    **dict.fromkeys(
        ("MultiheadAttention", "TransformerEncoderLayer", "TransformerEncoder"), "products and jg.softmax of your own"
    ),
}

PLANNED_DATA: Final[Mapping[str, str]] = {
    "Subset": "a TensorDataset of the arrays with an index: array[chosen]",
    "random_split": "arrays with an index: order = jg.random.permutation(n).numpy(); array[order[:k]]",
}

PLANNED_AUTOGRAD: Final[Mapping[str, str]] = {"Function": "write the function over jg's own"}


def advice(name: str, replacements: Mapping[str, str], planned: Mapping[str, str] | None = None) -> str:
    """What follows a message that ``name`` is missing: nothing, or what to write instead."""
    if planned is not None and name in planned:
        return f": it is planned for a later version\n  hint: until then, {planned[name]}"
    return f"\n  hint: write {replacements[name]}" if name in replacements else ""
