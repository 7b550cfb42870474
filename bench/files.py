"""Small models from files at batch 1: both loaders beside a compiled call in process, peers, and the limit.

The limit is what reading the weights takes, measured by a plain loop of C over the same bytes; a second loop of C
multiplies and adds. Each candidate runs many calls a turn, those in C within one call of C. Peers (ONNX Runtime,
PyTorch) take part where they are installed, with as many threads as they choose.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jitgraph as jg
from bench.timing import interval
from jitgraph.runtime import loader
from jitgraph.standalone import write_loaders

MODELS = {"784-256-256-10": (784, 256, 256, 10), "64-64-10": (64, 64, 10)}
CALLS = 20
ROUNDS = 100
Batch = Callable[[int], object]
Layers = Sequence[tuple[np.ndarray, np.ndarray]]

PROGRAM = """
#include "loader.h"

int run(jg_model *model, float *x, int64_t width, float *y, int64_t count, int64_t calls) {
    jg_tensor in = {.data = x, .dtype = JG_FLOAT32, .rank = 2, .shape = {1, width}};
    for (int64_t i = 0; i < calls; i++) {
        jg_tensor out = {.data = y, .bytes = (size_t)count * sizeof *y};
        if (jg_run(model, 0, &in, 1, &out, 1, 0)) return 1;
    }
    return 0;
}

int allocating(jg_model *model, float *x, int64_t width, int64_t calls) {
    jg_tensor in = {.data = x, .dtype = JG_FLOAT32, .rank = 2, .shape = {1, width}};
    for (int64_t i = 0; i < calls; i++) {
        jg_tensor out = {0};
        if (jg_run(model, 0, &in, 1, &out, 1, 0)) return 1;
        jg_tensor_free(&out);
    }
    return 0;
}

typedef float vector __attribute__((vector_size(32), aligned(4)));

/* As many sums as hide the latency of an addition. */
float read_all(const float *weights, int64_t count, int64_t calls) {
    vector sums[8] = {0};
    for (int64_t i = 0; i < calls; i++) {
        for (int64_t j = 0; j + 64 <= count; j += 64)
            for (int64_t k = 0; k < 8; k++) sums[k] += *(const vector *)(weights + j + 8 * k);
        __asm__ volatile("" ::: "memory");
    }
    for (int64_t k = 1; k < 8; k++) sums[0] += sums[k];
    return sums[0][0];
}

