"""Fourier transforms: NumPy's results and parameters, accuracy for sizes of each kind, and gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.compiler import compile
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from tests.op_loop import require_same

RNG = np.random.default_rng(3)
A = RNG.normal(size=(3, 4, 6))
Z = A + 1j * RNG.normal(size=A.shape)
ONE: list[dict[str, Any]] = [
    {},
    {"n": 5},
    {"n": 9, "axis": 0},
    {"axis": 1, "norm": "ortho"},
    {"norm": "forward"},
]
SEVERAL: list[dict[str, Any]] = [{}, {"axes": (0, 0)}, {"axes": (0, 2), "norm": "ortho"}, {"s": (2, 8), "axes": (1, 2)}]
CALLS = [
    *((name, kw) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for kw in ONE),
    *((name, kw) for name in ("fftn", "ifftn", "rfftn", "irfftn") for kw in SEVERAL),
    *((name, {}) for name in ("fft2", "ifft2", "rfft2", "irfft2")),
]


@pytest.mark.parametrize(("name", "kw"), CALLS, ids=str)
def test_transforms_are_numpys(name: str, kw: dict[str, Any]) -> None:
    x = A if name in ("rfft", "ihfft", "rfftn", "rfft2") else Z
    expected, actual = getattr(np.fft, name)(x, **kw), getattr(jg.fft, name)(jg.asarray(x), **kw).numpy()
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


# 37, 97 and 10,007 are convolutions, 221 begins with a product; from 128 on a row is in lanes, 49,152 is in two steps.
@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 30, 37, 97, 128, 221, 1000, 1024, 10_007, 49_152])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_errors_stay_below_u_log_n(n: int, dtype: Any) -> None:
    z = (RNG.normal(size=n) + 1j * RNG.normal(size=n)).astype(dtype)
    wide = np.fft.fft(z.astype(np.complex128))
    real, wide_real = z.real.copy(), np.fft.rfft(z.real.astype(np.float64))
    unit = np.finfo(dtype).eps / 2 * max(1.0, np.log2(n))
    pairs = [
        (jg.fft.fft(jg.asarray(z)), wide),
        (jg.fft.ifft(jg.asarray(wide.astype(dtype))), z),
        (jg.fft.rfft(jg.asarray(real)), wide_real),
        (jg.fft.irfft(jg.asarray(wide_real.astype(dtype)), n), real),
    ]
    for actual, expected in pairs:
        assert actual.dtype == (real if expected is real else z).dtype
        error = np.linalg.norm(actual.numpy() - expected) / np.linalg.norm(expected)
        assert error <= 1.5 * unit, error / unit


BITS = [
    *(("fft", 12, 0), ("fft", 25, 1), ("ifft", 252, 1), ("fft", 221, 1), ("ifft", 20_480, 1)),
    *(("rfft", 25, 1), ("rfft", 12, 1), ("rfft", 180, 0), ("irfft", 128, 1), ("irfft", 12, 0)),
]


@pytest.mark.parametrize(("form", "n", "axis"), BITS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_interpreter_has_the_bits_of_kernels(form: str, n: int, axis: int, dtype: Any) -> None:
    """Of numbers, of zeros with signs, and of some with infinities, whose results are NaN."""
    size = n // 2 + 1 if form == "irfft" else n
    x = RNG.normal(size=(size, 4)).astype(dtype)
    if form != "rfft":
        x = (x + 1j * RNG.normal(size=x.shape)).astype(np.result_type(dtype, np.complex64))
    x[:, 1] *= -0.0
    x[size // 2, 2] *= -0.0
    x[size // 3, 3] = np.inf
    array = np.ascontiguousarray(x if axis == 0 else x.T)
    transform = partial(jg.fft.irfft, n=n) if form == "irfft" else getattr(jg.fft, form)
    traced = jg.trace(partial(transform, axis=axis))
    compiled = traced(jg.asarray(array)).numpy()
    require_same(interpret(traced.lower(jg.asarray(array)).graph, [array]), [compiled], ulps=0)


@pytest.mark.parametrize("form", ["fft", "rfft", "irfft"])
def test_without_native_code_eager_transforms_have_the_same_bits(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.normal(size=(5, 180))  # of which there are no kernels yet: eager calls take one that they have
    argument = jg.asarray(x if form == "rfft" else x + 1j * x[::-1])
    with monkeypatch.context() as interpreting:
        interpreting.setenv("JITGRAPH_INTERPRET", "1")
        interpreted = getattr(jg.fft, form)(argument).numpy()
    assert interpreted.tobytes() == getattr(jg.fft, form)(argument).numpy().tobytes()


def expected(z: Any, sign: int) -> Any:
    """The transforms along axis 0 in the widest floats there are, from angles that are reduced exactly."""
    n = len(z)
    products = np.outer(np.arange(n), np.arange(n)) % n
    angles = products.astype(np.longdouble) * (2 * np.longdouble("3.14159265358979323846264338327950288") / n)
    cos, sin = np.cos(angles), sign * np.sin(angles)
    real, imag = z.real.astype(np.longdouble), z.imag.astype(np.longdouble)
    return cos @ real - sin @ imag, cos @ imag + sin @ real


@pytest.mark.parametrize("n", [*range(1, 27), 48, 60, 77, 143, 169, 210, 240, 243, 625])
def test_every_radix_is_as_accurate(n: int) -> None:
    z = RNG.normal(size=(n, 3)) + 1j * RNG.normal(size=(n, 3))
    for sign, name in ((-1, "fft"), (1, "ifft")):
        real, imag = expected(z, sign)
        transform = getattr(jg.fft, name)
        for got in (transform(jg.asarray(z), axis=0, norm=NORMS[name]), transform(jg.asarray(z.T), norm=NORMS[name]).T):
            error = np.hypot(got.numpy().real - real, got.numpy().imag - imag)
            scale = np.linalg.norm(np.hypot(real, imag))
            assert np.linalg.norm(error) <= 1.5 * 2.0**-53 * max(1.0, np.log2(n)) * scale


NORMS = {"fft": "backward", "ifft": "forward"}  # neither of which scales


@pytest.mark.parametrize("n", [12, 100, 240, 512, 20_480])
def test_the_bits_depend_on_the_size_alone(n: int) -> None:
    """Not on the axis, on what is transformed beside it, on threads, on the processor's level or on names of sizes."""
    rows = 37 if n < 1000 else 3
    z = (RNG.normal(size=(rows, n)) + 1j * RNG.normal(size=(rows, n))).astype(np.complex64)
    alone = np.stack([jg.trace(jg.fft.fft)(jg.asarray(row)).numpy() for row in z[:3]])
    results = [jg.fft.fft(jg.asarray(z)), jg.fft.fft(jg.asarray(z.T.copy()), axis=0).T]
    results += [jg.trace(lambda x: jg.fft.fft(x), threads=threads)(jg.asarray(z)) for threads in (1, 2, 5)]
    for level in (name for name in loader.cpu_levels() if Target.named(name).fma):
        graph = jg.trace(lambda x: jg.fft.fft(x)).lower(jg.asarray(z)).graph
        pairs = np.stack([z.real, z.imag], axis=-1)
        (parts,) = compile(graph, Target.named(level)).run([z if graph.inputs[0].shape == z.shape else pairs])
        results.append(jg.asarray(parts if np.iscomplexobj(parts) else parts[..., 0] + 1j * parts[..., 1]))
    for got in results:
        assert got.numpy()[:3].astype(np.complex64).tobytes() == alone.tobytes()
        assert got.numpy().tobytes() == results[0].numpy().tobytes()


