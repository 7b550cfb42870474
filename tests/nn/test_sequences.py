"""Recurrent layers, attention and CTC against loops in NumPy; lengths; what is computed from other parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

nn, F = jg.nn, jg.nn.functional
RNG = np.random.default_rng(1)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm_by_hand(layer: nn.Module, x: Any, lengths: Any) -> tuple[Any, Any, Any]:
    """One direction of one layer, member by member."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    w, u, b, c = (getattr(layer, name).detach().numpy() for name in names)
    outputs = np.zeros((*x.shape[:2], u.shape[1]))
    last_h, last_c = np.zeros((2, x.shape[1], u.shape[1]))
    for n, length in enumerate(lengths):
        h = cell = np.zeros(u.shape[1])
        for t in range(length):
            i, f, g, o = np.split(w @ x[t, n] + b + u @ h + c, 4)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(cell)
            outputs[t, n] = h
        last_h[n], last_c[n] = h, cell
    return outputs, last_h, last_c


def test_lstm_with_lengths() -> None:
    layer = nn.LSTM(3, 4).double()
    x, lengths = RNG.normal(size=(6, 3, 3)), [4, 1, 5]
    pack = nn.utils.rnn.pack_padded_sequence(x, np.array(lengths), enforce_sorted=False)
    assert pack.padded.shape == (5, 3, 3) and pack.batch_sizes.tolist() == [3, 2, 2, 2, 1]
    np.testing.assert_array_equal(pack.data.detach().numpy()[:4], [x[0, 2], x[0, 0], x[0, 1], x[1, 2]])
    run = jg.trace(lambda pack: layer(pack))
    outputs, h, c = lstm_by_hand(layer, x, lengths)
    for actual, (last_h, last_c) in (layer(pack), run(pack)):
        padded, sizes = nn.utils.rnn.pad_packed_sequence(actual, total_length=6)
        assert sizes.tolist() == lengths
        np.testing.assert_allclose(padded.detach().numpy(), outputs, rtol=1e-12)
        np.testing.assert_allclose(last_h.detach().numpy()[0], h, rtol=1e-12)
        np.testing.assert_allclose(last_c.detach().numpy()[0], c, rtol=1e-12)


def test_the_code_of_a_walk_does_not_grow() -> None:
    """One loop, whatever the length."""
    layer = nn.GRU(2, 3)
    sizes = [len(str(jg.trace(layer).lower(jg.ones((steps, 1, 2))).graph)) for steps in (4, 400)]
    assert sizes[1] < sizes[0] * 1.1


def test_sequences_are_padded_and_come_back() -> None:
    rnn = nn.utils.rnn
    rows = [jg.arange(size, dtype=jg.float32) + 1 for size in (2, 4, 1)]
    assert rnn.pad_sequence(rows, batch_first=True, padding_value=-1.0).tolist() == [
        [1, 2, -1, -1],
        [1, 2, 3, 4],
        [1, -1, -1, -1],
    ]
    assert rnn.pad_sequence(rows, padding_side="left").tolist()[0] == [0, 1, 0]
    assert [x.tolist() for x in rnn.unpack_sequence(rnn.pack_sequence(rows, enforce_sorted=False))] == [
        x.tolist() for x in rows
    ]


def every_alignment(logits: Any, target: list[int]) -> float:
    """-log of the sum over all paths whose labels, repeats and blanks (0) taken out, are the target."""
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=logits.shape[0]):
        merged = [label for label, _ in itertools.groupby(path) if label]
        if merged == target:
            total += np.exp(sum(logits[t, label] for t, label in enumerate(path)))
    with np.errstate(divide="ignore"):
        return float(-np.log(total))


