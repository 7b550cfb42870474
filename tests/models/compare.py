"""A case in PyTorch and in jitgraph: results, gradients, buffers and state dicts, eager and traced."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import jitgraph as jg
from tests.models.case import Array, LayerCase

COLUMNS = ("value", "gradient", "state dict", "repr", "traced")
SKIPPED = "-"


def leaves(tree: Any) -> Iterator[Any]:
    """The tensors of tuples, lists and dicts in order; those that are absent are left out."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, tuple | list):
        for part in tree:
            yield from leaves(part)
    elif tree is not None:
        yield tree


def _weights(outputs: list[Array]) -> list[Array | None]:
    """What each float result counts in the loss whose gradient is taken."""
    rng = np.random.default_rng(17)
    return [rng.normal(size=x.shape) if x.dtype.kind == "f" else None for x in outputs]


class Outcome:
    """What one library gave: results, gradients of inputs and parameters, buffers afterwards."""

    def __init__(self, outputs: list[Array], gradients: dict[str, Array | None], buffers: dict[str, Array]) -> None:
        self.outputs, self.gradients, self.buffers = outputs, gradients, buffers


def by_torch(case: LayerCase, torch: Any, module: Any) -> Outcome:
    """The case in PyTorch, whose default dtype is float64."""
    inputs = [
        torch.tensor(x, requires_grad=x.dtype.kind == "f" and i not in case.fixed) for i, x in enumerate(case.inputs)
    ]
    outputs = list(leaves(case.call(torch, module, *inputs)))
    arrays = [x.detach().numpy() for x in outputs]
    pairs = zip(outputs, _weights(arrays), strict=True)
    terms = [(x * torch.tensor(w)).sum() for x, w in pairs if w is not None and x.requires_grad]
    if terms:
        sum(terms).backward()
    named = dict(module.named_parameters()) if isinstance(module, torch.nn.Module) else {}
    gradients = {f"input {i}": x.grad for i, x in enumerate(inputs)} | {name: p.grad for name, p in named.items()}
    buffers = dict(module.named_buffers()) if isinstance(module, torch.nn.Module) else {}
    return Outcome(
        arrays,
        {name: None if g is None else g.to_dense().numpy() for name, g in gradients.items()},
        {name: b.detach().numpy().copy() for name, b in buffers.items()},
    )


def by_jitgraph(case: LayerCase, module: Any, *, traced: bool) -> Outcome:
    """The case in jitgraph, eager or as one traced function."""
    inputs = [jg.asarray(x, dtype=x.dtype) for x in case.inputs]
    for number, x in enumerate(inputs):
        if x.dtype == jg.float64 and number not in case.fixed:
            x.requires_grad_()

    def run(*tensors: Any) -> Any:
        return case.call(jg, module, *tensors)

    outputs = list(leaves((jg.trace(run) if traced else run)(*inputs)))
    arrays = [np.asarray(x.detach()) for x in outputs]
    pairs = zip(outputs, _weights(arrays), strict=True)
    terms = [(x * jg.asarray(w, dtype=x.dtype)).sum() for x, w in pairs if w is not None and x.requires_grad]
    if terms:
        sum(terms[1:], start=terms[0]).backward()
    named = dict(module.named_parameters()) if isinstance(module, jg.nn.Module) else {}
    gradients = {f"input {i}": x.grad for i, x in enumerate(inputs)} | {name: p.grad for name, p in named.items()}
    buffers = dict(module.named_buffers()) if isinstance(module, jg.nn.Module) else {}
    return Outcome(
        arrays,
        {name: None if g is None else np.asarray(g) for name, g in gradients.items()},
        {name: np.array(np.asarray(b)) for name, b in buffers.items()},
    )


