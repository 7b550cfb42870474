"""What schedules share: the epoch, the first rates, saving and loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.errors import JitgraphError
from jitgraph.optim.optimizer import Optimizer
from jitgraph.tracing.call.host import as_float

_NOT_SAVED: Final = frozenset({"optimizer"})


class LRScheduler:
    """Base: ``get_lr()`` gives each group's rate for ``last_epoch``; a subclass defines it.

    A new schedule notes each group's rate as ``initial_lr`` and takes its first step, to epoch 0. With ``last_epoch``
    it goes on behind that epoch, and the groups need their ``initial_lr`` (JitgraphError without).
    """

    base_lrs: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer_of(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                what = f"a schedule from last_epoch={last_epoch} on needs 'initial_lr' in parameter group {number}"
                hint = "load the optimiser's state first, or begin with last_epoch=-1"
                raise JitgraphError(f"{what}\n  hint: {hint}")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _begin(self) -> None:
        self._is_initial = True
        self._go_to(None)
        self._is_initial = False

    def get_lr(self) -> Sequence[float]:
        """Each group's rate at ``last_epoch``, from the rates of the epoch before, which are those of the groups."""
        raise NotImplementedError

    def closed_form(self) -> Sequence[float] | None:
        """Each group's rate at ``last_epoch`` from its first one alone; None where there is no such formula."""
        return None

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to this one."""
        self._go_to(epoch)

    def _go_to(self, epoch: int | None) -> None:
        rates = None
        if epoch is None:
            self.last_epoch += 1
        else:
            self.last_epoch = epoch
            rates = self.closed_form()
        if rates is None:
            rates = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = as_float(rate)

    def get_last_lr(self) -> list[float]:
        """The present rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows except the optimiser, by PyTorch's names; functions are left out."""
        own = {key: value for key, value in vars(self).items() if key not in _NOT_SAVED and not key.startswith("_")}
        past = {"_step_count": self.last_epoch + 1, "_is_initial": False, "_get_lr_called_within_step": False}
        return {**own, **past, "_last_lr": self.get_last_lr()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave, here or in PyTorch; the rates are in the optimiser's own state.

        JitgraphError where it is the state of another schedule.
        """
        known = {key: value for key, value in state_dict.items() if not key.startswith("_")}
        if "last_epoch" not in known or (foreign := known.keys() - vars(self).keys()):
            problem = f"it has {sorted(foreign)}" if "last_epoch" in known else "it has no 'last_epoch'"
            raise JitgraphError(f"this is no state of a {type(self).__name__}: {problem}")
        vars(self).update(known)

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]


def optimizer_of(optimizer: Any) -> Optimizer:
    """The optimiser; JitgraphError where it is none."""
    if not isinstance(optimizer, Optimizer):
        raise JitgraphError(f"a schedule takes an optimiser first, not a {type(optimizer).__name__}")
    return optimizer


def for_groups(name: str, value: Any, optimizer: Optimizer) -> list[float]:
    """A setting of a schedule for each group: one number for all, or a list with one each."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [float(value)] * count
    if len(value) != count:
        raise JitgraphError(f"{name} has {len(value)} values for {count} parameter groups")
    return [float(item) for item in value]