@pytest.mark.parametrize("form", ["fft", "rfft", "irfft"])
def test_a_transform_takes_any_layout_and_number_of_rows(form: str) -> None:
    transform, reference = getattr(jg.fft, form), getattr(np.fft, form)
    for shape, axis in LAYOUTS:
        x = RNG.normal(size=shape) + (0 if form == "rfft" else 1j * RNG.normal(size=shape))
        for y in (x, np.asfortranarray(x), x[..., ::-1], x[::2]):
            got, wanted = transform(jg.asarray(y), axis=axis).numpy(), reference(y, axis=axis)
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
            assert got.shape == wanted.shape


LAYOUTS = [((0, 140), 1), ((1, 140), 1), ((3, 0, 24), 2), ((5, 141, 2), 1), ((2, 3, 260), 2), ((17, 20), 0)]


def test_a_long_transform_is_compiled_in_a_few_kernels() -> None:
    """The code does not grow with the size."""
    lengths = []
    for n in (2**15, 2**20):
        lowered = jg.trace(jg.fft.fft).lower(jg.zeros(n, dtype=jg.complex64))
        lengths.append(len(str(lowered.kernels)))
    assert lengths[1] < 1.5 * lengths[0]


def test_vmap_is_a_batch() -> None:
    z = jg.asarray(Z.astype(np.complex64))
    for name in ("fft", "ifft", "rfft", "irfft"):
        transform = getattr(jg.fft, name)
        x = z.real if name == "rfft" else z
        each = jg.vmap(transform)(x).numpy()
        assert each.tobytes() == transform(x).numpy().tobytes()
        between = jg.vmap(partial(transform, axis=0), in_axes=1, out_axes=1)(x).numpy()
        np.testing.assert_array_equal(between, transform(x, axis=0).numpy())


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_gradients_are_adjoints(name: str) -> None:
    function = getattr(jg.fft, name)
    x = jg.asarray((A if name == "rfft" else Z)[0])
    shape = function(x).shape
    weight = jg.asarray(RNG.normal(size=shape) + (0 if name == "irfft" else 1j * RNG.normal(size=shape)))
    loss = lambda x: (function(x) * weight).real.sum() + (jg.abs(function(x)) ** 2).sum()
    first = jg.grad(loss)(x).numpy()
    assert first.tobytes() == jg.trace(jg.grad(loss))(x).numpy().tobytes()
    step = RNG.normal(size=x.shape) + (0 if name == "rfft" else 1j * RNG.normal(size=x.shape))
    up, down = (loss(jg.asarray(x.numpy() + sign * 1e-6 * step)).item() for sign in (1, -1))
    np.testing.assert_allclose((np.conj(first) * step).real.sum(), (up - down) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_and_shifts(n: int) -> None:
    np.testing.assert_array_equal(jg.fft.fftfreq(n, 0.5, dtype=jg.float64).numpy(), np.fft.fftfreq(n, 0.5))
    np.testing.assert_array_equal(jg.fft.rfftfreq(n, 0.5, dtype=jg.float64).numpy(), np.fft.rfftfreq(n, 0.5))
    x = np.arange(n * 3).reshape(n, 3)
    for axes in (None, 0, (0, 1)):
        np.testing.assert_array_equal(jg.fft.fftshift(jg.asarray(x), axes).numpy(), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(jg.fft.ifftshift(jg.asarray(x), axes).numpy(), np.fft.ifftshift(x, axes))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jg.fft.fft(jg.ones((0,))), jg.ShapeError, "no positive number"),
        (lambda: jg.fft.fft(jg.ones((3,)), n=0), jg.ShapeError, "n is at least 1"),
        (lambda: jg.fft.fft(jg.ones((3,)), norm="half"), jg.JitgraphError, "'backward', 'ortho' or 'forward'"),
        (lambda: jg.fft.rfft(jg.ones((3,), dtype=jg.complex64)), jg.DTypeError, "jg.fft.fft takes complex"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
