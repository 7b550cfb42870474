"""Functions, modules, training steps and control flow as ONNX models: what evaluators of ONNX give, as calls do."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import JitgraphError, UnsupportedOp
from tests.onnx.op_models import difference, named, reference, require_valid

onnx = pytest.importorskip("onnx")

F = jg.nn.functional
EXAMPLES = Path(__file__).parents[2] / "examples"


def exported(folder: Path, f: Any, arguments: Sequence[Any], dynamic_shapes: Any = None, **options: Any) -> Any:
    """The model that a function becomes, valid and read from its file."""
    path = folder / "model.onnx"
    jg.onnx.export(f, path, arguments, dynamic_shapes, **options)
    assert sorted(file.name for file in folder.iterdir() if file.suffix == ".part") == []
    model = onnx.load(path)
    require_valid(model)
    return model


def operators(model: Any) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def require_results(model: Any, inputs: dict[str, Any], wanted: Any, tolerance: float = 1e-5) -> None:
    """The outputs that ONNX's evaluator gives, and ONNX Runtime where it is installed, are ``wanted``."""
    want = [np.asarray(x.detach() if isinstance(x, jg.Tensor) else x) for x in wanted]
    results = [reference(model, inputs)]
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        results.append(session.run(None, inputs))
    for outputs in results:
        for expected, actual in zip(want, outputs, strict=False):
            assert not difference(expected, actual, tolerance, tolerance)


def check(
    folder: Path,
    f: Callable[..., Any],
    arguments: Sequence[Any],
    dynamic_shapes: Any = None,
    others: Sequence[Sequence[Any]] = (),
) -> Any:
    model = exported(folder, f, arguments, dynamic_shapes)
    for each in (arguments, *others):
        wanted = f(*map(jg.asarray, each))
        require_results(model, named(model, each), wanted if isinstance(wanted, tuple) else (wanted,))
    return model


@pytest.fixture
def rng() -> np.random.Generator:
    jg.random.seed(0)
    return np.random.default_rng(0)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def example(name: str) -> Any:
    for package in ("sklearn", "tqdm"):
        pytest.importorskip(package)
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# --- modules ---


def test_a_module_is_one_node_for_each_layer(tmp_path: Path, rng: np.random.Generator) -> None:
    model = jg.nn.Sequential(
        jg.nn.Linear(6, 8), jg.nn.GELU(), jg.nn.LayerNorm(8), jg.nn.Linear(8, 3), jg.nn.Softmax(-1)
    )
    proto = check(tmp_path, model, (normal(rng, 4, 6),))
    assert operators(proto) == {"Gemm": 2, "Gelu": 1, "LayerNormalization": 1, "Softmax": 1}
    assert [tensor.name for tensor in proto.graph.initializer][:2] == ["0.weight", "0.bias"]
    assert proto.producer_name == "jitgraph"


def test_the_convolutional_net_of_the_examples(tmp_path: Path, rng: np.random.Generator) -> None:
    net = example("cnn").Net().eval()
    proto = check(tmp_path, net, (normal(rng, 2, 1, 8, 8),), {"x": {0: "batch"}}, [(normal(rng, 5, 1, 8, 8),)])
    assert operators(proto) >= Counter({"Conv": 2, "BatchNormalization": 2, "Relu": 2, "MaxPool": 1, "Gemm": 1})
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_the_gpt_of_the_examples(tmp_path: Path, rng: np.random.Generator) -> None:
    net = example("gpt").GPT(20)
    tokens = rng.integers(0, 20, (2, 9))
    proto = check(tmp_path, net, (tokens,), {"tokens": {0: "batch", 1: "time"}}, [(rng.integers(0, 20, (3, 5)),)])
    assert operators(proto)["Attention"] == 2
    assert operators(proto)["LayerNormalization"] == 5


def test_the_sentence_encoder_of_the_examples(tmp_path: Path, rng: np.random.Generator) -> None:
    module = example("sentence_encoder")
    words = rng.integers(1, 50, (2, 6))
    words[1, 3:] = 0
    check(tmp_path, module.Encoder().eval(), (words,))


def test_a_recurrent_net(tmp_path: Path, rng: np.random.Generator) -> None:
    net = example("language_model").LanguageModel(11, 8)
    proto = check(tmp_path, lambda codes: net(codes)[0], (rng.integers(0, 11, (2, 5)),))
    assert operators(proto)["Scan"] == 1


