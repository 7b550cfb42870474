"""The first calls that ``bench/compile_time.py`` times, in jitgraph and its peers: what is called, ready to be called.

Each program makes its arrays first, so that a library's own start is not counted; the call returns when the result is
there. What a peer lacks here is not measured for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], object]
SHAPE = (1000, 100)
MANY = 5000


def six(x: Any, y: Any, sqrt: Any, maximum: Any) -> Any:
    """Six elementwise ops."""
    return sqrt(maximum((x * y + x) * 2.0 - y, 0.5))


def other(x: Any, y: Any, sqrt: Any, maximum: Any) -> Any:
    """Six others, of which a kernel is the second of its process."""
    return maximum(sqrt(x + y) * x - 0.25, y) * 3.0


def many(x: Any, count: int) -> Any:
    """A chain of distinct ops."""
    for i in range(count):
        x = x * (1.0 + i * 1e-9) if i % 2 else x + (0.5 + i)
    return x


def _pair() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.random(SHAPE, dtype=np.float32), generator.random(SHAPE, dtype=np.float32)


def _digits() -> tuple[np.ndarray, np.ndarray]:
    from bench.digits_step import BATCH

    generator = np.random.default_rng(0)
    return generator.random((BATCH, 64), dtype=np.float32), generator.integers(0, 10, BATCH)


def _elementwise(compiled: Callable[[Callable[..., Any]], Any], arrays: Any, sqrt: Any, maximum: Any) -> dict[str, Any]:
    """The programs that any library of arrays says in the same words."""
    x, y = arrays

    def second() -> Call:
        compiled(lambda x, y: six(x, y, sqrt, maximum))(x, y)
        function = compiled(lambda x, y: other(x, y, sqrt, maximum))
        return lambda: function(x, y)

    def first() -> Call:
        function = compiled(lambda x, y: six(x, y, sqrt, maximum))
        return lambda: function(x, y)

    def chain(count: int) -> Call:
        function = compiled(lambda x: many(x, count))
        return lambda: function(x[0])

    return {
        "six ops": first,
        "second kernel": second,
        "half of the ops": lambda: chain(MANY // 2),
        "5,000 ops": lambda: chain(MANY),
    }


def jitgraph() -> dict[str, Callable[[], Call]]:
    """Without the persistent cache; the objects of libraries are those of a wheel."""
    import jitgraph as jg
    from bench.calls import _encoder
    from bench.digits_step import jitgraph_step

    def step() -> Call:
        images, labels = map(jg.asarray, _digits())
        function = jg.trace(jitgraph_step())
        return lambda: function(images, labels)

    def encoder() -> Call:
        model, x = _encoder()
        function = jg.trace(lambda x: model(x))
        return lambda: function(x)

    arrays = [jg.asarray(array) for array in _pair()]
    return {**_elementwise(jg.trace, arrays, jg.sqrt, jg.maximum), "training step": step, "encoder": encoder}


def jax() -> dict[str, Callable[[], Call]]:
    """``jax.jit`` on the CPU."""
    import jax
    import jax.numpy as jnp

    def compiled(function: Callable[..., Any]) -> Any:
        actual = jax.jit(function)
        return lambda *args: jax.block_until_ready(actual(*args))

    def loss(weights: Any, x: Any, y: Any) -> Any:
        w1, b1, gain, shift, w2, b2 = weights
        h = x @ w1 + b1
        h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5) * gain + shift
        logits = jax.nn.gelu(h, approximate=False) @ w2 + b2
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def adam(state: Any, x: Any, y: Any) -> Any:
        weights, first, second, t = state
        value, gradients = jax.value_and_grad(loss)(weights, x, y)
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients, strict=True)]
        t = t + 1.0
        rate = 2e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        step = zip(weights, first, second, strict=True)
        return value, ([w - rate * m / (jnp.sqrt(v) + 1e-8) for w, m, v in step], first, second, t)

    def step() -> Call:
        images, labels = map(jnp.asarray, _digits())
        shapes = ((64, 128), (128,), (128,), (128,), (128, 10), (10,))
        weights = [jnp.asarray(np.random.default_rng(0).random(shape, dtype=np.float32)) for shape in shapes]
        zeros = [jnp.zeros_like(weight) for weight in weights]
        function, state = compiled(adam), (weights, zeros, zeros, jnp.asarray(0.0))
        return lambda: function(state, images, labels)

    return {**_elementwise(compiled, [jnp.asarray(a) for a in _pair()], jnp.sqrt, jnp.maximum), "training step": step}


def torch() -> dict[str, Callable[[], Call]]:
    """``torch.compile`` with its defaults, without its caches; one call, of which the chains take minutes."""
    import torch

    from bench.digits_step import BATCH, HIDDEN

    def step() -> Call:
        layers = torch.nn
        model = layers.Sequential(
            layers.Linear(64, HIDDEN), layers.LayerNorm(HIDDEN), layers.GELU(), layers.Linear(HIDDEN, 10)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        images, labels = map(torch.from_numpy, _digits())
        assert len(images) == BATCH

        @torch.compile
        def function() -> object:
            loss = layers.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return function

    def maximum(x: Any, y: Any) -> Any:
        return torch.clamp(x, min=y)

    programs = _elementwise(torch.compile, [torch.from_numpy(a) for a in _pair()], torch.sqrt, maximum)
    return {"six ops": programs["six ops"], "second kernel": programs["second kernel"], "training step": step}


def numba() -> dict[str, Callable[[], Call]]:
    """``numba.vectorize``, which is told the types as the others see them in their arguments."""
    import math

    import numba

    def compiled(function: Callable[..., Any]) -> Any:
        return lambda *args: numba.vectorize(["float32(float32, float32)"])(function)(*args)

    first = lambda x, y: math.sqrt(max((x * y + x) * np.float32(2.0) - y, np.float32(0.5)))
    second = lambda x, y: max(math.sqrt(x + y) * x - np.float32(0.25), y) * np.float32(3.0)

    def after() -> Call:
        compiled(first)(*_pair())
        return lambda: compiled(second)(*_pair())

    return {"six ops": lambda: lambda: compiled(first)(*_pair()), "second kernel": after}


def onnxruntime() -> dict[str, Callable[[], Call]]:
    """Making a session of a model that lies in a file, and running it once."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    def model(steps: list[tuple[str, float | str]], positions: int) -> bytes:
        """A chain over ``x``; operands are numbers or the input ``y``."""
        nodes, constants, last = [], [], "x"
        for number, (op, operand) in enumerate(steps):
            names = [last] if operand == "" else [last, operand if isinstance(operand, str) else f"c{number}"]
            if not isinstance(operand, str):
                constants.append(helper.make_tensor(f"c{number}", TensorProto.FLOAT, [], [operand]))
            last = f"v{number}"
            nodes.append(helper.make_node(op, names, [last]))
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y")[:positions]]
        result = helper.make_tensor_value_info(last, TensorProto.FLOAT, SHAPE)
        graph = helper.make_graph(nodes, "chain", values, [result], constants)
        actual = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return bytes(onnx.ModelProto.SerializeToString(actual))

    x, y = _pair()

    def session(steps: list[tuple[str, float | str]], *arrays: np.ndarray) -> Call:
        data = model(steps, len(arrays))
        file = tempfile.NamedTemporaryFile(suffix=".onnx")  # noqa: SIM115 - until the process ends
        file.write(data)
        file.flush()
        inputs = dict(zip(("x", "y"), arrays, strict=False))

        def call() -> object:
            assert file
            return onnxruntime.InferenceSession(file.name, providers=["CPUExecutionProvider"]).run(None, inputs)

        return call

    first = [("Mul", "y"), ("Add", "x"), ("Mul", 2.0), ("Sub", "y"), ("Max", 0.5), ("Sqrt", "")]
    second = [("Add", "y"), ("Sqrt", ""), ("Mul", "x"), ("Sub", 0.25), ("Max", "y"), ("Mul", 3.0)]

    def after() -> Call:
        session(first, x, y)()
        return session(second, x, y)

    def chain(count: int) -> Call:
        return session([("Mul", 1.0 + i * 1e-9) if i % 2 else ("Add", 0.5 + i) for i in range(count)], x)

    return {
        "six ops": lambda: session(first, x, y),
        "second kernel": after,
        "half of the ops": lambda: chain(MANY // 2),
        "5,000 ops": lambda: chain(MANY),
    }


PEERS: dict[str, Callable[[], dict[str, Callable[[], Call]]]] = {
    "jitgraph": jitgraph,
    "jax": jax,
    "numba": numba,
    "onnxruntime": onnxruntime,
    "torch": torch,
}