def _unlike(got: Array, want: Array, tolerance: float) -> str | None:
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if got.dtype.kind != want.dtype.kind:
        return f"dtype {got.dtype}, not {want.dtype}"
    if want.dtype.kind != "f":
        return None if np.array_equal(got, want) else f"{got} is not {want}"
    finite = np.abs(want[np.isfinite(want)])
    bound = tolerance * max(1.0, float(finite.max(initial=0.0)))
    if np.array_equal(np.isnan(got), np.isnan(want)) and np.allclose(got, want, rtol=0, atol=bound, equal_nan=True):
        return None
    with np.errstate(all="ignore"):
        return f"differs by {np.nanmax(np.abs(got - want)):.3g}"


def _values(got: Outcome, want: Outcome, tolerance: float) -> str | None:
    if len(got.outputs) != len(want.outputs):
        return f"{len(got.outputs)} results, not {len(want.outputs)}"
    for number, (x, y) in enumerate(zip(got.outputs, want.outputs, strict=True)):
        if result := _unlike(x, y, tolerance):
            return f"result {number}: {result}"
    for name, y in want.buffers.items():
        if name not in got.buffers:
            return f"no buffer {name}"
        if result := _unlike(got.buffers[name], y, tolerance):
            return f"buffer {name}: {result}"
    return None


def _gradients(got: Outcome, want: Outcome, tolerance: float) -> str | None:
    if set(got.gradients) != set(want.gradients):
        return f"gradients of {sorted(got.gradients)}, not {sorted(want.gradients)}"
    for name, y in want.gradients.items():
        x = got.gradients[name]
        if x is None or y is None:
            there = x if y is None else y
            if there is not None and there.any():
                return f"{name}: {'a gradient' if y is None else 'no gradient'}"
        elif result := _unlike(x, y, tolerance):
            return f"{name}: {result}"
    return None


def _fresh(case: LayerCase, state: dict[str, Array]) -> Any:
    module = case.make(jg)
    if isinstance(module, jg.nn.Module):
        module.double()
        module.load_state_dict(state)
        module.train(case.mode == "train")
    return module


def differences(case: LayerCase, torch: Any) -> dict[str, str | None]:
    """By column what differs, None for nothing, SKIPPED where there is nothing to compare."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    report: dict[str, str | None] = dict.fromkeys(COLUMNS, SKIPPED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = case.make(torch)
        state: dict[str, Array] = {}
        if isinstance(module, torch.nn.Module):
            module.train(case.mode == "train")
            state = {name: x.detach().numpy().copy() for name, x in module.state_dict().items()}
        want = by_torch(case, torch, module)
        try:
            ours = _fresh(case, state)
            if state:
                report["state dict"] = _state_goes_back(case, torch, ours, state)
            if isinstance(module, torch.nn.Module):
                report["repr"] = _unlike_text(repr(ours), repr(module))
            eager = by_jitgraph(case, ours, traced=False)
            report["value"] = _values(eager, want, case.tolerance)
            if any(g is not None for g in want.gradients.values()):
                report["gradient"] = _gradients(eager, want, case.tolerance)
            if case.traced:
                traced = by_jitgraph(case, _fresh(case, state), traced=True)
                report["traced"] = _values(traced, want, case.tolerance) or _gradients(traced, want, case.tolerance)
        except (jg.JitgraphError, AttributeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            first = next(column for column in ("value", "traced") if report[column] in (SKIPPED, None))
            report[first] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return report


def _unlike_text(ours: str, theirs: str) -> str | None:
    """What ``repr`` shows otherwise; PyTorch's name for a Linear that is not quantised is left aside."""
    theirs = theirs.replace("NonDynamicallyQuantizableLinear", "Linear")
    return None if ours == theirs else f"{ours!r}, not {theirs!r}"


def _state_goes_back(case: LayerCase, torch: Any, ours: Any, state: dict[str, Array]) -> str | None:
    result = ours.state_dict()
    if list(result) != list(state):
        return f"keys {list(result)}, not {list(state)}"
    again = case.make(torch)
    again.load_state_dict({name: torch.tensor(array) for name, array in result.items()})
    wrong = [name for name, x in again.state_dict().items() if not np.array_equal(x.numpy(), state[name])]
    return f"{wrong} came back otherwise" if wrong else None
