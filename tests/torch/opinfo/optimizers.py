"""PyTorch's samples of optimisers: five steps with each of their settings."""

from __future__ import annotations

import argparse
import fnmatch
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_optimizers import optim_db

from tests.torch.opinfo.comparison import Differs, Manner
from tests.torch.opinfo.translation import Missing, Translator, Untranslatable
from tests.torch.opinfo.variants import Failure, Slow, _ours, _outcome, outcome, time_limit
from tests.torch.opinfo.workers import Record

VARIANTS = ("steps", "groups", "state_dict", "continued", "errors")


def jobs(arguments: argparse.Namespace, to: Translator) -> Iterator[tuple[str, Callable[..., None]]]:
    for info in optim_db:
        name = info.optim_cls.__name__
        if arguments.names and not any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.names):
            continue

        def job(record: Callable[[Record], None], info: Any = info) -> None:
            _run_optimizer(record, info, to, arguments)

        yield f"optim.{name} float32", job


def _run_optimizer(record: Callable[[Record], None], info: Any, to: Translator, arguments: Any) -> None:
    warnings.simplefilter("ignore")
    if info.only_supports_sparse_grads:
        return
    for variant in VARIANTS:
        record({"variant": variant, "status": "started"})
        samples = (
            list(info.optim_inputs_func("cpu"))
            if variant != "errors"
            else list(info.optim_error_inputs_func("cpu", torch.float32))
        )
        passed = total = 0
        failures: list[tuple[str, str]] = []
        for sample in samples:
            desc = getattr(sample, "desc", "")
            try:
                with time_limit(arguments.sample_seconds):
                    _check(info, sample, variant, to)
                passed += 1
            except Untranslatable:
                continue
            except Missing as error:
                failures.append(("missing", str(error)))
            except Failure as error:
                failures.append((error.status, f"{desc}: {error.text}"))
            except Differs as error:
                failures.append(("differs", f"{desc}: {error}"[:300]))
            except Slow:
                failures.append(("slow", f"{desc}: a sample takes more than {arguments.sample_seconds:.0f} s"))
            total += 1
        record({"variant": variant, **(outcome(passed, total, failures) if total else {"status": "none"})})


def _check(info: Any, sample: Any, variant: str, to: Translator) -> None:
    name = info.optim_cls.__name__
    if variant == "errors":
        _check_error(sample.optimizer_error_input, sample.error_on, name, info, to)
        return
    ranks = 2 if name == "Muon" else 3
    want, error = _outcome(lambda: _train(torch, info.optim_cls, sample.kwargs, variant, ranks))
    cls = to.attribute(f"optim.{name}")
    keywords = to.value(sample.kwargs)
    got = _ours(lambda: _train(to.module, cls, keywords, variant, ranks), error)
    if error is None:
        # Muon multiplies in bfloat16, in another order; a curvature of LBFGS is a quotient of small numbers.
        rough = {"Muon": torch.bfloat16, "LBFGS": torch.float32}.get(name)
        Manner(rough=rough).check(want, got, "parameters" if variant != "state_dict" else "state")


def _train(library: Any, cls: Any, keywords: dict[str, Any], variant: str, ranks: int) -> Any:
    """Five steps on a least-squares problem: parameters of two or three shapes, losses, and the optimiser's state."""
    rng = np.random.default_rng(0)
    # In float32 rounding chooses where in a flat valley a line search stops.
    dtype = np.float64 if cls.__name__ == "LBFGS" else np.float32
    shapes = [(4, 3), (3, 2)] if ranks == 2 else [(4, 3), (3,), ()]
    parameters = [library.tensor(rng.standard_normal(s).astype(dtype)).requires_grad_(True) for s in shapes]
    x, y = (library.tensor(rng.standard_normal(s).astype(dtype)) for s in ((8, 4), (8, shapes[1][-1])))
    groups: Any = parameters
    if variant == "groups":
        groups = [
            {"params": parameters[:1], **({"weight_decay": 0.01} if "weight_decay" in keywords else {})},
            {"params": parameters[1:], "lr": 0.02},
        ]
    optimizer = cls(groups, **keywords)

    def closure() -> Any:
        optimizer.zero_grad()
        h = x @ parameters[0]
        predicted = h @ parameters[1] if ranks == 2 else library.tanh(h + parameters[1]) * parameters[2]
        loss = ((predicted - y) ** 2).mean()
        loss.backward()
        return loss

    losses = []
    for step in range(5):
        if variant == "continued" and step == 3:
            state = optimizer.state_dict()
            optimizer = cls(groups, **keywords)
            optimizer.load_state_dict(state)
        losses.append(optimizer.step(closure))
    if variant == "state_dict":
        state = optimizer.state_dict()
        slots = {str(key): _settings(value) for key, value in state["state"].items()}
        for slot in slots.values():
            slot.pop("al", None)  # of LBFGS: what one step computes and the next computes anew
        return {"state": slots, "param_groups": [_settings(group) for group in state["param_groups"]]}
    return [p.detach() for p in parameters] + [loss.detach() for loss in losses]


def _settings(group: Any) -> dict[str, Any]:
    """The settings of a saved group by name, in which 0 and 0.0 are the same."""
    return {
        name: tuple(map(float, value)) if isinstance(value, tuple) and None not in value
        else float(value) if type(value) is int else value
        for name, value in sorted(group.items())
    }  # fmt: skip


def _check_error(sample: Any, error_on: Any, name: str, info: Any, to: Translator) -> None:
    """A wrong setting raises the error that it raises in PyTorch."""
    params = sample.params  # to which a step's errors need gradients

    def build(cls: Any, params: Any, keywords: Any) -> Any:
        optimizer = cls(params, **keywords)
        if "STEP" in str(error_on):
            optimizer.step()
        return optimizer

    _, error = _outcome(lambda: build(info.optim_cls, params, sample.kwargs))
    if error is None:
        return
    cls = to.attribute(f"optim.{name}")
    ours = to.value(params)
    for p, q in zip(params, ours, strict=True) if isinstance(params, list) else ():
        if isinstance(p, torch.Tensor) and p.grad is not None:
            q.grad = to.tensor(p.grad)
    _ours(lambda: build(cls, ours, to.value(sample.kwargs)), error)
