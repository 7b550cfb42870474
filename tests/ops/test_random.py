"""Random tensors: the Philox stream, its use across calls, and moments of distributions."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.special

import jitgraph as jg
from jitgraph import dtypes, ops
from jitgraph.compiler import compile
from jitgraph.eager.tape import EagerValue
from jitgraph.ir.builder import build
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.ops import distributions
from jitgraph.random import basic
from jitgraph.runtime import loader

# The block for counter 0 and key 0 among the known answers of Philox4x32-10 that Random123 comes with.
ZERO_BLOCK = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> list[int]:
    """One block, in Python's integers, after the paper's description."""
    c, k = list(counter), list(key)
    for _ in range(10):
        low, high = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(high >> 32) ^ c[1] ^ k[0], high & 0xFFFFFFFF, (low >> 32) ^ c[3] ^ k[1], low & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_the_reference_has_the_published_answers() -> None:
    assert philox((0, 0, 0, 0), (0, 0)) == ZERO_BLOCK
    ones = 0xFFFFFFFF
    assert philox((ones,) * 4, (ones,) * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    digits = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox(digits, (0xA4093822, 0x299F31D0)) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (2**64 - 1, 7), (123456789012345, 2**32 - 1), (5, 2**64 - 1)])
def test_words_are_those_of_philox(seed: int, offset: int) -> None:
    words = ops.random_bits(EagerValue(np.array([seed, offset], np.uint64)), shape=(7,)).array
    expected: list[int] = []
    for block in range(2):
        counter = (offset + block) % 2**64
        expected += philox((counter & 0xFFFFFFFF, counter >> 32, 0, 0), (seed & 0xFFFFFFFF, seed >> 32))
    assert words.tolist() == expected[:7]


def test_uniform_takes_the_stream_in_order() -> None:
    jg.random.seed(0)
    first, second = jg.random.uniform((3,)), jg.random.uniform((4,))
    words = philox((0, 0, 0, 0), (0, 0))[:3] + philox((1, 0, 0, 0), (0, 0))  # a call begins at a block
    expected = np.array([word >> 8 for word in words], np.float32) * np.float32(2.0**-24)
    np.testing.assert_array_equal(np.concatenate([first.numpy(), second.numpy()]), expected)


def test_seeds_and_generators() -> None:
    jg.random.seed(3)
    once = [jg.random.normal((5,)).tolist(), jg.random.randint(0, 9, (4,)).tolist()]
    jg.random.seed(3)
    assert once == [jg.random.normal((5,)).tolist(), jg.random.randint(0, 9, (4,)).tolist()]
    assert jg.random.normal((5,)).tolist() != once[0]
    own = jg.random.Generator(3)
    assert jg.random.normal((5,), generator=own).tolist() == once[0]
    before = jg.random.uniform((3,), generator=jg.random.Generator(8)).tolist()
    jg.random.seed(99)
    assert jg.random.uniform((3,), generator=jg.random.Generator(8)).tolist() == before
    for refused in (-1, 2**64, 1.5, True):
        with pytest.raises(jg.JitgraphError, match="a seed is an int"):
            jg.random.seed(refused)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_moments(dtype: str) -> None:
    jg.random.seed(1)
    n = 60_000
    u = jg.random.uniform((n,), dtype=dtype).numpy().astype(np.float64)
    z = jg.random.normal((n,), dtype=dtype).numpy().astype(np.float64)
    assert u.min() >= 0 and u.max() < 1 and np.isfinite(z).all()
    assert abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.002
    assert abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.02
    assert abs((z**3).mean()) < 0.06 and abs((z**4).mean() - 3) < 0.15
    assert abs(np.mean(np.abs(z) < 1) - 0.6827) < 0.01
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.02


def test_bounds() -> None:
    jg.random.seed(2)
    x = jg.random.uniform((50_000,), 1.0, 1.0000002)  # two steps of float32: rounding up would reach the end
    assert x.min().item() == 1.0 and x.max().item() < np.float32(1.0000002)
    y = jg.random.uniform((9,), jg.asarray(-3.0), 5)
    assert y.dtype == jg.float32 and (y >= -3).all() and (y < 5).all()
    z = jg.random.normal((20_000,), 5.0, 0.1)
    assert abs(z.mean().item() - 5) < 0.01 and abs(z.std().item() - 0.1) < 0.01


def test_randint() -> None:
    jg.random.seed(3)
    x = jg.random.randint(-2, 3, (10_000,), dtype=jg.int8)
    assert x.dtype == jg.int8
    counts = np.bincount(x.numpy().astype(int) + 2, minlength=5)
    assert counts.size == 5 and counts.min() > 1850
    assert jg.random.randint(5, 6, (3,)).tolist() == [5, 5, 5]
    assert jg.random.randint(0, 2**32, ()).shape == ()
    for bounds in ((3, 3), (0, 2**32 + 1)):
        with pytest.raises(jg.JitgraphError, match="randint"):
            jg.random.randint(*bounds)
    with pytest.raises(OverflowError, match="299 does not fit uint8"):
        jg.random.randint(0, 300, dtype=jg.uint8)


def test_bernoulli_and_permutation() -> None:
    jg.random.seed(4)
    assert abs(jg.random.bernoulli(0.3, (20_000,)).mean().item() - 0.3) < 0.02
    rates = jg.asarray([0.0, 1.0])
    assert jg.random.bernoulli(rates).tolist() == [False, True]
    order = jg.random.permutation(100)
    assert sorted(order.tolist()) == list(range(100)) and order.tolist() != list(range(100))
    rows = jg.random.permutation(jg.asarray([[1, 1], [2, 2], [3, 3]]))
    assert sorted(rows.tolist()) == [[1, 1], [2, 2], [3, 3]]
    assert jg.random.permutation(0).tolist() == []


def test_shapes_and_dtypes() -> None:
    assert jg.random.uniform().shape == () and jg.random.normal((0, 3)).shape == (0, 3)
    assert jg.random.normal(3).shape == (3,)
    with pytest.raises(jg.DTypeError, match="floats, not int64"):
        jg.random.uniform((2,), dtype=jg.int64)


def test_dropout_draws_from_the_stream() -> None:
    x = jg.ones((1000,))
    jg.random.seed(5)
    first = jg.nn.functional.dropout(x, 0.25)
    second = jg.nn.functional.dropout(x, 0.25)
    jg.random.seed(5)
    assert jg.nn.functional.dropout(x, 0.25).tolist() == first.tolist() != second.tolist()
    assert set(np.unique(first.numpy())) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((first == 0).mean().item() - 0.25) < 0.05
    jg.random.seed(5)
    kept = jg.random.uniform((1000,)).numpy() >= 0.25
    np.testing.assert_array_equal(first.numpy() != 0, kept)


def test_the_stream_is_the_same_traced() -> None:
    def draw() -> tuple[jg.Tensor, ...]:
        return (
            jg.random.uniform((5,), -1.0, 1.0),
            jg.random.normal((3,), dtype=jg.float64),
            jg.random.randint(0, 10, (4,)),
            jg.random.permutation(6),
            jg.nn.functional.dropout(jg.ones((8,)), 0.5),
        )

    compiled = jg.trace(draw)
    jg.random.seed(11)
    eager = [*draw(), *draw()]
    jg.random.seed(11)
    traced = [*compiled(), *compiled()]
    for one, other in zip(eager, traced, strict=True):
        exact = one.dtype != jg.float64  # the normal deviates pass through log and cos, which differ in the last bits
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=0 if exact else 1e-13)
    assert (
        jg.random.uniform((2,)).tolist() == (jg.random.seed(11), draw(), draw(), jg.random.uniform((2,)))[-1].tolist()
    )


DRAWS = {
    "uniform": lambda dtype: jg.random.uniform((3, 1237), dtype=dtype),
    "uniform between": lambda dtype: jg.random.uniform((999,), -3.0, 0.7, dtype=dtype),
    "normal": lambda dtype: jg.random.normal((11, 3001), dtype=dtype),
    "normal of a mean": lambda dtype: jg.random.normal((999,), 2.0, 0.3, dtype=dtype),
    "normal of one": lambda dtype: jg.random.normal((), dtype=dtype),
    "dropout": lambda dtype: jg.nn.functional.dropout(jg.full((999,), 1.25, dtype=dtype), 0.3),
    "xavier_normal_": lambda dtype: jg.nn.init.xavier_normal_(jg.zeros((31, 17), dtype=dtype)),
    "kaiming_uniform_": lambda dtype: jg.nn.init.kaiming_uniform_(jg.zeros((31, 17), dtype=dtype)),
    "bernoulli": lambda dtype: jg.random.bernoulli(0.3, (999,)).astype(dtype),
    "randint": lambda dtype: jg.random.randint(-40, 50, (999,)).astype(dtype),
    "permutation": lambda dtype: jg.random.permutation(99).astype(dtype),
    "exponential": lambda dtype: jg.random.exponential((999,), dtype=dtype),
    "gumbel": lambda dtype: jg.random.gumbel((999,), dtype=dtype),
    "gamma": lambda dtype: jg.random.gamma(2.5, (999,), dtype=dtype),
    "poisson": lambda dtype: jg.random.poisson(jg.linspace(0.1, 30.0, 299)).astype(dtype),
    "categorical": lambda dtype: jg.random.categorical(jg.linspace(0.0, 2.0, 9), shape=(99,)).astype(dtype),
    "multinomial": lambda dtype: jg.random.multinomial(jg.linspace(0.0, 2.0, 9), 5).astype(dtype),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", DRAWS)
def test_every_distribution_has_the_same_bits_eager_interpreted_and_compiled(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(function: Any) -> bytes:
        jg.random.seed(11)
        result = function()
        assert result.dtype == getattr(jg, dtype)
        return bytes(result.numpy().tobytes())

    eager = drawn(lambda: DRAWS[name](dtype))
    assert drawn(jg.trace(lambda: DRAWS[name](dtype))) == eager
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    assert drawn(jg.trace(lambda: DRAWS[name](dtype))) == eager


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 24), ("float64", 53)])
def test_the_parts_of_a_normal_are_accurate(dtype: str, bits: int) -> None:
    """Logarithm and cosine on the grid of uniforms, its ends and its powers of two, within 2 ulp."""
    rng = np.random.default_rng(0)
    some = [rng.integers(1, 2**bits, 20_000), np.arange(1, 500), 2**bits - np.arange(1, 500), 2 ** np.arange(bits)]
    full = np.concatenate(some).astype(np.float64)
    x = (full * 2.0**-bits).astype(dtype)
    wide = x.astype(np.longdouble)
    turns = wide * 4
    left = (turns - np.rint(turns)) * (np.arctan(np.longdouble(1)) * 2)
    parts = [np.cos(left), -np.sin(left), -np.cos(left), np.sin(left)]
    expected = {"minus_log": -np.log(wide), "cos_turns": np.choose(np.rint(turns).astype(int) % 4, parts)}
    for name, value in expected.items():
        actual = getattr(distributions, name)(EagerValue(x)).array
        assert actual.dtype == x.dtype
        error = np.abs(actual - value) / np.spacing(np.abs(value).astype(dtype))
        assert error.max() < 2, (name, x[error.argmax()])


def counted(x: Any, n: int) -> Any:
    return np.bincount(x.numpy().astype(int).ravel(), minlength=n)


@pytest.mark.parametrize("concentration", [0.2, 1.0, 4.5, 1e6])
def test_moments_of_gamma(concentration: float) -> None:
    jg.random.seed(6)
    x = jg.random.gamma(concentration, (40_000,), dtype=jg.float64).numpy() / concentration
    deviation = concentration**-0.5
    assert (x >= 0).all() and abs(x.mean() - 1) < 5 * deviation / 200
    assert abs(x.std() / deviation - 1) < 0.05
    third = (((x - x.mean()) / deviation) ** 3).mean()
    assert abs(third - 2 * deviation) < 0.1 + deviation


@pytest.mark.parametrize("rate", [0.0, 0.7, 9.99, 10.0, 37.5, 1e4, 1e12])
def test_moments_of_poisson(rate: float) -> None:
    jg.random.seed(7)
    x = jg.random.poisson(rate, (40_000,))
    assert x.dtype == jg.int64
    away = x.numpy() - rate
    assert abs(away.mean()) <= 5 * (rate / 40_000) ** 0.5 and abs(away.var() - rate) <= 0.04 * rate


@pytest.mark.parametrize("rate", [3.0, 12.0])
def test_poisson_numbers_are_as_frequent_as_they_should_be(rate: float) -> None:
    jg.random.seed(8)
    n, most = 200_000, 40
    actual = counted(jg.random.poisson(rate, (n,)), most)[:most]
    expected = n * np.array([math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(most)])
    enough = expected > 20
    chi = ((actual - expected)[enough] ** 2 / expected[enough]).sum()
    assert chi < enough.sum() + 5 * (2 * enough.sum()) ** 0.5


def test_moments_of_the_others() -> None:
    jg.random.seed(9)
    n = 40_000
    arrivals = jg.random.exponential((n,), 3.0).numpy()
    assert (
        (arrivals >= 0).all() and abs(arrivals.mean() - 3) < 0.08 and abs(np.median(arrivals) / 3 - math.log(2)) < 0.02
    )
    top = jg.random.gumbel((n,), 2.0, 0.5).numpy()
    assert np.isfinite(top).all() and abs(top.mean() - 2 - 0.5 * 0.5772) < 0.02 and abs(top.std() - 0.6413) < 0.02
    share = jg.random.beta(2.0, 3.0, (n,)).numpy()
    assert abs(share.mean() - 0.4) < 0.005 and abs(share.var() - 0.04) < 0.002
    parts = jg.random.dirichlet(jg.asarray([0.01, 0.01, 0.02]), (n,))
    np.testing.assert_allclose(parts.sum(axis=-1).numpy(), 1, rtol=1e-5)
    np.testing.assert_allclose(parts.mean(axis=0).numpy(), [0.25, 0.25, 0.5], atol=0.02)
    cut = jg.random.truncated_normal((n,), -1.0, math.inf, 5.0, 2.0).numpy()
    assert cut.min() >= 3.0 and abs(cut.mean() - (5 + 2 * 0.28760)) < 0.03
    far = jg.random.truncated_normal((n,), 5.5, 5.6, dtype=jg.float64).numpy()
    assert far.min() >= 5.5 and far.max() <= 5.6 and abs(far.mean() - 5.5456) < 0.002


def test_categories() -> None:
    jg.random.seed(10)
    weights, n = np.array([0.1, 0.0, 0.2, 0.7], np.float32), 20_000
    logits = jg.log(jg.asarray(weights))
    for drawn in (
        jg.random.categorical(logits, shape=(n,)),
        jg.random.multinomial(jg.asarray(weights * 3), n, True),
        jg.random.choice(4, (2, n // 2), p=weights),
    ):
        assert drawn.dtype == jg.int64
        np.testing.assert_allclose(counted(drawn, 4) / n, weights, atol=0.015)
        assert counted(drawn, 4)[1] == 0
    columns = jg.random.categorical(jg.stack([logits, logits[::-1]], axis=1), axis=0, shape=(n, 2))
    np.testing.assert_allclose(counted(columns[:, 1], 4) / n, weights[::-1], atol=0.015)
    pairs = jg.random.multinomial(jg.broadcast_to(jg.asarray(weights), (n, 4)), 2).numpy()
    assert (pairs[:, 0] != pairs[:, 1]).all() and 1 not in pairs
    first = np.bincount(pairs[:, 0], minlength=4) / n
    np.testing.assert_allclose(first, weights, atol=0.015)  # the first of a row is drawn like one alone
    assert sorted(jg.random.choice(5, (5,), replace=False).tolist()) == [0, 1, 2, 3, 4]
    table = jg.arange(6).reshape(2, 3)
    assert jg.random.choice(table, (2, 2), axis=1, p=jg.asarray([0.0, 1.0, 0.0])).tolist() == [
        [[1, 1]] * 2,
        [[4, 4]] * 2,
    ]


MISTAKES = {
    "concentration": lambda: jg.random.gamma(jg.asarray([1.0, 0.0])),
    "Poisson rate": lambda: jg.random.poisson(jg.asarray([3.0, float("nan")])),
    "negative p": lambda: jg.random.multinomial(jg.asarray([0.5, -0.1]), 1),
    "too few p": lambda: jg.random.multinomial(jg.asarray([0.5, 0.0]), 2),
    "no p": lambda: jg.random.multinomial(jg.asarray([0.0, 0.0]), 1, True),
    "NaN logits": lambda: jg.random.categorical(jg.asarray([0.0, float("nan")])),
    "no logits": lambda: jg.random.categorical(jg.asarray([-float("inf")] * 2)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_parameters_that_mean_nothing_raise(name: str) -> None:
    for function in (MISTAKES[name], jg.trace(MISTAKES[name])):
        with pytest.raises(ValueError, match=r"must lie|must be positive|negative|above 0|NaN|minus infinity"):
            function()


@pytest.mark.parametrize(
    "bounds", [(7.0, 8.0), (6.5, math.inf), (30.0, 30.01), (-9.0, -8.0), (-math.inf, -50.0), (1e5, math.inf)]
)
def test_normal_numbers_beyond_six_deviations(bounds: tuple[float, float]) -> None:
    """The tail's share up to what was drawn, of that between the bounds, is the uniform number."""
    low, high = bounds if bounds[0] > 0 else (-bounds[1], -bounds[0])
    jg.random.seed(0)
    unit = jg.random.uniform((2000,), dtype=jg.float64).numpy()
    for draw in (jg.random.truncated_normal, jg.trace(jg.random.truncated_normal, static_argnums=(0, 1, 2))):
        jg.random.seed(0)
        actual = np.abs(draw((2000,), *bounds, dtype=jg.float64).numpy())
        assert low <= actual.min() and actual.max() <= high
        tail = lambda z: scipy.special.erfcx(z / np.sqrt(2)) / scipy.special.erfcx(low / np.sqrt(2))
        share = tail(actual) * np.exp(-(actual - low) * (actual + low) / 2)
        least = tail(high) * np.exp(-(high - low) * (high + low) / 2) if high < math.inf else 0.0
        np.testing.assert_allclose((1 - share) / (1 - least), unit, rtol=0, atol=1e-9 + low * np.spacing(low))


