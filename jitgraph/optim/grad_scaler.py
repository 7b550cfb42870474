"""Loss scaling for float16 (Micikevicius et al. 2018, "Mixed precision training")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jitgraph.autograd import no_grad
from jitgraph.dtypes import bool_, float16, float32, float64, int32
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.optim.lbfgs import LBFGS
from jitgraph.optim.optimizer import Optimizer, bring
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.creation import asarray, zeros
from jitgraph.tensor.functions.elementwise import isfinite, where
from jitgraph.tensor.functions.reductions import all as every


class GradScaler:
    """Scales the loss so that small gradients stay above float16's smallest numbers; steps with infinities are skipped.

    ``scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()``. Where a gradient is not finite, the
    step leaves parameters and the optimiser's state as they were, and ``update`` multiplies the scale by
    ``backoff_factor``; after ``growth_interval`` steps in a row it multiplies it by ``growth_factor``. All of it may
    stand in a traced step: the choice is made in the compiled code. The scale goes to the device of what is scaled,
    whatever ``device`` says; this and other names are PyTorch's.
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not growth_factor > 1.0 or not 0.0 < backoff_factor < 1.0:
            actual = f"growth_factor={growth_factor}, backoff_factor={backoff_factor}"
            raise JitgraphError(f"GradScaler: the first is above 1, the second between 0 and 1, not {actual}")
        if not init_scale > 0.0 or growth_interval < 1:
            actual = f"init_scale={init_scale}, growth_interval={growth_interval}"
            raise JitgraphError(f"GradScaler: the scale is above 0 and the interval at least 1, not {actual}")
        self._enabled = enabled
        self._growth_factor, self._backoff_factor = float(growth_factor), float(backoff_factor)
        self._growth_interval = growth_interval
        self._scale = asarray(float(init_scale), dtype=float32)
        self._growth_tracker = zeros((), dtype=int32)
        self._unscaled: tuple[tuple[Optimizer, Tensor, bool], ...] = ()  # since the last update; whether it stepped

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that ``jg.save`` takes as state, by name."""
        yield "scale", self._scale
        yield "growth_tracker", self._growth_tracker

    def scale(self, outputs: Any) -> Any:
        """A loss, or a tuple or list of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            bring((self._scale, self._growth_tracker), outputs.device)
            return outputs * self._scale
        if isinstance(outputs, tuple | list):
            return type(outputs)(self.scale(output) for output in outputs)
        raise JitgraphError(f"GradScaler.scale takes tensors, not a {type(outputs).__name__}")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimiser's parameters by the scale, as clipping them before ``step`` needs.

        JitgraphError where that was done since the last ``update``, or for float16 gradients.
        """
        if not self._enabled:
            return
        if self._of(optimizer) is not None:
            raise JitgraphError("the gradients of this optimiser were unscaled already\n  hint: scaler.update() first")
        with no_grad():
            inverse = (1.0 / self._scale.astype(float64)).astype(float32)
            finite = None
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype == float16:
                        raise JitgraphError(
                            "a float16 gradient cannot be unscaled: what it holds may be too small already\n"
                            "  hint: keep parameters in float32, and compute under jg.amp.autocast"
                        )
                    parameter.grad = grad * inverse.to(grad.device).astype(grad.dtype)
                    all_finite = every(isfinite(grad))
                    finite = all_finite if finite is None else finite & all_finite.to(finite.device)
            skip = asarray(False, dtype=bool_) if finite is None else ~finite
        self._unscaled = (*self._unscaled, (optimizer, skip, False))

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()`` where all gradients are finite, after unscaling them where that was not done.

        Outside of traces a skipped step gives None. JitgraphError for a closure, and for two steps before ``update``.
        """
        if args or kwargs:
            raise JitgraphError("GradScaler.step takes no closure, whose gradients would not be unscaled")
        if not self._enabled:
            return optimizer.step()
        if self._of(optimizer) is None:
            self.unscale_(optimizer)
        entry = self._of(optimizer)
        assert entry is not None
        if entry[2]:
            raise JitgraphError("this optimiser stepped already\n  hint: scaler.update() after each step")
        self._unscaled = tuple((o, skip, o is optimizer or done) for o, skip, done in self._unscaled)
        skip = entry[1]
        if context.current().trace is None:
            return None if skip.item() else optimizer.step()
        if isinstance(optimizer, LBFGS):
            return optimizer.step()  # which says that it stands outside of traces
        return _step_unless(skip, optimizer)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next step: to ``new_scale``, or by what the gradients of this one were.

        JitgraphError where no optimiser was unscaled or stepped since the last update.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale[...] = new_scale
            self._unscaled = ()
            return
        if not self._unscaled:
            raise JitgraphError(
                "GradScaler.update() before a step\n  hint: scaler.step(optimizer), then scaler.update()"
            )
        with no_grad():
            skip = self._unscaled[0][1]
            for _, other, _ in self._unscaled[1:]:
                skip = skip | other.to(skip.device)
            skip = skip.to(self._scale.device)
            good = self._growth_tracker + 1
            grown = self._scale * self._growth_factor
            due = good >= self._growth_interval
            larger = where(due & isfinite(grown), grown, self._scale)
            scale = where(skip, self._scale * self._backoff_factor, larger)
            count = where(skip | due, self._growth_tracker * 0, good)
            self._scale[...] = scale
            self._growth_tracker[...] = count
        self._unscaled = ()

    def _of(self, optimizer: Optimizer) -> tuple[Optimizer, Tensor, bool] | None:
        for entry in self._unscaled:
            if entry[0] is optimizer:
                return entry
        return None

    def get_scale(self) -> float:
        """The scale, outside of traces; 1.0 where the scaler is not enabled."""
        return float(self._scale.item()) if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it grows."""
        self._growth_factor = float(new_factor)

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a step that was skipped."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after a step that was skipped."""
        self._backoff_factor = float(new_factor)

    def get_growth_interval(self) -> int:
        """After how many steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps in a row the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and what it follows, as numbers by PyTorch's names; nothing where the scaler is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": int(self._growth_tracker.item()),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave, here or in PyTorch; JitgraphError where it is no state of a scaler."""
        if not self._enabled:
            return
        if missing := self.state_dict().keys() - state_dict.keys():
            what = f"this is no state of a GradScaler: it has no {sorted(missing)}"
            raise JitgraphError(f"{what}\n  hint: a scaler with enabled=False saves nothing")
        self._growth_factor = float(state_dict["growth_factor"])
        self._backoff_factor = float(state_dict["backoff_factor"])
        self._growth_interval = int(state_dict["growth_interval"])
        self._scale[...] = float(state_dict["scale"])
        self._growth_tracker[...] = int(state_dict["_growth_tracker"])


def _step_unless(skip: Tensor, optimizer: Optimizer) -> Any:
    """A step of which the compiled code keeps nothing where ``skip`` is true."""
    handles = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    handles += [tensor for state in optimizer._states for tensor in state.values() if isinstance(tensor, Tensor)]
    before = [handle.value for handle in handles]
    result = optimizer.step()
    with no_grad():
        for handle, old in zip(handles, before, strict=True):
            if handle.value is not old:
                selected = where(skip.to(handle.device), wrap(old), handle.detach())
                handle._rebind(selected.value)
    return result