def test_other_examples(tmp_path: Path, rng: np.random.Generator) -> None:
    denoiser = example("diffusion").Denoiser(8)
    check(tmp_path, denoiser, (normal(rng, 4, 2), rng.integers(0, 50, 4)))
    ode = example("neural_ode")
    check(tmp_path, lambda start: ode.integrate(ode.pendulum, start, 5), (normal(rng, 3, 2),))
    check(tmp_path, example("digits").Classifier(), (normal(rng, 3, 64),))
    vae = example("vae").VAE()
    check(tmp_path, lambda x: jg.sigmoid(vae.decoder(vae.encoder(x)[:, :8])), (normal(rng, 3, 64),))


def test_the_examples_with_factors_of_matrices(tmp_path: Path, rng: np.random.Generator) -> None:
    process = example("gaussian_process")
    positions = np.sort(rng.uniform(-3, 3, 9))
    arguments = np.zeros(3), positions, np.sin(positions), np.linspace(-2, 2, 4)
    proto = check(tmp_path, process.predict, arguments)
    assert operators(proto)["Scan"] == 4
    check(tmp_path, jg.grad(process.surprise), arguments[:3])
    kalman = example("kalman")
    check(tmp_path, kalman.filtered, (normal(rng, 6, 2), np.array(0.1, np.float32), np.array(1, np.float32)))


def test_a_module_of_jitgraph_torch(tmp_path: Path, rng: np.random.Generator) -> None:
    import jitgraph.torch as torch

    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    x = normal(rng, 1, 2, 4, 4)
    proto = exported(tmp_path, net, (torch.tensor(x),))
    require_results(proto, named(proto, (x,)), (np.asarray(net(torch.tensor(x)).detach()),))


def test_products_with_vectors(tmp_path: Path, rng: np.random.Generator) -> None:
    def products(x: jg.Tensor, v: jg.Tensor) -> tuple[jg.Tensor, ...]:
        square = x @ x.T
        return x @ v, x.T @ (x @ v), (x @ v) @ x, v @ x.T, square.T @ (x @ v), jg.tensordot(v, x, ([0], [1])), v @ v

    proto = check(tmp_path, products, (rng.standard_normal((3, 4)), rng.standard_normal(4)))
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    values = (*inferred.input, *inferred.output, *inferred.value_info)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    operands = [[ranks[name] for name in node.input] for node in proto.graph.node if node.op_type == "MatMul"]
    assert {(1, 1), (2, 2)} >= set(map(tuple, operands))  # by which ONNX Runtime's fusion of transposes is right


def test_sums_of_positions_along_two_axes_pass_strict_inference(tmp_path: Path, rng: np.random.Generator) -> None:
    """Constant vectors with new axes, added: ONNX's propagation of sizes took them for vectors of two lengths."""

    def positions(x: jg.Tensor) -> tuple[jg.Tensor, ...]:
        rows, columns = jg.arange(5), jg.arange(3)
        grid = jg.broadcast_to(rows[:, None], (5, 3)) + columns
        return x[grid], jg.convolve(x, x[:4]), columns.astype(x.dtype) * x[:5, None]

    check(tmp_path, positions, (rng.standard_normal(9),))
    integers = np.arange(9, dtype=np.int64)
    check(tmp_path, lambda x: jg.convolve(x, x[:4]), (integers,))


# --- training ---


def test_a_training_step_goes_on_from_its_own_outputs(tmp_path: Path, rng: np.random.Generator) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(5, 8), jg.nn.GELU(), jg.nn.Linear(8, 3))
    optimizer = jg.optim.Adam(model.parameters(), lr=1e-2)

    @jg.trace
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    batches = [(normal(rng, 6, 5), rng.integers(0, 3, 6)) for _ in range(4)]
    step(*batches[0])
    proto = exported(tmp_path, step, batches[1])
    assert operators(proto) >= Counter({"SoftmaxCrossEntropyLoss": 1, "Gelu": 1})
    pairs = json.loads({prop.key: prop.value for prop in proto.metadata_props}["jitgraph"])["state"]
    names = [value.name for value in proto.graph.output]
    assert ["model.0.weight", "model.0.weight.next"] in pairs
    inputs: dict[str, Any] = {}
    for batch in batches[1:]:
        inputs |= named(proto, batch)
        results = dict(zip(names, reference(proto, inputs), strict=True))
        loss = step(*batch)
        assert not difference(loss.detach(), results["out0"], 1e-5, 1e-6)
        inputs = {before: results[after] for before, after in pairs}
    assert not difference(model[0].weight.detach(), inputs["model.0.weight"], 1e-4, 1e-5)


