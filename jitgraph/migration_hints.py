"""What users of PyTorch, NumPy and JAX write out of habit, and what to write here; read where a name is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_CLOSE: Final = "jg.all(jg.abs(x - y) <= tolerance), or np.allclose(x, y) outside of traces"
_SELECT: Final = "jg.where(mask, x, 0) keeps the shape; x.numpy()[mask.numpy()] outside of traces"
_COMPILE: Final = "jg.trace, or jg.script for Python loops and branches on tensors"
_DEVICE: Final = 'device="cpu" or device="cuda" by name, or x.to("cuda")'
_LOOP: Final = "for i in range(n): in a @jg.script, or jg.scan"
_DTYPE: Final = "dtype= where a tensor is made; the defaults are float32 and int64"

MODULE: Final[Mapping[str, str]] = {
    "absolute": "jg.abs",
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
    "autocast": "jg.amp.autocast(device_type)",
    "compile": _COMPILE,
    "cross": "jg.linalg.cross",
    "device": _DEVICE,
    "devices": _DEVICE,
    "digamma": "jg.special.digamma",
    "double": "jg.float64",
    "erfc": "jg.special.erfc",
    "erfinv": "jg.special.erfinv",
    "fabs": "jg.abs",
    "float": "jg.float32",
    "for_loop": _LOOP,
    "fori_loop": _LOOP,
    "from_numpy": "jg.asarray",
    "fromfunction": "the function of jg.arange(n)[:, None] and jg.arange(m)",
    "half": "jg.float16",
    "inference_mode": "jg.no_grad()",
    "int": "jg.int32",
    "invert": "jg.bitwise_invert",
    "is_tensor": "isinstance(x, jg.Tensor)",
    "jit": _COMPILE,
    "lax": "jg.cond, jg.while_loop, jg.scan",
    "left_shift": "jg.bitwise_left_shift",
    "lgamma": "jg.special.lgamma",
    "long": "jg.int64",
    "manual_seed": "jg.random.seed",
    "matrix_power": "jg.linalg.matrix_power",
    "mod": "jg.remainder",
    "norm": "jg.linalg.norm(x, axis=axis)",
    "numel": "x.size",
    "one_hot": "jg.nn.functional.one_hot",
    "classproperty": "property",
    "fork": "jg.trace, whose kernels run on all cores",
    "wait": "nothing; a call returns when its result is there",
    "grid_sampler_2d": "jg.nn.functional.grid_sample",
    "grid_sampler_3d": "jg.nn.functional.grid_sample",
    "zero_": "x[...] = 0",
    "fill_": "x[...] = value",
    "detach_": "x = x.detach()",
    "func": "jg.vmap, jg.grad, jg.vjp, jg.jvp, jg.functional_call",
    "grad_and_value": "jg.value_and_grad, which gives the value first",
    "stack_module_state": "jg.tree.map_leaves over the state_dict of each, with jg.stack",
    "functionalize": "nothing; every tensor is a value, whatever is written to its handle",
    "replace_all_batch_norm_modules_": "jg.nn.BatchNorm2d(..., track_running_stats=False)",
    "debug_unwrap": 'jg.debug.print("x = {}", x)',
    "rearrange": "einops.rearrange, or x.reshape and x.permute_dims",
    "linalg_norm": "jg.linalg.norm",
    "einops": "einops itself, which takes tensors",
    "numpy": "jg itself: its functions are the Array API's",
    "permute": "jg.permute_dims",
    "pmap": "jg.trace; loops of a compiled function run on all cores",
    "power": "jg.pow",
    "right_shift": "jg.bitwise_right_shift",
    "set_default_device": _DEVICE,
    "set_default_dtype": _DTYPE,
    "set_default_tensor_type": _DTYPE,
    "set_num_threads": "JITGRAPH_NUM_THREADS in the environment",
    "short": "jg.int16",
    "t": "x.T",
    "tree_map": "jg.tree.map_leaves",
    "true_divide": "jg.divide",
    "argwhere": "jg.stack(jg.nonzero(x), axis=-1)",
    "in1d": "jg.isin",
    "utils": "jg.data for data sets and loaders, jg.nn.utils for gradients",
    "cholesky": "jg.linalg.cholesky",
    "det": "jg.linalg.det",
    "inverse": "jg.linalg.inv",
    "logdet": "jg.linalg.slogdet(x).logabsdet",
    "lu": "jg.linalg.lu",
    "matrix_exp": "jg.linalg.matrix_exp",
    "pinverse": "jg.linalg.pinv",
    "qr": "jg.linalg.qr",
    "slogdet": "jg.linalg.slogdet",
    "svd": "jg.linalg.svd",
    "vander": "jg.linalg.vander",
    "cholesky_solve": "jg.linalg.cholesky_solve",
    "cholesky_inverse": "jg.linalg.cholesky_inverse",
    "lu_solve": "jg.linalg.lu_solve(LU, pivots, b)",
    "lstsq": "jg.linalg.lstsq",
    "triangular_solve": "jg.linalg.solve_triangular",
}

TENSOR: Final[Mapping[str, str]] = {
    "__array_interface__": "np.asarray(x) or np.from_dlpack(x); a handle, which can be rebound, keeps no memory alive",
    "__cuda_array_interface__": "x.__dlpack__(); this tensor is on the CPU, requires a gradient, or is bfloat16",
    "add_": "x += y",
    "addmm": "jg.addmm(x, y, z)",
    "at": "x[i] = v; it changes this handle alone",
    "bfloat16": "x.astype(jg.bfloat16)",
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
    "norm": "jg.linalg.norm(x)",
    "numel": "x.size",
    "permute": "x.permute_dims(axes)",
    "pin_memory": "x; data is read where it lies",
    "retain_grad": "jg.autograd.grad(loss, x), which takes any tensor of the tape",
    "short": "x.astype(jg.int16)",
    "softmax_": "x[...] = x.softmax()",
    "stride": "x.strides, in bytes",
    "sub": "x - y",
    "sub_": "x -= y",
    "t": "x.T",
    "trace": "jg.linalg.trace(x)",
    "type": "x.astype(dtype)",
    "type_as": "x.astype(y.dtype)",
    "view_as": "x.reshape(y.shape)",
    "zero_": "x[...] = 0",
    "fill_diagonal_": "x[i, i] = value with i = jg.arange(n)",
    "set_": "y = x",
    "resize_": "jg.resize(x, shape), another tensor",
    "resize_as_": "jg.resize(x, y.shape), another tensor",
    "apply_": "x[...] = jg.vectorize(f)(x)",
    "map_": "x[...] = jg.vectorize(f)(x, y)",
    "map2_": "x[...] = jg.vectorize(f)(x, y, z)",
    "random_": "x[...] = jg.random.randint(x.shape, 0, high)",
    "normal_": "x[...] = jg.random.normal(x.shape, mean, std)",
    "uniform_": "x[...] = jg.random.uniform(x.shape, low, high)",
    "bernoulli_": "x[...] = jg.random.bernoulli(p, x.shape)",
    "cauchy_": "x[...] = jg.random.cauchy(x.shape, loc, scale)",
    "exponential_": "x[...] = jg.random.exponential(x.shape, 1 / rate)",
    "geometric_": "x[...] = jg.random.geometric(p, x.shape)",
    "log_normal_": "x[...] = jg.random.lognormal(x.shape, mean, std)",
    "put_": "x[...] = x.put(index, source)",
    "t_": "x[...] = x.T for a square matrix; y = x.T",
    "detach_": "x = x.detach()",
    "squeeze_": "x = x.squeeze(axis); a handle keeps its shape",
    "unsqueeze_": "x = x.unsqueeze(axis); a handle keeps its shape",
    "transpose_": "x = x.transpose(axis1, axis2); a handle keeps its shape",
    "swapaxes_": "x = x.swapaxes(axis1, axis2); a handle keeps its shape",
    "swapdims_": "x = x.swapdims(axis1, axis2); a handle keeps its shape",
    "as_strided_": "nothing; how a tensor lies in memory is not to be seen",
    "eq_": "x[...] = x == y",
    "ne_": "x[...] = x != y",
    "lt_": "x[...] = x < y",
    "le_": "x[...] = x <= y",
    "gt_": "x[...] = x > y",
    "ge_": "x[...] = x >= y",
    "neg_": "x[...] = -x",
    "addmm_": "x[...] = jg.addmm(x, y, z)",
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

_RAISES: Final = "the name without _ex; LinAlgError says which matrix of a batch it is"
LINALG: Final[Mapping[str, str]] = {
    "cho_factor": "jg.linalg.cholesky",
    "cho_solve": "jg.linalg.cholesky_solve(b, l)",
    "cholesky_ex": _RAISES,
    "expm": "jg.linalg.matrix_exp",
    "inv_ex": _RAISES,
    "inverse": "jg.linalg.inv",
    "LinAlgError": "jg.LinAlgError",
    "ldl_factor_ex": _RAISES,
    "ldl_factor": "jg.linalg.lu_factor, or jg.linalg.cholesky of a positive definite matrix",
    "ldl_solve": "jg.linalg.lu_solve",
    "lu_factor_ex": _RAISES,
    "solve_ex": _RAISES,
    "tensorinv": "jg.linalg.inv of the tensor reshaped to a matrix",
    "tensorsolve": "jg.linalg.solve of the tensor reshaped to a matrix",
}

AUTOGRAD: Final[Mapping[str, str]] = {
    "Variable": "jg.asarray(data, requires_grad=True)",
    "functional": "jg.jacobian, jg.hessian, jg.jvp or jg.vjp",
    "graph": "jg.checkpoint, or jg.custom_vjp",
    "inference_mode": "jg.no_grad()",
    "set_detect_anomaly": "jg.detect_anomaly(), a block",
    "profiler": "jg.profiler.profile()",
    "variable": "jg.asarray(data, requires_grad=True)",
}

GENERATOR: Final[Mapping[str, str]] = {
    "clone_state": "jg.Generator() and its set_state(g.get_state())",
    "device": "device= of the functions that draw",
    "get_offset": "g.get_state()[1]",
    "graphsafe_get_state": "g.get_state()",
    "graphsafe_set_state": "g.set_state(state)",
    "initial_seed": "g.get_state()[0]",
    "manual_seed": "jg.Generator(seed), or g.seed(seed)",
    "set_offset": "g.set_state(jg.asarray([seed, offset], dtype=jg.uint64))",
    **{
        name: f"jg.random.{name}(..., generator=g)"
        for name in ("choice", "exponential", "gamma", "normal", "permutation", "poisson", "uniform")
    },
    "integers": "jg.random.randint(..., generator=g)",
    "random": "jg.random.uniform(shape, generator=g)",
    "standard_normal": "jg.random.normal(shape, generator=g)",
}

_QUANTIZED: Final = "the plain layer; models are not quantized here"
_ONE_DEVICE: Final = "the model itself, which one process computes on one device"
_DIRECT: Final = "jg.nn.Linear and so on: all layers stand in jg.nn"

NN: Final[Mapping[str, str]] = {
    "Container": "jg.nn.Module, jg.nn.Sequential or jg.nn.ModuleList",
    "CrossMapLRN2d": "jg.nn.LocalResponseNorm(size, alpha, beta, k)",
    "DataParallel": _ONE_DEVICE,
    "LinearCrossEntropyLoss": "jg.nn.functional.linear_cross_entropy",
    "LinearCrossEntropyOptions": "jg.nn.functional.linear_cross_entropy without options",
    "RNNCellBase": "jg.nn.RNNCell, jg.nn.LSTMCell or jg.nn.GRUCell",
    "SyncBatchNorm": "jg.nn.BatchNorm2d and so on; one process has the whole batch",
    "grad": "jg.vjp of jg.nn.functional.conv2d and so on",
    "intrinsic": _QUANTIZED,
    "modules": _DIRECT,
    "parallel": _ONE_DEVICE,
    "qat": _QUANTIZED,
    "quantizable": _QUANTIZED,
    "quantized": _QUANTIZED,
    "RNNBase": "jg.nn.RNN, jg.nn.LSTM or jg.nn.GRU",
    "UninitializedBuffer": "register_buffer with a tensor of its shape",
    "UninitializedParameter": "jg.nn.Parameter of a tensor of its shape",
    "parameter": "jg.nn.Parameter",
}

FUNCTIONAL: Final[Mapping[str, str]] = {
    "grouped_mm": "x @ w of tensors with a leading axis, or a product for each group",
    "native_channel_shuffle": "jg.nn.functional.channel_shuffle",
    "scaled_grouped_mm": "(x * scale) @ w",
    "scaled_mm": "(x * scale) @ w",
}

INIT: Final[Mapping[str, str]] = {
    name: f"jg.nn.init.{name}_"
    for name in [
        "constant",
        "dirac",
        "eye",
        "kaiming_normal",
        "kaiming_uniform",
        "normal",
        "orthogonal",
        "sparse",
        "uniform",
        "xavier_normal",
        "xavier_uniform",
    ]
}

_PRUNED: Final = "with jg.no_grad(): parameter *= mask after each step, or jg.nn.utils.parametrize with a mask"
UTILS: Final[Mapping[str, str]] = {
    "clip_grad_norm": "jg.nn.utils.clip_grad_norm_",
    "convert_conv2d_weight_memory_format": "nothing; how a tensor lies in memory is not to be seen",
    "convert_conv3d_weight_memory_format": "nothing; how a tensor lies in memory is not to be seen",
    "convert_parameters": "jg.nn.utils.parameters_to_vector, jg.nn.utils.vector_to_parameters",
    "prune": _PRUNED,
    "remove_spectral_norm": 'jg.nn.utils.parametrize.remove_parametrizations(module, "weight")',
    "remove_weight_norm": 'jg.nn.utils.parametrize.remove_parametrizations(module, "weight")',
    "skip_init": "the class itself; initial values are cheap",
    "stateless": "jg.functional_call(module, parameters, args)",
}

_PIPES: Final = "a jg.data.Dataset or jg.data.IterableDataset"
DATA: Final[Mapping[str, str]] = {
    "DFIterDataPipe": _PIPES,
    "DataChunk": _PIPES,
    "DistributedSampler": "jg.data.Subset(dataset, range(rank, len(dataset), replicas)); one process trains here",
    "IterDataPipe": _PIPES,
    "MapDataPipe": _PIPES,
    "dataloader": "jg.data.DataLoader",
    "dataset": "jg.data.Dataset",
    "distributed": "jg.data.DataLoader; one process trains here",
    "functional_datapipe": _PIPES,
    "sampler": "jg.data.SubsetRandomSampler and so on; all samplers stand in jg.data",
}

AMP: Final[Mapping[str, str]] = {
    "autocast_mode": "jg.amp.autocast",
    "custom_bwd": "nothing: the pullback of a jg.autograd.Function runs in the dtypes of its forward",
    "custom_fwd": 'jg.amp.autocast("cpu", enabled=False) in the forward of a jg.autograd.Function',
    "grad_scaler": "jg.amp.GradScaler",
    "is_autocast_available": "nothing; the CPU and GPUs both have it",
}

MODULES: Final[Mapping[str, str]] = {  # methods of modules
    "compile": "jg.trace(model), a function that runs the model compiled",
    "ipu": "module.to(device)",
    "mtia": "module.to(device)",
    "share_memory": "module.state_dict(), whose arrays another process may be given",
    "xpu": "module.to(device)",
}

OPTIM: Final[Mapping[str, str]] = {
    "SparseAdam": "jg.optim.Adam: gradients are never sparse here",
    "optimizer": "jg.optim.Optimizer",
    "swap_in_optimizer_params_and_state": "optimizer.load_state_dict",
    "EMA": "jg.optim.swa_utils.AveragedModel with get_ema_avg_fn(decay)",
    "LRScheduler": "jg.optim.lr_scheduler.LRScheduler",
}

PLANNED: Final[Mapping[str, str]] = {  # names of the public API that later versions bring, and what serves until then
    "elementwise": "write the function over jg's own; it is fused",
    "onnx": "jg.save for files of our own",
}


def advice(
    name: str, replacements: Mapping[str, str], planned: Mapping[str, str] | None = None, *, owner: str = ""
) -> str:
    """What follows a message that ``owner`` lacks ``name``: nothing, or what to write instead."""
    if planned is not None and name in planned:
        return f": it is planned for a later version\n  hint: until then, {planned[name]}"
    if name in replacements:
        return f"\n  hint: write {replacements[name]}"
    if not owner or name.startswith("_"):
        return ""
    from jitgraph.foreign_names import instead  # here, as only errors read it

    replacement = instead(name, owner)
    if replacement is None and name.endswith("_"):
        replacement = _in_place(name.removesuffix("_"), replacements, owner)
    return "" if replacement is None else f"\n  hint: write {replacement}"


def _in_place(name: str, replacements: Mapping[str, str], owner: str) -> str | None:
    """What to write for a function that would change its tensor, as ``abs_``, where one without is known to others."""
    from jitgraph.foreign_names import instead

    text = replacements.get(name) or instead(name, owner)
    return None if text is None else f"x[...] = {text}" + ("(x, ...)" if re.fullmatch(r"jg\.[\w.]+", text) else "")


def absent(what: str, hint: str) -> AttributeError:
    """The error for a name that is missing; beside a hint Python proposes no name of its own that looks alike."""
    error = AttributeError(f"{what}{hint}")
    if hint:
        error.name, error.obj = "", None
    return error
