"""What ``jg.onnx.export`` writes and ``jg.onnx.load`` reads computes the same bits, compiled and node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import UnsupportedOp
from tests.onnx.test_export_functions import example, normal

pytest.importorskip("onnx")

F = jg.nn.functional


@pytest.fixture
def rng() -> np.random.Generator:
    jg.random.seed(0)
    return np.random.default_rng(0)


def reloaded(folder: Path, f: Any, arguments: Sequence[Any], dynamic_shapes: Any = None) -> Any:
    path = folder / "model.onnx"
    jg.onnx.export(f, path, tuple(arguments), dynamic_shapes)
    return jg.onnx.load(path).eval()


def arrays(results: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x.detach()) for x in (results if isinstance(results, tuple) else (results,))]


def require_same_bits(want: Any, got: Any) -> None:
    for expected, actual in zip(arrays(want), arrays(got), strict=True):
        np.testing.assert_array_equal(actual, expected, strict=True)
        assert actual.tobytes() == expected.tobytes()  # as zeros have signs


def check(
    folder: Path,
    f: Callable[..., Any],
    arguments: Sequence[Any],
    dynamic_shapes: Any = None,
    others: Sequence[Sequence[Any]] = (),
) -> Any:
    """Compiled code against compiled code."""
    module = reloaded(folder, f, arguments, dynamic_shapes)
    traced = jg.trace(lambda *args: f(*args))
    for each in (arguments, *others):
        tensors = [jg.asarray(x) for x in each]
        require_same_bits(traced(*tensors), module(*tensors))
    return module


# --- modules ---


def test_the_convolutional_net_of_the_examples(tmp_path: Path, rng: np.random.Generator) -> None:
    net = example("cnn").Net().eval()
    x = normal(rng, 2, 1, 8, 8)
    module = check(tmp_path, net, (x,), {"x": {0: "batch"}}, [(normal(rng, 5, 1, 8, 8),)])
    assert module.traced.cache_info().misses == 1
    require_same_bits(net(jg.asarray(x)), module.forward(x))
    names = {name for name, _ in net.named_parameters()}
    assert names <= {name for name, _ in module.named_parameters()}


def test_the_gpt_of_the_examples(tmp_path: Path, rng: np.random.Generator) -> None:
    net = example("gpt").GPT(20)
    tokens = rng.integers(0, 20, (2, 9))
    check(tmp_path, net, (tokens,), {"tokens": {0: "batch", 1: "time"}}, [(rng.integers(0, 20, (3, 5)),)])


def test_the_sentence_encoder_of_the_examples(tmp_path: Path, rng: np.random.Generator) -> None:
    words = rng.integers(1, 50, (2, 6))
    words[1, 3:] = 0
    check(tmp_path, example("sentence_encoder").Encoder().eval(), (words,))


def test_a_recurrent_net(tmp_path: Path, rng: np.random.Generator) -> None:
    net = example("language_model").LanguageModel(11, 8)
    check(tmp_path, lambda codes: net(codes)[0], (rng.integers(0, 11, (2, 5)),))


def test_other_examples(tmp_path: Path, rng: np.random.Generator) -> None:
    check(tmp_path, example("diffusion").Denoiser(8), (normal(rng, 4, 2), rng.integers(0, 50, 4)))
    ode = example("neural_ode")
    check(tmp_path, lambda start: ode.integrate(ode.pendulum, start, 5), (normal(rng, 3, 2),))
    vae = example("vae").VAE()
    check(tmp_path, lambda x: jg.sigmoid(vae.decoder(vae.encoder(x)[:, :8])), (normal(rng, 3, 64),))


def test_the_examples_with_factors_of_matrices(tmp_path: Path, rng: np.random.Generator) -> None:
    process = example("gaussian_process")
    positions = np.sort(rng.uniform(-3, 3, 9))
    data = np.zeros(3), positions, np.sin(positions)
    # A factorisation is one op here, and in ONNX, which has none, a Scan over the columns that sums in another order.
    for f, arguments in ((process.predict, (*data, np.linspace(-2, 2, 4))), (jg.grad(process.surprise), data)):
        module = reloaded(tmp_path, f, arguments)
        tensors = [jg.asarray(x) for x in arguments]
        for expected, actual in zip(arrays(jg.trace(f)(*tensors)), arrays(module(*tensors)), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
    kalman = example("kalman")
    check(tmp_path, kalman.filtered, (normal(rng, 6, 2), np.array(0.1, np.float32), np.array(1, np.float32)))


def test_a_module_of_jitgraph_torch(tmp_path: Path, rng: np.random.Generator) -> None:
    import jitgraph.torch as torch

    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    x = normal(rng, 1, 2, 4, 4)
    module = reloaded(tmp_path, net, (torch.tensor(x),))
    require_same_bits(net(torch.tensor(x)), module.forward(x))


# --- training ---


def test_a_step_of_adam(tmp_path: Path, rng: np.random.Generator) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(5, 8), jg.nn.SiLU(), jg.nn.Linear(8, 3))
    optimizer = jg.optim.Adam(model.parameters(), lr=1e-2)

    @jg.trace
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    batch = normal(rng, 6, 5), rng.integers(0, 3, 6)
    step(*batch)
    module = reloaded(tmp_path, step, batch)
    results = dict(zip(module.outputs, arrays(module(*batch)), strict=True))
    require_same_bits(step(*batch), jg.asarray(results["out0"]))
    for name, parameter in model.named_parameters():
        require_same_bits(parameter, jg.asarray(results[f"model.{name}.next"]))


def test_the_slope_of_gelu_is_near(tmp_path: Path, rng: np.random.Generator) -> None:
    """exp(-x^2 / 2) is one op, whose square is not rounded; ONNX has Exp of a square that is."""
    x = jg.asarray(normal(rng, 64))
    slope = jg.grad(lambda t: jg.sum(F.gelu(t)))
    module = reloaded(tmp_path, slope, (x,))
    np.testing.assert_allclose(arrays(module(x))[0], jg.trace(slope)(x).numpy(), rtol=1e-6, atol=1e-6)


def test_random_numbers(tmp_path: Path, rng: np.random.Generator) -> None:
    @jg.trace
    def noisy(x: jg.Tensor) -> jg.Tensor:
        return F.dropout(x, 0.5) + jg.random.uniform((9,)) + jg.random.randint(0, 5, (9,))

    x = normal(rng, 9)
    module = reloaded(tmp_path, noisy, (x,))
    require_same_bits(noisy(x), module(x)[0])


def test_gradients(tmp_path: Path, rng: np.random.Generator) -> None:
    weight = jg.asarray(normal(rng, 4, 4))

    def energy(x: jg.Tensor) -> jg.Tensor:
        return jg.sum(F.softplus(x @ weight) * F.silu(x)) + jg.logsumexp(x)

    check(tmp_path, jg.grad(energy), (normal(rng, 3, 4),))
    check(tmp_path, jg.hessian(energy), (normal(rng, 2, 4),))


# --- control flow ---


def test_control_flow(tmp_path: Path, rng: np.random.Generator) -> None:
    @jg.script
    def collatz(n: jg.Tensor) -> jg.Tensor:
        steps = jg.asarray(0)
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    module = reloaded(tmp_path, collatz, (np.array(27),))
    for number, steps in ((27, 111), (1, 0), (6, 8)):
        require_same_bits(collatz(jg.asarray(number)), module(np.array(number)))
        assert int(module(np.array(number))) == steps

    def choose(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        return jg.cond(jg.sum(x) > 0, lambda t: (t * 2, t), lambda t: (-t, jg.exp(t)), x)  # type: ignore[no-any-return]

    x = normal(rng, 3)
    check(tmp_path, choose, (x,), None, [(-x,)])

    def running(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        return jg.scan(lambda carry, row: (carry * 0.5 + row, carry), jg.zeros((2,)), x)  # type: ignore[no-any-return]

    check(tmp_path, running, (normal(rng, 4, 2),), {"x": {0: "time"}}, [(normal(rng, 7, 2),)])
    check(tmp_path, jg.grad(lambda x: jg.sum(running(x)[1] ** 2)), (normal(rng, 4, 2),))


def test_the_gradient_of_a_loop_is_computed_node_by_node(tmp_path: Path, rng: np.random.Generator) -> None:
    """Its residuals are a sequence of any length, which a trace has none of."""

    @jg.script
    def iterate(x: jg.Tensor) -> jg.Tensor:
        while jg.sum(x * x) < 50:
            x = x * 1.5 + jg.sin(x)
        return jg.sum(x)

    gradient = jg.grad(iterate)
    x = normal(rng, 4)
    module = reloaded(tmp_path, gradient, (x,))
    for each in (x, x / 10):
        require_same_bits(gradient(jg.asarray(each)), module.forward(each))
    with pytest.raises(UnsupportedOp, match=r"module\.forward"):
        module(x)


# --- sizes, and forms of single ops ---


def test_sizes_with_names(tmp_path: Path, rng: np.random.Generator) -> None:
    def shapes(x: jg.Tensor, y: jg.Tensor) -> tuple[jg.Tensor, ...]:
        both = jg.concatenate([x, y])
        return (
            *(both.reshape(-1, 2).sum(0), x.mean(0), jg.arange(x.shape[0]) * 2, x[:-1, 1::2], x.flatten()),
            *(jg.zeros((y.shape[0], 2)), jg.broadcast_to(x[:, None], (x.shape[0], 3, 6)), jg.flip(y, axis=0)),
            *(x.reshape(x.shape[0] * 2, 3), jg.var(x, axis=0), jg.cumsum(y, axis=0), jg.pad(x, ((1, 2), (0, 0)))),
        )

    sizes = {"x": {0: "n"}, "y": {0: "m"}}
    check(tmp_path, shapes, (normal(rng, 4, 6), normal(rng, 3, 6)), sizes, [(normal(rng, 5, 6), normal(rng, 2, 6))])


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 5, 3), (4, 2, 6), (4, 5, 6), (3, 2, 2)])
def test_blocks_at_computed_positions(tmp_path: Path, rng: np.random.Generator, sizes: tuple[int, ...]) -> None:
    """Their positions are clamped, and the shapes of what is read and written are known."""

    def blocks(x: jg.Tensor, update: jg.Tensor, starts: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        at = [starts[i] for i in range(3)]
        return jg.dynamic_slice(x, at, sizes), jg.dynamic_update_slice(x, update, at)

    x, update = normal(rng, 4, 5, 6), normal(rng, *sizes)
    others = [(x, update, np.array(starts)) for starts in ((0, 0, 0), (9, 1, -3), (3, 4, 5))]
    module = check(tmp_path, blocks, (x, update, np.array([1, 2, 1])), None, others)
    require_same_bits(blocks(*map(jg.asarray, others[1])), module.forward(*others[1]))


def test_bits_of_numbers(tmp_path: Path, rng: np.random.Generator) -> None:
    def near(x: jg.Tensor) -> jg.Tensor:
        return jg.nextafter(x, x * 2)

    check(tmp_path, near, (normal(rng, 5),))
    check(tmp_path, lambda x: jg.abs((x + 1j) * jg.exp(1j * jg.asarray(0.5))), (normal(rng, 6),))


def test_transforms_are_those_of_the_definition(tmp_path: Path, rng: np.random.Generator) -> None:
    """A model holds a Fourier transform as products, whose sums have another order than the kernels'."""

    def spectrum(x: jg.Tensor) -> jg.Tensor:
        return jg.abs(jg.fft.rfft(x))

    x = normal(rng, 6)
    actual = arrays(reloaded(tmp_path, spectrum, (x,))(jg.asarray(x)))[0]
    np.testing.assert_allclose(actual, jg.trace(spectrum)(jg.asarray(x)).numpy(), rtol=1e-5, atol=1e-6)


def test_inputs_have_the_specs_of_the_export(tmp_path: Path, rng: np.random.Generator) -> None:
    def f(x: jg.Tensor, n: jg.Tensor) -> jg.Tensor:
        return x * n

    module = reloaded(tmp_path, f, (normal(rng, 2, 3), np.array(2)), {"x": {0: "batch"}})
    specs = module.input_specs()
    assert [(name, spec.shape, spec.dtype) for name, spec in specs.items()] == [
        ("x", ("batch", 3), jg.float32),
        ("n", (), jg.int64),
    ]
    static = jg.onnx.load(tmp_path / "model.onnx", static_sizes=["batch"])
    with pytest.raises(jg.errors.ArgumentError, match="sizes of x"):
        static.input_specs()
