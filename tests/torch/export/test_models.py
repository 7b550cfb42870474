"""Exported models give PyTorch's results and gradients; those of packages where they are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

torch = pytest.importorskip("torch")

from tests.torch.export.models import MODELS  # noqa: E402 - needs torch

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, about its own ways
TOLERANCE = 1e-4


def tensors(value: Any, kind: type) -> list[Any]:
    """The tensors in nested results, dicts in the order of their keys."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in tensors(value[key], kind)]
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in tensors(item, kind)]
    return [value] if isinstance(value, kind) else []


def close(actual: Any, expected: Any, what: str) -> None:
    scale = float(np.abs(expected).max()) if expected.size else 0.0
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE * max(scale, 1e-6), err_msg=what)


def prepared(name: str) -> tuple[Any, Any]:
    """A model without dropout, and its arguments: batch norms in training where the model is written here.

    Those of packages are deep, with statistics of a batch of two numbers: they use those of a pass before, and float64,
    as float32 leaves PyTorch's own results 1e-3 from the exact ones.
    """
    torch.manual_seed(0)
    model, args = MODELS[name]()
    model.eval()
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    for module in norms:
        module.train()
    if name.startswith(("tv_", "timm_")) and norms:
        for module in norms:
            module.momentum = 1.0
        with torch.no_grad():
            model(torch.randn(6, *args[0].shape[1:]))
        model.eval().double()
        args = tuple(arg.double() for arg in args)
    return model, args


@pytest.mark.parametrize("name", MODELS)
def test_results_state_and_gradients(name: str) -> None:
    model, args = prepared(name)
    ours = jg.from_torch(torch.export.export(model, args))
    actual = tensors(ours(*(arg.numpy() for arg in args)), jg.Tensor)
    expected = tensors(model(*args), torch.Tensor)
    assert len(actual) == len(expected) > 0
    for own, theirs in zip(actual, expected, strict=True):
        close(own.detach().numpy(), theirs.detach().numpy(), "result")
    weights = [np.asarray(torch.randn_like(result)) for result in expected]
    sum((result * torch.from_numpy(weight)).sum() for result, weight in zip(expected, weights, strict=True)).backward()
    sum(jg.sum(result * weight) for result, weight in zip(actual, weights, strict=True)).backward()  # type: ignore[misc]
    parameters = dict(ours.named_parameters(remove_duplicate=False))
    largest = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            error = np.abs(parameters[key].grad.numpy() - parameter.grad.numpy()).max()
            assert error <= TOLERANCE * max(largest, 1e-6), key
    buffers = dict(ours.named_buffers())
    for key, buffer in model.named_buffers():
        if key in buffers:
            close(buffers[key].numpy(), buffer.numpy(), key)


def test_a_module_is_exported_on_the_way() -> None:
    model, (x,) = prepared("gpt")
    ours = jg.from_torch(model, (x,), dynamic_shapes={"ids": {0: "batch"}})
    for rows in (2, 1, 5):
        ids = torch.randint(0, 30, (rows, 6))
        close(ours(ids.numpy()).detach().numpy(), model(ids).detach().numpy(), "result")
    assert ours.traced.cache_info().misses == 1
    assert ours.head.weight is ours.wte.weight


def test_tables_of_positions_are_cut_to_any_length() -> None:
    model, (x,) = prepared("position_table")
    shapes = ({0: torch.export.Dim("rows"), 1: torch.export.Dim("length", max=11)},)
    program = torch.export.export(model, (x,), dynamic_shapes=shapes)
    for exported in (program, program.run_decompositions()):
        ours = jg.from_torch(exported, dynamic_shapes={"ids": {0: "rows", 1: "length"}})
        for rows, length in ((2, 6), (3, 11), (1, 1), (4, 2)):
            ids = torch.randint(0, 30, (rows, length))
            close(ours(ids.numpy()).detach().numpy(), model(ids).detach().numpy(), "result")
        assert ours.traced.cache_info().misses == 1
        with pytest.raises(jg.ShapeError, match=r"is at most 11"):
            ours(np.zeros((2, 12), np.int64))


