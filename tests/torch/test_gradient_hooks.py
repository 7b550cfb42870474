"""Hooks of gradients in PyTorch's terms: of leaves after accumulation, of nodes, of several tensors; and the nodes."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import jitgraph.torch as torch
from jitgraph.torch import nn


def model() -> Any:
    result = nn.Linear(2, 1)
    with torch.no_grad():
        for parameter in result.parameters():
            parameter.fill_(0.5)
    return result


def trained(layer: Any, compiled: bool) -> list[Any]:
    """Parameters after two steps that are taken in backward, each as soon as its gradient is there."""
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in layer.parameters()}

    def hook(parameter: Any) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in layer.parameters():
        parameter.register_post_accumulate_grad_hook(hook)

    def step(x: Any) -> Any:
        loss = layer(x).sum()
        loss.backward()
        return loss

    function = torch.compile(step) if compiled else step
    for _ in range(2):
        function(torch.ones(4, 2))
    assert all(parameter.grad is None for parameter in layer.parameters())
    return [parameter.tolist() for parameter in layer.parameters()]


@pytest.mark.parametrize("compiled", [False, True])
def test_an_optimizer_may_step_in_backward(compiled: bool) -> None:
    expected = torch.tensor([[-0.3, -0.3]]), torch.tensor([-0.3])
    for actual, value in zip(trained(model(), compiled), expected, strict=True):
        assert torch.allclose(torch.tensor(actual), value)


def test_a_hook_after_accumulation_sees_the_sum_and_is_removed() -> None:
    w = torch.ones(3, requires_grad=True)
    seen: list[Any] = []
    handle = w.register_post_accumulate_grad_hook(lambda x: seen.append((x is w, x.grad.tolist())))
    (w * 2).sum().backward()
    torch.autograd.backward((w * 3).sum(), inputs=[w])
    handle.remove()
    (w * 3).sum().backward()
    assert seen == [(True, [2.0] * 3), (True, [5.0] * 3)]


def test_hooks_of_what_is_compiled_already_compile_it_anew() -> None:
    w, seen = torch.ones(2, requires_grad=True), []
    step = torch.compile(lambda x: (w * x).sum().backward())
    step(torch.ones(2))
    handle = w.register_post_accumulate_grad_hook(lambda x: x.grad.mul_(10.0))
    step(torch.ones(2))
    seen.append(w.grad.tolist())
    handle.remove()
    step(torch.ones(2))
    assert [*seen, w.grad.tolist()] == [[20.0, 20.0], [21.0, 21.0]]


def test_hooks_after_accumulation_are_of_leaves() -> None:
    with pytest.raises(RuntimeError, match="non-leaf"):
        (torch.ones(3, requires_grad=True) * 2).register_post_accumulate_grad_hook(print)


def test_a_tensor_with_hooks_goes_when_its_last_user_does() -> None:
    w = torch.ones(3, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda x: None)
    (w * 2).sum().backward()
    gone = weakref.ref(w)
    del w
    gc.collect()
    assert gone() is None


# what attaches to a tensor, or to the node of a result, what refers to it
CIRCLES: dict[str, Any] = {
    "accumulation": lambda w, y: w.register_post_accumulate_grad_hook(lambda x: w.detach()),
    "leaf": lambda w, y: w.register_hook(lambda g: w.grad),
    "view": lambda w, y: (v := y[1:], v.register_hook(lambda g: v.detach())),
    "node": lambda w, y: y.grad_fn.register_hook(lambda inputs, outputs: None if y is not None else inputs),
    "node before": lambda w, y: y.grad_fn.register_prehook(lambda outputs: (y.detach(),)),
    "metadata": lambda w, y: y.grad_fn.metadata.update(result=y),
    "retained": lambda w, y: (y.retain_grad(), y.register_hook(lambda g: y.detach())),
    "several": lambda w, y: torch.autograd.graph.register_multi_grad_hook((w, y), lambda gradients: [w, y]),
}


@pytest.mark.parametrize("name", CIRCLES)
def test_what_refers_to_its_own_tensor_goes_with_it(name: str) -> None:
    def program() -> Any:
        w = torch.ones(3, requires_grad=True)
        y = w * 2
        CIRCLES[name](w, y)
        y.sum().backward()
        return weakref.ref(w), weakref.ref(y)

    references = program()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_nodes_are_walked_to_the_leaves() -> None:
    a = torch.ones(3, requires_grad=True)
    y = (a.exp() * 2 + a).sum()
    names: list[str] = []
    pending = [y.grad_fn]
    while pending:
        node = pending.pop()
        assert isinstance(node, torch.autograd.graph.Node)
        assert type(node).__name__ == node.name() and f"<{node.name()} object" in repr(node)
        names.append(node.name())
        pending += [step for step, _ in node.next_functions if step is not None]
    order = ["SumBackward0", "AddBackward0", "AccumulateGrad", "MulBackward0", "ExpBackward0", "AccumulateGrad"]
    assert names == order
    assert a.grad_fn is None and node.variable is a and y.grad_fn == y.grad_fn
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1}
    assert torch.autograd.graph.get_gradient_edge(y) == (y.grad_fn, 0, None)


def test_the_node_of_a_users_function_has_its_name() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, cotangent: Any) -> Any:
            return cotangent * 2 * ctx.saved_tensors[0]

    y = Square.apply(torch.ones(2, requires_grad=True))
    assert y.grad_fn.name() == "SquareBackward" and "grad_fn=<SquareBackward>" in repr(y)


def test_hooks_of_nodes_see_and_replace_gradients() -> None:
    a = torch.ones(2, requires_grad=True)
    y = a * 2
    seen: list[Any] = []
    handles = [
        y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 5,)),
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist()))),
        y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1, *inputs[1:])),
    ]
    y.sum().backward(retain_graph=True)
    assert seen == [([10.0, 10.0], [5.0, 5.0])] and a.grad.tolist() == [11.0, 11.0]
    for handle in handles:
        handle.remove()
    y.sum().backward()
    assert a.grad.tolist() == [13.0, 13.0] and len(seen) == 1


def test_hooks_of_several_gradients_are_called_where_one_gets_none() -> None:
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    calls: list[Any] = []
    hook = lambda gradients: calls.append([None if g is None else g.tolist() for g in gradients])
    with torch.autograd.graph.register_multi_grad_hook((a, b), hook):
        (a * b.detach()).sum().backward()
        (a * b).sum().backward()
    (a * b).sum().backward()
    assert calls == [[[1.0, 1.0], None], [[1.0, 1.0], [1.0, 1.0]]]


def test_what_is_saved_for_gradients_is_not_packed() -> None:
    with pytest.raises(RuntimeError, match=r"torch\.utils\.checkpoint"):
        torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    a = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (a * a).exp()
    y.sum().backward()
    assert torch.allclose(a.grad, torch.full((3,), 2 * torch.e))


@pytest.mark.parametrize(
    "kink", [nn.ReLU(), nn.LeakyReLU(0.2), nn.Sequential(nn.Unflatten(1, (2, 2, 2)), nn.MaxPool2d(2), nn.Flatten())]
)
def test_a_gradient_penalty_gives_zeros_where_pytorch_does(kink: Any) -> None:
    """A bias before a kink, where PyTorch's penalty has zeros, gets steps; that of the last layer none."""
    model = nn.Sequential(nn.Linear(3, 8), kink, nn.LazyLinear(1))
    x = torch.randn(4, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    assert gradient.requires_grad
    ((gradient.norm(2, dim=1) - 1) ** 2).mean().backward()
    assert model[0].bias.grad.tolist() == [0.0] * 8 and model[2].bias.grad is None
    assert bool(model[0].weight.grad.abs().sum() > 0)


def test_second_gradients_of_kinks_are_zeros() -> None:
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    for f in (torch.relu, nn.functional.leaky_relu):
        (slope,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        assert torch.autograd.grad(slope.sum(), x)[0].tolist() == [0.0, 0.0]
    (slope,) = torch.autograd.grad((torch.relu(x) ** 2).sum(), x, create_graph=True)
    assert torch.autograd.grad(slope.sum(), x)[0].tolist() == [0.0, 2.0]
