"""``torch.linalg``, ``torch.fft`` and the decompositions of ``torch`` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph.torch as torch

RNG = np.random.default_rng(0)
A = RNG.standard_normal((2, 3, 3))
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
INDEFINITE = np.array([[[2.0, 0.0], [0.0, 3.0]], [[1.0, 2.0], [2.0, 1.0]]])


def tensor(a: np.ndarray) -> torch.Tensor:
    return torch.tensor(a)


def test_info_tells_which_matrix_has_no_result() -> None:
    both = np.stack([np.eye(2), SINGULAR])
    result = torch.linalg.inv_ex(tensor(both))
    assert result.info.tolist() == [0, 2] and result.info.dtype is torch.int32
    np.testing.assert_array_equal(result.inverse[0].numpy(), np.eye(2))
    factor = torch.linalg.cholesky_ex(tensor(INDEFINITE))
    assert factor.info.tolist() == [0, 2]
    np.testing.assert_allclose(factor.L[0].numpy(), np.linalg.cholesky(INDEFINITE[0]))
    assert torch.linalg.lu_factor_ex(tensor(SINGULAR)).info.item() == 2
    for function in (torch.linalg.inv_ex, torch.linalg.cholesky_ex):
        with pytest.raises(torch.linalg.LinAlgError):
            function(tensor(SINGULAR), check_errors=True)


def test_systems_of_tensors() -> None:
    matrix, right = RNG.standard_normal((2, 3, 6)), RNG.standard_normal((2, 3))
    solved = torch.linalg.tensorsolve(tensor(matrix), tensor(right)).numpy()
    np.testing.assert_allclose(solved, np.linalg.tensorsolve(matrix, right))
    inverse = torch.linalg.tensorinv(tensor(matrix.reshape(6, 3, 2)), ind=1).numpy()
    np.testing.assert_allclose(inverse, np.linalg.tensorinv(matrix.reshape(6, 3, 2), ind=1))
    left = torch.linalg.solve(tensor(A), tensor(A[:, :2]), left=False).numpy()
    np.testing.assert_allclose(left @ A, A[:, :2], atol=1e-12)


def test_least_squares_give_what_their_driver_gives() -> None:
    tall, right = RNG.standard_normal((5, 3)), RNG.standard_normal((5, 2))
    expected = np.linalg.lstsq(tall, right, rcond=None)
    result = torch.linalg.lstsq(tensor(tall), tensor(right), driver="gelsd")
    np.testing.assert_allclose(result.solution.numpy(), expected[0])
    np.testing.assert_allclose(result.residuals.numpy(), expected[1])
    np.testing.assert_allclose(result.singular_values.numpy(), expected[3])
    assert result.rank.item() == 3 and torch.linalg.lstsq(tensor(tall), tensor(right), driver="gels").rank.numel() == 0


def test_factors_of_lu_multiply_to_the_matrix() -> None:
    p, lower, upper = torch.lu_unpack(*torch.lu(tensor(A)))
    np.testing.assert_allclose((p @ lower @ upper).numpy(), A, atol=1e-12)
    wide = RNG.standard_normal((2, 4))
    p, lower, upper = torch.lu_unpack(*torch.lu(tensor(wide.T)))
    np.testing.assert_allclose((p @ lower @ upper).numpy(), wide.T, atol=1e-12)


def test_old_names_of_decompositions() -> None:
    u, s, v = torch.svd(tensor(A))
    np.testing.assert_allclose((u @ torch.diag_embed(s) @ v.mT).numpy(), A, atol=1e-12)
    assert torch.svd(tensor(A), compute_uv=False).V.numpy().any() == False  # noqa: E712
    np.testing.assert_allclose(tensor(A).slogdet().logabsdet.numpy(), np.linalg.slogdet(A)[1])
    np.testing.assert_allclose(tensor(A).pinverse().numpy(), np.linalg.inv(A))


def test_transforms_take_dims_and_sizes() -> None:
    x = RNG.standard_normal((3, 4, 5))
    np.testing.assert_allclose(torch.fft.fftn(tensor(x), dim=(0, 2)).numpy(), np.fft.fftn(x, axes=(0, 2)), atol=1e-12)
    np.testing.assert_allclose(torch.fft.rfft(tensor(x), 6, 1).numpy(), np.fft.rfft(x, 6, 1), atol=1e-12)
    np.testing.assert_allclose(torch.fft.fftn(tensor(x), s=(-1, 7)).numpy(), np.fft.fftn(x, (4, 7), (1, 2)), atol=1e-12)
    with pytest.raises(RuntimeError, match="unique"):
        torch.fft.fftn(tensor(x), dim=(0, 0))
    with pytest.raises(RuntimeError, match="same length"):
        torch.fft.fftn(tensor(x), s=(2,), dim=(0, 1))


def test_degrees_of_polynomials_are_cut_to_integers() -> None:
    x = torch.tensor([0.5, 0.25])
    assert torch.special.chebyshev_polynomial_t(x, 2.9).tolist() == [-0.5, -0.875]
    with pytest.raises(TypeError, match="takes a tensor"):
        torch.special.zeta(1, 2)
