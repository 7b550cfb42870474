"""Operators of ``aten_ops`` give PyTorch's results on the samples by which PyTorch tests its own.

Each sample is run in PyTorch, and every operator of ATen that it comes to is called here with the same arguments.
``ATEN_SAMPLES`` is how many are taken of each function and dtype.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.torch import aten_ops
from jitgraph.torch.programs import fx

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's samples need it")

pytestmark = pytest.mark.filterwarnings("ignore")
SAMPLES = int(os.environ.get("ATEN_SAMPLES", "1"))
LARGEST = 3000  # elements of an argument
RANDOM = [
    "rand",
    "randn",
    "bernoulli",
    "uniform",
    "normal",
    "dropout",
    "native_dropout",
    "multinomial",
    "randint",
    "randperm",
    "rand_like",
    "randn_like",
    "randint_like",
    "poisson",
    "rrelu",
    "rrelu_with_noise",
    "exponential",
    "cauchy",
    "log_normal",
    "geometric",
    "random",
    "alpha_dropout",
    "feature_alpha_dropout",
    "feature_dropout",
    "normal_functional",
    "binomial",
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "empty_permuted",
    "resize",
    "_standard_gamma",
    "_sample_dirichlet",
]
DIFFERENT = {  # operators, and why some of their results are others
    "convolutions, products and pooling of integers are of float32 here": (
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution avg_pool1d avg_pool2d "
        "avg_pool3d max_pool2d_with_indices max_pool3d_with_indices bilinear addmv"
    ),
    "any of several results is right: signs and phases of vectors, positions of equal elements": (
        "linalg_eig linalg_eigh linalg_svd linalg_qr qr linalg_householder_product kthvalue nanmedian topk mode sort "
        "median linalg_lu_factor linalg_lu"
    ),
    "results that were not asked for are there": "_unique2 unique_consecutive unique_dim linalg_lstsq",
    "a matrix close to a singular one": "linalg_pinv linalg_matrix_exp matrix_exp pinverse linalg_cond",
    "a tensor of rank 0 along an axis, or of one row": (
        "index_add index_copy index_reduce linalg_vander cov corrcoef multi_margin_loss nonzero_static"
    ),
    "negative padding of edges; segments that leave out elements": "replication_pad2d segment_reduce",
}
MAY_DIFFER = {name for names in DIFFERENT.values() for name in names.split()}


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Keeps every call of an operator of ATen that writes to nothing, with its result."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str, Any, Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = function._schema
        before = copied((args, kwargs))
        result = function(*args, **kwargs)
        if schema.name.startswith("aten::") and not schema.is_mutable:
            self.calls.append((schema.name, schema.overload_name, *before, copied(result)))
        return result


def copied(value: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)


def calls_of(function: Any, sample: Any) -> list[Any]:
    """The operators that a sample comes to, and the one that has its name."""
    recorder = Recorder()
    args = (sample.input, *sample.args)
    try:
        with recorder:
            function(*args, **sample.kwargs)
    except Exception:  # what PyTorch itself does not run on this machine is no sample
        return []
    try:
        overload = torch._C._jit_resolve_packet(f"aten::{function.aten_name}", *args, **sample.kwargs)
        own = getattr(getattr(torch.ops.aten, function.aten_name), overload or "default")
        return [*recorder.calls, (own._schema.name, overload, args, sample.kwargs, own(*args, **sample.kwargs))]
    except Exception:
        return recorder.calls


def ours(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return jg.asarray(fx.array_of(leaf))
    if isinstance(leaf, torch.dtype):
        return fx.dtype_of(leaf)
    if isinstance(leaf, torch.memory_format | torch.layout | torch.device | torch.Generator):
        return None
    return list(map(ours, leaf)) if isinstance(leaf, tuple | list) else leaf


def array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return fx.array_of(value)
    return value.detach().numpy() if isinstance(value, jg.Tensor) else np.asarray(value)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def difference(call: Any) -> str | None:
    """What is wrong with an operator's result here; None where it is PyTorch's."""
    name, overload, args, kwargs, expected = call
    operator = aten_ops.lookup(name, overload)
    assert operator is not None
    try:
        result = operator(*map(ours, args), **{key: ours(value) for key, value in kwargs.items()})
    except (
        jg.JitgraphError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        AssertionError,
        OverflowError,
    ) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    for own, theirs in zip(leaves(result), leaves(expected), strict=False):
        actual, wanted = array(own), array(theirs)
        if (actual.dtype, actual.shape) != (wanted.dtype, wanted.shape):
            return f"{actual.dtype}{list(actual.shape)} for {wanted.dtype}{list(wanted.shape)}"
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        if not np.allclose(actual.astype(wide), wanted.astype(wide), rtol=2e-4, atol=2e-4, equal_nan=True):
            return "other values"
    return None


def test_samples_of_pytorch() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    right: Counter[str] = Counter()
    wrong: dict[str, set[str]] = defaultdict(set)
    for function in op_db:
        for dtype in (torch.float32, torch.int64):
            if dtype not in function.dtypes or function.name.startswith("jiterator"):
                continue
            try:
                samples = list(function.sample_inputs("cpu", dtype))
            except (RuntimeError, NotImplementedError, ModuleNotFoundError):
                continue
            for sample in samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]:
                for call in calls_of(function, sample):
                    name = call[0].removeprefix("aten::")
                    plain = [
                        leaf
                        for leaf in leaves([list(call[2]), list(call[3].values())])
                        if isinstance(leaf, torch.Tensor)
                    ]
                    if (
                        name in RANDOM
                        or right[name] >= 6 * SAMPLES
                        or aten_ops.lookup(name, call[1]) is None
                        or any(leaf.is_sparse or leaf.is_quantized or leaf.numel() > LARGEST for leaf in plain)
                    ):
                        continue
                    problem = difference(call)
                    if problem is None:
                        right[name] += 1
                    elif name not in MAY_DIFFER:
                        wrong[f"{name}.{call[1] or 'default'}"].add(problem)
    assert not wrong, "\n".join(f"{name}: {problems}" for name, problems in sorted(wrong.items()))
    assert len(right) > 400
