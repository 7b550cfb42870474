"""Optimisers that are held against PyTorch's: parameters and state over 20 steps, eager, traced, and exchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OptimizerCase:
    """``make(lib, params)`` gives an optimiser of ``lib.optim`` (lib is torch or jitgraph) for three parameters.

    ``traced`` is the reason why its step stands outside of traces, else None. ``tolerance`` is relative.
    """

    name: str
    make: Callable[[Any, list[Any]], Any]
    tolerance: float = 1e-9
    untraced: str | None = None


def _plain(name: str, kind: str, /, **settings: Any) -> OptimizerCase:
    return OptimizerCase(name, lambda lib, params: getattr(lib.optim, kind)(params, **settings))


def _in_groups(lib: Any, params: list[Any]) -> Any:
    return lib.optim.AdamW([{"params": params[:1], "lr": 0.05, "betas": (0.8, 0.9)}, {"params": params[1:]}], lr=0.01)


def _added_group(lib: Any, params: list[Any]) -> Any:
    optimizer = lib.optim.SGD(params[:1], lr=0.1, momentum=0.9)
    optimizer.add_param_group({"params": params[1:], "lr": 0.02, "momentum": 0.5})
    return optimizer


def _muon(name: str, /, **settings: Any) -> OptimizerCase:
    """Matrices alone learn; PyTorch rounds its products to bfloat16, whose share of 20 steps the tolerance is."""

    def make(lib: Any, params: list[Any]) -> Any:
        for p in params:
            p.requires_grad_(p.ndim == 2)
        return lib.optim.Muon([p for p in params if p.ndim == 2], **settings)

    return OptimizerCase(name, make, 0.02)


_CLOSURE = "its closure is called as often as the losses ask for; the closure is traced instead"


def _lbfgs(name: str, /, **settings: Any) -> OptimizerCase:
    return OptimizerCase(name, lambda lib, params: lib.optim.LBFGS(params, **settings), 1e-6, _CLOSURE)


CASES = [
    _plain("SGD", "SGD", lr=0.02),
    _plain("SGD momentum", "SGD", lr=0.02, momentum=0.9),
    _plain("SGD momentum, weight decay", "SGD", lr=0.1, momentum=0.9, weight_decay=0.1),
    _plain("SGD nesterov", "SGD", lr=0.1, momentum=0.9, nesterov=True),
    _plain("SGD dampening", "SGD", lr=0.1, momentum=0.9, dampening=0.3),
    _plain("SGD maximize", "SGD", lr=0.01, momentum=0.5, maximize=True, foreach=False),
    OptimizerCase("SGD add_param_group", _added_group),
    _plain("Adam", "Adam", lr=0.05),
    _plain("Adam weight decay", "Adam", lr=0.05, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6),
    _plain("Adam amsgrad", "Adam", lr=0.05, amsgrad=True, foreach=True),
    _plain("Adam maximize", "Adam", lr=0.01, maximize=True),
    _plain("AdamW", "AdamW", lr=0.05),
    _plain("AdamW amsgrad", "AdamW", lr=0.05, weight_decay=0.2, amsgrad=True),
    OptimizerCase("AdamW groups", _in_groups),
    _plain("NAdam", "NAdam", lr=0.05),
    _plain("NAdam decoupled weight decay", "NAdam", lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    _plain("RAdam", "RAdam", lr=0.05),
    _plain("RAdam weight decay", "RAdam", lr=0.05, betas=(0.9, 0.9), weight_decay=0.1),
    _plain("Adamax", "Adamax", lr=0.05, weight_decay=0.05),
    _plain("Adagrad", "Adagrad", lr=0.1, lr_decay=0.1, weight_decay=0.05),
    _plain("Adagrad initial accumulator", "Adagrad", lr=0.1, initial_accumulator_value=0.5),
    _plain("Adadelta", "Adadelta", lr=1.0, weight_decay=0.05),
    _plain("RMSprop", "RMSprop", lr=0.01),
    _plain("RMSprop centered, momentum", "RMSprop", lr=0.01, momentum=0.9, centered=True, weight_decay=0.1),
    _plain("Rprop", "Rprop", lr=0.01),
    _plain("Rprop etas", "Rprop", lr=0.05, etas=(0.4, 1.5), step_sizes=(1e-3, 0.1)),
    _plain("ASGD", "ASGD", lr=0.02),
    _plain("ASGD averaging", "ASGD", lr=0.1, lambd=0.01, t0=5.0, weight_decay=0.05),
    _plain("Adafactor", "Adafactor", lr=0.05),
    _plain("Adafactor settings", "Adafactor", lr=0.5, weight_decay=0.01, eps=(1e-3, 0.1), d=2.0, beta2_decay=-0.5),
    _muon("Muon", lr=0.02),
    _muon("Muon settings", lr=0.02, nesterov=False, weight_decay=0.0, ns_steps=3, adjust_lr_fn="match_rms_adamw"),
    _lbfgs("LBFGS", lr=0.3, max_iter=2, history_size=3),
    _lbfgs("LBFGS strong Wolfe", line_search_fn="strong_wolfe", max_iter=3),
]


def differences(case: OptimizerCase, torch: Any) -> dict[str, str | None]:
    """By column what differs from PyTorch, None for nothing, "-" where there is nothing to compare."""
    from tests.models.optimizers import check_optimizer, in_float64

    return in_float64(check_optimizer, case)
