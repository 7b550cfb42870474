"""``torch.return_types``: the named tuples of functions with several results."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


class _Printed:
    """How PyTorch prints a named tuple: a field a line."""

    __slots__ = ()
    _fields: tuple[str, ...]

    def __repr__(self) -> str:
        fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))  # type: ignore[call-overload]
        return f"torch.return_types.{type(self).__name__}(\n{fields})"


def _results(name: str, fields: str) -> Any:
    base = namedtuple(name, fields)  # type: ignore[misc]
    return type(name, (_Printed, base), {"__slots__": (), "__module__": __name__, "__doc__": f"({fields})"})


aminmax = _results("aminmax", "min max")
cummax = _results("cummax", "values indices")
cummin = _results("cummin", "values indices")
frexp = _results("frexp", "mantissa exponent")
geqrf = _results("geqrf", "a tau")
histogram = _results("histogram", "hist bin_edges")
histogramdd = _results("histogramdd", "hist bin_edges")
kthvalue = _results("kthvalue", "values indices")
linalg_cholesky_ex = _results("linalg_cholesky_ex", "L info")
linalg_eig = _results("linalg_eig", "eigenvalues eigenvectors")
linalg_eigh = _results("linalg_eigh", "eigenvalues eigenvectors")
linalg_inv_ex = _results("linalg_inv_ex", "inverse info")
linalg_ldl_factor = _results("linalg_ldl_factor", "LD pivots")
linalg_ldl_factor_ex = _results("linalg_ldl_factor_ex", "LD pivots info")
linalg_lstsq = _results("linalg_lstsq", "solution residuals rank singular_values")
linalg_lu = _results("linalg_lu", "P L U")
linalg_lu_factor = _results("linalg_lu_factor", "LU pivots")
linalg_lu_factor_ex = _results("linalg_lu_factor_ex", "LU pivots info")
linalg_qr = _results("linalg_qr", "Q R")
linalg_slogdet = _results("linalg_slogdet", "sign logabsdet")
linalg_solve_ex = _results("linalg_solve_ex", "result info")
linalg_svd = _results("linalg_svd", "U S Vh")
lu_unpack = _results("lu_unpack", "P L U")
max = _results("max", "values indices")
median = _results("median", "values indices")
min = _results("min", "values indices")
mode = _results("mode", "values indices")
nanmedian = _results("nanmedian", "values indices")
qr = _results("qr", "Q R")
slogdet = _results("slogdet", "sign logabsdet")
sort = _results("sort", "values indices")
svd = _results("svd", "U S V")
topk = _results("topk", "values indices")
triangular_solve = _results("triangular_solve", "solution cloned_coefficient")
