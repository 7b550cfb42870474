"""``jg.custom_op``: functions of NumPy arrays and C functions as ops, eager and in compiled code."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import compiler, ir
from jitgraph.ir.target import Target

X = np.array([[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]])


def _sorted_op(name="rows_sorted"):
    """Twice the sorted rows; its gradient goes back through the order."""

    def impl(x):
        return 2 * np.sort(x, axis=-1)

    def vjp(ct, out, x):
        positions = jg.argsort(x, axis=-1) if hasattr(jg, "argsort") else None
        assert positions is None or positions.shape == x.shape
        return (scatter_back(ct, x),)

    def back(ct, x):
        actual = np.empty_like(x)
        np.put_along_axis(actual, np.argsort(x, axis=-1), 2 * ct, axis=-1)
        return actual

    scatter_back = jg.custom_op(name + "_back", back, lambda ct, x: x)
    return jg.custom_op(name, impl, lambda x: x, vjp)


rows_sorted = _sorted_op()
cube = jg.custom_op("cube", lambda x: x**3, lambda x: x, vjp=lambda ct, out, x: (3 * x * x * ct,))
divided = jg.custom_op(
    "divided",
    lambda a, b: (a // b, a % b),
    lambda a, b: [(a.shape, jg.int64), jg.TensorSpec(b.shape, "int64")],
)


def _fails(x):
    if x.flat[0] > 100:
        raise KeyError("too large")
    return x


fails = jg.custom_op("fails", _fails, lambda x: x)


def test_eager_and_traced_give_the_function_s_own_bits():
    x = jg.asarray(X)
    traced = jg.trace(lambda x: rows_sorted(x + 1) * 3)
    for _ in range(3):
        assert np.array_equal(traced(x).numpy(), 6 * np.sort(X + 1, axis=-1))
    assert np.array_equal(rows_sorted(x).numpy(), 2 * np.sort(X, axis=-1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint64", "bool"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 0), (1,), (2, 3, 4)])
def test_any_dtype_and_shape(dtype, shape):
    flipped = jg.custom_op("flipped", lambda x: x.T, lambda x: (x.shape[::-1], x.dtype))
    x = jg.ones(shape, dtype=getattr(jg, dtype))
    for actual in (flipped(x), jg.trace(flipped)(x)):
        assert actual.shape == shape[::-1] and actual.dtype == x.dtype
        assert np.array_equal(actual.numpy(), x.numpy().T)


def test_several_results_and_unused_ones():
    a, b = jg.asarray([7, 9]), jg.asarray([2, 4])
    quotient, rest = jg.trace(lambda a, b: divided(a, b))(a, b)
    assert quotient.tolist() == [3, 2] and rest.tolist() == [1, 1]
    assert jg.trace(lambda a, b: divided(a + 1, b)[1] * 2)(a, b).tolist() == [0, 4]
    same, twice = jg.trace(lambda a, b: (divided(a, b)[0], divided(a, b)[0]))(a, b)
    assert same.tolist() == twice.tolist() == [3, 2]


def test_operands_that_other_kernels_read_through():
    """A slice or a transposed view is no buffer, which a call of Python takes."""
    x = jg.asarray(X)
    for view in (lambda x: x[1:], lambda x: x.T, lambda x: x[:, ::-1], lambda x: jg.concat([x, x])):
        function = jg.trace(lambda x, view=view: cube(view(x)))(x)
        assert np.array_equal(function.numpy(), view(x).numpy() ** 3)


def test_named_sizes():
    calls = jg.trace(lambda x: cube(x).sum(axis=0) + rows_sorted(x)[0], dynamic_shapes={"x": {0: "n", 1: "m"}})
    for rows, columns in (2, 3), (1, 3), (5, 7), (4, 0):
        x = np.random.default_rng(rows).normal(size=(rows, columns))
        expected = (x**3).sum(axis=0) + 2 * np.sort(x, axis=-1)[0]
        assert np.allclose(calls(x).numpy(), expected, rtol=1e-13)
    assert calls.cache_info().misses == 1


def test_in_loops_and_branches():
    @jg.script
    def stepped(x, n):
        i = jg.asarray(0)
        while i < n:
            if i % 2 == 0:
                x = rows_sorted(x)
            else:
                x = x[:, ::-1] + 1
            i += 1
        return x

    expected = X
    for i in range(5):
        expected = 2 * np.sort(expected, axis=-1) if i % 2 == 0 else expected[:, ::-1] + 1
    assert np.array_equal(stepped(jg.asarray(X), jg.asarray(5)).numpy(), expected)

    total = jg.trace(lambda x: jg.scan(lambda carry, row: (carry + cube(row), cube(carry)), x[0], x))
    carry, rows = X[0], []
    for row in X:
        rows.append(carry**3)
        carry = carry + row**3
    actual = total(jg.asarray(X))
    assert np.array_equal(actual[0].numpy(), carry) and np.array_equal(actual[1].numpy(), np.stack(rows))


def test_gradients_of_both_orders():
    x = jg.asarray(X)
    loss = lambda x: (rows_sorted(x * x) * x).sum()
    second = lambda x: jg.grad(lambda x: (jg.grad(lambda x: (cube(x) * x).sum())(x) ** 2).sum())(x)
    for wrapped in (lambda f: f), jg.trace:
        step = 1e-6
        actual = wrapped(jg.grad(loss))(x).numpy()
        for position in np.ndindex(*X.shape):
            moved = np.zeros_like(X)
            moved[position] = step
            slope = (loss(jg.asarray(X + moved)) - loss(jg.asarray(X - moved))).item() / (2 * step)
            assert abs(actual[position] - slope) < 1e-5
        # (x^4)' = 4 x^3, squared 16 x^6, and its derivative
        assert np.allclose(wrapped(second)(x).numpy(), 96 * X**5, rtol=1e-12)


def test_a_rule_may_not_read_other_tensors():
    scale = jg.asarray(2.0)
    op = jg.custom_op("scaled", lambda x: 2 * x, lambda x: x, vjp=lambda ct, out, x: ct * scale)
    assert jg.grad(lambda x: op(x).sum())(jg.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(jg.TraceError, match="none of its operands"):
        jg.trace(jg.grad(lambda x: op(x).sum()))(jg.ones(2))


def test_without_a_gradient_it_says_so():
    for wrapped in (lambda f: f), jg.trace:
        with pytest.raises(jg.JitgraphError, match="fails"):
            wrapped(jg.grad(lambda x: fails(x).sum()))(jg.ones(2))


def test_what_the_function_raises_is_raised_with_the_line():
    traced = jg.trace(lambda x: fails(x * 2) + 1)
    state = jg.zeros(1)

    @jg.trace
    def updates(x):
        state[...] = state + fails(x)
        return state * 2

    assert traced(jg.ones(2)).tolist() == [3.0, 3.0]
    updates(jg.ones(1))
    for call in traced, updates, fails:
        with pytest.raises(KeyError, match="too large") as caught:
            call(jg.full((1,), 1000.0))
        if call is traced:
            assert "test_custom_op.py:" in caught.value.__notes__[0]
    assert state.tolist() == [1.0]  # nothing was written back
    assert traced(jg.ones(2)).tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("impl", "error", "text"),
    [
        (lambda x: x[:1], jg.ShapeError, r"shape \(1,\).*f32\[2\]"),
        (lambda x: x.astype("float64"), jg.DTypeError, "result 0 of impl is float64"),
        (lambda x: (x, x), jg.ShapeError, "gives 2 results"),
        (lambda x: None, jg.ShapeError, r"shape \(\)"),
    ],
)
def test_a_result_that_was_not_inferred(impl, error, text):
    op = jg.custom_op("wrong", impl, lambda x: x)
    for call in op, jg.trace(op):
        with pytest.raises(error, match=text):
            call(jg.ones(2))


def test_mistakes_in_the_definition():
    with pytest.raises(jg.ArgumentError, match="no identifier"):
        jg.custom_op("a b", abs, abs)
    with pytest.raises(jg.ArgumentError, match="infer is a NoneType"):
        jg.custom_op("a", abs, None)
    with pytest.raises(jg.ShapeError, match="no shape and dtype"):
        jg.custom_op("a", abs, lambda x: 3)(jg.ones(2))


def test_operands_and_results_share_no_memory_with_what_the_function_keeps():
    kept = []

    def impl(x):
        kept.append(x)
        x += 1
        return x

    op = jg.custom_op("keeps", impl, lambda x: x)
    x = jg.asarray(X)
    for call in op, jg.trace(lambda x: op(op(x) * 2)):
        call(x)
        actual = call(x)
        before = actual.numpy().copy()
        snapshots = [array.copy() for array in kept]
        for array in kept:
            array[...] = -1
        assert np.array_equal(actual.numpy(), before) and np.array_equal(x.numpy(), X)
        call(x)
        assert all(np.all(array == -1) for array in kept[: len(snapshots)])


def test_two_ops_of_one_name_are_two_ops():
    first = jg.custom_op("same_name", lambda x: x + 1, lambda x: x)
    second = jg.custom_op("same_name", lambda x: x + 2, lambda x: x)
    add = jg.custom_op("add", lambda x: x + 3, lambda x: x)  # a name of the table
    for op, due in (first, 1.0), (second, 2.0), (add, 3.0):
        assert jg.trace(lambda x, op=op: op(x))(jg.zeros(())).item() == due


def test_a_function_that_is_replaced_is_seen():
    holder = {"op": cube}
    traced = jg.trace(lambda x: holder["op"](x))
    assert traced(jg.asarray(2.0)).item() == 8.0
    holder["op"] = jg.custom_op("square_of", lambda x: x * x, lambda x: x)
    assert traced(jg.asarray(2.0)).item() == 4.0


def test_reentry_and_threads():
    inner = jg.trace(lambda x: fails(cube(x)) * 2)
    outer = jg.custom_op("outer", lambda x: inner(x).numpy() + 1, lambda x: x)
    again = jg.trace(lambda x: outer(x) + 1)
    assert again(jg.asarray([2.0])).tolist() == [18.0]
    with pytest.raises(KeyError):
        again(jg.asarray([5.0]))

    results: dict[int, list[float]] = {}

    def work(number):
        x = jg.asarray([float(number % 4)])
        results[number] = [again(x).item() for _ in range(50)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [2.0 * (n % 4) ** 3 + 2] * 50 for n in range(8)}


def test_function_pointers():
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_int64),
    )

    @kind
    def doubled(inputs, outputs, sizes):
        count = sizes[0]
        source = (ctypes.c_double * count).from_address(inputs[0] or 0)
        result = (ctypes.c_double * count).from_address(outputs[0] or 0)
        for i in range(count):
            result[i] = 2 * source[i]
        return 7 if source[0] < 0 else 0

    op = jg.custom_op("doubled", doubled, lambda x: x)
    for call in op, jg.trace(op):
        assert call(jg.asarray(X[0])).tolist() == [6.0, 2.0, 4.0]
        with pytest.raises(jg.JitgraphError, match="error code 7"):
            call(jg.asarray(-X[0]))


def test_a_function_of_numba():
    numba = pytest.importorskip("numba")
    types = numba.types

    @numba.cfunc(types.int32(types.CPointer(types.voidptr), types.CPointer(types.voidptr), types.CPointer(types.int64)))
    def squares(inputs, outputs, sizes):
        source = numba.carray(inputs[0], (sizes[0],), types.float32)
        result = numba.carray(outputs[0], (sizes[0],), types.float32)
        for i in range(sizes[0]):
            result[i] = source[i] * source[i]
        return 0

    op = jg.custom_op("squares", squares, lambda x: x)
    assert jg.trace(op)(jg.asarray([1.0, 2.0, 3.0])).tolist() == [1.0, 4.0, 9.0]


def test_a_gpu_refuses_it(tmp_path):
    traced = jg.trace(lambda x: cube(x) + 1)
    with pytest.raises(jg.UnsupportedOp, match="custom_call runs in Python on the host"):
        jg.save(traced, tmp_path / "model.jg", example_inputs=(jg.ones(2),), targets=("x86-64-v3", "cuda"))
    assert not (tmp_path / "model.jg").exists()
    graph = traced.lower(jg.ones(2)).graph
    with pytest.raises(jg.UnsupportedOp, match="cube runs in Python on the host"):
        compiler.compile(graph, Target.named("sm_80"))


def test_code_without_its_functions_fails_cleanly():
    """An image that asks for a callback of a host that has none ends the call with the code for that."""
    graph = jg.trace(lambda x: cube(x) + 1).lower(jg.ones(2)).graph
    compiled = compiler.compile(graph)
    bare = type(compiled)(compiled.image, compiled.signature)
    with pytest.raises(jg.JitgraphError, match="callback failed"):
        bare.run([np.ones(2, np.float32)])


def test_the_interpreter_and_the_executor_agree():
    from tests.codegen.slow_backend import SlowBackend

    low = jg.trace(lambda x: (rows_sorted(x) * 2, cube(x).sum(axis=-1))).lower(jg.asarray(X))
    ir.verify(low.graph)
    native = compiler.compile(low.graph).run([X])
    slow = compiler.compile(low.graph, backend=SlowBackend()).run([X])
    for a, b, c in zip(native, slow, ir.interpret(low.graph, [X]), strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c)


def test_the_memory_of_state_is_not_given_away_before_the_call():
    state = jg.asarray([1.0, 2.0])

    @jg.trace
    def advance(x):
        state[...] = state * 2
        return fails(state + x)

    advance(jg.zeros(2))
    with pytest.raises(KeyError):
        advance(jg.full((2,), 1000.0))
    assert state.tolist() == [2.0, 4.0]


def test_an_op_dies_with_its_last_user():
    class Large:
        pass

    held = Large()
    alive = weakref.ref(held)
    op = jg.custom_op("holds", lambda x, held=held: x, lambda x: x)
    op(jg.ones(1))
    del held, op
    gc.collect()
    assert alive() is None


def test_code_whose_threads_are_limited_calls_python_too() -> None:
    double = jg.custom_op("doubled_within_threads", lambda x: 2 * x, lambda x: x)
    f = jg.trace(threads=1)(lambda x: double(jg.tanh(x)) + 1)
    x = np.linspace(-1, 1, 5)
    for _ in range(2):
        np.testing.assert_array_equal(f(x).numpy(), 2 * jg.tanh(jg.asarray(x)).numpy() + 1)


# --- many samples at once ---------------------------------------------------------------------------------------------


def _batched_op(batching, called):
    def impl(x, k):
        called.append(x.shape)
        return np.sort(x, axis=-1) * k

    return jg.custom_op("sorted_times", impl, lambda x, k: x, batching=batching)


def _sorted_times(varies, x, k):
    x = x if varies[0] else jg.broadcast_to(x, (k.shape[0], *x.shape))
    return jg.sort(x, axis=-1) * (k[:, None] if varies[1] else k)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("axes", [(0, None), (0, 0), (None, 0)])
def test_a_batching_rule_serves_all_samples_at_once(traced, axes):
    called = []
    op = _batched_op(_sorted_times, called)
    x = X if axes[0] is not None else X[0]
    k = np.array([2.0, 3.0]) if axes[1] is not None else np.array(2.0)
    expected = np.stack([np.sort(X[i if axes[0] == 0 else 0]) * (k[i] if axes[1] == 0 else k) for i in range(2)])
    batched = jg.vmap(op, in_axes=axes)
    assert np.array_equal((jg.trace(batched) if traced else batched)(x, k), expected)
    assert called == []
    plain = jg.vmap(_batched_op(None, called), in_axes=axes)
    assert np.array_equal((jg.trace(plain) if traced else plain)(x, k), expected)
    assert len(called) >= 2


def test_a_batching_rule_gives_what_the_op_would():
    x = jg.asarray(X)
    for batching, error in (
        (lambda varies, x: x[0], jg.ShapeError),
        (lambda varies, x: x[:1], jg.ShapeError),
        (lambda varies, x: x.astype(jg.float32), jg.DTypeError),
        (lambda varies, x: (x, x), jg.ShapeError),
    ):
        op = jg.custom_op("plain", lambda x: x, lambda x: x, batching=batching)
        with pytest.raises(error, match="batching"):
            jg.vmap(op)(x)
    with pytest.raises(jg.errors.ArgumentError, match="batching is a int"):
        jg.custom_op("plain", lambda x: x, lambda x: x, batching=3)


def test_a_function_of_cffi(tmp_path):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()

    @ffi.callback("int32_t(void **, void **, int64_t *)")
    def twice(inputs, outputs, sizes):
        count = sizes[0]
        x, y = (ffi.cast("double *", where[0]) for where in (inputs, outputs))
        for i in range(count):
            y[i] = 2 * x[i]
        return 0 if count < 4 else 5

    op = jg.custom_op("twice", twice, lambda x: x)
    for run in (op, jg.trace(op)):
        assert run(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
        with pytest.raises(jg.JitgraphError, match="error code 5"):
            run(np.arange(4.0))

    @ffi.callback("int32_t(int32_t)")
    def other(x):
        return x

    with pytest.raises(jg.errors.ArgumentError, match="no function of three pointers"):
        jg.custom_op("other", other, lambda x: x)