@pytest.mark.parametrize("target", [[1, 2], [2, 2], [1], [], [1, 1, 2]])
def test_ctc_sums_over_all_alignments(target: list[int]) -> None:
    logits = RNG.normal(size=(4, 1, 3))
    logits -= np.log(np.exp(logits).sum(axis=2, keepdims=True))
    padded = np.array([[*target, *[0] * (3 - len(target))]])
    call = lambda x: F.ctc_loss(x, padded, [4], [len(target)], reduction="sum")
    result = call(jg.asarray(logits))
    np.testing.assert_allclose(result.item(), every_alignment(logits[:, 0], target), rtol=1e-12)
    gradient = jg.trace(jg.grad(call))(jg.asarray(logits)).detach().numpy()
    step = RNG.normal(size=logits.shape)
    up, down = (call(jg.asarray(logits + sign * 1e-6 * step)).item() for sign in (1, -1))
    np.testing.assert_allclose((gradient * step).sum(), (up - down) / 2e-6, rtol=1e-6)


def test_a_target_that_does_not_fit() -> None:
    scores = jg.asarray(RNG.normal(size=(2, 1, 3))).log_softmax(axis=-1)
    long = np.array([[1, 1]])
    assert F.ctc_loss(scores, long, [2], [2]).item() == np.inf
    value, gradient = jg.value_and_grad(lambda x: F.ctc_loss(x, long, [2], [2], zero_infinity=True))(scores)
    assert value.item() == 0.0 and not gradient.detach().numpy().any()