/* Matrices of shape [k, n] one after the other; sums[i] are the inputs of layer i, then its sums. */
void products(const float *weights, float *sums, const int64_t *widths, int64_t layers, int64_t calls) {
    for (int64_t i = 0; i < calls; i++) {
        const float *w = weights;
        float *x = sums;
        for (int64_t layer = 0; layer < layers; layer++) {
            int64_t k = widths[layer], n = widths[layer + 1];
            float *restrict y = x + k;
            for (int64_t c = 0; c < n; c++) y[c] = 0;
            for (int64_t d = 0; d < k; d++, w += n)
                for (int64_t c = 0; c < n; c++) y[c] += x[d] * w[c];
            x = y;
        }
        __asm__ volatile("" ::: "memory");
    }
}
"""


def _model(sizes: Sequence[int]) -> jg.nn.Module:
    layers: list[jg.nn.Module] = []
    for width, following in itertools.pairwise(sizes):
        layers += [jg.nn.Linear(width, following), jg.nn.ReLU()]
    return jg.nn.Sequential(*layers[:-1])


def _onnx(layers: Layers) -> Any:
    """A session of ONNX Runtime; ImportError where it is not installed."""
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    helper, nodes, constants, value = onnx.helper, [], [], "x"
    for i, (weight, bias) in enumerate(layers):
        constants += [onnx.numpy_helper.from_array(a, f"{n}{i}") for n, a in (("w", weight), ("b", bias))]
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"h{i}"], transB=1))
        value = f"h{i}"
        if i + 1 < len(layers):
            nodes.append(helper.make_node("Relu", [value], [f"r{i}"]))
            value = f"r{i}"
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, width])
        for name, width in (("x", layers[0][0].shape[1]), (value, layers[-1][0].shape[0]))
    ]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], constants)
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return runtime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])


def _repeated(call: Callable[[], object]) -> Batch:
    def batch(calls: int) -> None:
        for _ in range(calls):
            call()

    return batch


def _peers(layers: Layers, x: np.ndarray) -> dict[str, Batch]:
    transposed = [(weight.T, bias) for weight, bias in layers]

    def numpy_() -> np.ndarray:
        h = x
        for i, (weight, bias) in enumerate(transposed):
            h = h @ weight + bias
            if i + 1 < len(transposed):
                h = np.maximum(h, 0)
        return h

    peers = {"NumPy": _repeated(numpy_)}
    try:
        session = _onnx(layers)
    except ImportError:
        pass
    else:
        peers["ONNX Runtime"] = _repeated(lambda: session.run(None, {"x": x}))
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return peers
    tensors, inputs = [tuple(map(torch.from_numpy, layer)) for layer in layers], torch.from_numpy(x)

    def torch_() -> Any:
        h = inputs
        for i, (weight, bias) in enumerate(tensors):
            h = torch.nn.functional.linear(h, weight, bias)
            if i + 1 < len(tensors):
                h = torch.relu(h)
        return h

    peers["torch eager"] = _repeated(torch_)
    return peers


def _library(folder: Path) -> ctypes.CDLL:
    write_loaders(folder)
    (folder / "files.c").write_text(PROGRAM)
    sources = [str(folder / "files.c"), str(folder / "loader.c")]
    flags = ["-std=gnu11", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, *sources, "-lpthread", "-o", str(folder / "files.so")], check=True)
    c = ctypes.CDLL(str(folder / "files.so"))
    c.jg_load.restype = ctypes.c_void_p
    c.read_all.restype = ctypes.c_float
    return c


def candidates(sizes: Sequence[int], folder: Path) -> Mapping[str, Batch]:
    """What takes turns on the model of these sizes: each runs as many calls as it is told."""
    model = _model(sizes)
    known = jg.trace(lambda x: model(x))
    named = jg.trace(lambda x: model(x), dynamic_shapes={"x": {0: "batch"}})
    x = np.random.default_rng(0).standard_normal((1, sizes[0]), dtype=np.float32)
    paths = {"batch 1": folder / "known.jg", "named batch": folder / "named.jg"}
    jg.save(known, paths["batch 1"], example_inputs=(x,))
    jg.save(named, paths["named batch"], example_inputs=(np.repeat(x, 4, axis=0),))
    state = loader.load(paths["batch 1"]).state
    keys = sorted({name.rpartition(".")[0] for name in state})
    layers = [(state[f"{key}.weight"].copy(), state[f"{key}.bias"].copy()) for key in keys]
    c = _library(folder)
    y = np.zeros(sizes[-1], np.float32)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    results: dict[str, Batch] = {}
    for title, path in paths.items():
        loaded = loader.load(path)
        handle = pointer(c.jg_load(str(path).encode(), None))
        inputs = (handle, pointer(x.ctypes.data), size(x.size))

        def in_c(calls: int, argument: tuple[Any, ...] = inputs) -> None:
            assert c.run(*argument, pointer(y.ctypes.data), size(y.size), size(calls)) == 0

        def allocating(calls: int, argument: tuple[Any, ...] = inputs) -> None:
            assert c.allocating(*argument, size(calls)) == 0

        results[f"Python loader, {title}"] = _repeated(lambda loaded=loaded: loaded(x))  # type: ignore[misc]
        results[f"C loader, {title}"] = in_c
        results[f"C loader, {title}, allocating"] = allocating
    tensor = jg.asarray(x)
    with jg.no_grad():
        known(tensor)

    def in_process(calls: int) -> None:
        with jg.no_grad():
            for _ in range(calls):
                known(tensor)

    results["call in process"] = in_process
    results |= _peers(layers, x)
    weights = np.concatenate([weight.T.ravel() for weight, _ in layers])
    sums, widths = np.ones(sum(sizes), np.float32), np.array(sizes, np.int64)
    results["limit: reading the weights"] = lambda calls: c.read_all(
        pointer(weights.ctypes.data), size(weights.size), size(calls)
    )
    results["limit: products in plain C"] = lambda calls: c.products(
        pointer(weights.ctypes.data), pointer(sums.ctypes.data), pointer(widths.ctypes.data), size(len(layers)),
        size(calls),
    )  # fmt: skip
    return results


def measure(actual: Mapping[str, Batch], rounds: int = ROUNDS) -> dict[str, np.ndarray]:
    """Seconds a call of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in actual}
    for turn in range(rounds + 1):
        for name, batch in actual.items():
            batch(2)
            started = time.perf_counter()
            batch(CALLS)
            if turn:
                times[name].append((time.perf_counter() - started) / CALLS)
    return {name: np.array(values) for name, values in times.items()}


def main() -> None:
    for title, sizes in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            times = measure(candidates(sizes, Path(folder)))
        print(f"MLP {title}, float32")
        for name, values in times.items():
            low, high = interval(values)
            print(
                f"  {name:36} {1e6 * float(np.median(values)):7.1f} us  ({1e6 * low:.1f} to {1e6 * high:.1f}), "
                f"least {1e6 * float(values.min()):.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