def test_bounds_and_counts_that_mean_nothing_raise() -> None:
    for bounds in ((1.0, 1.0), (9.0, 7.0), (float("inf"), float("inf")), (float("nan"), 1.0)):
        with pytest.raises(jg.JitgraphError, match="truncated_normal"):
            jg.random.truncated_normal((), *bounds)
    for message, refused in (
        ("4 of 3 cannot be chosen", lambda: jg.random.choice(3, (4,), replace=False)),
        ("nothing to choose from", lambda: jg.random.choice(0, (4,))),
        ("4 of 3 categories", lambda: jg.random.multinomial(jg.ones(3), 4)),
        (r"p is \[n\] or \[rows, n\]", lambda: jg.random.multinomial(jg.ones((2, 2, 2)), 1)),
        (r"does not end with \(2,\)", lambda: jg.random.categorical(jg.ones((2, 3)), shape=(3,))),
        ("the logits stand along an axis", lambda: jg.random.categorical(jg.asarray(1.0))),
        ("the concentrations stand along an axis", lambda: jg.random.dirichlet(1.0)),
        ("what get_state gave", lambda: jg.random.set_state(jg.zeros(2))),
        ("sizes are numbers, or one tuple", lambda: jg.rand(2, (3,))),
        ("low, high and size", lambda: jg.randint(5)),
    ):
        with pytest.raises(jg.JitgraphError, match=message):
            refused()


