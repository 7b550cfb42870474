"""Compiled functions beside NumPy, PyTorch, JAX and ONNX Runtime, row by row, in one process, turn by turn.

``python -m bench.peers [NAME ...]`` measures with one thread, ``--threads 2`` with two. Peers that are not installed
are left out; ONNX Runtime runs what ``jg.onnx.export`` writes of the function. A row shows our median time, the best
peer's time over ours with its interval (above 1 we are faster), and our time over the machine's limit: the
multiply-adds of products at the rate of the best product of 512 x 512 in this process, or a copy of as many bytes as
go in and out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from bench import peer_rows
from bench.timing import interleaved, interval

Function = Callable[..., Any]
Arrays = Sequence[np.ndarray[Any, Any]]

ROW_SECONDS: Final = 0.4
"""For each candidate of a row."""

MOST_ROUNDS: Final = 60


class Row(NamedTuple):
    """One function in the words of each library; ``flops`` are those of its products."""

    arrays: Callable[[np.random.Generator], Arrays]
    ours: Function
    torch: Function | None = None
    jax: Function | None = None
    numpy: Function | None = None
    flops: float = 0.0
    exported: bool = True  # ONNX Runtime takes part
    same: bool = True  # all have one result, which random numbers do not


def floats(*shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[np.random.Generator], Arrays]:
    """Arrays of standard normal numbers."""
    return lambda random: [random.standard_normal(shape).astype(dtype) for shape in shapes]


def _import(name: str) -> Any:
    return __import__(name, fromlist=["_"])


def _rows() -> dict[str, Row]:
    import jitgraph as jg
    from jitgraph.nn import functional as F

    torch = _import("torch") if find_spec("torch") else None
    TF = torch.nn.functional if torch else None  # noqa: N806
    jax = _import("jax") if find_spec("jax") else None
    jn = _import("jax.numpy") if jax else None
    lax = jax.lax if jax else None
    rows: dict[str, Row] = {}

    def add(name: str, arrays: Any, ours: Function, torch_: Any = None, jax_: Any = None, **more: Any) -> None:
        rows[name] = Row(arrays, ours, torch_, jax_, **more)

    def chain(lib: Any) -> Function:
        return lambda x, y: lib.tanh(x * y + 1.0) * lib.exp(-x * x) + y * 0.5

    def product(name: str, m: int, k: int, n: int) -> None:
        add(name, floats((m, k), (k, n)), lambda a, b: a @ b, lambda a, b: a @ b, lambda a, b: a @ b,
            numpy=lambda a, b: a @ b, flops=2.0 * m * k * n)  # fmt: skip

    def convolution(name: str, x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, groups: int = 1) -> None:
        pad = w[2] // 2
        outputs = x[0] * w[0] * (x[2] // stride) * (x[3] // stride)
        add(
            name,
            floats(x, w),
            lambda a, b: F.conv2d(a, b, stride=stride, padding=pad, groups=groups),
            lambda a, b: TF.conv2d(a, b, stride=stride, padding=pad, groups=groups),
            lambda a, b: lax.conv_general_dilated(
                a, b, (stride, stride), ((pad, pad), (pad, pad)), feature_group_count=groups
            ),
            flops=2.0 * outputs * w[1] * w[2] * w[3],
        )

    def weight_gradient(name: str, x: tuple[int, ...], w: tuple[int, ...]) -> None:
        pad = w[2] // 2
        y = (x[0], w[0], x[2], x[3])

        def theirs(a: Any, b: Any, c: Any) -> Any:
            mask = (False, True, False)
            backward = torch.ops.aten.convolution_backward
            return backward(c, a, b, None, (1, 1), (pad, pad), (1, 1), False, (0, 0), 1, mask)[1]

        add(
            name,
            floats(x, w, y),
            lambda a, b, c: jg.grad(lambda b: (F.conv2d(a, b, padding=pad) * c).sum())(b),
            theirs,
            lambda a, b, c: jax.grad(
                lambda b: (lax.conv_general_dilated(a, b, (1, 1), ((pad, pad), (pad, pad))) * c).sum()
            )(b),
            flops=2.0 * x[0] * w[0] * x[2] * x[3] * w[1] * w[2] * w[3],
        )

    line = floats((65_536,))
    add("gelu of 65,536", line, lambda x: F.gelu(x), lambda x: TF.gelu(x), lambda x: jax.nn.gelu(x, approximate=False))
    long = floats((4 << 20,), (4 << 20,))
    add("chain of six ops of 4M", long, chain(jg), chain(torch), chain(jn), numpy=chain(np))
    for name in ("exp", "log1p", "tanh", "sin", "erf", "sqrt"):
        ours = getattr(jg, name) if hasattr(jg, name) else getattr(jg.special, name)
        theirs = getattr(torch, name) if torch else None
        other = getattr(jn, name, None) or (getattr(jax.scipy.special, name, None) if jax else None)
        source: Any = floats((1 << 20,)) if name not in ("log1p", "sqrt") else lambda r: [r.random(1 << 20, np.float32)]
        add(f"{name} of 1M", source, ours, theirs, other, numpy=getattr(np, name, None))
    square = floats((1024, 1024))
    add("softmax of 1024 x 1024", square, lambda x: F.softmax(x, -1), lambda x: TF.softmax(x, -1),
        lambda x: jax.nn.softmax(x))  # fmt: skip
    add("log_softmax of 64 x 50257", floats((64, 50257)), lambda x: F.log_softmax(x, -1),
        lambda x: TF.log_softmax(x, -1), lambda x: jax.nn.log_softmax(x))  # fmt: skip
    add("layer norm of 1024 x 1024", square, lambda x: F.layer_norm(x, (1024,)), lambda x: TF.layer_norm(x, (1024,)))
    add("sums of 64 x 50257", floats((64, 50257)), lambda x: x.sum(-1), lambda x: x.sum(-1), lambda x: x.sum(-1),
        numpy=lambda x: x.sum(-1))  # fmt: skip
    add("sums down 4096 x 1024", floats((4096, 1024)), lambda x: x.sum(0), lambda x: x.sum(0), lambda x: x.sum(0),
        numpy=lambda x: x.sum(0))  # fmt: skip
    add("argmax of 1024 x 1024", square, lambda x: x.argmax(-1), lambda x: x.argmax(-1), lambda x: x.argmax(-1),
        numpy=lambda x: x.argmax(-1))  # fmt: skip
    add("cumsum of 1024 x 1024", square, lambda x: jg.cumsum(x, -1), lambda x: torch.cumsum(x, -1),
        lambda x: jn.cumsum(x, -1), numpy=lambda x: np.cumsum(x, -1))  # fmt: skip
    add("sort of 256 x 1000", floats((256, 1000)), lambda x: jg.sort(x, -1), lambda x: torch.sort(x, -1)[0],
        lambda x: jn.sort(x, -1), numpy=lambda x: np.sort(x, -1), exported=False)  # fmt: skip
    add("topk 5 of 256 x 1000", floats((256, 1000)), lambda x: jg.topk(x, 5)[0], lambda x: torch.topk(x, 5)[0],
        lambda x: lax.top_k(x, 5)[0])  # fmt: skip
    add("median of 1000 x 1000", floats((1000, 1000)), lambda x: jg.median(x), None, lambda x: jn.median(x),
        numpy=lambda x: np.median(x), exported=False)  # fmt: skip
    add("transpose of 1024 x 1024", square, lambda x: x.mT + 0.0, lambda x: x.T.contiguous(), lambda x: x.T + 0.0,
        numpy=lambda x: np.ascontiguousarray(x.T))  # fmt: skip
    images = floats((32, 64, 32, 32))
    add("NCHW to NHWC of 32 x 64 x 32 x 32", images, lambda x: jg.permute_dims(x, (0, 2, 3, 1)) + 0.0,
        lambda x: x.permute(0, 2, 3, 1).contiguous(), lambda x: jn.transpose(x, (0, 2, 3, 1)) + 0.0)  # fmt: skip
    add("roll of 1M", floats((1 << 20,)), lambda x: jg.roll(x, 1000), lambda x: torch.roll(x, 1000),
        lambda x: jn.roll(x, 1000), numpy=lambda x: np.roll(x, 1000))  # fmt: skip
    add("rfft of 16 x 1024", floats((16, 1024)), lambda x: jg.fft.rfft(x), lambda x: torch.fft.rfft(x),
        lambda x: jn.fft.rfft(x), numpy=lambda x: np.fft.rfft(x), exported=False)  # fmt: skip
    add("fft2 of 4 x 512 x 512", lambda r: [r.standard_normal((4, 512, 512)).astype("complex64")],
        lambda x: jg.fft.fft2(x), lambda x: torch.fft.fft2(x), lambda x: jn.fft.fft2(x),
        numpy=lambda x: np.fft.fft2(x), exported=False)  # fmt: skip
    add("cdist of 500 x 500 x 64", floats((500, 64), (500, 64)), lambda a, b: jg.torch.cdist(a, b),
        lambda a, b: torch.cdist(a, b), exported=False)  # fmt: skip
    product("product of 256", 256, 256, 256)
    product("product of 1024", 1024, 1024, 1024)
    product("product of 8 x 1024 x 1024", 8, 1024, 1024)
    product("product of 1 x 4096 x 4096", 1, 4096, 4096)
    add("products of 64 batches of 128", floats((64, 128, 128), (64, 128, 128)), lambda a, b: a @ b, lambda a, b: a @ b,
        lambda a, b: a @ b, numpy=lambda a, b: a @ b, flops=64 * 2.0 * 128**3)  # fmt: skip
    add("linear and gelu of 512 x 1024 x 1024", floats((512, 1024), (1024, 1024), (1024,)),
        lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda x, w, b: TF.gelu(TF.linear(x, w, b)),
        lambda x, w, b: jax.nn.gelu(x @ w.T + b, approximate=False), flops=2.0 * 512 * 1024 * 1024)  # fmt: skip
    convolution("conv 3x3, 32 of 64 x 32 x 32", (32, 64, 32, 32), (64, 64, 3, 3))
    convolution("conv 3x3, 8 of 256 x 14 x 14", (8, 256, 14, 14), (256, 256, 3, 3))
    convolution("conv 3x3, 1 of 64 x 56 x 56", (1, 64, 56, 56), (64, 64, 3, 3))
    convolution("conv 3x3 by 2, 8 of 64 x 32 x 32", (8, 64, 32, 32), (128, 64, 3, 3), 2)
    convolution("conv 7x7 by 2, 4 of 3 x 224 x 224", (4, 3, 224, 224), (64, 3, 7, 7), 2)
    convolution("conv 1x1, 8 of 256 x 28 x 28", (8, 256, 28, 28), (128, 256, 1, 1))
    convolution("depthwise 3x3, 4 of 96 x 56 x 56", (4, 96, 56, 56), (96, 1, 3, 3), 1, 96)
    weight_gradient("gradient of kernels 3x3, 32 of 64 x 32 x 32", (32, 64, 32, 32), (64, 64, 3, 3))
    weight_gradient("gradient of kernels 3x3, 8 of 256 x 14 x 14", (8, 256, 14, 14), (256, 256, 3, 3))
    add("max_pool 3x3 by 2, 8 of 64 x 112 x 112", floats((8, 64, 112, 112)), lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: TF.max_pool2d(x, 3, 2, 1))  # fmt: skip
    heads = floats(*[(4, 12, 256, 64)] * 3)
    attention_flops = 4 * 12 * 4.0 * 256 * 256 * 64
    add("attention of 4 x 12 x 256 x 64", heads, lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: TF.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: jax.nn.softmax(q @ k.swapaxes(-1, -2) * 0.125) @ v, flops=attention_flops)  # fmt: skip
    add("causal attention of 4 x 12 x 256 x 64", heads,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: TF.scaled_dot_product_attention(q, k, v, is_causal=True),
        flops=attention_flops / 2)  # fmt: skip
    peer_rows.add_rows(add, jg, torch, jn)
    return rows


def _candidates(row: Row, threads: int) -> tuple[dict[str, Callable[[], object]], list[Any]]:
    """The candidates of a row that are installed, and the arrays that go in and come out."""
    import jitgraph as jg

    arrays = list(row.arrays(np.random.default_rng(0)))
    ours, tensors = jg.trace(row.ours), [jg.asarray(array) for array in arrays]
    expected = np.asarray(ours(*tensors))
    candidates: dict[str, Callable[[], object]] = {"jitgraph": lambda: ours(*tensors)}

    def enter(name: str, run: Callable[[], object], result: object) -> None:
        actual = np.asarray(result)
        if row.same and not np.allclose(actual, expected, rtol=1e-2, atol=1e-2 * float(np.abs(expected).max())):
            raise AssertionError(f"{name} has other results")
        candidates[name] = run

    if row.numpy is not None:
        function = row.numpy
        enter("NumPy", lambda: function(*arrays), function(*arrays))
    if row.torch is not None and find_spec("torch"):
        import torch

        torch.set_num_threads(threads)
        of_torch, theirs = row.torch, [torch.from_numpy(array) for array in arrays]
        with torch.no_grad():
            enter("PyTorch", torch.no_grad()(lambda: of_torch(*theirs)), of_torch(*theirs))
    if row.jax is not None and find_spec("jax"):
        import jax

        of_jax, put = jax.jit(row.jax), [jax.numpy.asarray(array) for array in arrays]
        enter("JAX", lambda: of_jax(*put).block_until_ready(), of_jax(*put))
    if row.exported and find_spec("onnxruntime") and find_spec("onnx"):
        run = _of_onnxruntime(row.ours, tensors, arrays, threads)
        if run is not None:
            enter("ONNX Runtime", run, run())
    return candidates, [*arrays, expected]


def _of_onnxruntime(
    function: Function, tensors: Sequence[Any], arrays: Arrays, threads: int
) -> Callable[[], object] | None:
    """The exported function in ONNX Runtime; None where one of them refuses it."""
    import onnxruntime

    import jitgraph as jg

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.onnx"
        try:
            jg.onnx.export(function, str(path), tuple(tensors))
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except (jg.JitgraphError, RuntimeError, onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented):
            return None
    feeds = dict(zip([entry.name for entry in session.get_inputs()], arrays, strict=False))
    return lambda: session.run(None, feeds)[0]


class Limits(NamedTuple):
    """What the machine does: multiply-adds of products as flops a second."""

    flops: float


def _limits(threads: int) -> Limits:
    a = np.random.default_rng(0).standard_normal((512, 512), np.float32)
    import jitgraph as jg

    f, x = jg.trace(lambda x: x @ x), jg.asarray(a)
    runs: dict[str, Callable[[], object]] = {"jitgraph": lambda: f(x), "NumPy": lambda: a @ a}
    if find_spec("torch"):
        import torch

        torch.set_num_threads(threads)
        t = torch.from_numpy(a)
        runs["PyTorch"] = lambda: t @ t
    times = interleaved(runs, rounds=15)
    return Limits(2.0 * 512**3 / min(float(np.min(times[name])) for name in runs))


def _limit(row: Row, arrays: Sequence[Any], limits: Limits) -> float:
    """The seconds below which no library can be: of the products, or of a copy of what goes in and out."""
    half = sum(np.asarray(array).nbytes for array in arrays) // 2
    source, to = np.ones(max(half, 1), np.uint8), np.empty(max(half, 1), np.uint8)
    times = interleaved({"copy": lambda: np.copyto(to, source)}, rounds=15)["copy"]
    return max(row.flops / limits.flops, float(np.min(times)))


def measure(names: Sequence[str], threads: int) -> int:
    """Print the rows; 1 where one could not be measured."""
    rows, limits, failed = _rows(), _limits(threads), 0
    print(f"{threads} thread(s), products at {limits.flops / 1e9:.0f} GFLOP/s\n")
    print(f"{'':46} {'ours':>10}  best / ours                 {'best peer':13} ours / limit")
    gains = []
    for name in names or rows:
        try:
            candidates, arrays = _candidates(rows[name], threads)
        except Exception as error:
            print(f"{name:46} failed: {str(error).splitlines()[0][:90]}", flush=True)
            failed = 1
            continue
        started = time.perf_counter()
        for candidate in candidates.values():
            candidate()
        once = (time.perf_counter() - started) / len(candidates)
        calls = max(1, min(1000, int(ROW_SECONDS / MOST_ROUNDS / max(once, 1e-7))))
        rounds = max(5, min(MOST_ROUNDS, int(ROW_SECONDS / max(once * calls, 1e-7))))
        times = interleaved(candidates, rounds=rounds, calls=calls)
        ours = times.pop("jitgraph")
        best = min(times, key=lambda peer: float(np.median(times[peer])))
        ratios = times[best] / ours
        low, high = interval(ratios)
        gains.append(float(np.median(ratios)))
        limit = float(np.median(ours)) / _limit(rows[name], arrays, limits)
        print(
            f"{name:46} {1e3 * float(np.median(ours)):7.3f} ms  {gains[-1]:5.2f} (95 %: {low:5.2f} to {high:5.2f})"
            f"  {best:13} {limit:6.1f}",
            flush=True,
        )
    print(f"\ngeometric mean of {len(gains)} rows: {np.exp(np.mean(np.log(gains))):.2f}")
    return failed


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--here", action="store_true", help="in this process, whose environment is set already")
    options = parser.parse_args(arguments)
    if options.here:
        return measure(options.names, options.threads)
    count, eigen = str(options.threads), "false" if options.threads == 1 else "true"
    settings: Mapping[str, str] = {
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), count),
        "JITGRAPH_NUM_THREADS": count,
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={eigen} intra_op_parallelism_threads={count}",
    }
    command = [sys.executable, "-m", "bench.peers", "--here", "--threads", count, *options.names]
    if count == "1" and hasattr(os, "sched_getaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return subprocess.run(command, env={**os.environ, **settings}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
