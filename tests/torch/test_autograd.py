"""torch.autograd and torch.func: the values, structures and errors of PyTorch, by programs that run under both."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as ours

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of PyTorch, by its forward mode
PyTorch = importlib.util.find_spec("torch") and importlib.import_module("torch")


def matrix(torch: Any, *shape: int, grad: bool = False) -> Any:
    x = torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float64).reshape(shape) / 7
    return x.requires_grad_() if grad else x


def plain(value: Any) -> Any:
    """A result as lists, with its structure."""
    if isinstance(value, tuple | list):
        return [plain(x) for x in value]
    if isinstance(value, dict):
        return {key: plain(x) for key, x in value.items()}
    return value.detach().numpy().tolist() if hasattr(value, "detach") else value


def same(torch_program: Callable[[Any], Any], *expected: Any) -> None:
    """The program has the same results under both imports, and those given."""
    result = plain(torch_program(ours))
    if PyTorch:
        assert_close(result, plain(torch_program(PyTorch)))
    for due in expected:
        assert_close(result, plain(due))


def assert_close(actual: Any, due: Any) -> None:
    if isinstance(due, list) and not all(isinstance(x, float | int) for x in due):
        assert isinstance(actual, list) and len(actual) == len(due)
        for x, y in zip(actual, due, strict=True):
            assert_close(x, y)
    elif isinstance(due, dict):
        assert actual.keys() == due.keys()
        for key, y in due.items():
            assert_close(actual[key], y)
    elif isinstance(due, float | list):
        np.testing.assert_allclose(actual, due, rtol=1e-6, atol=1e-12)
    else:
        assert actual == due


def f(x: Any) -> Any:
    return (x**3).sum()


def two(x: Any, y: Any) -> Any:
    return x.sin() * y, (x * y).sum()


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "jacobian": lambda torch: torch.autograd.functional.jacobian(lambda x: x.exp(), matrix(torch, 3)),
    "jacobian of a tuple": lambda torch: torch.autograd.functional.jacobian(two, (matrix(torch, 2), matrix(torch, 2))),
    "jacobian to a tuple": lambda torch: torch.autograd.functional.jacobian(lambda x: (x, x * x), matrix(torch, 2)),
    "jacobian forward": lambda torch: torch.autograd.functional.jacobian(
        lambda x: x.exp(), matrix(torch, 3), vectorize=True, strategy="forward-mode"
    ),
    "hessian": lambda torch: torch.autograd.functional.hessian(f, matrix(torch, 3)),
    "hessian of a tuple": lambda torch: torch.autograd.functional.hessian(
        lambda x, y: (x * x * y).sum(), (matrix(torch, 2), matrix(torch, 2))
    ),
    "vjp": lambda torch: torch.autograd.functional.vjp(lambda x: x.exp(), matrix(torch, 3), matrix(torch, 3)),
    "vjp of a tuple": lambda torch: torch.autograd.functional.vjp(
        lambda x, y: (x * y).sum(), (matrix(torch, 2), matrix(torch, 2))
    ),
    "jvp": lambda torch: torch.autograd.functional.jvp(lambda x: x.exp(), matrix(torch, 3), matrix(torch, 3)),
    "hvp": lambda torch: torch.autograd.functional.hvp(f, matrix(torch, 3), matrix(torch, 3)),
    "vhp": lambda torch: torch.autograd.functional.vhp(f, matrix(torch, 3), matrix(torch, 3)),
    "func.grad": lambda torch: torch.func.grad(f)(matrix(torch, 3)),
    "func.grad twice": lambda torch: torch.func.grad(torch.func.grad(lambda x: x.sin()))(matrix(torch, 1)[0]),
    "func.grad of several": lambda torch: torch.func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(
        matrix(torch, 2), matrix(torch, 2)
    ),
    "grad_and_value": lambda torch: torch.func.grad_and_value(lambda x: (f(x), x), has_aux=True)(matrix(torch, 2)),
    "func.vjp": lambda torch: torch.func.vjp(lambda x: x.exp(), matrix(torch, 3))[1](matrix(torch, 3)),
    "func.jvp": lambda torch: torch.func.jvp(lambda x, y: x * y, (matrix(torch, 3),) * 2, (matrix(torch, 3),) * 2),
    "func.vmap": lambda torch: torch.vmap(lambda x, y: x @ y, in_dims=(0, None))(matrix(torch, 3, 2), matrix(torch, 2)),
    "func.vmap out_dims": lambda torch: torch.func.vmap(lambda x: (x, x.sum()), in_dims=1, out_dims=(1, 0))(
        matrix(torch, 3, 2)
    ),
    "func.vmap in chunks": lambda torch: torch.vmap(lambda x: {"a": x.sin(), "b": x.sum()}, chunk_size=2)(
        matrix(torch, 5, 2)
    ),
    "per-sample gradients": lambda torch: torch.vmap(torch.func.grad(f))(matrix(torch, 3, 2)),
    "jacrev": lambda torch: torch.func.jacrev(two, argnums=1)(matrix(torch, 2), matrix(torch, 2)),
    "jacfwd": lambda torch: torch.func.jacfwd(lambda x: x.exp())(matrix(torch, 3)),
    "func.hessian": lambda torch: torch.func.hessian(f)(matrix(torch, 3)),
    "linearize": lambda torch: torch.func.linearize(lambda x: x.exp(), matrix(torch, 3))[1](matrix(torch, 3)),
    "functionalize": lambda torch: torch.func.functionalize(lambda x: x.clone().add_(1))(matrix(torch, 2)),
    "views inside": lambda torch: torch.func.grad(lambda x: (x.view(-1)[1:] * x.t().reshape(-1)[:3]).sum())(
        matrix(torch, 2, 2)
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transforms_have_the_results_of_pytorch(name: str) -> None:
    result = PROGRAMS[name](ours)
    assert_torch(result)
    same(PROGRAMS[name])


@pytest.mark.parametrize("name", ["gradcheck", "gradgradcheck", "grad", "vmap", "jacrev", "jacfwd", "hessian"])
def test_functions_get_tensors_with_the_names_of_pytorch(name: str) -> None:
    """Whatever calls them, and from an array of jitgraph's own class, too."""

    def function(x: Any) -> Any:
        assert type(x) is ours.Tensor
        return (x.sin() * x / x.numel()).sum()

    if name in ("gradcheck", "gradgradcheck"):
        x = ours.tensor([1.0, 2.0, 3.0], dtype=ours.float64, requires_grad=True)
        assert getattr(ours.autograd, name)(function, (x,))
    else:
        assert_torch(getattr(ours.func, name)(function)(jg.asarray([1.0, 2.0])))


