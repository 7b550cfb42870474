"""What optimisers share: parameter groups, state made at construction, saving and loading.

State (moments, counts) consists of tensors made when the optimiser is made, so that a traced step has the same inputs
on its first call as on every later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from jitgraph.autograd import no_grad
from jitgraph.eager import placement
from jitgraph.eager.handle import COMPUTED
from jitgraph.errors import JitgraphError
from jitgraph.nn.module import Parameter
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tracing.host import host_float


class Optimizer:
    """Base of optimisers. ``params`` is an iterable of parameters, or of dicts with "params" and own settings.

    JitgraphError for no parameters, one given twice, results computed from parameters, and settings out of range.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if not isinstance(params, Iterable) or isinstance(params, Tensor | Mapping):
            way = "model.parameters()" if hasattr(params, "parameters") else "a list: [parameter]"
            raise JitgraphError(f"an optimiser takes parameters, not a {type(params).__name__}\n  hint: write {way}")
        given = list(params)
        if not given:
            what = "an optimiser needs at least one parameter"
            raise JitgraphError(f"{what}\n  hint: a generator gives its parameters once; call model.parameters() again")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        self.param_groups: list[dict[str, Any]] = []
        seen: set[int] = set()
        for group in groups:
            members = group["params"]
            members = [members] if isinstance(members, Tensor) else list(members)
            for member in members:
                if not isinstance(member, Tensor):
                    raise JitgraphError(
                        f"an optimiser takes parameters, not a {type(member).__name__}\n  hint: model.parameters()"
                    )
                if member.requires_grad and not member.is_leaf:
                    raise JitgraphError(
                        "an optimiser takes parameters, not results computed from them\n  hint: x.detach(), a new leaf"
                    )
                if id(member) in seen:
                    raise JitgraphError("a parameter is given to the optimiser twice")
                seen.add(id(member))
            own = {**group, **self.renamed(group)}
            floats = {name: float(own[name]) for name in own.keys() & defaults if isinstance(defaults[name], float)}
            settings = {**defaults, **own, **floats, "params": members}
            if settings["lr"] < 0:
                raise JitgraphError(f"the learning rate is {settings['lr']}; it must not be negative")
            for name in ("eps", "weight_decay", "momentum"):
                if settings.get(name, 0.0) < 0:
                    raise JitgraphError(f"{name} is {settings[name]}; it must not be negative")
            for name in ("beta1", "beta2"):
                if not 0.0 <= settings.get(name, 0.0) < 1.0:
                    raise JitgraphError(f"{name} is {settings[name]}; it must lie between 0 and 1, and below 1")
            self.param_groups.append(settings)
        self.state: list[dict[str, Tensor]] = [
            self.initial_state(p, group) for group in self.param_groups for p in group["params"]
        ]

    def renamed(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a group that go by another name here."""
        return {}

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Tensor]:
        """The state tensors of one parameter before the first step, for the settings of its group."""
        raise NotImplementedError

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Tensor], setting: Setting) -> None:
        """One step for one parameter, rebinding it and its state."""
        raise NotImplementedError

    def _parameters(self) -> Iterator[Parameter]:
        for group in self.param_groups:
            yield from group["params"]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set ``.grad`` of every parameter to None, or those that are there to zeros."""
        if not set_to_none:
            for parameter in self._parameters():
                if parameter.grad is not None:
                    parameter.grad = zeros_like(parameter.grad)
            return
        for parameter in self._parameters():
            parameter.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        states = iter(self.state)
        with no_grad():
            for group in self.param_groups:
                setting = Setting(group)
                for parameter in group["params"]:
                    state = next(states)
                    if parameter.grad is not None:
                        _follow(parameter, state)
                        self.update(parameter, parameter.grad, state, setting)

    def state_dict(self) -> dict[str, Any]:
        """State as NumPy arrays by parameter number, and the groups' settings with parameter numbers."""
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        return {
            "state": {
                i: {k: np.array(v.detach().cpu().numpy()) for k, v in state.items()}
                for i, state in enumerate(self.state)
            },
            "param_groups": [
                {**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave, for the same parameters in the same groups; all or nothing.

        JitgraphError where it is no state of an optimiser, or of another one.
        """
        if missing := [key for key in ("state", "param_groups") if key not in state]:
            what = f"this is no state of an optimiser: it has no {missing[0]!r}"
            raise JitgraphError(f"{what}\n  hint: pass what optimizer.state_dict() gave, not a model's")
        groups = state["param_groups"]
        every = state["state"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise JitgraphError("the saved optimiser has other parameter groups")
        fresh = []
        for i, own in enumerate(self.state):
            saved = every.get(i, every.get(str(i), {}))
            if saved.keys() != own.keys():
                raise JitgraphError(f"the saved state of parameter {i} has {sorted(saved)}, not {sorted(own)}")
            for name, tensor in own.items():
                array = np.asarray(saved[name])
                if array.shape != tuple(tensor.shape):
                    raise JitgraphError(
                        f"the saved {name} of parameter {i} has shape {array.shape}, not {tensor.shape}"
                    )
                fresh.append((tensor, lifting.cast(lifting.value_of(array), tensor.dtype)))
        for tensor, value in fresh:
            tensor._rebind(wrap(value).to(tensor.device).value)
        for group, saved in zip(self.param_groups, groups, strict=True):
            group.update({k: v for k, v in saved.items() if k != "params"})


def _follow(parameter: Tensor, state: Mapping[str, Tensor]) -> None:
    """Bring state that was made, or loaded, before its parameter went to another device there.

    The values are the same, so a trace, in which this happens before it reads them, has nothing to undo.
    """
    there = parameter._value
    for tensor in state.values():
        value = tensor._value
        if isinstance(value, COMPUTED) and isinstance(there, COMPUTED) and value.device != there.device:
            tensor._value = placement.copied(value, there.device)


class Setting:
    """A group's settings as an update reads them: floats become inputs of a traced step, so they may change freely."""

    def __init__(self, group: dict[str, Any]) -> None:
        self.group = group

    def __getitem__(self, name: str) -> Any:
        return host_float(self.group, name) if isinstance(self.group[name], float) else self.group[name]

    def is_zero(self, name: str) -> bool:
        """Whether a setting is 0, which leaves out its part of the update."""
        return bool(self.group[name] == 0)
