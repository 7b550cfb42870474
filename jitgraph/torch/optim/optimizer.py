"""``torch.optim.Optimizer``, and jitgraph's optimisers as its subclasses."""

# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jitgraph.optim.optimizer import Optimizer as JitgraphOptimizer
from jitgraph.torch.tensors import adopted

_OPTIMIZERS: Final[dict[type, type]] = {}


class Optimizer(JitgraphOptimizer):
    """Base class of optimisers, whose state consists of ``torch.Tensor``."""

    @property
    def state(self) -> Any:
        """The state of each parameter, ``optimizer.state[parameter]``: a dict of tensors by name.

        Where it is set, each parameter takes the state that is there for it, or begins anew.
        """
        return JitgraphOptimizer.state.fget(self)  # type: ignore[attr-defined]

    @state.setter
    def state(self, state: Mapping[Any, Any]) -> None:
        if self._steps_itself():
            JitgraphOptimizer.state.fset(self, state)  # type: ignore[attr-defined]
            return
        number = 0
        for group in self.param_groups:
            for parameter in group["params"]:
                own = dict(state[parameter]) if parameter in state else {}
                self._states[number] = own or self._begun_state(parameter, group)
                number += 1

    def _begun_state(self, parameter: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        return adopted(self.initial_state(parameter, group))  # type: ignore[no-any-return]

    def _saved(self, value: Any) -> Any:
        return adopted(value)


def optimizer(kind: type[JitgraphOptimizer]) -> type[Optimizer]:
    """The class of PyTorch that an optimiser of jitgraph's is: a subclass of it and of ``Optimizer``, made once."""
    if kind not in _OPTIMIZERS:
        members = {"__module__": __package__, "__doc__": kind.__doc__}
        _OPTIMIZERS[kind] = type(kind.__name__, (kind, Optimizer), members)
    return _OPTIMIZERS[kind]
