"""What ``bench/cuda.py`` times: a function of jitgraph, the same in PyTorch and JAX, and what it moves or multiplies.

Sizes are those of a GPU, or tiny for a rehearsal on the simulator. Peers are imported where they are asked for.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import jitgraph as jg
from bench import eager_models

Run = Callable[[], Any]


class Work(NamedTuple):
    """Candidates by name, and what a call does at least: bytes of memory, and operations."""

    runs: dict[str, Callable[[], Run]]
    bytes: float = 0.0
    operations: float = 0.0


def has(name: str) -> bool:
    """Whether a peer is installed."""
    return importlib.util.find_spec(name) is not None


def torch_place() -> str:
    """Where PyTorch computes: on the GPU, or on the CPU in a rehearsal."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


class Case(NamedTuple):
    """A function of arrays, written with names that the libraries share; ``torch`` and ``jax`` where they differ."""

    jitgraph: Callable[..., Any]
    torch: Callable[..., Any] | None
    jax: Callable[..., Any] | None
    arrays: tuple[np.ndarray, ...]
    dtype: str = "float32"
    bytes: float = 0.0
    operations: float = 0.0

    def work(self) -> Work:
        runs: dict[str, Callable[[], Run]] = {"jitgraph": self._ours, "jitgraph, eager": self._eager}
        if self.torch is not None and has("torch"):
            runs |= {"torch": self._torch, "torch.compile": self._torch_compiled}
        if self.jax is not None and has("jax"):
            runs["jax"] = self._jax
        return Work(runs, self.bytes, self.operations)

    def _ours(self) -> Run:
        traced, operands = jg.trace(self.jitgraph), self._operands()
        return lambda: traced(*operands)

    def _eager(self) -> Run:
        operands = self._operands()
        return lambda: self.jitgraph(*operands)

    def _operands(self) -> list[Any]:
        results = [jg.asarray(array, device="cuda") for array in self.arrays]
        return [x.astype(getattr(jg, self.dtype)) if x.dtype == jg.float32 else x for x in results]

    def _torch(self) -> Run:
        import torch

        kind = getattr(torch, self.dtype)
        results = [torch.from_numpy(array).to(torch_place()) for array in self.arrays]
        operands = [x.to(kind) if x.dtype == torch.float32 else x for x in results]
        assert self.torch is not None
        function = self.torch
        return lambda: function(*operands)

    def _torch_compiled(self) -> Run:
        import torch

        kind = getattr(torch, self.dtype)
        results = [torch.from_numpy(array).to(torch_place()) for array in self.arrays]
        operands = [x.to(kind) if x.dtype == torch.float32 else x for x in results]
        function = torch.compile(self.torch)
        return lambda: function(*operands)

    def _jax(self) -> Run:
        import jax

        results = [jax.numpy.asarray(array) for array in self.arrays]
        operands = [x.astype(self.dtype) if x.dtype == np.float32 else x for x in results]
        function = jax.jit(self.jax)
        return lambda: function(*operands)


def floats(*shape: int) -> np.ndarray:
    """Numbers around 0."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _torch_functional() -> Any:
    import torch

    return torch.nn.functional


def _jax_nn() -> Any:
    import jax

    return jax.nn


def _pointwise(n: int) -> Case:
    def chain(a: Any, b: Any, c: Any) -> Any:
        return (a * b + c) * 0.5 + a

    return Case(chain, chain, chain, (floats(n), floats(n) + 1, floats(n) + 2), bytes=16.0 * n)


def _softmax(rows: int, columns: int) -> Case:
    return Case(
        lambda x: jg.softmax(x, axis=-1),
        lambda x: _torch_functional().softmax(x, -1),
        lambda x: _jax_nn().softmax(x, -1),
        (floats(rows, columns),),
        bytes=8.0 * rows * columns,
    )


def _rows(rows: int, columns: int) -> Case:
    return Case(
        lambda x: jg.sum(x, axis=1),
        lambda x: x.sum(1),
        lambda x: x.sum(1),
        (floats(rows, columns),),
        bytes=4.0 * rows * columns,
    )


def _layer_norm(rows: int, columns: int) -> Case:
    return Case(
        lambda x: jg.nn.functional.layer_norm(x, (columns,)),
        lambda x: _torch_functional().layer_norm(x, (columns,)),
        lambda x: (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + 1e-5) ** 0.5,
        (floats(rows, columns),),
        bytes=8.0 * rows * columns,
    )


def _transpose(n: int) -> Case:
    return Case(
        lambda x: jg.permute_dims(x, (1, 0)) * 2.0, lambda x: (x.T * 2.0).contiguous(), lambda x: x.T * 2.0,
        (floats(n, n),), bytes=8.0 * n * n,
    )  # fmt: skip


def _product(n: int, dtype: str) -> Case:
    def product(a: Any, b: Any) -> Any:
        return a @ b

    return Case(product, product, product, (floats(n, n), floats(n, n).T.copy()), dtype, operations=2.0 * n**3)


def _attention(heads: int, length: int, width: int, dtype: str) -> Case:
    arrays = tuple(floats(1, heads, length, width) + i for i in range(3))
    operations = 4.0 * heads * length * length * width
    return Case(
        lambda q, k, v: jg.nn.functional.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: _torch_functional().scaled_dot_product_attention(q, k, v),
        None,
        arrays,
        dtype,
        operations=operations,
    )


def _training(name: str) -> Work:
    """A step of one of the models of ``eager_models``, compiled, beside PyTorch's."""
    make = eager_models.MODELS[name]

    def step(library: str, wrap: Callable[[Any], Any]) -> Run:
        lib = eager_models.Library(library)
        device = "cuda" if library == "jitgraph" else torch_place()
        model, arrays = make(lib)
        model = model.to(device)
        optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
        operands = [lib.tensor(array).to(device) for array in arrays]

        def one(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = lib.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(one)
        return lambda: run(*operands)

    runs: dict[str, Callable[[], Run]] = {
        "jitgraph": lambda: step("jitgraph", jg.trace),
        "jitgraph, eager": lambda: step("jitgraph", lambda f: f),
    }
    if has("torch"):
        runs["torch"] = lambda: step("torch", lambda f: f)
    return Work(runs)


def cases(*, tiny: bool) -> dict[str, Callable[[], Work]]:
    """The measurements by name."""
    elements, rows, side, heads, length = (1 << 10, 8, 48, 2, 32) if tiny else (1 << 25, 1 << 14, 4096, 32, 2048)
    columns, width = (64, 16) if tiny else (2048, 64)
    results: dict[str, Callable[[], Work]] = {
        f"pointwise chain, {elements} elements": lambda: _pointwise(elements).work(),
        f"sums of {rows} rows of {columns}": lambda: _rows(rows, columns).work(),
        f"softmax of {rows} rows of {columns}": lambda: _softmax(rows, columns).work(),
        f"layer norm of {rows} rows of {columns}": lambda: _layer_norm(rows, columns).work(),
        f"transpose of {2 * side} squared": lambda: _transpose(2 * side).work(),
        f"product of {side}, float32": lambda: _product(side, "float32").work(),
        f"product of {side}, bfloat16": lambda: _product(side, "bfloat16").work(),
        f"attention, {heads} heads, {length} long": lambda: _attention(heads, length, width, "bfloat16").work(),
        "training step, mlp": lambda: _training("mlp"),
    }
    if not tiny:
        results["training step, cnn"] = lambda: _training("cnn")
    return results
