"""How optimisers and schedules are held against PyTorch's, which stands beside jitgraph where this runs.

A small network is trained for 20 steps in float64 by both. ``check_optimizer`` and ``check_scheduler`` give what each
column of the table says: None for "yes", or what differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import jitgraph as jg
from tests.models.compare import SKIPPED
from tests.models.optimizer_cases import OptimizerCase
from tests.models.scheduler_cases import SchedulerCase
from tests.models.training import HALF, STEPS, Run, advance, rates, scheduled, trained


def to_torch(tree: Any) -> Any:
    """A state dict of jitgraph's with tensors for its arrays."""
    if isinstance(tree, dict):
        return {key: to_torch(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [to_torch(value) for value in tree]
    return torch.from_numpy(np.array(tree)) if isinstance(tree, np.ndarray) else tree


def differs(actual: Any, expected: Any, tolerance: float, where: str) -> str | None:
    """What differs first in two trees of numbers; None where nothing does."""
    if isinstance(expected, dict):
        if actual.keys() != expected.keys():
            return f"{where} has {sorted(map(str, actual))}, not {sorted(map(str, expected))}"
        parts = [(actual[key], expected[key], f"{where}.{key}") for key in expected]
    elif isinstance(expected, list | tuple):
        if len(actual) != len(expected):
            return f"{where} has {len(actual)} items, not {len(expected)}"
        parts = [(f, e, f"{where}[{i}]") for i, (f, e) in enumerate(zip(actual, expected, strict=True))]
    elif expected is None or isinstance(expected, str | bool):
        return None if actual == expected else f"{where} is {actual}, not {expected}"
    else:
        actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
        if actual.shape != expected.shape:
            return f"{where} has shape {actual.shape}, not {expected.shape}"
        scale = max(float(np.abs(expected).max(initial=0.0)), 1e-3)
        gap = float(np.abs(actual - expected).max(initial=0.0))
        return None if gap <= tolerance * scale else f"{where} differs by {gap:.1e}"
    return next((text for f, e, at in parts if (text := differs(f, e, tolerance, at)) is not None), None)


def _state_of(optimizer: Any) -> Any:
    """What two optimisers are compared by: state, and settings that both libraries have."""
    saved = optimizer.state_dict()
    groups = [{k: v for k, v in group.items() if k != "foreach"} for group in saved["param_groups"]]
    state = {number: {k: v for k, v in own.items() if k != "al"} for number, own in saved["state"].items()}
    return {"state": state, "param_groups": groups}


def _same_runs(
    mine: Run, theirs: Run, steps: int, tolerance: float, step: Callable[[], Any] | None = None
) -> str | None:
    for number in range(steps):
        loss, expected = (step or mine.step)(), theirs.step()
        text = differs(loss.item(), expected.item(), tolerance, f"step {number}: loss")
        text = text or differs(mine.values(), theirs.values(), tolerance, f"step {number}: parameters")
        if text is not None:
            return text
    return differs(_state_of(mine.optimizer), _state_of(theirs.optimizer), tolerance, "state")


def _exchanged(case: OptimizerCase, source: Any, target: Any) -> str | None:
    """Half of the steps in one library, then the state goes over and both take the other half."""
    first = Run(source, case.make)
    for _ in range(HALF):
        first.step()
    second = Run(target, case.make, first.values())
    saved = first.optimizer.state_dict()
    second.optimizer.load_state_dict(to_torch(saved) if target is torch else saved)
    mine, theirs = (second, first) if source is torch else (first, second)
    return _same_runs(mine, theirs, STEPS - HALF, case.tolerance)


def check_optimizer(case: OptimizerCase) -> dict[str, str | None]:
    """By column what differs, None for nothing, SKIPPED where there is nothing to compare."""
    results = {
        "eager": _attempt(lambda: _same_runs(Run(jg, case.make), Run(torch, case.make), STEPS, case.tolerance)),
        "state from PyTorch": _attempt(lambda: _exchanged(case, torch, jg)),
        "state to PyTorch": _attempt(lambda: _exchanged(case, jg, torch)),
    }
    if case.untraced is not None:
        return {**results, "traced": SKIPPED}

    def traced() -> str | None:
        mine = Run(jg, case.make)
        step = jg.trace(mine.step)
        text = _same_runs(mine, Run(torch, case.make), STEPS, case.tolerance, step)
        misses = step.cache_info().misses
        return text or (None if misses == 1 else f"recorded {misses} times")

    return {**results, "traced": _attempt(traced)}


# --- schedules -----------------------------------------------------------------------------------------------------


def _settings(run: Run) -> list[dict[str, Any]]:
    names = ("lr", "momentum", "betas", "initial_lr")
    groups = run.optimizer.state_dict()["param_groups"]
    return [{name: group[name] for name in names if name in group} for group in groups]


def _same_rates(mine: Run, theirs: Run, case: SchedulerCase, numbers: range, step: Any = None) -> str | None:
    for number in numbers:
        at = f"step {number}"
        text = differs(_settings(mine), _settings(theirs), case.tolerance, f"{at}: settings")
        last = list(mine.schedule.get_last_lr())
        text = text or differs(last, [float(rate) for rate in theirs.schedule.get_last_lr()], case.tolerance, at)
        if text is not None:
            return text
        advance(mine, case, number, step)
        advance(theirs, case, number)
        text = differs(mine.values(), theirs.values(), case.tolerance, f"{at}: parameters")
        if text is not None:
            return text
    if hasattr(theirs.schedule, "last_epoch") and mine.schedule.last_epoch != theirs.schedule.last_epoch:
        return f"last_epoch is {mine.schedule.last_epoch}, not {theirs.schedule.last_epoch}"
    return None


def _exchanged_schedule(case: SchedulerCase, source: Any, target: Any) -> str | None:
    first = scheduled(source, case)
    for number in range(HALF):
        advance(first, case, number)
    second = scheduled(target, case)
    for own, value in zip(second.parameters, first.values(), strict=True):
        if target is torch:
            with torch.no_grad():
                own.copy_(torch.tensor(value))
        else:
            with jg.no_grad():
                own[...] = jg.asarray(value)
    state, schedule = first.optimizer.state_dict(), first.schedule.state_dict()
    second.optimizer.load_state_dict(to_torch(state) if target is torch else state)
    second.schedule.load_state_dict(schedule)
    mine, theirs = (second, first) if source is torch else (first, second)
    return _same_rates(mine, theirs, case, range(HALF, STEPS))


def check_scheduler(case: SchedulerCase) -> dict[str, str | None]:
    """By column what differs, None for nothing, SKIPPED where there is nothing to compare."""
    everything = range(STEPS)
    results = {
        "eager": _attempt(lambda: _same_rates(scheduled(jg, case), scheduled(torch, case), case, everything)),
        "state from PyTorch": _attempt(lambda: _exchanged_schedule(case, torch, jg)),
        "state to PyTorch": _attempt(lambda: _exchanged_schedule(case, jg, torch)),
    }
    if case.recordings is None:
        return {**results, "traced": SKIPPED}

    def traced() -> str | None:
        mine = scheduled(jg, case)
        step = jg.trace(mine.step)
        text = _same_rates(mine, scheduled(torch, case), case, everything, step)
        misses = step.cache_info().misses
        return text or (None if misses == case.recordings else f"recorded {misses} times, not {case.recordings}")

    return {**results, "traced": _attempt(traced)}


def _attempt(check: Callable[[], str | None]) -> str | None:
    """What differs; an error is what differs."""
    try:
        return check()
    except Exception as error:  # a row of the table, whatever it is
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def in_float64(check: Callable[[Any], dict[str, str | None]], case: Any) -> dict[str, str | None]:
    """A check while PyTorch's counts of steps are float64 as well, as jitgraph's are beside float64 parameters."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return check(case)
    finally:
        torch.set_default_dtype(before)


def expectations() -> dict[str, Any]:
    """What PyTorch gives for each case, for tests where it is not installed."""
    from tests.models import optimizer_cases, scheduler_cases

    return {
        "optimizers": {case.name: trained(torch, case) for case in optimizer_cases.CASES},
        "schedules": {case.name: rates(torch, case) for case in scheduler_cases.CASES},
    }
