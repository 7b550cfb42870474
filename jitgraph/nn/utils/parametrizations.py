"""Common parametrizations: weight_norm, spectral_norm and orthogonal. Names and keys as PyTorch.

Matrices with orthonormal columns are made of free numbers by one of three maps.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import linalg
from jitgraph.autograd import no_grad
from jitgraph.dtypes import float32, float64
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.nn import init
from jitgraph.nn.module import Module, Parameter
from jitgraph.nn.utils.parametrize import register_parametrization
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray, eye, tril, zeros, zeros_like
from jitgraph.tensor.functions.elementwise import sign
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.manipulation import concat, moveaxis
from jitgraph.tensor.functions.norms import p_norm
from jitgraph.tensor.functions.shapes import expand_dims, reshape

MAPS: Final = ("matrix_exp", "cayley", "householder")


def identity(beside: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix of the sizes, dtype and device of ``beside``."""
    return eye(*beside.shape[-2:], dtype=beside.dtype, device=beside.device)


def reflected(x: Tensor) -> Tensor:
    """The first columns of the product of reflections along the columns of x, each times its sign on the diagonal."""
    below = tril(x, -1)
    product = linalg.householder_product(below, 2.0 / (1.0 + (below * below).sum(axis=-2)))
    return product * expand_dims(sign(linalg.diagonal(x).detach()), -2)


def reflections(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The x of which ``reflected`` makes Q, where matrix = Q R and the diagonal of R is positive."""
    raw, scales = np.linalg.qr(matrix, mode="raw")
    reflectors = np.swapaxes(raw, -1, -2).copy()
    index = np.arange(matrix.shape[-1])
    signs = np.sign(reflectors[..., index, index])
    reflectors[..., index, index] = np.where(scales == 0, -signs, signs)  # LAPACK gives 0 where it does not reflect
    return reflectors


def whole(x: Tensor) -> Tensor:
    """A square orthogonal matrix that begins with the columns of x, orthogonalised where they are not."""
    rows, columns = x.shape[-2:]
    if rows != columns:
        more = init.normal_(zeros((*x.shape[:-1], rows - columns), dtype=x.dtype, device=x.device))
        x = concat([x, more], axis=-1)
    else:
        beside = matmul(x.mT, x) - identity(x)
        if abs(beside).max().item() <= 10 * rows * float(np.finfo(x.dtype).eps):
            return x + 0.0
    q, r = linalg.qr(x)
    return q * expand_dims(sign(linalg.diagonal(r)), -2)


def orthonormal_columns(x: Tensor, orthogonal_map: str) -> Tensor:
    """Orthonormal columns from x by one of the maps."""
    return reflected(x) if orthogonal_map == "householder" else rotated(x, orthogonal_map)


def rotated(x: Tensor, orthogonal_map: str) -> Tensor:
    """The first columns of the rotation that a skew-symmetric matrix stands for."""
    rows, columns = x.shape[-2:]
    below = tril(x)
    if rows != columns:
        more = zeros((*x.shape[:-1], rows - columns), dtype=x.dtype, device=x.device)
        below = concat([below, more], axis=-1)
    skew = below - below.mT
    if orthogonal_map == "matrix_exp":
        rotation = linalg.matrix_exp(skew)
    else:
        one = identity(skew)
        rotation = linalg.solve(one - 0.5 * skew, one + 0.5 * skew)
    return rotation[..., :columns]


def _parameter_of(what: str, module: Module, name: str) -> Parameter:
    """The parameter of this name; JitgraphError for one that is none, or has fewer than 2 axes."""
    weight = vars(module).get(name)
    if not isinstance(weight, Parameter) or weight.ndim < 2:
        raise JitgraphError(f"{what}: {type(module).__name__} has no parameter {name!r} of 2 axes or more")
    return weight


def _rows(x: Tensor, axis: int) -> Tensor:
    """The elements for each place along an axis, as the rows of a matrix."""
    return reshape(moveaxis(x, axis, 0), (x.shape[axis], -1))


class _WeightNorm(Module):
    """magnitude * direction / |direction|, the norm over all axes but ``dim``."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def _norm(self, x: Tensor) -> Tensor:
        if self.dim is None:
            return reshape(p_norm(reshape(x, (-1,)), 2.0, 0), ())
        axis = self.dim % x.ndim
        shape = tuple(x.shape[axis] if i == axis else 1 for i in range(x.ndim))
        return reshape(p_norm(_rows(x, axis), 2.0, 1), shape)

    def forward(self, magnitude: Tensor, direction: Tensor) -> Tensor:
        """The weight."""
        return direction * (magnitude / self._norm(direction))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Its norm and itself."""
        return self._norm(weight), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the norm and the direction of a parameter separately (Salimans and Kingma 2016); returns the module.

    Norms are over all axes but ``dim``, or one over all of them for None. State dicts with the keys of PyTorch's older
    ``weight_norm``, "weight_g" and "weight_v", are taken, too.
    """

    def rename(state: dict[str, Any], prefix: str, *_: Any) -> None:
        for number, older in enumerate((f"{prefix}{name}_g", f"{prefix}{name}_v")):
            if older in state:
                state[f"{prefix}parametrizations.{name}.original{number}"] = state.pop(older)

    parametrized = register_parametrization(module, name, _WeightNorm(dim))
    parametrized._register_load_state_dict_pre_hook(rename)
    return parametrized


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which is followed by power iteration while training."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        matrix = _rows(weight.detach(), self.dim)
        self.register_buffer("_u", self._unit(init.normal_(zeros_like(matrix[:, 0]))))
        self.register_buffer("_v", self._unit(init.normal_(zeros_like(matrix[0]))))
        self._follow(matrix, 15)

    def _unit(self, x: Tensor) -> Tensor:
        unit: Tensor = x / p_norm(x, 2.0, 0).clip(min=self.eps)
        return unit

    def _follow(self, matrix: Tensor, times: int) -> None:
        with no_grad():
            u, v = self._u, self._v
            for _ in range(times):
                u = self._unit(matmul(matrix, v))
                v = self._unit(matmul(moveaxis(matrix, 0, 1), u))
            self._u._rebind(u.value)
            self._v._rebind(v.value)

    def forward(self, weight: Tensor) -> Tensor:
        """The normalised weight."""
        matrix = _rows(weight, self.dim)
        if self.training:
            self._follow(matrix.detach(), self.n_power_iterations)
        u, v = self._u.detach(), self._v.detach()
        return weight / matmul(u, matmul(matrix, v))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int = 0
) -> Module:
    """Divide a parameter by its largest singular value (Miyato et al. 2018); returns the module.

    The value is estimated by ``n_power_iterations`` of the power method at each call while training.
    """
    weight = _parameter_of("spectral_norm", module, name)
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


