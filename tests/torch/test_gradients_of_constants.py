"""Gradients with respect to what a write or a formula leaves out: zeros or PyTorch's, rather than no gradient."""

import numpy as np
import pytest

import jitgraph.torch as torch


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.zero_(),
        lambda y: y.fill_(2.0),
        lambda y: y.fill_(torch.tensor(2.0)),
        lambda y: y.copy_(torch.ones(2, 2)),
        lambda y: y.normal_(),
        lambda y: y[:].fill_(1.0),
        lambda y: torch.fill(y, 1.0),
        lambda y: torch.linalg.matrix_power(y, 0),
    ],
)
def test_what_replaces_a_computed_tensor_has_the_gradient_zero(write):
    x = torch.ones(2, 2, requires_grad=True)
    y = x * 3
    result = write(y)
    total = result.sum()
    assert total.requires_grad
    assert torch.autograd.grad(total, x)[0].tolist() == [[0, 0], [0, 0]]


def test_a_row_that_is_replaced_alone():
    x = torch.ones(2, 2, requires_grad=True)
    y = x * 3
    y[0].fill_(7.0)
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [[0, 0], [3, 3]]


def test_without_a_gradient_no_history_begins():
    y = torch.ones(2)
    assert not y.zero_().requires_grad
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert x.zero_().requires_grad


def test_the_next_float_moves_as_its_start():
    start = torch.tensor([1.0, 2.0, float("inf")], requires_grad=True)
    goal = torch.tensor([2.0, 2.0, 0.0], requires_grad=True)
    moved = torch.nextafter(start, goal)
    assert moved.tolist() == np.nextafter(np.float32([1, 2, np.inf]), np.float32([2, 2, 0])).tolist()
    assert torch.autograd.grad(moved[:2].sum(), start)[0].tolist() == [1, 0, 0]


@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_the_gradient_of_a_hermitian_matrix_is_that_of_both_triangles(name):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 3))
    x = torch.tensor(a, requires_grad=True)  # the upper triangle is not read
    result = getattr(torch.linalg, name)(x)
    values = result if name == "eigvalsh" else result.eigenvalues
    _, vectors = np.linalg.eigh(a)
    gradient = torch.autograd.grad(values[1], x)[0].numpy()
    np.testing.assert_allclose(gradient, np.outer(vectors[:, 1], vectors[:, 1]), atol=1e-12)
    x = torch.tensor(np.where(np.tri(3) == 1, a, np.nan), requires_grad=True)
    result = getattr(torch.linalg, name)(x)
    values = result if name == "eigvalsh" else result.eigenvalues
    np.testing.assert_allclose(values.detach().numpy(), np.linalg.eigvalsh(a), atol=1e-12)


def test_statistics_of_norms_are_constants():
    x = torch.ones(2, 3, requires_grad=True)
    out, mean, rstd = torch.native_layer_norm(x, (3,), None, None, 1e-5)
    assert (out.requires_grad, mean.requires_grad, rstd.requires_grad) == (True, False, False)