def test_queries_that_see_nothing_give_zeros() -> None:
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = jg.random.normal((1, 3, 4))
    blind = jg.asarray([[True, True, True], [False, True, True], [False, False, False]])
    bias = layer.out_proj.bias.detach().numpy()
    for need in (True, False):
        actual, weights = layer(x, x, x, attn_mask=blind, need_weights=need)
        np.testing.assert_allclose(actual.detach().numpy()[0, 0], bias, atol=1e-7)
        assert np.isfinite(actual.detach().numpy()).all() and (weights is None or weights[0, 0].tolist() == [0, 0, 0])
    full, _ = layer(x, x, x, is_causal=True)
    cut, _ = layer(x[:, :2], x[:, :2], x[:, :2], is_causal=True, need_weights=False)
    np.testing.assert_allclose(full.detach().numpy()[:, :2], cut.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_weights_that_are_computed() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().numpy()
    nn.utils.weight_norm(layer)
    np.testing.assert_allclose(layer.weight.detach().numpy(), before, rtol=1e-6)
    assert list(layer.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    assert nn.utils.parametrize.is_parametrized(layer, "weight") and isinstance(layer, nn.Linear)
    with jg.no_grad():
        layer.parametrizations["weight"].original0 *= 2.0
    eager, traced = layer(jg.ones(3)), jg.trace(layer)(jg.ones(3))
    np.testing.assert_array_equal(traced.detach().numpy(), eager.detach().numpy())
    np.testing.assert_allclose(layer.weight.detach().numpy(), 2 * before, rtol=1e-6)
    nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and sorted(layer.state_dict()) == ["bias", "weight"]
    square = nn.utils.spectral_norm(nn.Linear(5, 4), n_power_iterations=3)
    for _ in range(30):
        square(jg.ones(5))
    assert abs(np.linalg.svd(square.weight.detach().numpy())[1][0] - 1) < 1e-3


def test_parameters_as_one_vector_and_limits() -> None:
    layer = nn.Linear(2, 2)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(vector * 0 + jg.arange(6), layer.parameters())
    assert layer.weight.tolist() == [[0, 1], [2, 3]] and layer.bias.tolist() == [4, 5]
    layer.weight.grad, layer.bias.grad = jg.full((2, 2), 3.0), jg.asarray([-4.0, 0.5])
    assert nn.utils.clip_grad_norm_(layer.parameters(), 100.0, norm_type=1).item() == 16.5
    assert nn.utils.clip_grad_norm_(layer.parameters(), 100.0, norm_type=float("inf")).item() == 4.0
    nn.utils.clip_grad_value_(layer.parameters(), 1.0)
    assert layer.weight.grad.tolist() == [[1, 1], [1, 1]] and layer.bias.grad.tolist() == [-1, 0.5]
    layer.bias.grad = jg.asarray([float("nan"), 0.0])
    with pytest.raises(jg.JitgraphError, match="norm of the gradients is nan"):
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0, error_if_nonfinite=True)


def test_initial_values() -> None:
    weight = nn.Parameter(jg.zeros((6, 10)))
    nn.init.orthogonal_(weight, 2.0)
    np.testing.assert_allclose(weight.detach().numpy() @ weight.detach().numpy().T, 4 * np.eye(6), atol=1e-5)
    nn.init.trunc_normal_(weight, 1.0, 0.5, 0.4, 1.2)
    assert weight.detach().numpy().min() >= 0.4 and weight.detach().numpy().max() <= 1.2
    nn.init.sparse_(weight, 0.5)
    assert ((weight.detach().numpy() == 0).sum(axis=0) == 3).all()
    nn.init.eye_(weight)
    np.testing.assert_array_equal(weight.detach().numpy(), np.eye(6, 10))
    kernel = nn.Parameter(jg.zeros((4, 2, 3)))
    nn.init.dirac_(kernel, groups=2)
    x = jg.random.normal((1, 4, 5))
    np.testing.assert_array_equal(F.conv1d(x, kernel, padding=1, groups=2).detach().numpy(), x.detach().numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.LSTM(3, 4)(jg.ones((5, 2, 4))), r"input_size=3 takes x\[T, N, 3\]"),
        (lambda: nn.GRU(3, 4)(jg.ones((5, 2, 3)), jg.ones((1, 3, 4))), r"takes a state \(1, 2, 4\)"),
        (lambda: nn.GRU(3, 4, proj_size=2), "proj_size"),
        (lambda: nn.LSTM(3, 4, proj_size=5), "proj_size=5"),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu"), "nonlinearity='gelu'"),
        (lambda: nn.MultiheadAttention(6, 4), "does not divide"),
        (lambda: nn.MultiheadAttention(4, 2)(*[jg.ones((2, 3, 5))] * 3), r"query\[\.\.\., 4\]"),
        (lambda: nn.utils.rnn.pack_padded_sequence(jg.ones((3, 2, 1)), np.array([1, 2])), "enforce_sorted=False"),
        (lambda: nn.utils.rnn.pack_padded_sequence(jg.ones((3, 2, 1)), np.array([4, 2])), "from 1 to 3"),
        (lambda: F.ctc_loss(jg.ones((3, 1, 4)), np.array([[1, 2]]), [3], [3]), "from 0 to 2"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="selu"), "activation='selu'"),
        (lambda: F.gaussian_nll_loss(jg.ones(2), jg.ones(2), -jg.ones(2)), "negative"),
    ],
)
def test_mistakes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((jg.JitgraphError, TypeError), match=message):
        call()