def test_a_state_is_taken_up_again() -> None:
    jg.random.seed(12)
    jg.random.gamma(2.0, (7,))
    state = jg.random.get_state()
    first = jg.random.normal((5,)).tolist()
    jg.random.set_state(state)
    assert jg.random.normal((5,)).tolist() == first
    jg.random.set_state(state.numpy())
    assert jg.random.normal((5,)).tolist() == first
    own = jg.Generator(1)
    own.set_state(state)
    assert jg.random.normal((5,), generator=own).tolist() == first


def test_the_forms_of_pytorch() -> None:
    jg.random.seed(13)
    expected = [
        jg.random.uniform((2, 3)),
        jg.random.normal((2, 3)),
        jg.random.permutation(4),
        jg.random.randint(0, 9, (2,)),
    ]
    jg.random.seed(13)
    results = [jg.rand(2, 3), jg.randn((2, 3)), jg.randperm(4), jg.randint(9, (2,))]
    assert [x.tolist() for x in results] == [x.tolist() for x in expected]
    x = jg.zeros((2, 2), dtype=jg.float64)
    assert jg.randn_like(x).dtype == jg.rand_like(x).dtype == jg.randint_like(x, 3).dtype == jg.float64
    assert jg.rand_like(x, dtype=jg.float16).shape == (2, 2) and jg.randint_like(x, 5, 6).tolist() == [[5, 5], [5, 5]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_of_more_than_one_are_accurate(dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(1, 3, 5000), 10.0 ** rng.uniform(0, 30, 5000)]).astype(dtype)
    actual = distributions.minus_log(EagerValue(x)).array
    value = -np.log(x.astype(np.longdouble))
    assert (np.abs(actual - value) / np.spacing(np.abs(value).astype(dtype))).max() < 2
    x = np.concatenate([rng.uniform(-0.9, 4, 5000), rng.choice([-1, 1], 5000) * 10.0 ** rng.uniform(-15, -1, 5000)])
    x = x.astype(dtype)
    wide = x.astype(np.longdouble)
    terms = [(-1) ** (n + 1) * wide**n / n for n in range(2, 60)]  # log1p would lose what is asked for
    value = np.where(np.abs(wide) < 0.2, sum(terms), np.log1p(wide) - wide)
    actual = distributions.log1p_less(EagerValue(x)).array
    assert np.abs(actual / value - 1).max() < 40 * np.finfo(dtype).eps


