"""Views share their elements with their base: read and written, eagerly and in traces."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch
from tests.graphs import needs_native

VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray[Any, Any]], Any]]] = {
    "index": (lambda x: x[1], lambda a: a[1]),
    "slice": (lambda x: x[1:, ::2], lambda a: a[1:, ::2]),
    "new axis": (lambda x: x[:, None], lambda a: a[:, None]),
    "ellipsis": (lambda x: x[..., -1], lambda a: a[..., -1]),
    "view": (lambda x: x.view(-1), lambda a: a.reshape(-1)),
    "view of two": (lambda x: x.view(2, 2, 6), lambda a: a.reshape(2, 2, 6)),
    "reshape": (lambda x: x.reshape(6, 4), lambda a: a.reshape(6, 4)),
    "t": (lambda x: x.t(), lambda a: a.T),
    "T": (lambda x: x.T[2], lambda a: a.T[2]),
    "transpose": (lambda x: x.view(2, 3, 4).transpose(0, 2), lambda a: a.reshape(2, 3, 4).transpose(2, 1, 0)),
    "permute": (lambda x: x.view(2, 3, 4).permute(1, 2, 0)[0], lambda a: a.reshape(2, 3, 4).transpose(1, 2, 0)[0]),
    "unsqueeze": (lambda x: x.unsqueeze(1).squeeze(1)[2], lambda a: a[2]),
    "flatten": (lambda x: x.flatten()[3:9], lambda a: a.reshape(-1)[3:9]),
    "chunk": (lambda x: x.chunk(2, 1)[1], lambda a: a[:, 3:]),
    "split": (lambda x: x.split([1, 3])[1], lambda a: a[1:]),
    "unbind": (lambda x: x.unbind(1)[4], lambda a: a[:, 4]),
    "narrow": (lambda x: x.narrow(1, 2, 3), lambda a: a[:, 2:5]),
    "select": (lambda x: x.select(-1, -2), lambda a: a[:, -2]),
    "diagonal": (lambda x: x.diagonal(1), lambda a: a.ravel()[1 :: a.shape[1] + 1][:4]),
    "as_strided": (
        lambda x: x.as_strided((2, 3), (6, 2), 1),
        lambda a: a.ravel()[1:][[0, 2, 4, 6, 8, 10]].reshape(2, 3),
    ),
    "detach": (lambda x: x.detach(), lambda a: a),
    "data": (lambda x: x.data[2], lambda a: a[2]),
    "unfold": (lambda x: x.unfold(1, 2, 3), lambda a: a.reshape(4, 2, 3)[:, :, :2]),
}


def matrix() -> Any:
    return torch.tensor(np.arange(24, dtype=np.float32).reshape(4, 6))


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_views_are_read_and_written_through(name: str, traced: bool) -> None:
    view, of_array = VIEWS[name]
    mask = np.zeros((4, 6), np.int64)
    numbers = np.arange(24).reshape(4, 6)
    mask.ravel()[np.asarray(of_array(numbers)).ravel()] = 1

    def run(x: Any) -> Any:
        y = view(x)
        before = y + 0
        y.mul_(10)
        x.add_(1)
        return before, y + 0

    x = matrix()
    before, after = (jg.trace(run) if traced else run)(x)
    expected = np.asarray(of_array(numbers.astype(np.float32)))
    np.testing.assert_array_equal(before.numpy(), expected)
    np.testing.assert_array_equal(after.numpy(), expected * 10 + 1)
    np.testing.assert_array_equal(x.numpy(), np.where(mask == 1, numbers * 10, numbers) + 1)


@pytest.mark.parametrize(
    "refused",
    [
        lambda x: x[:1].expand(3, 6).add_(1),
        lambda x: x.t().view(-1),
        lambda x: x.view(5, -1),
        lambda x: x.unfold(1, 3, 1).add_(1),
        lambda x: x.as_strided((4, 7), (6, 1)),
        lambda x: x.requires_grad_()[0].add_(1),
        lambda x: x.requires_grad_().add_(1),
        lambda x: x.add_(x.view(2, 4, 3)),
    ],
)
def test_what_pytorch_refuses_is_a_runtime_error(refused: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError):
        refused(matrix())


def test_gradients_flow_through_writes_to_views() -> None:
    w = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    x = w * 2
    x.view(2, 2)[0].mul_(x[2:].clone())
    x[3] = 7.0
    (x * x).sum().backward()
    a = np.array([1.0, 2.0, 3.0, 4.0])
    first, second = 4 * a[0] * a[2], 4 * a[1] * a[3]
    assert w.grad is not None
    expected = [2 * first * 4 * a[2], 2 * second * 4 * a[3], 2 * first * 4 * a[0] + 8 * a[2], 2 * second * 4 * a[1]]
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-6)


def test_writes_through_data_leave_the_history_as_it_is() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    y = w * 3
    y.data.mul_(0)
    np.testing.assert_array_equal(y.detach().numpy(), [0, 0])
    y.sum().backward()
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.numpy(), [3, 3])
    w.data[0] = 9
    assert w.requires_grad and w.is_leaf
    np.testing.assert_array_equal(w.detach().numpy(), [9, 2])


def test_functions_of_aten_are_functions_and_methods() -> None:
    x = torch.tensor([0.0, 1.0])
    out = torch.zeros(2)
    assert torch.exp(input=x, out=out) is out
    np.testing.assert_array_equal(out.numpy(), jg.exp(x).numpy())
    assert type(x.sin()) is torch.Tensor and x.sin_() is x
    np.testing.assert_allclose(x.numpy(), np.sin([0.0, 1.0]), rtol=1e-6)


def test_one_traced_function_serves_tensors_of_both_apis() -> None:
    """Their methods differ, so each has a recording of its own, and results are of the API that computed them."""

    @jg.trace
    def largest(x: Any) -> Any:
        return x.sum(0), x.reshape(-1)[:2]

    for _ in range(4):
        for x, kind in ((matrix(), torch.Tensor), (jg.asarray(np.ones((4, 6), np.float32)), jg.Tensor)):
            results = largest(x)
            assert [type(results[0]), results[1]._api] == [kind, kind._api]
    assert largest.cache_info().misses == 2


def test_tensors_that_repeat_elements_are_filled() -> None:
    """One number everywhere is the write that expanded views take, as each element gets one value."""

    def run(x: Any) -> Any:
        x[:1].expand(3, 6).fill_(7)
        x[1:2, :1].expand(5, 2, 1, 4).zero_()
        x[3].expand(0, 6).fill_(9)
        x[2, :1].expand(3).fill_(x[0, 0] + 1)
        return x + 0

    expected = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected[0], expected[1, 0], expected[2, 0] = 7, 0, 8
    for f in (run, jg.trace(run)):
        x = matrix()
        np.testing.assert_array_equal(f(x).numpy(), expected)
        np.testing.assert_array_equal(x.numpy(), expected)


def test_functions_that_leave_a_real_tensor_as_it_is_give_it_back() -> None:
    x = matrix()
    assert x.positive() is x and torch.resolve_conj(x) is x and x.resolve_neg() is x
    with pytest.raises(RuntimeError, match="bool"):
        torch.positive(x > 3)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_a_detached_tensor_may_ask_for_gradients(traced: bool) -> None:
    """As adversarial examples do; a trace, which cannot let a view be a leaf, makes it a tensor of its own."""

    def signs(x: Any) -> Any:
        example = x.detach().requires_grad_()
        (example**3).sum().backward()
        with torch.no_grad():
            example += example.grad.sign()
        return example, example.grad, x + 0

    x = torch.tensor([2.0, -1.0, 0.5])
    example, gradient, same = (jg.trace(signs) if traced else signs)(x)
    np.testing.assert_allclose(gradient.numpy(), [12, 3, 0.75])
    np.testing.assert_allclose(example.detach().numpy(), [3, 0, 1.5])
    assert example.requires_grad
    assert np.array_equal(same.numpy(), [2, -1, 0.5]) is traced


def test_a_detached_tensor_that_asks_for_none_writes_nothing() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    before = w._value.array
    assert not w.detach().requires_grad_(False).requires_grad and w.requires_grad
    assert w._value.array is before
    with pytest.raises(RuntimeError, match="leaf"):
        (w * 2)[0].requires_grad_(False)


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: torch.split_with_sizes_copy(x, [4])[0],
        lambda x: torch.unbind_copy(x[None])[0],
        lambda x: torch.alias_copy(x),
        lambda x: torch.slice_copy(x),
        lambda x: torch.as_strided_copy(x, (4,), (1,)),
        lambda x: torch.clamp(x, -9),
        lambda x: torch.cartesian_prod(x[:1], x[1:]),
    ],
)
def test_copies_share_nothing(copy: Callable[[Any], Any]) -> None:
    x = torch.arange(4.0)
    copy(x).fill_(7)
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("dropout", (4,)),
        ("dropout1d", (2, 2)),
        ("dropout2d", (1, 2, 2)),
        ("dropout3d", (1, 1, 2, 2)),
        ("alpha_dropout", (4,)),
        ("feature_alpha_dropout", (4,)),
    ],
)
def test_a_dropout_that_drops_nothing_gives_its_input(name: str, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape)
    dropout = getattr(torch.nn.functional, name)
    assert dropout(x, training=False) is x
    if name != "feature_alpha_dropout":
        assert dropout(x, 0.0, True) is x
    with pytest.raises(RuntimeError):
        dropout(x, 2.0, False)


def test_windows_that_overlap_are_filled_and_nothing_else_is_written_to_them() -> None:
    x = torch.zeros(5)
    windows = x.unfold(0, 3, 1)
    windows.fill_(2)
    assert x.tolist() == [2] * 5
    with pytest.raises(RuntimeError, match="repeat"):
        windows.copy_(torch.ones(3, 3))
    x.as_strided((2, 2), (1, 1)).zero_()
    assert x.tolist() == [0, 0, 0, 2, 2]


def test_no_result_is_written_to_elements_that_repeat() -> None:
    for shape in ((2, 3), (3, 3)):
        with pytest.raises(RuntimeError, match="single memory location"):
            torch.add(torch.ones(2, 3), 1, out=torch.ones(1, 3).expand(shape))


def test_an_index_is_refused_where_it_stands() -> None:
    x = torch.ones(2, 3)
    for index in (2, -3, (0, 3), (0, -4), (0, 0, 0), (slice(0, 1), 5), (..., 3), (0, slice("a"))):
        with pytest.raises(IndexError):
            x[index]
    assert [tuple(x[i].shape) for i in (-2, (1, 2), slice(5, 9), (slice(-9, 9), -3))] == [(3,), (), (0, 3), (2,)]
    with pytest.raises(IndexError):
        torch.tensor(1.0)[0]


def test_a_view_of_what_is_computed_is_on_the_tape_at_its_own_line() -> None:
    x = torch.ones(2, 3, requires_grad=True) * 2
    line = sys._getframe().f_lineno + 1
    row = x[0]
    (row * 2).sum().backward()
    assert row.grad_fn._record.location.line == line


@needs_native
@pytest.mark.parametrize(
    ("most", "run"),
    [(9, lambda x, y: x.add_(1)), (9, lambda x, y: x.mul_(y)), (12, lambda x, y: x[0]), (14, lambda x, y: x[0, 1:])],
    ids=["a number", "a tensor", "an index", "indices"],
)
def test_writes_and_indices_of_constants_take_few_calls(
    most: int, run: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    x, y, calls = torch.ones(2, 3), torch.ones(2, 3), []
    for _ in range(600):  # a table is due at last
        run(x, y)
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        run(x, y)
    finally:
        sys.setprofile(None)
    assert len(calls) <= most, calls  # among them that of ``run``