def assert_torch(value: Any) -> None:
    """Tensors are of the class of PyTorch's names, wherever they stand."""
    for x in value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ():
        assert_torch(x)
    if not isinstance(value, dict | tuple | list):
        assert isinstance(value, ours.Tensor)


def backward_of_several(torch: Any) -> Any:
    x = matrix(torch, 3, grad=True)
    y = matrix(torch, 2, grad=True)
    torch.autograd.backward([x * y[0], y.sum()], [matrix(torch, 3), None])
    return x.grad, y.grad


def backward_into_inputs(torch: Any) -> Any:
    x, y = matrix(torch, 3, grad=True), matrix(torch, 3, grad=True)
    z = x * y
    z.sum().backward(inputs=[x], retain_graph=True)
    z.backward(matrix(torch, 3), inputs=[x])
    return x.grad, y.grad is None


def gradients(torch: Any) -> Any:
    x, y = matrix(torch, 3, grad=True), matrix(torch, 3, grad=True)
    z = (x * x).sum()
    first = torch.autograd.grad(z, x, create_graph=True)
    second = torch.autograd.grad(first[0].sum(), [x, y], allow_unused=True, retain_graph=True)
    zeros = torch.autograd.grad(first[0].sum(), [x, y], materialize_grads=True)
    return first, second[0], second[1] is None, zeros


