"""Averages of weights: stochastic weight averaging (Izmailov et al. 2018) and exponential moving averages."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitgraph.autograd import no_grad
from jitgraph.dtypes import int64, is_float
from jitgraph.errors import JitgraphError
from jitgraph.nn.module import Module
from jitgraph.optim.lr_scheduler.base import LRScheduler, for_groups, optimizer_of
from jitgraph.optim.optimizer import Optimizer
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tracing.call.host import host_formula

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Tensor], Tensor]
AverageOfAll = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """``decay * average + (1 - decay) * parameter``, for AveragedModel; JitgraphError unless 0 <= decay <= 1."""
    if not 0.0 <= decay <= 1.0:
        raise JitgraphError(f"decay is {decay}; it must lie between 0 and 1")

    def ema_update(average: Tensor, parameter: Tensor, count: Tensor) -> Tensor:
        mixed = decay * average + (1.0 - decay) * parameter
        return mixed.astype(average.dtype)  # type: ignore[no-any-return]

    return ema_update


def get_swa_avg_fn() -> Average:
    """``average + (parameter - average) / (count + 1)``, the mean of all so far, for AveragedModel."""

    def swa_update(average: Tensor, parameter: Tensor, count: Tensor) -> Tensor:
        moved = average + (parameter - average) / (count + 1).astype(average.dtype)
        return moved.astype(average.dtype)  # type: ignore[no-any-return]

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageOfAll:
    """``get_ema_avg_fn`` for lists of tensors, which it changes in place."""
    return _for_all(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> AverageOfAll:
    """``get_swa_avg_fn`` for lists of tensors, which it changes in place."""
    return _for_all(get_swa_avg_fn())


def _for_all(average: Average) -> AverageOfAll:
    def update(averages: Sequence[Tensor], parameters: Sequence[Tensor], count: Tensor) -> None:
        with no_grad():
            for mean, parameter in zip(averages, parameters, strict=True):
                mean[...] = average(mean, parameter, count)

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's: ``update_parameters(model)`` after each step.

    ``avg_fn(average, parameter, count)`` gives the next average, ``multi_avg_fn`` changes lists of them in place;
    without either it is the mean of all so far. The first update copies. Buffers are copied at each update, or averaged
    with ``use_buffers``. Calling it calls the copy. ``update_parameters`` may stand in a traced step.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: str | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: AverageOfAll | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise JitgraphError("AveragedModel takes avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype=int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged copy gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's present parameters into the averages."""
        with no_grad():
            own, theirs = list[Tensor](self.module.parameters()), list[Tensor](model.parameters())
            buffers, their_buffers = list(self.module.buffers()), list(model.buffers())
            if self.use_buffers:
                own, theirs = own + buffers, theirs + their_buffers
            else:
                for buffer, source in zip(buffers, their_buffers, strict=True):
                    buffer._rebind(source.detach().to(buffer.device).value)
            count = self.n_averaged
            pairs = [(p, q.detach().to(p.device)) for p, q in zip(own, theirs, strict=True)]
            averages = [p.detach() for p, _ in pairs]
            if self.multi_avg_fn is not None:
                self.multi_avg_fn(averages, [q for _, q in pairs], count)
            else:
                average = self.avg_fn if self.avg_fn is not None else get_swa_avg_fn()
                averages = [_averaged(average, p, q, count) for p, (_, q) in zip(averages, pairs, strict=True)]
            for (p, q), mean in zip(pairs, averages, strict=True):
                p._rebind(where(count == 0, q, mean).value)
            count += 1


def _averaged(average: Average, mean: Tensor, parameter: Tensor, count: Tensor) -> Tensor:
    """The next average; integers, such as counts of batches, are rounded down as a copy into them would be."""
    updated = average(mean, parameter, count)
    return updated if is_float(mean.dtype) or updated.dtype == mean.dtype else updated.astype(mean.dtype)


def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Compute the running statistics of a model's batch normalisation again, over all batches of ``loader``.

    A batch is a tensor, or a tuple or list that begins with one. Statistics are plain means over the batches. Layers
    and momenta are as before afterwards.
    """
    layers: list[Any] = [module for module in model.modules() if getattr(module, "running_mean", None) is not None]
    if not layers:
        return
    modes = [(module, module.training) for module in model.modules()]
    momenta = [layer.momentum for layer in layers]
    model.train()
    with no_grad():
        for layer in layers:
            layer.running_mean[...] = 0.0
            layer.running_var[...] = 1.0
            layer.num_batches_tracked[...] = 0
        for number, batch in enumerate(loader):
            x = batch[0] if isinstance(batch, list | tuple) else batch
            for layer in layers:
                layer.momentum = 1.0 / (number + 1)
            model(x if device is None else x.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    for module, training in modes:
        module.training = training


class SWALR(LRScheduler):
    """Rates that go to ``swa_lr`` in ``anneal_epochs``, by a cosine ("cos") or a line ("linear"), and stay there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        optimizer_of(optimizer)
        if anneal_strategy not in ("cos", "linear"):
            raise JitgraphError(f"SWALR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        if anneal_epochs < 0:
            raise JitgraphError(f"SWALR: anneal_epochs is {anneal_epochs}; it must not be negative")
        self.anneal_epochs, self._is_cosine = anneal_epochs, anneal_strategy == "cos"
        for group, rate in zip(optimizer.param_groups, for_groups("swa_lr", swa_lr, optimizer), strict=True):
            group["swa_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of the epoch before, nearer to ``swa_lr``: each is a mixture of that and the rate at the start."""
        if self.anneal_epochs == 0:
            return [group["swa_lr"] for group in self.optimizer.param_groups]
        share = "(1.0 - math.cos(pi * {0} / span)) / 2.0" if self._is_cosine else "1.0 * {0} / span"
        now, before = (share.format(f"max(0, min(span, {epoch}))") for epoch in ("epoch", "epoch - 1"))
        text = f"lr if first else swa + (lr - swa) / (1.0 - {before}) * (1.0 - {now}) if epoch <= span else swa"
        numbers = {"epoch": self.last_epoch, "span": self.anneal_epochs, "pi": math.pi}
        first = self._is_initial
        return [
            host_formula(text, lr=group["lr"], swa=group["swa_lr"], first=first, **numbers)
            for group in self.optimizer.param_groups
        ]
