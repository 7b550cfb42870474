"""Functions whose forms or dtypes are PyTorch's own, against values that PyTorch gives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch

X = [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]
I = [[1, 2, 3], [4, 5, 6]]  # noqa: E741 - a name in the texts below
NAMES: dict[str, Any] = {"torch": torch, "inf": float("inf"), "np": np}


def value(text: str) -> Any:
    """What an expression gives for fresh tensors x, i, b and u."""
    x, i = torch.tensor(X), torch.tensor(I)
    return eval(text, NAMES | {"x": x, "i": i, "b": i > 2, "u": torch.tensor([1, 2], dtype=torch.uint8)})


def plain(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.tolist()
    return [plain(item) for item in result] if isinstance(result, tuple | list) else result


VALUES = {
    "x.max()": 5.0,
    "x.max(0)": [[4.0, 5.0, 3.0], [1, 1, 0]],
    "torch.max(x, 1, True)": [[[3.0], [5.0]], [[2], [1]]],
    "torch.max(x, i)": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
    "torch.min(input=x, dim=-1).indices": [1, 2],
    "x.argmax(1)": [2, 1],
    "x.sum(axis=1, keepdims=True)": [[2.0], [3.0]],
    "x.std(0, unbiased=False)": [1.5, 3.5, 4.5],
    "x.var(1, correction=0)": [pytest.approx(38 / 9), pytest.approx(74 / 3)],
    "torch.var(torch.tensor([1.0, 3.0]), False)": 1.0,
    "x.sort(descending=True)": [[[3.0, 1.0, -2.0], [5.0, 4.0, -6.0]], [[2, 0, 1], [1, 0, 2]]],
    "x.topk(2).values": [[3.0, 1.0], [5.0, 4.0]],
    "x.median()": 1.0,
    "x.kthvalue(1)": [[-2.0, -6.0], [1, 2]],
    "torch.cat([x, i]).shape": [4, 3],
    "torch.cat([torch.zeros(0), torch.ones(2)])": [1.0, 1.0],
    "torch.where(b, x, 0)": [[0.0, 0.0, 3.0], [4.0, 5.0, -6.0]],
    "torch.where(b)": [[0, 1, 1, 1], [2, 0, 1, 2]],
    "x.where(b, i)": [[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]],
    "x.clamp(min=0)": [[1.0, 0.0, 3.0], [4.0, 5.0, 0.0]],
    "torch.clamp(i, max=2)": [[1, 2, 2], [2, 2, 2]],
    "i / 2": [[0.5, 1.0, 1.5], [2.0, 2.5, 3.0]],
    "torch.div(-i, 2, rounding_mode='trunc')": [[0, -1, -1], [-2, -2, -3]],
    "torch.div(-i, 2, rounding_mode='floor')": [[-1, -1, -2], [-2, -3, -3]],
    "x.flip(1)": [[3.0, -2.0, 1.0], [-6.0, 5.0, 4.0]],
    "x.roll(1, 0)": [[4.0, 5.0, -6.0], [1.0, -2.0, 3.0]],
    "x.roll(1)": [[-6.0, 1.0, -2.0], [3.0, 4.0, 5.0]],
    "x.repeat(2, 1, 2).shape": [2, 2, 6],
    "torch.repeat_interleave(u, 2)": [1, 1, 2, 2],
    "torch.repeat_interleave(torch.tensor([1, 0, 2]))": [0, 2, 2],
    "torch.unique(i % 2, return_counts=True)": [[0, 1], [3, 3]],
    "torch.einsum('ij,kj->ik', x, x)": [[14.0, -24.0], [-24.0, 77.0]],
    "torch.einsum(x, [0, 1], x, [2, 1], [0, 2])": [[14.0, -24.0], [-24.0, 77.0]],
    "torch.tensordot(x, x, 2)": 91.0,
    "torch.meshgrid(u, u, indexing='xy')": [[[1, 2], [1, 2]], [[1, 1], [2, 2]]],
    "x.norm(1)": 21.0,
    "torch.take_along_dim(x, torch.tensor([[0]]), 1)": [[1.0], [4.0]],
    "torch.take(i, torch.tensor([0, -1]))": [1, 6],
    "x.nonzero().shape": [6, 2],
    "i.gather(1, torch.tensor([[0], [2]]))": [[1], [6]],
    "torch.aminmax(x)": [-6.0, 5.0],
    "torch.histc(x, 2)": [2.0, 4.0],
    "torch.allclose(x, x + 1e-9), torch.equal(x, i)": [True, False],
    "torch.arange(2, 8, 3), torch.arange(1, 2, 0.5), torch.arange(end=2)": [[2, 5], [1.0, 1.5], [0, 1]],
    "torch.range(1, 2, 0.5)": [1.0, 1.5, 2.0],
    "torch.linspace(0, 1, 3), torch.logspace(0, 2, 3)": [[0.0, 0.5, 1.0], [1.0, 10.0, 100.0]],
    "torch.full((2,), True), torch.full((1,), 2)": [[True, True], [2]],
    "torch.tensor([x[0, 0], x[1, 1]])": [1.0, 5.0],
    "x.new_full((2,), 3), i.new_tensor([1.5])": [[3.0, 3.0], [1]],
    "torch.LongTensor([1, 2]), torch.FloatTensor(2).shape": [[1, 2], [2]],
    "isinstance(x, torch.FloatTensor), isinstance(x, torch.LongTensor)": [True, False],
    "x.type(), i.type('torch.FloatTensor').dtype == torch.float": ["torch.FloatTensor", True],
    "torch.tril_indices(2, 2)": [[0, 1, 1], [0, 0, 1]],
    "torch.broadcast_shapes((2, 1), (3,))": [2, 3],
    "x.sum_to_size(1, 3)": [[5.0, 3.0, -3.0]],
    "torch.frexp(torch.tensor([3.0]))": [[0.75], [2]],
    "torch.vander(torch.tensor([1, 2, 3]))": [[1, 1, 1], [4, 2, 1], [9, 3, 1]],
    "torch.cumsum(torch.tensor(3), 0), torch.max(torch.tensor(2.0), 0)": [3, [2.0, 0]],
    "torch.tensor(2.0).softmax(-1), torch.tensor(5).sort()": [1.0, [5, 0]],
    "torch.cov(x[:1]).shape, torch.diff(u, 0, -1, u).shape": [[], [2]],
    "torch.gradient(torch.tensor([[1.0, 2.0], [4.0, 8.0]]), dim=(1, 0))": [
        [[1.0, 1.0], [4.0, 4.0]],
        [[3.0, 6.0], [3.0, 6.0]],
    ],
    "torch.ldexp(torch.tensor([3.0]), u)": [6.0, 12.0],
    "torch.unsafe_chunk(u, 2)": [[1], [2]],
    "torch.norm_except_dim(x, 1, 1)": [[5.0, 7.0, 9.0]],
    "torch.stft(torch.ones(4), 2, 1, center=False, return_complex=True).real": [[2.0] * 3, [0.0] * 3],
    "torch.maximum(b, ~b).all(), b.square().dtype == torch.int64": [True, True],
    "torch.zeros(2, dtype=torch.bool).index_add(0, torch.tensor([1, 1]), torch.tensor([True, True]))": [False, True],
    "torch.add(u, u, alpha=-3), torch.full_like(u, -9)": [[254, 252], [247, 247]],
    "torch.logical_not(torch.tensor([0j, 1j])), torch.tensor([1j]).bool()": [[True, False], [True]],
    "torch.sigmoid(torch.tensor(0j)), torch.rsqrt(torch.tensor(4 + 0j))": [0.5 + 0j, 0.5 + 0j],
    "torch.tensordot(torch.ones(1, 2), x, dims=([0, 1], [1, 0]))": 5.0,
    "torch.addmv(i[0, :2], i[:, :2], i[0, :2], beta=0.5, alpha=1.5)": [5, 14],
    "torch.arange(0.0, -8.5, -4.0, dtype=torch.int64)": [0, -4],
    "torch.linspace(4.3, -3, 3, dtype=torch.int64)": [4, 0, -3],
    "torch.typename(x), torch.is_tensor(x), torch.is_tensor(1)": ["torch.FloatTensor", True, False],
}

DTYPES = {
    "u.sum()": torch.int64,
    "i.prod(0)": torch.int64,
    "(u > 1).cumsum(0)": torch.int64,
    "x.sum(dtype=torch.float64)": torch.float64,
    "torch.cat([i, x.double()])": torch.float64,
    "torch.zeros(1, dtype=torch.int)": torch.int32,
    "torch.arange(3.0)": torch.float32,
    "torch.full((1,), 1j)": torch.complex64,
    "torch.sin(i)": torch.float32,
    "u + 1.5": torch.float32,
    "u + torch.tensor(3)": torch.uint8,
    "x.half() + torch.tensor(1.0)": torch.float16,
    "torch.result_type(u, 1.0)": torch.float32,
    "torch.promote_types(torch.uint8, torch.int8)": torch.int16,
    "torch.randint(5, (2,))": torch.int64,
    "torch.randperm(3)": torch.int64,
    "torch.zeros_like(x, dtype=torch.bool)": torch.bool,
    "torch.tensor([])": torch.float32,
    "x.argsort()": torch.int64,
    "u.all()": torch.uint8,
    "torch.trace(i.byte()[:, :2])": torch.int64,
    "x.to(torch.complex64).abs()": torch.float32,
    "torch.float_power(u, 2)": torch.float64,
}

ERRORS = {
    "i.mean()": (RuntimeError, "could not infer output dtype"),
    "x.topk(7)": (RuntimeError, "out of range"),
    "torch.cat([])": (ValueError, "non-empty"),
    "torch.clamp(x)": (RuntimeError, "must not be None"),
    "torch.arange(0, -1)": (RuntimeError, "inconsistent with step"),
    "torch.tensor([[1], [2, 3]])": (ValueError, "length"),
    "x.item()": (RuntimeError, "cannot be converted to Scalar"),
    "i.add_(1.5)": (RuntimeError, "can't be cast"),
    "torch.zeros(3).copy_(torch.ones(2))": (RuntimeError, "must match"),
    "torch.from_numpy([1])": (TypeError, "ndarray"),
    "x.masked_fill(i, 0)": (RuntimeError, "boolean mask"),
    "torch.zeros(2, 3).scatter_(0, i, i)": (RuntimeError, "dtype"),
    "x.max(2)": (IndexError, "out of range"),
    "torch.stack([x, x[0]])": (RuntimeError, "stack"),
    "i.uniform_()": (NotImplementedError, "int64"),
    "torch.empty(0).max()": (RuntimeError, "numel"),
}


@pytest.mark.parametrize("text", VALUES)
def test_values_are_those_of_pytorch(text: str) -> None:
    assert plain(value(text)) == VALUES[text]


@pytest.mark.parametrize("text", DTYPES)
def test_dtypes_are_those_of_pytorch(text: str) -> None:
    result = value(text)
    assert getattr(result, "dtype", result) == DTYPES[text]


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_of_pytorchs_classes(text: str) -> None:
    error, words = ERRORS[text]
    with pytest.raises(error, match=re.escape(words)):
        value(text)


def test_results_with_names_are_tuples_printed_as_pytorch_does() -> None:
    result = torch.max(torch.tensor(X), 0)
    values, indices = result
    assert values is result.values and indices is result.indices
    assert repr(result) == "torch.return_types.max(\nvalues=tensor([4., 5., 3.]),\nindices=tensor([1, 1, 0]))"


WRITES = {
    "x.zero_()": np.zeros((2, 3)),
    "x.fill_(3)": np.full((2, 3), 3),
    "x.copy_(i[0])": np.array([I[0], I[0]]),
    "x[0].fill_(7)": np.array([[7, 7, 7], X[1]]),
    "x[:, 1].copy_(u)": np.array([[1, 1, 3], [4, 2, -6]]),
    "x.masked_fill_(b, 0)": np.array([[1, -2, 0], [0, 0, 0]]),
    "x.scatter_(1, torch.tensor([[0], [2]]), 9.0)": np.array([[9, -2, 3], [4, 5, 9]]),
    "x.index_add_(0, torch.tensor([0, 0]), torch.ones(2, 3))": np.array([[3, 0, 5], X[1]]),
    "x.index_put_((torch.tensor([1]), torch.tensor([2])), torch.tensor(8.0))": np.array([X[0], [4, 5, 8]]),
    "x.put_(torch.tensor([4]), torch.tensor([9.0]))": np.array([X[0], [4, 9, -6]]),
    "x.fill_diagonal_(0)": np.array([[0, -2, 3], [4, 0, -6]]),
    "x.apply_(abs)": np.abs(X),
    "x.map_(i, max)": np.maximum(X, I),
    "x.relu_()": np.maximum(X, 0),
    "x.clamp_(0, 2)": np.clip(X, 0, 2),
    "x.t_()": np.array(X).T,
    "x.unsqueeze_(0)": np.array([X]),
    "x.resize_(2)": np.array([1.0, -2.0]),
    "x.bernoulli_(1.0)": np.ones((2, 3)),
    "x.positive().zero_()": np.zeros((2, 3)),
    "x.resolve_conj().fill_(1)": np.ones((2, 3)),
    "x.conj_physical_()": np.array(X),
    "x.expand(4, 2, 3).zero_()": np.zeros((2, 3)),
    "torch.add(i, 1, out=x)": np.array(I) + 1,
}


@pytest.mark.parametrize("text", WRITES)
def test_writes_are_seen_in_the_tensor(text: str) -> None:
    x, i = torch.tensor(X), torch.tensor(I)
    result = eval(text, NAMES | {"x": x, "i": i, "b": i > 2, "u": torch.tensor([1, 2])})
    np.testing.assert_array_equal(x.numpy(), WRITES[text])
    assert x.dtype == torch.float32
    assert result is x or not text.startswith("x.") or "expand" in text


def test_generators_repeat_their_streams() -> None:
    assert torch.manual_seed(3) is torch.default_generator and torch.initial_seed() == 3
    first, state = torch.rand(4), torch.get_rng_state()
    rest = torch.randn(2, 2), torch.randperm(5), torch.randint(9, (3,)), torch.empty(2).uniform_(1, 2)
    torch.set_rng_state(state)
    again = torch.randn(2, 2), torch.randperm(5), torch.randint(9, (3,)), torch.empty(2).uniform_(1, 2)
    assert all(torch.equal(x, y) for x, y in zip(rest, again, strict=True))
    torch.manual_seed(3)
    assert torch.equal(torch.rand(4), first)
    generator = torch.Generator().manual_seed(3)
    assert torch.equal(torch.rand(4, generator=generator), first)
    assert not torch.equal(torch.rand(4, generator=generator), first)
    assert torch.Generator().manual_seed(-1).initial_seed() == 2**64 - 1


def test_draws_have_the_asked_distribution() -> None:
    torch.manual_seed(0)
    n = torch.empty(10000).normal_(2, 3)
    assert abs(n.mean().item() - 2) < 0.15 and abs(n.std().item() - 3) < 0.15
    u = torch.empty(10000).uniform_(-1, 1)
    assert u.min() >= -1 and u.max() < 1 and abs(u.mean().item()) < 0.05
    e = torch.empty(10000).exponential_(2)
    assert abs(e.mean().item() - 0.5) < 0.05
    r = torch.empty(1000, dtype=torch.int64).random_(5, 8)
    assert sorted(set(r.tolist())) == [5, 6, 7]
    b = torch.bernoulli(torch.full((10000,), 0.25))
    assert abs(b.mean().item() - 0.25) < 0.05
    picks = torch.multinomial(torch.tensor([0.0, 3.0, 1.0]), 4000, replacement=True)
    assert abs((picks == 1).double().mean().item() - 0.75) < 0.05 and (picks > 0).all()


def test_the_default_dtype_is_that_of_python_floats() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        for made in (torch.tensor([1.0]), torch.zeros(1), torch.rand(1), torch.arange(1.0), torch.full((1,), 2.0)):
            assert made.dtype == torch.float64
        assert (torch.tensor([1]) / 2).dtype == torch.float64
        assert torch.tensor(1j).dtype == torch.complex128
    finally:
        torch.set_default_dtype(torch.float32)


def test_names_without_a_place_say_why() -> None:
    for owner, name, reason in ((torch, "sparse_coo_tensor", "sparse"), (torch.tensor(1), "untyped_storage", "memory")):
        with pytest.raises(AttributeError, match=reason):
            getattr(owner, name)


def test_complex_numbers_lose_their_imaginary_parts_with_a_warning() -> None:
    z = torch.tensor([1 + 2j])
    with pytest.warns(UserWarning, match="imaginary"):
        assert z.to(torch.float64).tolist() == [1.0]
    with pytest.warns(UserWarning, match="imaginary"):
        assert torch.zeros(1).copy_(z).tolist() == [1.0]


def test_inference_mode_records_no_gradients() -> None:
    x = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        assert not (x * 2).requires_grad and not torch.is_grad_enabled()
    assert not torch.inference_mode()(lambda: x * 2)().requires_grad
    assert not torch.inference_mode(lambda: x * 2)().requires_grad
    assert (x * 2).requires_grad


def test_calls_with_other_numbers_are_not_taken_for_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that came back go past Python: by their very numbers."""
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    functions: dict[str, tuple[Any, range]] = {
        "unsqueeze_copy": (lambda x, d: torch.unsqueeze_copy(x, d), range(-4, 4)),
        "select_copy": (lambda x, d: torch.select_copy(x, d, d), range(-2, 2)),
        "narrow_copy": (lambda x, d: torch.narrow_copy(x, 0, d, 1), range(2)),
        "diagonal_copy": (lambda x, d: torch.diagonal_copy(x, d), range(-1, 3)),
        "transpose_copy": (lambda x, d: torch.transpose_copy(x, 0, d), range(-3, 3)),
        "amax": (lambda x, d: torch.amax(x, d), range(-3, 3)),
        "cumsum": (lambda x, d: torch.cumsum(x, d), range(-3, 3)),
        "tril": (lambda x, d: torch.tril(x, d), range(-3, 3)),
        "add": (lambda x, d: torch.add(x, d), range(-3, 3)),
        "pow": (lambda x, d: torch.pow(x, d), range(4)),
    }
    for name, (function, numbers) in functions.items():
        first = {}
        for round_ in range(4):
            for d in numbers:
                result = function(torch.arange(24.0).reshape(2, 3, 4), d)
                expected = first.setdefault(d, result.numpy() if not round_ else None)
                np.testing.assert_array_equal(result.numpy(), expected, err_msg=f"{name} {d}")
                assert name != "unsqueeze_copy" or (result.shape[d] == 1 and result.ndim == 4)