def test_elements_that_a_mask_selects_are_reduced() -> None:
    """Their number is asserted of by PyTorch, and not known in a trace: what needs it is refused with its line."""

    class Masked(torch.nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            return x[mask].mean() + torch.masked_select(x, x > 0).sum() + x[mask].max()

    class Doubled(torch.nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            return x[mask] * 2

    args = (torch.randn(4, 5), torch.rand(4, 5) > 0.5)
    ours = jg.from_torch(torch.export.export(Masked(), args))
    for _ in range(2):
        close(ours(*(arg.numpy() for arg in args)).numpy(), Masked()(*args).numpy(), "result")
        args = (torch.randn(4, 5), torch.rand(4, 5) > 0.2)
    with pytest.raises(jg.UnsupportedOp, match=r"x\[mask\] at .*test_models\.py"):
        jg.from_torch(torch.export.export(Doubled(), args))(*(arg.numpy() for arg in args))


def test_the_decomposed_program_gives_the_same() -> None:
    """Core ATen, of which a program without writes and without layers is made."""
    for name in ("residual_network", "transformer_encoder", "in_place", "u_net", "vae"):
        model, args = prepared(name)
        program = torch.export.export(model, args).run_decompositions()
        state = {key: value.clone() for key, value in model.state_dict().items()}
        ours = jg.from_torch(program)
        actual = tensors(ours(*(arg.numpy() for arg in args)), jg.Tensor)
        model.load_state_dict(state)
        for own, theirs in zip(actual, tensors(model(*args), torch.Tensor), strict=True):
            close(own.detach().numpy(), theirs.detach().numpy(), name)
        for key, buffer in model.named_buffers():
            close(dict(ours.named_buffers())[key].numpy(), buffer.numpy(), key)


def test_control_flow() -> None:
    class Flow(torch.nn.Module):
        def forward(self, x: Any, limit: Any) -> Any:
            from torch._higher_order_ops.map import map as each
            from torch._higher_order_ops.scan import scan
            from torch._higher_order_ops.while_loop import while_loop

            total, count = while_loop(
                lambda total, count: total.sum() < limit,
                lambda total, count: (total * 1.5 + x.abs().mean(), count + 1),
                (x.abs(), torch.zeros((), dtype=torch.int64)),
            )
            rows = each(lambda row, y: row.sin() * y.sum(), x, total)
            last, sums = scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)
            return total, count, rows, last, sums

    args = (torch.randn(3, 4), torch.tensor(40.0))
    program = torch.export.export(Flow(), args)
    expected = Flow()(*args)
    for own, theirs in zip(jg.from_torch(program)(*(arg.numpy() for arg in args)), expected, strict=True):
        close(own.numpy(), theirs.numpy(), "control flow")


def test_arguments_and_results_in_containers() -> None:
    class Nested(torch.nn.Module):
        def forward(self, batch: Any, pair: Any, *, scale: Any = 2.0, flag: bool = True) -> Any:
            y = batch["x"] * pair[0] + pair[1][0]
            return {"sum": y.sum() * scale, "parts": [y, (y[:1], None)], "size": y.shape[0], "flag": flag}

    x = torch.randn(3, 2)
    args = ({"x": x}, (x + 1, [x + 2]))
    rows = torch.export.Dim("rows", min=2, max=9)
    shapes = {"batch": {"x": {0: rows}}, "pair": ({0: rows}, [{0: rows}]), "scale": None}
    program = torch.export.export(Nested(), args, {"scale": 3.0}, dynamic_shapes=shapes)
    ours = jg.from_torch(program, dynamic_shapes={"batch['x']": {0: "rows"}})
    wide = np.ones((5, 2), np.float32)
    result = ours({"x": wide}, (wide, [wide]), scale=3.0)
    assert result["size"] == 5 and result["flag"] is True and result["parts"][1][1] is None
    assert result["sum"].item() == 60.0
    with pytest.raises(jg.ArgumentError, match=r"scale was 3\.0"):
        ours({"x": wide}, (wide, [wide]), scale=2.0)
    with pytest.raises(jg.TraceError, match="batch"):
        ours({"y": wide}, (wide, [wide]), scale=3.0)
    with pytest.raises(jg.ShapeError, match=r"s\d+ is at most 9"):
        ours(
            *({"x": np.ones((10, 2), np.float32)}, (np.ones((10, 2), np.float32), [np.ones((10, 2), np.float32)])),
            scale=3.0,
        )
    with pytest.raises(jg.TraceError, match="the size 'rows'"):
        ours({"x": wide}, (wide[:4], [wide]), scale=3.0)


def test_an_argument_that_the_program_writes_to() -> None:
    class Writes(torch.nn.Module):
        def forward(self, x: Any, cache: Any) -> Any:
            cache[:, 1] = x
            cache.add_(1)
            return cache.sum() + x

    args = (torch.randn(3), torch.zeros(3, 2))
    program = torch.export.export(Writes(), args)
    for exported in (program, program.run_decompositions({})):
        cache = jg.zeros((3, 2))
        x = args[0].numpy()
        result = jg.from_torch(exported)(x, cache)
        np.testing.assert_allclose(cache.numpy(), np.stack([np.ones(3), x + 1], 1), rtol=1e-6)
        np.testing.assert_allclose(result.numpy(), cache.numpy().sum() + x, rtol=1e-5)


def test_writes_whose_views_are_not_known_are_refused() -> None:
    class Repeats(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = x.clone().as_strided((2, 2), (1, 1))
            y.mul_(2)
            return y

    program = torch.export.export(Repeats(), (torch.randn(3),))
    with pytest.raises(jg.UnsupportedOp, match=r"share memory|as_strided"):
        jg.from_torch(program)