def test_a_named_size_draws_the_same() -> None:
    def draw(x: jg.Tensor) -> tuple[jg.Tensor, ...]:
        return jg.random.gamma(x), jg.random.poisson(x * 8), jg.random.categorical(x), jg.random.exponential(x.shape)

    named = jg.trace(draw, dynamic_shapes={"x": {0: "n"}})
    for n in (5, 9, 1):
        x = jg.asarray(np.linspace(0.5, 3.0, n, dtype=np.float32))
        jg.random.seed(14)
        eager = [y.tolist() for y in draw(x)]
        jg.random.seed(14)
        assert [y.tolist() for y in named(x)] == eager


def test_gradients_go_to_what_scales_and_not_to_what_decides() -> None:
    scale, a = jg.asarray(2.0, requires_grad=True), jg.asarray(3.0, requires_grad=True)
    jg.random.seed(15)
    x = jg.random.exponential((4,), scale)
    x.sum().backward()
    assert scale.grad.item() == pytest.approx(x.sum().item() / 2)
    assert not jg.random.gamma(a, (4,)).requires_grad


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_choice_takes_numpy_integers_as_numbers(dtype: type[np.integer]) -> None:
    results = []
    for count in (5, dtype(5)):
        jg.random.seed(3)
        results.append(np.asarray(jg.random.choice(count, (20,))))
    np.testing.assert_array_equal(*results)
    assert set(results[0].tolist()) <= set(range(5))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("op", [ops.uniform, ops.normal, ops.exponential, ops.gumbel], ids=lambda op: op.name)