def test_conditions_choose_and_repeat_functions() -> None:
    x = torch.tensor(3.0)
    assert torch.cond(x > 2, lambda a: a + 1, lambda a: a - 1, (x,)).item() == 4
    count, y = torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))
    assert (count.item(), y.item()) == (3, 24) and isinstance(y, torch.Tensor)


def test_rows_of_a_table_are_scaled_in_place() -> None:
    table = torch.ones(3, 4)
    assert torch.embedding_renorm_(table, torch.tensor([1]), 1.0, 2.0) is table
    np.testing.assert_allclose(table.norm(dim=1).numpy(), [2, 1, 2], rtol=1e-5)


NEW = {
    "diff of no order": lambda x: torch.diff(x, 0),
    "sum over no axis": lambda x: torch.sum(x[0, 0], 0),
    "cat of one": lambda x: torch.cat([x]),
    "flip of none": lambda x: x.flip([]),
    "tile by one": lambda x: x.tile(1),
    "matrix_power of one": lambda x: torch.matrix_power(x[:, :2], 1),
    "clamp": lambda x: torch.clamp(x, -100, 100),
    "view_copy": lambda x: torch.view_copy(x, (2, 3)),
    "round": lambda x: torch.round(input=x),
    "max of a number": lambda x: torch.max(x[0, 0]),
}