def test_slopes_of_binary_losses_at_their_corners() -> None:
    """A logit of 0 has the slope 1 / 2 - t; a probability of 0 or 1 has a finite one, and none where it is right."""
    logits = nn.Parameter(jg.zeros(3, dtype="float64"))
    F.binary_cross_entropy_with_logits(logits, jg.asarray([0.0, 0.5, 1.0]), reduction="sum").backward()
    np.testing.assert_array_equal(logits.grad.numpy(), [0.5, 0.0, -0.5])
    for dtype in ("float64", "float16"):
        p = jg.asarray([0.0, 1.0, 0.0, 1.0, 0.25], dtype=dtype, requires_grad=True)
        loss = F.binary_cross_entropy(p, jg.asarray([0, 1, 1, 0, 1.0], dtype=dtype), reduction="none")
        np.testing.assert_allclose(loss.detach().numpy(), [0, 0, 100, 100, np.log(4)], rtol=1e-3)
        loss.sum().backward()
        large = 1e12 if dtype == "float64" else np.inf
        np.testing.assert_allclose(p.grad.numpy(), [0, 0, -large, large, -4], rtol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_padding_reaches_no_gradient(kind: str) -> None:
    layer = getattr(nn, kind)(3, 2, bidirectional=True)
    x, actual = RNG.normal(size=(5, 2, 3)), []
    for filler in (0.0, np.nan):
        x[3:, 1] = filler
        packed = nn.utils.rnn.pack_padded_sequence(x.astype(np.float32), [5, 3])
        layer.zero_grad()
        nn.utils.rnn.pad_packed_sequence(layer(packed)[0])[0].sum().backward()
        actual.append([p.grad.numpy() for p in layer.parameters()])
    for plain, other in zip(*actual, strict=True):
        np.testing.assert_array_equal(plain, other)


def test_sizes_with_names() -> None:
    """Attention with a mask, and a recurrent layer with lengths, are compiled once for all batches and lengths."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    walk = nn.GRU(4, 3, batch_first=True)

    def attend(x: Any, hidden: Any, lengths: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(walk(packed)[0], batch_first=True)
        return layer(x, src_key_padding_mask=hidden), outputs, layer(x, is_causal=True)

    both = {0: "n", 1: "t"}
    compiled = jg.trace(attend, dynamic_shapes={"x": both, "hidden": both, "lengths": {0: "n"}})
    for n, t in ((2, 3), (1, 1), (4, 6)):
        lengths = np.full(n, t)
        x, hidden = (
            RNG.normal(size=(n, t, 4)).astype(np.float32),
            np.arange(t) >= np.maximum(t - 1, 1) * np.ones((n, 1)),
        )
        inputs = [jg.asarray(array) for array in (x, hidden, lengths)]
        for a, b in zip(compiled(*inputs), attend(*inputs), strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    assert compiled.cache_info().misses == 1


def test_arrays_are_taken_as_they_are() -> None:
    x, mask = RNG.normal(size=(3, 2, 4)).astype(np.float32), np.array([[False, True, True]] * 2)
    attention, layer, cell = nn.MultiheadAttention(4, 2), nn.LSTM(4, 3), nn.GRUCell(4, 3)
    state = np.zeros((1, 2, 3), np.float32)
    assert attention(x, x, x, key_padding_mask=mask)[0].shape == (3, 2, 4)
    assert layer(x, (state, state))[0].shape == (3, 2, 3)
    assert layer(x.astype(int))[0].dtype == jg.float32
    assert cell(x[0], state[0]).shape == (2, 3)


@pytest.mark.parametrize(("dtype", "size"), [("float16", 1000), ("bfloat16", 1000)])
def test_norms_of_gradients_of_16_bits(dtype: str, size: int) -> None:
    """Squares of 300 overflow in float16; sums of 1000 of them are added up in float32."""
    p = nn.Parameter(jg.zeros(size, dtype=dtype))
    p.grad = jg.full((size,), 300.0, dtype=dtype)
    norm = nn.utils.clip_grad_norm_([p], 1.0)
    np.testing.assert_allclose(float(norm), 300 * size**0.5, rtol=4e-3)
    np.testing.assert_allclose(float(p.grad[0]), size**-0.5, rtol=8e-3)


@pytest.mark.parametrize("options", [{}, {"orthogonal_map": "cayley"}, {"orthogonal_map": "householder"}])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (5, 3), (1, 1)])
def test_an_orthogonal_weight_stays_so_while_it_is_trained(sizes: tuple[int, int], options: dict[str, Any]) -> None:
    jg.random.seed(0)
    rng = np.random.default_rng(0)
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(*sizes, bias=False), **options)
    optimizer = jg.optim.SGD(layer.parameters(), lr=0.1, weight_decay=0.01)
    x = jg.asarray(rng.normal(size=(6, sizes[0])).astype(np.float32))
    begin = layer.weight.detach().numpy()

    @jg.trace
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = ((layer(x) - 1.0) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).item() for _ in range(5)]
    weight = layer.weight.detach().numpy()
    few = min(sizes)
    product = weight @ weight.T if sizes[1] == few else weight.T @ weight
    np.testing.assert_allclose(product, np.eye(few), atol=1e-5)
    if sizes != (1, 1):  # where there is nothing to turn
        assert losses[-1] < losses[0] and np.abs(weight - begin).max() > 1e-3
    columns = np.linalg.qr(rng.normal(size=(max(sizes), few)))[0].astype(np.float32)
    wanted = columns if sizes[1] > sizes[0] else columns.T
    layer.weight = jg.asarray(wanted)
    np.testing.assert_allclose(layer.weight.detach().numpy(), wanted, atol=1e-5)


def test_mistakes_with_orthogonal_weights() -> None:
    orthogonal = nn.utils.parametrizations.orthogonal
    with pytest.raises(jg.JitgraphError, match="none of matrix_exp, cayley, householder"):
        orthogonal(nn.Linear(3, 3), orthogonal_map="qr")
    with pytest.raises(jg.JitgraphError, match="no parameter 'bias' of 2 axes"):
        orthogonal(nn.Linear(3, 3), "bias")
    with pytest.raises(jg.JitgraphError, match="use_trivialization=True"):
        orthogonal(nn.Linear(3, 3), use_trivialization=False)
    for dtype in (jg.float16, jg.bfloat16):
        with pytest.raises(jg.DTypeError, match="no QR decomposition"):
            orthogonal(nn.Linear(3, 4, dtype=dtype))


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "MultiheadAttention"])
def test_layers_take_device_and_dtype(name: str) -> None:
    layer = getattr(nn, name)(4, 2, device="cpu", dtype=jg.float64)
    assert {p.dtype for p in layer.parameters()} == {jg.float64}
    stack = nn.Transformer(4, 2, 1, 1, 8, dtype=jg.float64)
    assert {p.dtype for p in stack.parameters()} == {jg.float64}
    with pytest.raises(jg.DeviceError, match="'nowhere' names no device"):
        getattr(nn, name)(4, 2, device="nowhere")
    with pytest.raises(jg.DTypeError, match="'cpu' is not a dtype"):
        getattr(nn, name)(4, 2, dtype="cpu")


def test_a_parametrised_weight_takes_a_value() -> None:
    layer = nn.utils.weight_norm(nn.Linear(3, 2))
    wanted = RNG.normal(size=(2, 3)).astype(np.float32)
    layer.weight = jg.asarray(wanted)
    np.testing.assert_allclose(layer.weight.detach().numpy(), wanted, rtol=1e-6)
    assert set(dict(layer.named_parameters())) == {
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    }
    with pytest.raises(jg.ShapeError, match="takes no f32"):
        layer.weight = jg.zeros((3, 3))
    plain = nn.utils.spectral_norm(nn.Linear(3, 2))
    with pytest.raises(jg.JitgraphError, match="no right_inverse"):
        plain.weight = jg.asarray(wanted)


def test_a_member_of_a_list_of_many_is_guarded() -> None:
    """``layers[i]`` in a trace is followed, so that later calls need no recording, and sees another member."""
    layers = nn.ModuleList([nn.Sequential(*[nn.Linear(2, 2) for _ in range(20)]) for _ in range(2)])
    first = jg.trace(lambda x: layers[0](x) + layers[-1](x))
    x = jg.asarray(RNG.normal(size=(1, 2)).astype(np.float32))
    for _ in range(2):
        np.testing.assert_array_equal(first(x).detach().numpy(), (layers[0](x) + layers[1](x)).detach().numpy())
    assert first.cache_info()[:2] == (1, 1)
    layers[0] = nn.Identity()
    np.testing.assert_array_equal(first(x).detach().numpy(), (x + layers[1](x)).detach().numpy())