def batched_gradients(torch: Any) -> Any:
    x = matrix(torch, 2, grad=True)
    return torch.autograd.grad(x * x, x, torch.eye(2, dtype=torch.float64), is_grads_batched=True)


def modes(torch: Any) -> Any:
    x = matrix(torch, 2, grad=True)
    seen = []

    @torch.no_grad
    def bare() -> Any:
        return (x * 2).requires_grad

    @torch.no_grad()
    def called() -> Any:
        """Documented."""
        return (x * 2).requires_grad

    @torch.set_grad_enabled(False)
    def off() -> Any:
        return (x * 2).requires_grad

    @torch.inference_mode()
    def inferred() -> Any:
        return (x * 2).requires_grad, torch.is_inference_mode_enabled()

    @torch.no_grad()
    def steps() -> Any:
        for _ in range(2):
            yield (x * 2).requires_grad

    seen += [bare(), called(), off(), inferred(), called.__doc__, torch.is_grad_enabled()]
    for inside in steps():
        seen += [inside, torch.is_grad_enabled()]
    with torch.no_grad():
        seen.append(torch.is_grad_enabled())
        with torch.enable_grad():
            seen.append((x * 2).requires_grad)
        with torch.set_grad_enabled(True):
            seen.append(torch.is_grad_enabled())
        seen.append(torch.is_grad_enabled())
    torch.set_grad_enabled(False)
    seen.append(torch.is_grad_enabled())
    torch.set_grad_enabled(True)
    with torch.inference_mode(False):
        seen.append(torch.is_grad_enabled())
    seen += [torch.is_grad_enabled(), torch.is_inference_mode_enabled()]
    return seen


def function_with_context(torch: Any) -> Any:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: float) -> Any:
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x.pow(3).mul(scale)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad_output.mul(x.pow(2)) * 3 * ctx.scale if ctx.needs_input_grad[0] else None, None

    x = matrix(torch, 3, grad=True)
    y = Cube.apply(x, 2.0)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return y, g, torch.autograd.grad(g.sum(), x)


def function_with_setup(torch: Any) -> Any:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y, x.argmax()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y, g * x

    x, y = matrix(torch, 3, grad=True), matrix(torch, 3, grad=True)
    z, at = Product.apply(x, y)
    z.sum().backward()
    return z, at, x.grad, y.grad


def function_in_place(torch: Any) -> Any:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = matrix(torch, 3, grad=True)
    y = x * 1
    z = Doubled.apply(y)
    z.sum().backward()
    return z is y, y, x.grad


def forward_mode(torch: Any) -> Any:
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        x = fw.make_dual(matrix(torch, 3), matrix(torch, 3) * 2)
        y = x.sin() * x
        result = fw.unpack_dual(y)
        none = fw.unpack_dual(matrix(torch, 3)).tangent
    return result.primal, result.tangent, none is None


def hooks_of_several(torch: Any) -> Any:
    x, y = matrix(torch, 2, grad=True), matrix(torch, 2, grad=True)
    seen: list[Any] = []
    handle = torch.autograd.graph.register_multi_grad_hook([x, y], lambda grads: seen.append(plain(grads)))
    for _ in range(2):
        (x * y).sum().backward()
    handle.remove()
    (x * y).sum().backward()
    return seen


def ensemble(torch: Any) -> Any:
    models = [torch.nn.Linear(2, 1) for _ in range(3)]
    for number, model in enumerate(models):
        with torch.no_grad():
            model.weight.copy_(torch.full((1, 2), float(number)))
            model.bias.fill_(number)
    parameters, buffers = torch.func.stack_module_state(models)
    x = torch.ones(2)

    def run(p: Any, b: Any, x: Any) -> Any:
        return torch.func.functional_call(models[0], (p, b), (x,))

    y = torch.vmap(run, in_dims=(0, 0, None))(parameters, buffers, x)
    return y, {key: list(value.shape) for key, value in parameters.items()}