def test_numbers_drawn_by_the_kernel_for_all_shapes(op: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = dtypes.canonical(dtype)
    for shape in [(), (2,), (7, 3), (0, 4), (1, 20000)]:
        key = EagerValue(np.array([11, 5], np.uint64))
        expected = op(key, shape=shape, dtype=kind).array
        for worth in (10**9, 0):  # op by op, and by the kernel
            monkeypatch.setattr(basic, "_WORTH", worth)
            actual = basic.numbers(op, key, shape, kind)
            assert actual.record is None
            np.testing.assert_array_equal(actual.array, expected, strict=True)


def test_words_drawn_by_the_kernel_for_all_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in [(), (2,), (5, 3), (0,), (20001,)]:
        key = EagerValue(np.array([2**63 + 5, 2**64 - 3], np.uint64))
        expected = ops.random_bits(key, shape=shape).array
        for worth in (10**9, 0):
            monkeypatch.setattr(basic, "_WORTH", worth)
            np.testing.assert_array_equal(basic.words(key, shape).array, expected, strict=True)


@pytest.mark.parametrize("shape", [(4,), (64,), (1000,), (1002,), (5, 64), (33, 4), (7, 12), (2, 3, 128)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_are_the_same_in_blocks_and_one_by_one(shape: tuple[int, ...], dtype: str) -> None:
    """Of four neighbours a kernel computes one block of the stream; a counter wraps in the middle of it all."""
    for offset in (3, 2**64 - 5, 2**32 - 2):
        key = np.array([2**63 + 12345, offset], np.uint64)
        for op in (ops.uniform, ops.normal, ops.exponential):
            draw = partial(op, shape=shape, dtype=dtypes.canonical(dtype))
            graph = build(draw, [TensorType(dtypes.uint64, (2,))])
            (expected,) = interpret(graph, [key])
            for level in (name for name in loader.cpu_levels() if Target.named(name).fma):
                (actual,) = compile(graph, Target.named(level)).run([key])
                assert actual.tobytes() == expected.tobytes(), (op.name, level, offset)


@pytest.mark.parametrize("count", [32_768, 40_001, 65_540])
def test_many_numbers_are_those_of_few(count: int) -> None:
    """A kernel draws many at once, with the bits of ops one by one."""
    key = np.array([9, 2**32 - 100], np.uint64)
    for draw in (lambda: jg.random.normal((count,)), lambda: jg.random.randint(-5, 2**31, (count,))):
        jg.random.set_state(jg.asarray(key))
        at_once = draw().numpy()
        after = jg.random.get_state().numpy()
        jg.random.set_state(jg.asarray(key))
        traced = jg.trace(draw)().numpy()
        assert at_once.tobytes() == traced.tobytes()
        assert after.tobytes() == jg.random.get_state().numpy().tobytes()
    words = ops.random_bits.evaluate(key, shape=(count,)).astype(np.uint64)
    jg.random.set_state(jg.asarray(key))
    expected = (words * np.uint64(2**31 + 5) >> np.uint64(32)).astype(np.int64) - 5
    np.testing.assert_array_equal(jg.random.randint(-5, 2**31, (count,)).numpy(), expected)
