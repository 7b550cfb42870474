"""Arguments that PyTorch refuses are refused here, by errors of its types."""

import pytest

import jitgraph.torch as torch
from jitgraph.torch.nn import functional as F

x = torch.ones(3)
matrix = torch.ones(3, 3)
cube = torch.ones(2, 3, 4)
one = torch.tensor([1])
weights = torch.ones(3, dtype=torch.int64)


def into(name, *arguments, dtype, count=1, **keywords):
    """A call whose ``out=`` has this dtype."""
    outs = tuple(torch.empty(0, dtype=dtype) for _ in range(count))
    return lambda: getattr(torch, name)(*arguments, **keywords, out=outs if count > 1 else outs[0])


REFUSED = {
    "numbers instead of tensors": [
        (TypeError, lambda: torch.clamp_max(2, x)),
        (TypeError, lambda: torch.clamp_min(2, 3)),
        (TypeError, lambda: torch.igamma(x, 2)),
        (TypeError, lambda: torch.igammac(2, x)),
        (TypeError, lambda: torch.polar(x, 2)),
        (TypeError, lambda: torch.float_power(2, 3)),
        (TypeError, lambda: torch.max(2, 3)),
        (TypeError, lambda: torch.squeeze_copy(2)),
    ],
    "axes": [
        (RuntimeError, lambda: torch.vsplit(x, 1)),
        (RuntimeError, lambda: torch.dsplit(matrix, 1)),
        (RuntimeError, lambda: torch.hsplit(matrix, 0)),
        (TypeError, lambda: torch.vsplit(matrix, "abc")),
        (RuntimeError, lambda: torch.rot90(matrix, 1, (0,))),
        (RuntimeError, lambda: torch.gradient(matrix, dim=(1, 1))),
        (RuntimeError, lambda: torch.trace(cube)),
        (RuntimeError, lambda: torch.t_copy(cube)),
        (RuntimeError, lambda: torch.ormqr(x[0], x[0], x[0])),
        (IndexError, lambda: torch.unbind(torch.tensor(1.0))),
        (IndexError, lambda: torch.amax(torch.ones(2, 0), 1)),
        (IndexError, lambda: torch.argmin(torch.ones(2, 0), 1)),
        (IndexError, lambda: torch.max(torch.ones(2, 0), 1)),
        (RuntimeError, lambda: torch.empty_permuted((2, 3), (0, 0))),
        (RuntimeError, lambda: torch.empty_permuted((2,), (0, 1))),
        (RuntimeError, lambda: F.linear_cross_entropy(x, torch.ones(2, 4, 3), torch.zeros(2, 4))),
    ],
    "dtypes": [
        (RuntimeError, lambda: torch.narrow(x, 0, torch.tensor(1.0), 1)),
        (RuntimeError, lambda: torch.multinomial(one, 1)),
        (RuntimeError, lambda: torch.cov(x, fweights=x)),
        (RuntimeError, lambda: torch.cov(x, aweights=weights)),
        (RuntimeError, lambda: x.scatter_add(0, one, one)),
        (RuntimeError, lambda: x.clone().float_power_(2)),
        (RuntimeError, lambda: F.conv1d(torch.ones(1, 1, 3), torch.ones(1, 1, 1), torch.ones(1, dtype=torch.float64))),
        (RuntimeError, lambda: F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 1, 1, dtype=torch.float64))),
        (ValueError, lambda: torch.signal.windows.hann(3, dtype=torch.float16)),
    ],
    "values": [
        (RuntimeError, lambda: torch.cov(x, fweights=-weights)),
        (RuntimeError, lambda: torch.cov(x, fweights=weights[:1])),
        (RuntimeError, lambda: torch.empty(2).cauchy_(sigma=0)),
        (RuntimeError, lambda: torch.empty(2).log_normal_(std=0)),
        (ValueError, lambda: F.hardtanh(x, 2, 1)),
        (ValueError, lambda: F.mse_loss(x, x, reduction="average")),
        (ValueError, lambda: F.gaussian_nll_loss(x, x, x, reduction="average")),
        (ValueError, lambda: F.hinge_embedding_loss(x, x, reduction="average")),
        (ValueError, lambda: F.triplet_margin_loss(matrix, matrix, matrix, margin=-1.0)),
        (ValueError, lambda: F.multi_margin_loss(matrix, torch.zeros(3, dtype=torch.int64), p=3)),
        (ValueError, lambda: F.multi_margin_loss(matrix, torch.zeros(3, dtype=torch.int64), weight=matrix)),
        (RuntimeError, lambda: F.cross_entropy(matrix, matrix, ignore_index=0)),
        (ValueError, lambda: torch.signal.windows.exponential(5, center=1.0, sym=True)),
    ],
    "dtypes of out=": [
        (RuntimeError, into("gather", x, 0, one, dtype=torch.float64)),
        (RuntimeError, into("abs", x, dtype=torch.float64)),
        (RuntimeError, lambda: torch.ones(2, dtype=torch.float32, out=torch.empty(2, dtype=torch.float64))),
        (RuntimeError, lambda: torch.arange(2, dtype=torch.int64, out=torch.empty(2, dtype=torch.float64))),
        (RuntimeError, into("mm", matrix, matrix, dtype=torch.float64)),
        (RuntimeError, into("sort", x, dtype=torch.int64, count=2)),
        (RuntimeError, into("max", x, 0, dtype=torch.float64, count=2)),
        (RuntimeError, into("argmax", x, dtype=torch.float32)),
        (RuntimeError, lambda: torch.linalg.det(matrix, out=torch.empty(0, dtype=torch.float64))),
        (RuntimeError, lambda: F.softplus(x, out=torch.empty(0, dtype=torch.float64))),
    ],
}


CASES = [(kind, error, call) for kind, cases in REFUSED.items() for error, call in cases]


@pytest.mark.parametrize(("kind", "error", "call"), CASES)
def test_arguments_that_pytorch_refuses(kind, error, call):
    with pytest.raises(error):
        call()


def test_higher_dtypes_of_out_where_pytorch_takes_them():
    for name in ("add", "mul"):
        assert getattr(torch, name)(x, x, out=torch.empty(3, dtype=torch.float64)).dtype == torch.float64
    assert torch.max(x, out=torch.empty((), dtype=torch.float64)).dtype == torch.float64
    assert torch.cumsum(x, 0, out=torch.empty(3, dtype=torch.float64)).dtype == torch.float64
