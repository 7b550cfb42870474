"""Python ints that vary from call to call as indices, bounds of slices, shifts, items of lists: one graph for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

N = 12
TABLE = np.arange(float(N), dtype=np.float32)
WITHIN = range(-6, 6)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


def matrix(x: Any) -> Any:
    return x.reshape(3, 4)


def written(x: Any, i: int) -> Any:
    y = x * 1
    y[i] = 7.5
    y[i + 2] += y[i]
    return y


def written_slice(x: Any, i: int) -> Any:
    y = matrix(x) * 1
    y[:, i : i + 2] = 5.0
    y[i % 3] = -1.0
    return y


def unrolled(x: Any, i: int) -> Any:
    total = x[0] * 0
    for k in range(100):  # more elements than a trace makes assumptions about numbers
        total = total + x[(i + k) % N]
    return total


READS: dict[str, Callable[[Any, int], Any]] = {
    "element": lambda x, i: x[i],
    "element counted back": lambda x, i: x[-i - 1],
    "row": lambda x, i: matrix(x)[i % 3],
    "column": lambda x, i: matrix(x)[:, i % 4],
    "two axes": lambda x, i: matrix(x)[i % 3, (i - 1) % 4],
    "beside a new axis": lambda x, i: matrix(x)[i % 3, None, ...],
    "beside a slice": lambda x, i: matrix(x)[i % 3, 1:3],
    "beside a reversed slice": lambda x, i: matrix(x)[i % 3, ::-1],
    "beside an array": lambda x, i: x.reshape(3, 2, 2)[i % 3, :, np.array([0, 1, 1])],
    "in a list": lambda x, i: x[[i, 1, 2]],
    "unrolled": unrolled,
}


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
@pytest.mark.parametrize("name", READS)
def test_one_graph_reads_at_every_index(name: str, compiled: Callable[..., Any]) -> None:
    function = compiled(READS[name])
    for i in WITHIN:
        np.testing.assert_array_equal(function(jg.asarray(TABLE), i).numpy(), READS[name](TABLE, i))
    assert function.cache_info().misses == 2  # the first call, and all others


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
@pytest.mark.parametrize("use", [written, written_slice])
def test_one_graph_writes_at_every_index(use: Any, compiled: Callable[..., Any]) -> None:
    function = compiled(use)
    for i in range(3):
        np.testing.assert_array_equal(function(jg.asarray(TABLE), i).numpy(), use(TABLE, i))
    assert function.cache_info().misses == 2


SLICES: dict[str, Callable[[Any, int], Any]] = {
    "of a length": lambda x, i: x[i : i + 3],
    "with a step": lambda x, i: x[i : i + 5 : 2],
    "of a batch": lambda x, i: x[i * 5 : (i + 1) * 5],
    "beside an index": lambda x, i: matrix(x)[i : i + 2, i % 4],
    "bounds in the wrong order": lambda x, i: x[i + 1 : i - 1],
    "to the end": lambda x, i: x[i:],
    "from the start": lambda x, i: x[:i],
    "backwards": lambda x, i: x[i : i - 3 : -1],
}


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
@pytest.mark.parametrize("name", SLICES)
@pytest.mark.filterwarnings("ignore:.*was compiled for more than 8 kinds")
def test_slices_between_numbers_that_vary_are_python_s(name: str, compiled: Callable[..., Any]) -> None:
    function = compiled(SLICES[name])
    for i in (*range(-N - 2, N + 3), 4):
        np.testing.assert_array_equal(function(jg.asarray(TABLE), i).numpy(), SLICES[name](TABLE, i))


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
@pytest.mark.parametrize("size", [10, 11])
def test_a_window_that_moves_is_one_graph(size: int, compiled: Callable[..., Any]) -> None:
    function = compiled(lambda x, i: x[i : i + 3])
    for i in range(size - 2):
        np.testing.assert_array_equal(function(jg.asarray(TABLE[:size]), i).numpy(), TABLE[:size][i : i + 3])
    assert function.cache_info().misses == 2


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
def test_a_slice_beside_a_mask(compiled: Callable[..., Any]) -> None:
    mask = np.array([True, False, True, False])

    @compiled
    def function(x: Any, i: int) -> Any:
        y = matrix(x) * 1
        y[i : i + 2, jg.asarray(mask)] = -1.0
        return y

    for i in range(2):
        due = matrix(TABLE).copy()
        due[i : i + 2, mask] = -1.0
        np.testing.assert_array_equal(function(jg.asarray(TABLE), i).numpy(), due)


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
def test_sizes_and_indices_that_vary_together(compiled: Callable[..., Any]) -> None:
    function = compiled(lambda x, i: jg.roll(x, i)[: N // 4] + x[i] + x[i : i + 1])
    for size in (4, 5, 6, 7):
        for i in range(4):
            x = TABLE[:size]
            due = np.roll(x, i)[: N // 4] + x[i] + x[i : i + 1]
            np.testing.assert_array_equal(function(jg.asarray(x), i).numpy(), due)
    assert function.cache_info().misses <= 4


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
@pytest.mark.parametrize(("shifts", "axes"), [((1,), None), ((1,), (1,)), ((1, -1), (0, 1))])
def test_one_graph_rolls_by_every_shift(shifts: Sequence[int], axes: Any, compiled: Callable[..., Any]) -> None:
    def rolled(library: Any, x: Any, i: int) -> Any:
        return library.roll(matrix(x), tuple(i * s for s in shifts) if axes else i, axes)

    function = compiled(lambda x, i: rolled(jg, x, i))
    for i in (0, 1, 2, 3, 4, 5, -1, -7, 24):
        np.testing.assert_array_equal(function(jg.asarray(TABLE), i).numpy(), rolled(np, TABLE, i))
    assert function.cache_info().misses == 2


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
def test_lists_of_numbers_that_vary(compiled: Callable[..., Any]) -> None:
    def tensors(i: int, a: float) -> Any:
        plain = jg.asarray([i, 2]), jg.asarray([a, 2]), jg.asarray([i, True]), jg.asarray([[i, a], [a, 1]])
        return *plain, jg.asarray((i,), dtype=jg.int8), jg.add(jg.asarray([1.0, 2.0]), [a, i])

    function = compiled(tensors)
    for i in range(5):
        for mine, due in zip(function(i, i / 3), tensors(i, i / 3), strict=True):
            assert mine.dtype == due.dtype
            np.testing.assert_array_equal(mine.numpy(), due.numpy())
    assert function.cache_info().misses == 2


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
def test_a_list_with_an_int_that_the_dtype_does_not_hold(compiled: Callable[..., Any]) -> None:
    function = compiled(lambda i: jg.asarray([i, 1], dtype=jg.int8))
    for i in (1, 2, 3):
        assert function(i).tolist() == [i, 1]
    with pytest.raises(jg.NumberError, match="300 does not fit int8"):
        function(300)
    wide = compiled(lambda i: jg.asarray([i, 1]))
    for i in (1, 2, 3, 2**63, 4):
        assert wide(i).tolist() == [i, 1]
        assert wide(i).dtype == jg.asarray([i, 1]).dtype


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
def test_indices_out_of_range_are_index_errors(compiled: Callable[..., Any]) -> None:
    function = compiled(lambda x, i: x[i])
    x = jg.asarray(TABLE)
    for i in (0, 1, 2, N, -N - 1, 2**70, -(2**63), 3, -N):
        if -N <= i < N:
            assert function(x, i).item() == TABLE[i]
        else:
            with pytest.raises(IndexError, match=f"{i} is out of range"):
                function(x, i)
    with pytest.raises(IndexError, match="must be an integer"):
        compiled(lambda x, a: x[a])(x, 1.5)


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
def test_a_ring_buffer_is_one_graph(compiled: Callable[..., Any]) -> None:
    class Ring:
        def __init__(self) -> None:
            self.rows, self.at, self.count = jg.zeros((5, 2)), 0, 0

    def push(ring: Any, row: Any) -> Any:
        ring.rows[ring.at] = row
        ring.at = (ring.at + 1) % 5
        ring.count = min(ring.count + 1, 5)
        return ring.rows[ring.at - 1]

    mine, due = Ring(), Ring()
    function = compiled(lambda row: push(mine, row))
    for k in range(13):
        row = np.array([k, -k], np.float32)
        np.testing.assert_array_equal(function(row).numpy(), push(due, row).numpy())
        np.testing.assert_array_equal(mine.rows.numpy(), due.rows.numpy())
        assert (mine.at, mine.count) == (due.at, due.count)
    assert function.cache_info().misses <= 3


@pytest.mark.parametrize("compiled", [jg.trace, jg.script])
def test_gradients_and_batches_at_an_index_that_varies(compiled: Callable[..., Any]) -> None:
    def gradient(x: Any, i: int) -> Any:
        return jg.grad(lambda v: v[i] * v[i + 1] * v[i : i + 3].sum())(x)

    def batched(x: Any, i: int) -> Any:
        return jg.vmap(lambda row: row[i] * 2 + row[i : i + 1])(matrix(x))

    for use, last in ((gradient, 9), (batched, 4)):
        function = compiled(use)
        for i in range(last):
            due = use(jg.asarray(TABLE), i)
            np.testing.assert_allclose(function(jg.asarray(TABLE), i).numpy(), due.numpy(), rtol=1e-6)
        assert function.cache_info().misses == 2


def test_a_saved_function_takes_the_index_of_its_example(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITGRAPH_INTERPRET")
    traced = jg.trace(lambda x, i: x[i] + x[i : i + 2])
    for i in range(3):
        traced(jg.asarray(TABLE), i)
    jg.save(traced, tmp_path / "at.jg", example_inputs=(TABLE, 3))
    np.testing.assert_array_equal(jg.load(tmp_path / "at.jg")(TABLE).numpy(), TABLE[3] + TABLE[3:5])