CALLS = {
    call.__name__: call
    for call in (
        backward_of_several, backward_into_inputs, gradients, batched_gradients, modes, function_with_context,
        function_with_setup, function_in_place, forward_mode, hooks_of_several, ensemble,
    )
}  # fmt: skip


EXPECTED: dict[str, Any] = {
    "modes": [
        *[False, False, False, [False, True], "Documented.", True, False, True, False, True, False, True, True, False],
        *[False, True, True, False],
    ],
    "function_in_place": [True, [2 / 7, 4 / 7, 6 / 7], [2.0, 2.0, 2.0]],
    "hooks_of_several": [[[1 / 7, 2 / 7], [1 / 7, 2 / 7]]] * 2,
    "ensemble": [[[0.0], [3.0], [6.0]], {"weight": [3, 1, 2], "bias": [3, 1]}],
}


@pytest.mark.parametrize("name", CALLS)
def test_programs_have_the_results_of_pytorch(name: str) -> None:
    same(CALLS[name], *(EXPECTED[key] for key in EXPECTED if key == name))


ERRORS: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "no gradient": (lambda torch: torch.autograd.backward(matrix(torch, 1)), RuntimeError),
    "no scalar": (lambda torch: matrix(torch, 2, grad=True).mul(2).backward(), RuntimeError),
    "unused": (
        lambda torch: torch.autograd.grad(matrix(torch, 1, grad=True).sum(), matrix(torch, 1, grad=True)),
        RuntimeError,
    ),
    "vjp of two": (lambda torch: torch.autograd.functional.vjp(lambda x: x, matrix(torch, 2)), RuntimeError),
    "jvp of another shape": (
        lambda torch: torch.autograd.functional.jvp(lambda x: x, matrix(torch, 2), matrix(torch, 3)),
        RuntimeError,
    ),
    "no tensor": (lambda torch: torch.autograd.functional.jacobian(lambda x: x, (1.0,)), TypeError),
    "grad of no scalar": (lambda torch: torch.func.grad(lambda x: x)(matrix(torch, 2)), RuntimeError),
    "dual outside": (
        lambda torch: torch.autograd.forward_ad.make_dual(matrix(torch, 2), matrix(torch, 2)),
        RuntimeError,
    ),
    "chunks of none": (lambda torch: torch.vmap(lambda x: x, chunk_size=0), ValueError),
    "randomness": (lambda torch: torch.vmap(lambda x: x, randomness="any")(matrix(torch, 2)), RuntimeError),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("torch", [ours, PyTorch], ids=["ours", "PyTorch"])
def test_errors_have_the_types_of_pytorch(torch: Any, name: str) -> None:
    if not torch:
        pytest.skip("PyTorch is not installed")
    program, kind = ERRORS[name]
    with pytest.raises(kind):
        program(torch)


def test_gradients_equal_differences() -> None:
    x = matrix(ours, 3, grad=True)
    assert ours.autograd.gradcheck(lambda x: x.view(-1).sin(), (x,))
    assert ours.autograd.gradgradcheck(lambda x: x.pow(3), (x,))


def test_anomalies_are_found_in_blocks_and_from_a_call_on() -> None:
    zero = ours.zeros(1)
    with ours.autograd.detect_anomaly(), pytest.raises(RuntimeError):
        assert ours.is_anomaly_enabled() and zero / zero
    with ours.autograd.detect_anomaly(check_nan=False):
        zero / zero
    ours.autograd.set_detect_anomaly(True)
    with pytest.raises(RuntimeError):
        zero / zero
    ours.autograd.set_detect_anomaly(False)
    zero / zero


def test_variables_are_tensors() -> None:
    x = ours.autograd.Variable(ours.ones(2), requires_grad=True)
    assert isinstance(x, ours.autograd.Variable) and x.requires_grad and not isinstance(2, ours.autograd.Variable)