def test_a_step_of_the_convolutional_net(tmp_path: Path, rng: np.random.Generator) -> None:
    """Statistics of batches, dropout by the generator's key, and gradients of convolutions and pooling."""
    net = example("cnn").Net()
    optimizer = jg.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @jg.trace
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    batch = normal(rng, 3, 1, 8, 8), rng.integers(0, 10, 3)
    step(*batch)
    proto = exported(tmp_path, step, batch)
    require_results(proto, named(proto, batch), (step(*batch),), 1e-4)


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

    proto = check(tmp_path, collatz, (np.array(27),), None, [(np.array(1),), (np.array(6),)])
    assert operators(proto)["Loop"] == 1

    def choose(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        return jg.cond(jg.sum(x) > 0, lambda t: (t * 2, t), lambda t: (-t, jg.exp(t)), x)  # type: ignore[no-any-return]

    x = normal(rng, 3)
    proto = check(tmp_path, choose, (x,), None, [(-x,)])
    assert operators(proto)["If"] == 1

    def running(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        return jg.scan(lambda carry, row: (carry * 0.5 + row, carry), jg.zeros((2,)), x)  # type: ignore[no-any-return]

    proto = check(tmp_path, running, (normal(rng, 4, 2),), {"x": {0: "time"}}, [(normal(rng, 7, 2),)])
    assert operators(proto)["Scan"] == 1
    check(tmp_path, jg.grad(lambda x: jg.sum(running(x)[1] ** 2)), (normal(rng, 4, 2),))  # which goes backward


def test_the_gradient_of_a_loop_has_its_residuals_in_a_sequence(tmp_path: Path, rng: np.random.Generator) -> None:
    @jg.script
    def iterate(x: jg.Tensor) -> jg.Tensor:
        while jg.sum(x * x) < 50:
            x = x * 1.5 + jg.sin(x)
        return jg.sum(x)

    proto = check(tmp_path, jg.grad(iterate), (normal(rng, 4),), None, [(normal(rng, 4) / 10,)])
    assert operators(proto) >= Counter({"Loop": 2, "SequenceEmpty": 1})


# --- sizes, dtypes, random numbers ---


def test_sizes_with_names_are_computed_from_the_inputs(tmp_path: Path, rng: np.random.Generator) -> None:
    def shapes(x: jg.Tensor, y: jg.Tensor) -> tuple[jg.Tensor, ...]:
        both = jg.concatenate([x, y])
        return (
            *(both.reshape(-1, 2).sum(0), x.mean(0), jg.arange(x.shape[0]) * 2, x[:-1, 1::2], x.flatten()),
            *(jg.zeros((y.shape[0], 2)), jg.broadcast_to(x[:, None], (x.shape[0], 3, 6)), jg.flip(y, axis=0)),
            *(x.reshape(x.shape[0] * 2, 3), jg.var(x, axis=0), jg.cumsum(y, axis=0), jg.pad(x, ((1, 2), (0, 0)))),
        )

    sizes = {"x": {0: "n"}, "y": {0: "m"}}
    check(tmp_path, shapes, (normal(rng, 4, 6), normal(rng, 3, 6)), sizes, [(normal(rng, 5, 6), normal(rng, 2, 6))])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats(tmp_path: Path, rng: np.random.Generator, dtype: str) -> None:
    net = jg.nn.Sequential(jg.nn.Linear(4, 4), jg.nn.GELU(), jg.nn.LayerNorm(4), jg.nn.ELU(0.3)).to(getattr(jg, dtype))
    x = np.asarray(jg.asarray(normal(rng, 2, 4)).astype(getattr(jg, dtype)))
    proto = exported(tmp_path, net, (x,))
    tolerance = {"float16": 5e-3, "bfloat16": 5e-2, "float64": 1e-12}[dtype]
    assert not difference(net(jg.asarray(x)).detach(), reference(proto, named(proto, (x,)))[0], tolerance, tolerance)


def test_random_numbers_are_those_of_the_generator(tmp_path: Path, rng: np.random.Generator) -> None:
    @jg.trace
    def noisy(x: jg.Tensor) -> jg.Tensor:
        return F.dropout(x, 0.5) + jg.random.uniform((9,)) + jg.random.randint(0, 5, (9,))

    x = normal(rng, 9)
    proto = exported(tmp_path, noisy, (x,))
    pairs = json.loads({prop.key: prop.value for prop in proto.metadata_props}["jitgraph"])["state"]
    inputs = named(proto, (x,))
    for _ in range(2):
        results = dict(zip([value.name for value in proto.graph.output], reference(proto, inputs), strict=True))
        np.testing.assert_array_equal(results["out0"], noisy(x).numpy())
        inputs = named(proto, (x,)) | {before: results[after] for before, after in pairs}


def test_complex_numbers_inside_are_pairs(tmp_path: Path, rng: np.random.Generator) -> None:
    check(tmp_path, lambda x: jg.abs(jg.fft.rfft(x) * jg.exp(1j * jg.asarray(0.5))), (normal(rng, 6),))


# --- files ---


def test_results_and_inputs_have_names(tmp_path: Path, rng: np.random.Generator) -> None:
    def f(x: jg.Tensor, options: dict[str, jg.Tensor], scale: float = 2.0) -> dict[str, Any]:
        return {"low": x - options["shift"], "both": (x * scale, 3), "same": x}

    x = normal(rng, 2)
    proto = exported(tmp_path, f, (x, {"shift": x}, 2.0), metadata={"author": "me"})
    assert [value.name for value in proto.graph.input] == ["x", "options_shift", "scale"]
    assert [value.name for value in proto.graph.output] == ["low", "both.0", "same"]
    properties = {prop.key: prop.value for prop in proto.metadata_props}
    assert properties["author"] == "me"
    assert json.loads(properties["jitgraph"])["result"]["dict"]["both"] == {"tuple": [1, {"value": 3}]}
    results = reference(proto, {"x": x, "options_shift": x})  # the number has its default
    np.testing.assert_array_equal(results[1], x * 2)


def test_each_node_has_a_name_of_its_own_and_its_line(tmp_path: Path) -> None:
    """Such as Netron shows; what several lines share has none."""

    @jg.script
    def f(x: jg.Tensor, n: jg.Tensor) -> jg.Tensor:
        for i in range(n):
            x = jg.tanh(x + x.shape[0] * i)
        return jg.softmax(x, axis=0) @ jg.ones((3, 3)) + jg.arange(x.shape[1]).astype(jg.float32)

    proto = exported(tmp_path, f, (jg.ones((2, 3)), jg.asarray(2)), {"x": {0: "rows"}})

    def nodes_of(graph: Any) -> list[Any]:
        inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
        return [*graph.node, *(node for each in inner for node in nodes_of(each))]

    nodes = nodes_of(proto.graph)
    names = [node.name for node in nodes]
    assert all(names) and len(set(names)) == len(names)
    assert {"node.tanh", "node.softmax"} <= set(names)
    lines = {node.op_type: node.doc_string for node in nodes}
    assert all(Path(__file__).name in lines[operator] for operator in ("Tanh", "Softmax", "Loop"))
    shared = {"Constant", "Shape", "Squeeze", "Range", "Concat", "Div", "Sub", "Identity"}
    assert {node.op_type for node in nodes if not node.doc_string} <= shared


def test_large_weights_stand_in_a_file_of_their_own(tmp_path: Path, rng: np.random.Generator) -> None:
    net = jg.nn.Linear(64, 64)
    x = normal(rng, 2, 64)
    path = tmp_path / "model.onnx"
    jg.onnx.export(net, path, (x,), external_above=1000)
    data = tmp_path / "model.onnx.data"
    assert data.stat().st_size == 64 * 64 * 4
    assert path.stat().st_size < 2000
    model = onnx.load(path)
    np.testing.assert_allclose(reference(model, {"input": x})[0], net(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    jg.onnx.export(net, path, (x,), external_above=1000)  # over the files that are there
    assert data.stat().st_size == 64 * 64 * 4


def test_a_saved_model_becomes_another_file(tmp_path: Path, rng: np.random.Generator) -> None:
    net = jg.nn.Linear(3, 2)

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def scaled(x: jg.Tensor, scale: float = 0.5) -> jg.Tensor:
        return net(x) * scale

    x = normal(rng, 4, 3)
    jg.save(scaled, tmp_path / "model.jg", example_inputs=(x, 0.5))
    loaded = jg.load(tmp_path / "model.jg")
    proto = exported(tmp_path, loaded, (jg.TensorSpec(("batch", 3), jg.float32),))
    assert "net.weight" in [tensor.name for tensor in proto.graph.initializer]
    require_results(proto, {"x": x}, (scaled(x),))


# --- what cannot be exported ---


def test_what_has_no_form_is_named_with_its_line(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(
        UnsupportedOp, match=r"(?s)svd of \(f32\[6, 5\]\) has no form in ONNX.*test_export_functions\.py"
    ):
        jg.onnx.export(lambda x: jg.linalg.svdvals(x), path, (normal(rng, 6, 5),))
    with pytest.raises(UnsupportedOp, match=r"(?s)takes or gives c64\[2\].*real and imaginary parts"):
        jg.onnx.export(lambda x: x * 1j, path, (normal(rng, 2),))

    def shown(x: jg.Tensor) -> jg.Tensor:
        jg.debug.print("x = {}", x)
        return x

    with pytest.raises(UnsupportedOp, match=r"(?s)print writes text.*leave it out"):
        jg.onnx.export(shown, path, (normal(rng, 2),))
    with pytest.raises(JitgraphError, match="in a tuple"):
        jg.onnx.export(shown, path, normal(rng, 2))
    with pytest.raises(JitgraphError, match="a function or a module, not a str"):
        jg.onnx.export("model.pt", path, (normal(rng, 2),))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
