"""Arrays that are more than their elements are refused; arrays of other libraries are never frozen into a trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader


class Quantity(np.ndarray):
    """An array with a unit."""


def matrix() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix([[1.0, 2.0, 3.0]])


class Exported:
    """An array of another library, by the array protocol."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.array if dtype is None else self.array.astype(dtype)

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.array


class Shared(Exported):
    """One that also has DLPack."""

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


DATA = np.array([1.0, 2.0, 3.0], np.float32)
MASKED = np.ma.MaskedArray(DATA, mask=[False, True, False])
SUBCLASSES = {
    "masked": (MASKED, r"masked array, whose mask would be dropped[\s\S]*\.filled\(value\)"),
    "unmasked": (np.ma.MaskedArray(DATA), "masked array"),
    "matrix": (matrix(), r"numpy\.matrix[\s\S]*np\.asarray\("),
    "unit": (DATA.view(Quantity), r"Quantity[\s\S]*np\.asarray\("),
}
X = jg.ones((3,))
HELD = [MASKED]


def _module_state(array: Any) -> Any:
    layer = jg.nn.Linear(3, 1)
    return layer.load_state_dict({"weight": jg.ones((1, 3)), "bias": array[:1]})


USES: dict[str, Callable[[Any], Any]] = {
    "asarray": jg.asarray,
    "borrowed": lambda a: jg.asarray(a, copy=False),
    "list": lambda a: jg.asarray([a, a]),
    "operator": lambda a: X * a,
    "reflected": lambda a: a * X,
    "comparison": lambda a: X < a,  # noqa: SIM300
    "reflected comparison": lambda a: a < X,
    "function": lambda a: jg.maximum(X, a),
    "where": lambda a: jg.where(X > 0, a, X),
    "condition": lambda a: jg.where(a > 1, X, 0),
    "index": lambda a: X[a.astype(int) % 3],
    "mask": lambda a: X[a > 1],
    "indices": lambda a: jg.take(X, a.astype(int) % 3),
    "in a list of indices": lambda a: X[[a.astype(int) % 3]],
    "written": lambda a: jg.ones((3,)).__setitem__(slice(None), a),
    "full": lambda a: jg.full((3,), a),
    "argument": jg.trace(lambda x: x * 2),
    "argument in a list": lambda a: jg.trace(lambda xs: xs[0] * 2)([a]),
    "constant": lambda a: jg.trace(lambda x: x * a)(X),
    "captured by asarray": lambda a: jg.trace(lambda x: x * jg.asarray(a))(X),
    "made": lambda a: jg.trace(lambda x: x * a.copy())(X),
    "in a script": lambda a: jg.script(lambda x: x * a)(X),
    "state": _module_state,
    "batch": lambda a: jg.data.collate([a, a]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", SUBCLASSES)
def test_what_an_array_is_beside_its_elements_is_not_dropped(name: str, use: str) -> None:
    array, message = SUBCLASSES[name]
    if use.startswith("reflected") and isinstance(
        array, np.ma.MaskedArray
    ):  # it computes by itself, and keeps its mask
        result = USES[use](array)
        assert isinstance(result, np.ma.MaskedArray)
        np.testing.assert_array_equal(np.ma.getmaskarray(result), np.ma.getmaskarray(array))
        return
    with pytest.raises(jg.DTypeError, match=message):
        USES[use](array)


def test_a_masked_element_is_no_number() -> None:
    for use in (lambda: jg.asarray([1.0, np.ma.masked]), lambda: X + np.ma.masked, lambda: jg.asarray(MASKED[1])):
        with pytest.raises(jg.DTypeError, match="masked"):
            use()


def test_a_later_call_does_not_drop_a_mask() -> None:
    f = jg.trace(lambda x: x * 2)
    g = jg.trace(lambda x: x * HELD[0])
    assert f(DATA).tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(jg.DTypeError, match="x is a masked array"):
        f(MASKED)
    HELD[0] = DATA
    try:
        assert g(X).tolist() == [1.0, 2.0, 3.0]
        HELD[0] = MASKED
        with pytest.raises(jg.DTypeError, match="masked array"):
            g(X)
    finally:
        HELD[0] = MASKED


def test_memory_maps_are_arrays(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(3,))
    mapped[:] = DATA
    for result in (jg.asarray(mapped), X * mapped, jg.trace(lambda x: x * 1)(mapped)):
        assert result.tolist() == DATA.tolist()


def test_saved_programs_drop_no_mask(tmp_path: Path) -> None:
    jg.save(jg.trace(lambda x: x * 2), tmp_path / "f.jg", example_inputs=(DATA,))
    with pytest.raises(loader.ArgumentError, match=r"masked array[\s\S]*filled"):
        loader.load(tmp_path / "f.jg")(MASKED)
    with pytest.raises(jg.JitgraphError, match="masked array"):
        jg.load(tmp_path / "f.jg")(MASKED)


@pytest.mark.parametrize("kind", [Exported, Shared])
def test_arrays_of_other_libraries_are_not_frozen(kind: Any) -> None:
    array = kind(DATA)
    for f, text in (
        (
            lambda: jg.trace(lambda x: x * jg.asarray(array))(X),
            r"^array is a [\s\S]*test_foreign_arrays\.py[\s\S]*as an argument",
        ),
        (lambda: jg.trace(lambda x: x * array)(X), r"^array is a "),
        (lambda: jg.trace(lambda x: x * np.asarray(array))(X), r"^array is a "),
        (lambda: jg.script(lambda x: x * np.asarray(array))(X), r"^array is a "),
    ):
        with pytest.raises(jg.TraceError, match=text):
            f()
    assert jg.asarray(array).tolist() == DATA.tolist()


def test_attributes_and_elements_of_other_libraries_are_not_frozen() -> None:
    class Model:
        def __init__(self) -> None:
            self.table = Exported(DATA)
            self.tables = [Exported(DATA)]

    model = Model()
    for f in (
        lambda x: x * jg.asarray(model.table),
        lambda x: x * jg.asarray(model.tables[0]),
        lambda x: sum((x * jg.asarray(table) for table in model.tables), x),
    ):
        with pytest.raises(jg.TraceError, match=r"is a .*Exported: a traced function would keep"):
            jg.trace(f)(X)


def test_an_array_of_another_library_that_a_trace_makes_is_not_frozen() -> None:
    with pytest.raises(jg.TraceError, match=r"is a .*Exported: a traced function would keep"):
        jg.trace(lambda x: x * Exported(np.ones(3, np.float32)))(X)


def test_torch_tensors_are_arrays() -> None:
    torch = pytest.importorskip("torch")
    t = torch.ones(3)
    double = jg.trace(lambda x, t: x * t)
    for n in range(3):
        t += n
        assert double(X, t).tolist() == jg.multiply(X, t).tolist() == (X * t).tolist() == t.tolist()
    with pytest.raises(jg.TraceError, match=r"^t is a torch\.Tensor"):
        jg.trace(lambda x: x * jg.asarray(t))(X)
    with pytest.raises(jg.SharingError, match=r"requires? grad[\s\S]*detach"):
        jg.asarray(t.clone().requires_grad_())
    half = torch.ones(3, dtype=torch.bfloat16)
    assert jg.asarray(half).dtype == jg.bfloat16 and torch.from_dlpack(jg.asarray(half)).tolist() == [1.0] * 3


def test_jax_arrays_are_arrays() -> None:
    jnp = pytest.importorskip("jax.numpy")
    j = jnp.arange(3, dtype=jnp.float32)
    double = jg.trace(lambda x: x * 2)
    for array in (j, j + 1, DATA):
        np.testing.assert_array_equal(double(array).numpy(), np.asarray(array) * 2)
    assert double.cache_info().misses == 1
    for dtype in (jg.float32, jg.bfloat16, jg.bool):
        x = jg.asarray(j).astype(dtype)
        inputs = jnp.from_dlpack(x)
        assert str(inputs.dtype) == x.dtype.name and jg.asarray(inputs).tolist() == x.tolist()
