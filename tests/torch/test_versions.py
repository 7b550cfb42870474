"""Writes between an op and its gradient: PyTorch's error where the version counts, its numbers for ``.data``."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import jitgraph.torch as ours

PyTorch = importlib.util.find_spec("torch") and importlib.import_module("torch")
LIBRARIES = [ours, *([PyTorch] if PyTorch else [])]
MESSAGE = "modified by an inplace operation"


def no_grad_write(torch: Any, w: Any, x: Any) -> Any:
    z = (w * w).sum()
    with torch.no_grad():
        w.mul_(2)
    z.backward()


def write_of_what_is_not_saved(torch: Any, w: Any, x: Any) -> Any:
    z = (w + x).sum() + (w * x).sum()
    with torch.no_grad():
        w.mul_(2)
    z.backward()


def step_of_an_optimiser(torch: Any, w: Any, x: Any) -> Any:
    z = (w * w).sum()
    z.backward(retain_graph=True)
    torch.optim.SGD([w], 0.1).step()
    z.backward()


def detached_write(torch: Any, w: Any, x: Any) -> Any:
    z = (w * w).sum()
    w.detach().add_(1)
    z.backward()


def data_write(torch: Any, w: Any, x: Any) -> Any:
    z = (w * w).sum() + (w * x).sum()
    w.data.mul_(2)
    x.data.add_(1)
    x.data.add_(1)
    z.backward()


def data_set(torch: Any, w: Any, x: Any) -> Any:
    z = (w * w).sum()
    w.data = torch.full((3,), 10.0)
    z.backward()


def data_write_then_counted(torch: Any, w: Any, x: Any) -> Any:
    z = (w * x).sum()
    x.data.add_(1)
    x.add_(0)
    z.backward()


def write_to_data_that_is_read(torch: Any, w: Any, x: Any) -> Any:
    d = x.data
    z = (w * d).sum()
    d.add_(1)
    z.backward()


def write_beside_data_that_is_read(torch: Any, w: Any, x: Any) -> Any:
    z = (w * x.data).sum()
    x.data.add_(1)
    z.backward()


def view_that_is_gone(torch: Any, w: Any, x: Any) -> Any:
    z = (w * x[0]).sum()
    x[1] = 5
    z.backward()


def view_of_data(torch: Any, w: Any, x: Any) -> Any:
    z = (w * x[:1].expand(3)).sum() + (w[0] * w[1] * x).sum()
    x.data[0] = 5
    w.data.mul_(2)
    z.backward()


def rows_of_what_is_written(torch: Any, w: Any, x: Any) -> Any:
    out = torch.zeros(3, 3)
    for t in range(1, 3):
        out[t] = out[t - 1] * w + x
    out.sum().backward()


def rows_of_copies(torch: Any, w: Any, x: Any) -> Any:
    out = torch.ones(3, 3)
    for t in range(1, 3):
        out[t] = out[t - 1].clone() * w + x
    out.sum().backward()


def copies_are_tensors_of_their_own(torch: Any, w: Any, x: Any) -> Any:
    a, b, c, d, e = x.clone(), torch.zeros(3), torch.zeros(3), torch.zeros(1, 3), x.clone()
    b.copy_(x)
    c[:] = x
    d[0] = x
    z = (w * x).sum() + (w * a).sum()
    for copy in (b, c, d, e):
        copy.add_(1)
    z.backward()


def copies_of_results_and_leaves(torch: Any, w: Any, x: Any) -> Any:
    y, leaf = w.sigmoid(), w.clone()
    y.clone().add_(1)
    z = (leaf * leaf).sum() + y.sum()
    with torch.no_grad():
        w.add_(1)
    z.backward()


def operand_of_another_form(torch: Any, w: Any, x: Any) -> Any:
    row = torch.full((1,), 3.0)
    z = (w * row).sum()
    row.add_(1)
    z.backward()


def operand_of_another_dtype(torch: Any, w: Any, x: Any) -> Any:
    mask = torch.tensor([1, 0, 1])
    z = (w * mask.float()).sum() + (w * mask).sum()
    mask.data.zero_()
    z.backward()


def result_that_is_read(torch: Any, w: Any, x: Any) -> Any:
    y = w.exp()
    y.add_(1)
    y.sum().backward()


def result_through_data(torch: Any, w: Any, x: Any) -> Any:
    y = w.exp()
    y.data.zero_()
    y.sum().backward()


def hidden_tensor(torch: Any, w: Any, x: Any) -> Any:
    h = w * 2
    y = h * h
    h.data.add_(1)
    y.sum().backward()


def ops_in_place(torch: Any, w: Any, x: Any) -> Any:
    h = w * 2
    h[1:].sin_()
    h[0].pow_(3)
    h.cos_()
    h[:2].pow_(2)
    h.sum().backward()


def product_with_itself(torch: Any, w: Any, x: Any) -> Any:
    h = w * 2
    h.mul_(h)
    h.sum().backward()


def result_of_an_op_in_place(torch: Any, w: Any, x: Any) -> Any:
    h = w * 2
    h.tanh_()
    h.add_(w)
    h.sum().backward()


def leaf_that_is_a_view(torch: Any, w: Any, x: Any) -> Any:
    w = torch.arange(6.0)[1:4].requires_grad_()
    z = (w * w).sum()
    w.data.mul_(2)
    z.backward()
    return w.grad


def second_backward(torch: Any, w: Any, x: Any) -> Any:
    z = (w * w).sum()
    w.data.mul_(2)
    z.backward(retain_graph=True)
    w.data.mul_(2)
    z.backward()


def quotient_and_root(torch: Any, w: Any, x: Any) -> Any:
    h = w * 1
    a = 2 / h
    b = h**0.5
    c = x / h
    x.data.add_(1)
    b.add_(1)
    (a + b + c).sum().backward()


OUTCOMES: dict[Callable[..., Any], list[float] | None] = {
    no_grad_write: None, write_of_what_is_not_saved: [3.0, 3.0, 3.0], step_of_an_optimiser: None, detached_write: None,
    data_write: [8.0, 12.0, 16.0], data_set: [20.0, 20.0, 20.0], data_write_then_counted: None,
    write_to_data_that_is_read: None, write_beside_data_that_is_read: [3.0, 3.0, 3.0], view_that_is_gone: None,
    view_of_data: [41.0, 23.0, 5.0], rows_of_what_is_written: None, rows_of_copies: [5.0, 7.0, 9.0],
    copies_are_tensors_of_their_own: [4.0, 4.0, 4.0],
    copies_of_results_and_leaves: [2.1966, 4.105, 6.0452],
    operand_of_another_form: None,
    operand_of_another_dtype: [1.0, 0.0, 1.0], result_that_is_read: None, result_through_data: [0.0, 0.0, 0.0],
    hidden_tensor: [12.0, 20.0, 28.0], ops_in_place: [6.9097, -1.3051, 0.5296], product_with_itself: None,
    result_of_an_op_in_place: None, leaf_that_is_a_view: [4.0, 8.0, 12.0], second_backward: [12.0, 24.0, 36.0],
    quotient_and_root: [-4.5, -0.8964, -0.2669],
}  # fmt: skip


@pytest.mark.parametrize("program", OUTCOMES, ids=lambda program: program.__name__)
def test_gradients_behind_writes_are_those_of_pytorch(program: Callable[..., Any]) -> None:
    due = OUTCOMES[program]
    for torch in LIBRARIES:
        for _ in range(2):
            w = torch.arange(1.0, 4.0).requires_grad_()
            if due is None:
                with pytest.raises(RuntimeError, match=MESSAGE):
                    program(torch, w, torch.full((3,), 2.0))
            else:
                gradient = program(torch, w, torch.full((3,), 2.0))
                gradient = w.grad if gradient is None else gradient
                assert gradient.tolist() == pytest.approx(due, abs=1e-3), torch.__name__


@pytest.mark.parametrize("program", OUTCOMES, ids=lambda program: program.__name__)
def test_traced_gradients_behind_writes_are_those_or_refused(program: Callable[..., Any]) -> None:
    """A traced function refuses to differentiate what was written through ``.data`` since."""
    due = OUTCOMES[program]
    w, x = ours.arange(1.0, 4.0).requires_grad_(), ours.full((3,), 2.0)
    try:
        gradient = ours.compile(lambda w, x: program(ours, w, x))(w, x)
    except RuntimeError as error:
        message = str(error)
        assert MESSAGE in message if due is None and "through .data" not in message else "through .data" in message
        assert message.count("test_versions.py:") >= 2
        assert due is None or ".data" in inspect.getsource(program)
    else:
        gradient = w.grad if gradient is None else gradient
        assert gradient is not None
        assert gradient.tolist() == pytest.approx(due, abs=1e-3)


# What PyTorch saves: a write to operand 0 or 1 or to the result ("r") is an error; of operands that require a gradient.
SAVED: dict[str, str] = {
    "add": "", "sub": "", "mul": "01", "div": "01", "maximum": "01", "minimum": "01", "pow": "01r", "atan2": "01",
    "hypot": "01r", "logaddexp": "01", "matmul": "01", "exp": "r", "exp2": "r", "expm1": "r", "log": "0", "log1p": "0",
    "sqrt": "r", "rsqrt": "r", "reciprocal": "r", "sin": "0", "cos": "0", "tan": "r", "asin": "0", "atan": "0",
    "sinh": "0", "tanh": "r", "sigmoid": "r", "relu": "r", "abs": "0", "neg": "", "square": "0", "erf": "0",
    "erfinv": "0", "lgamma": "0", "floor": "", "sum": "", "mean": "", "prod": "0r", "var": "0", "std": "0r",
    "cumsum": "", "cumprod": "0r", "softmax": "r", "log_softmax": "r", "logsumexp": "0r", "amax": "0r", "cat": "",
    "gelu": "0", "silu": "0", "softplus": "0", "elu": "0", "leaky_relu": "0", "mse_loss": "01", "l1_loss": "",
}  # fmt: skip
OF_TWO = {
    *("add", "sub", "mul", "div", "maximum", "minimum", "pow", "atan2", "hypot", "logaddexp", "matmul"),
    *("mse_loss", "l1_loss", "cat"),
}
ALONG_AN_AXIS = {"softmax", "log_softmax", "logsumexp", "cumsum", "cumprod", "amax"}


def applied(torch: Any, name: str, operands: list[Any]) -> Any:
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    if name == "cat":
        return function(operands)
    return function(*operands, 0) if name in ALONG_AN_AXIS else function(*operands)


@pytest.mark.parametrize("name", SAVED)
def test_what_an_op_saves_is_what_pytorch_saves(name: str) -> None:
    count = 2 if name in OF_TWO else 1
    for torch in LIBRARIES:
        refused = ""
        for written in "01"[:count] + "r":
            leaves = [(torch.arange(1.0, 10.0) / 12 + 0.1 * k).reshape(3, 3).requires_grad_() for k in range(count)]
            operands = [leaf * 1 for leaf in leaves]
            result = applied(torch, name, operands)
            with torch.no_grad():
                (result if written == "r" else operands[int(written)]).mul_(1)
            try:
                result.sum().backward()
            except RuntimeError as error:
                assert MESSAGE in str(error)
                refused += written
        assert refused == SAVED[name], torch.__name__


def test_versions_count_writes_to_a_tensor_and_what_shares_its_elements() -> None:
    for torch in LIBRARIES:
        x, w = torch.ones(3), torch.ones(3, requires_grad=True)
        column, data = x.view(3, 1), x.data
        x.add_(1)
        column.mul_(2)
        data.add_(3)
        x[0] = 1
        x.detach().add_(1)
        other = x.data
        other.add_(1)
        other[0] = 2
        with torch.no_grad():
            w.add_(1)
        versions = [t._version for t in (x, column, data, other, w, torch.zeros(2))]
        assert versions == [4, 4, 1, 2, 1, 0], torch.__name__


def test_the_message_names_versions_and_lines() -> None:
    w, x = ours.ones(3, requires_grad=True), ours.ones(3)
    x.add_(1)
    z = (w * x).sum()
    x.add_(1)
    x.add_(1)
    with pytest.raises(RuntimeError) as raised:
        z.backward()
    text = str(raised.value)
    assert "[torch.FloatTensor [3]] is at version 3; expected version 1 instead" in text
    assert text.count("test_versions.py:") == 2
    assert w.grad is None


def test_what_only_a_part_of_a_function_reads_is_refused_where_data_was_written() -> None:
    w = ours.arange(1.0, 4.0).requires_grad_()
    z = (w**3).sum()
    w.data.add_(1)
    with pytest.raises(RuntimeError, match=r"written through \.data"):
        z.backward()


def test_a_compiled_write_counts_as_one() -> None:
    w = ours.arange(1.0, 4.0).requires_grad_()

    @ours.compile
    def scale() -> None:
        with ours.no_grad():
            w.mul_(2)

    for _ in range(8):
        z, y = (w * w).sum(), (w + 1).sum()
        scale()
        y.backward()
        with pytest.raises(RuntimeError, match=MESSAGE):
            z.backward()


def test_notes_end_with_the_values_that_they_are_about() -> None:
    from jitgraph.eager import versions

    def program() -> None:
        w, x = ours.ones(3, requires_grad=True), ours.ones(3)
        z = (w * x).sum() + (w[0] * x[1]).sum()
        for _ in range(3):
            x.data.add_(1)
            w.data.add_(1)
        z.backward()
        with ours.no_grad():
            w.add_(1)

    tables = versions._contents, versions._followed, versions._parts
    program()
    gc.collect()
    before = list(map(len, tables))
    for _ in range(5):
        program()
    gc.collect()
    assert list(map(len, tables)) == before


@pytest.mark.parametrize("write", ["mul_", "neg_"])
def test_the_tape_of_a_view_that_is_written_goes(write: str) -> None:
    def program() -> Any:
        x = ours.ones(3, requires_grad=True) * 1
        view = x[:2]
        getattr(view, write)(*([2] if write == "mul_" else []))
        references = weakref.ref(x.grad_fn._record), weakref.ref(view.value.record)
        x.mul_(3)
        x.data.add_(1)
        return references

    references = program()
    gc.collect()
    assert [reference() for reference in references] == [None, None]