@pytest.mark.parametrize("name", NEW)
def test_results_that_are_no_views_are_new_tensors(name: str) -> None:
    x = torch.tensor(X)
    result = NEW[name](x)
    result.zero_()
    np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("values", [9.0, [7.0, 8.0, 9.0]])
def test_elements_that_a_mask_chooses_are_put_in_a_trace(values, accumulate):
    x, mask, new = torch.arange(6.0).view(2, 3), torch.arange(6).view(2, 3) > 2, torch.tensor(values)
    put = lambda x, mask, new: torch.index_put(x, (mask,), new, accumulate)
    want = x.numpy().copy()
    want[mask.numpy()] = want[mask.numpy()] * accumulate + np.asarray(values)
    for call in (put, jg.trace(put)):
        np.testing.assert_array_equal(call(x, mask, new).numpy(), want)


@pytest.mark.parametrize("name", ["softmax", "softmin", "log_softmax"])
def test_softmax_of_complex_numbers_in_a_real_dtype(name):
    z, function = torch.tensor([1 + 2j, 3 - 1j]), getattr(torch.nn.functional, name)
    with pytest.warns(UserWarning, match="imaginary"):
        result = function(z, 0, dtype=torch.float32)
    assert result.tolist() == function(torch.tensor([1.0, 3.0]), 0).tolist()