class _Orthogonal(Module):
    """Q [..., n, k] of X of the same shape; below its diagonal X is free, and what else it holds is constant."""

    base: Tensor

    def __init__(self, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.orthogonal_map, self.use_trivialization = orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, weight: Tensor) -> Tensor:
        """The orthonormal columns, or rows where there are fewer of them."""
        is_wide = weight.shape[-2] < weight.shape[-1]
        tall = weight.mT if is_wide else weight
        orthonormal = orthonormal_columns(tall, self.orthogonal_map)
        if self.use_trivialization:
            orthonormal = matmul(self.base, orthonormal)
        return orthonormal.mT if is_wide else orthonormal

    def right_inverse(self, value: Tensor) -> Tensor:
        """The X whose Q is ``value``, where its columns are orthonormal; else Q is made of their QR decomposition.

        JitgraphError without a base for maps other than Householder's, which have no inverse in closed form.
        """
        rows, columns = value.shape[-2:]
        is_wide = rows < columns
        with no_grad():
            tall = value.mT if is_wide else value
            if self.use_trivialization:
                self.base = whole(tall)
                return zeros(value.shape, dtype=value.dtype, device=value.device) - identity(value)
            if self.orthogonal_map != "householder":
                raise JitgraphError(
                    f"orthogonal: the map {self.orthogonal_map!r} without use_trivialization takes no value\n"
                    "  hint: use_trivialization=True, or orthogonal_map='householder'"
                )
            reflectors = asarray(reflections(tall.detach().cpu().numpy()), dtype=value.dtype, device=value.device)
        return reflectors.mT if is_wide else reflectors


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep the columns of a parameter [..., n, k] orthonormal, its rows where k is larger; returns the module.

    ``orthogonal_map`` makes them of free numbers: "matrix_exp", "cayley" or "householder" (Lezcano-Casado and
    Martinez-Rubio 2019, Mhammedi et al. 2017); by default the first for square matrices, else the last. The map is
    taken relative to the present value, orthogonalised (Lezcano-Casado 2019), or without ``use_trivialization`` to the
    identity. JitgraphError for an unknown map and a parameter of fewer than 2 axes, DTypeError for one of 16 bits.
    """
    weight = _parameter_of("orthogonal", module, name)
    if weight.dtype not in (float32, float64):
        hint = "orthogonal(module.float()); jg.amp.autocast runs its products in 16 bits"
        raise DTypeError(f"orthogonal: {name!r} is {weight.dtype}, which has no QR decomposition", hint=hint)
    chosen = orthogonal_map or ("matrix_exp" if weight.shape[-1] == weight.shape[-2] else "householder")
    if chosen not in MAPS:
        raise JitgraphError(f"orthogonal: orthogonal_map={orthogonal_map!r} is none of {', '.join(MAPS)}")
    return register_parametrization(module, name, _Orthogonal(chosen, use_trivialization))


__all__ = [
    "orthogonal",
    "spectral_norm",
    "weight_norm",
]
