"""What optimisers share: parameter groups, state made at construction, saving and loading.

State (moments, counts) consists of tensors made when the optimiser is made, so that a traced step has the same inputs
on its first call as on every later one. Settings are floats of their own in each group (``beta1`` and ``beta2`` for
PyTorch's ``betas``), so that each may change from call to call of a trace; state dicts have PyTorch's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from jitgraph.autograd import enable_grad, no_grad
from jitgraph.dtypes import is_complex
from jitgraph.eager import placement
from jitgraph.eager.handle import COMPUTED
from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.nn import hooks
from jitgraph.nn.module import Parameter
from jitgraph.optim.settings import ParameterTypeError, Setting, SettingError, SettingsGroup, require_in_range
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.complex_numbers import view_as_complex, view_as_real
from jitgraph.tensor.functions.creation import asarray, zeros_like
from jitgraph.tensor.gradients import zeroed


class Optimizer:
    """Base class of optimisers. ``params`` is an iterable of parameters, or of dicts with "params" and own settings.

    Pairs of names and parameters, as ``named_parameters()`` gives, are taken, too; a group has the "param_names" then.

    JitgraphError for no parameters, one given twice, results computed from parameters, and settings out of range.
    """

    PAIRS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """PyTorch's settings that are several numbers, and the names of those numbers here."""

    HIDDEN: ClassVar[tuple[str, ...]] = ()
    """State that PyTorch's optimiser of this name does not have."""

    _step_hooks: tuple[hooks.Hook, ...] = ()
    _state_hooks: tuple[hooks.Hook, ...] = ()

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if not self._steps_itself():
            require_in_range(defaults)
        if not isinstance(params, Iterable) or isinstance(params, Tensor | Mapping):
            fix = "model.parameters()" if hasattr(params, "parameters") else "a list: [parameter]"
            raise ParameterTypeError(
                f"an optimiser takes parameters, not a {type(params).__name__}\n  hint: write {fix}"
            )
        entries = list(params)
        if not entries:
            what = "an optimiser needs at least one parameter"
            fix = "call model.parameters() again, which gives them once; modules in a plain list need jg.nn.ModuleList"
            raise SettingError(f"{what}\n  hint: {fix}")
        self.defaults = self._group(defaults)
        self.param_groups: list[dict[str, Any]] = []
        self._states: list[dict[str, Any]] = []  # of the parameters of all groups, in their order
        for group in entries if isinstance(entries[0], dict) else [{"params": entries}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Take more parameters, with own settings: ``{"params": [...], "lr": 0.1}``; the errors are the constructor's.

        A function that was traced before is traced anew.
        """
        members = param_group["params"]
        members = [members] if isinstance(members, Tensor) else list(members)
        names: dict[str, Any] = {}
        pairs = [isinstance(member, tuple) and len(member) == 2 for member in members]
        if members and all(pairs):
            names = {"param_names": [name for name, _ in members]}
            members = [member for _, member in members]
        named = bool(names) or "param_names" in param_group
        if (any(pairs) and not all(pairs)) or any(("param_names" in other) != named for other in self.param_groups):
            raise SettingError("an optimiser takes all parameters with names, or all without")
        known = {id(p) for p in self._parameters()}
        for member in members:
            if not isinstance(member, Tensor):
                raise ParameterTypeError(
                    f"an optimiser takes parameters, not a {type(member).__name__}\n  hint: model.parameters()"
                )
            if member.requires_grad and not member.is_leaf:
                raise SettingError(
                    "an optimiser takes parameters, not results computed from them\n  hint: x.detach(), a new leaf"
                )
            if id(member) in known:
                raise SettingError("a parameter is given to the optimiser twice")
            known.add(id(member))
        own = self._own_settings({**param_group, "params": members})
        settings = self._group({"params": members, **self.defaults, **own, **names})
        if not self._steps_itself():
            require_in_range({name: settings[name] for name in self.defaults})
        states = [self._begun_state(p, settings) for p in members]
        self.param_groups.append(settings)
        self._states.extend(states)

    @property
    def state(self) -> Any:
        """The state of each parameter, ``optimizer.state[parameter]``, a dict of tensors by PyTorch's names.

        A parameter's number among those of all groups stands for it. A class that steps by itself may keep what it
        wants there, and may set ``state`` to a dict of its own.
        """
        return vars(self).get("_own_state", States(self))

    @state.setter
    def state(self, state: Any) -> None:
        vars(self)["_own_state"] = state

    def _each_state(self) -> list[dict[str, Any]]:
        """The state of each parameter in their order, of a class that keeps its own, too."""
        own_state = vars(self).get("_own_state")
        return self._states if own_state is None else [own_state.setdefault(p, {}) for p in self._parameters()]

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that ``jg.save`` takes as state, by name; parameters are their modules'."""
        for number, state in enumerate(self._each_state()):
            yield from ((f"state.{number}.{name}", each) for name, each in state.items() if isinstance(each, Tensor))
        for number, group in enumerate(self.param_groups):
            tensors = ((name, each) for name, each in group.items() if isinstance(each, Tensor))
            yield from ((f"param_groups.{number}.{name}", each) for name, each in tensors)

    def _steps_itself(self) -> bool:
        """Whether a class defines ``step`` alone, as PyTorch's do, with settings and state of its own meaning."""
        return type(self).update is Optimizer.update

    def _group(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as a group, where the class has pairs that PyTorch has another name for."""
        if not self.PAIRS:
            return dict(settings)
        group = SettingsGroup(settings)
        group.pairs = self.PAIRS
        return group

    def _own_settings(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """A group's settings by their names here, as floats where the defaults are."""
        own = {key: value for key, value in group.items() if key not in self.PAIRS}
        for theirs, ours in self.PAIRS.items():
            if theirs in group:
                own.update(zip(ours, group[theirs], strict=True))
        for name in own.keys() & self.defaults:
            if isinstance(self.defaults[name], float) and own[name] is not None:
                own[name] = float(own[name])
        return own

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """The state tensors of one parameter before the first step, for the settings of its group."""
        return {}

    def _begun_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """``initial_state``, in the class of tensors that the optimiser's family has."""
        return self.initial_state(parameter, group)

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter, rebinding it and its state."""
        raise NotImplementedError

    def add_missing_state(self) -> None:
        """Make the state of settings that were switched on after the optimiser was made, such as a momentum.

        Eager steps do so by themselves; before a traced step it has to be there.
        """
        states = iter(self._states)
        for group in self.param_groups:
            for parameter in group["params"]:
                self._complete(next(states), parameter, group)

    def _complete(self, state: dict[str, Any], parameter: Parameter, group: Mapping[str, Any]) -> None:
        fresh = self._begun_state(parameter, group)
        if fresh.keys() <= state.keys():
            return
        if context.current().trace is not None:
            raise TraceError(
                f"a setting of {type(self).__name__} that needs state of its own ({', '.join(sorted(fresh))}) was "
                "switched on after the optimiser was made",
                hint="call optimizer.add_missing_state() before the traced step",
            )
        state.update({name: value for name, value in fresh.items() if name not in state})

    def _parameters(self) -> Iterator[Parameter]:
        for group in self.param_groups:
            yield from group["params"]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set ``.grad`` of every parameter to None, or those that are there to zeros."""
        if not set_to_none:
            for parameter in self._parameters():
                if parameter.grad is not None:
                    parameter.grad = zeroed(parameter.grad, zeros_like(parameter.grad))
            return
        for parameter in self._parameters():
            parameter.grad = None

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; ``closure()``, if given, is called first and its result returned.

        The closure computes the loss and its gradients, with gradients enabled.
        """
        self._run_hooks("before", (closure,), {})
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._step()
        self._run_hooks("after", (closure,), {})
        return loss

    def _run_hooks(self, when: str, *args: Any) -> None:
        for kind, hook, _ in self._step_hooks:
            if kind == when:
                hook(self, *args)

    def _step(self) -> None:
        states = iter(self._states)
        with no_grad():
            for group in self.param_groups:
                setting = Setting(group)
                for parameter in group["params"]:
                    state = next(states)
                    if parameter.grad is not None:
                        _follow(parameter, state)
                        grad = -parameter.grad if group.get("maximize") else parameter.grad
                        if is_complex(parameter.dtype):
                            self._update_complex(parameter, grad, state, setting)
                        else:
                            self.update(parameter, grad, state, setting)

    def _update_complex(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for the real and imaginary parts as parameters of their own, which is PyTorch's rule."""
        self._complete(state, parameter, setting.group)
        complex_state = {name: value for name, value in state.items() if is_complex(value.dtype)}
        parts = {name: view_as_real(value) for name, value in complex_state.items()}
        moved: Any = view_as_real(parameter.detach())
        self.update(moved, view_as_real(grad), {**state, **parts}, setting)
        for value, real_view in [(parameter, moved), *((value, parts[name]) for name, value in complex_state.items())]:
            value._rebind(view_as_complex(real_view).value)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> hooks.RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; returns a handle with ``remove()``."""
        return hooks.registered(self, "before", hook, at="_step_hooks")

    def register_step_post_hook(self, hook: Callable[..., Any]) -> hooks.RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step; returns a handle with ``remove()``."""
        return hooks.registered(self, "after", hook, at="_step_hooks")

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> hooks.RemovableHandle:
        """Call ``hook(optimizer)`` before a state dict is made; returns a handle with ``remove()``."""
        return hooks.registered(self, "saving", hook, first=prepend, at="_state_hooks")

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> hooks.RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` when one is made; what it returns, if anything, is returned instead."""
        return hooks.registered(self, "saved", hook, first=prepend, at="_state_hooks")

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> hooks.RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before a load; what it returns, if anything, is loaded instead."""
        return hooks.registered(self, "loading", hook, first=prepend, at="_state_hooks")

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> hooks.RemovableHandle:
        """Call ``hook(optimizer)`` after a state dict is loaded; returns a handle with ``remove()``."""
        return hooks.registered(self, "loaded", hook, first=prepend, at="_state_hooks")

    def _changed(self, when: str, state: Any) -> Any:
        """A state dict as the hooks that get one return it."""
        for kind, hook, _ in self._state_hooks:
            if kind == when:
                changed = hook(self, state)
                state = state if changed is None else changed
        return state

    def _notify(self, when: str) -> None:
        for kind, hook, _ in self._state_hooks:
            if kind == when:
                hook(self)

    def __getstate__(self) -> dict[str, Any]:
        """What pickles and copies have: all but the hooks, as in PyTorch."""
        return {name: value for name, value in vars(self).items() if name not in ("_step_hooks", "_state_hooks")}

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            text += "".join(
                f"    {name}: {value}\n"
                for name, value in sorted(self._saved_settings(group).items())
                if name != "params"
            )
        return text + ")"

    # --- saving and loading ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State as NumPy arrays by parameter number, and the groups' settings with parameter numbers.

        Structure and names are PyTorch's; a parameter that was never stepped has no state in it.
        """
        self._notify("saving")
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [group for group in self.param_groups for _ in group["params"]]
        saved = {
            i: {name: self._saved(value) for name, value in state.items()}
            for i, (state, group) in enumerate(zip(self._each_state(), groups, strict=True))
            if not self.is_fresh(state, group)
        }
        result = {
            "state": {i: {k: v for k, v in s.items() if k not in self.HIDDEN} for i, s in saved.items()},
            "param_groups": [
                {**self._saved_settings(group), "params": [numbers[id(p)] for p in group["params"]]}
                for group in self.param_groups
            ],
        }
        changed: dict[str, Any] = self._changed("saved", result)
        return changed

    def _saved(self, value: Any) -> Any:
        """What a state dict has of an entry of a state."""
        if isinstance(value, list):
            return [self._saved(item) for item in value]
        return np.array(value.detach().cpu().numpy()) if isinstance(value, Tensor) else value

    def is_fresh(self, state: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
        """Whether a parameter's state is that before its first step."""
        return not state or (not self._steps_itself() and bool(state["step"].item() == 0))

    def _saved_settings(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """A group's settings by PyTorch's names and in its order; a pair stands where its first number does."""
        pairs = {ours[0]: theirs for theirs, ours in self.PAIRS.items()}
        numbers = {name for ours in self.PAIRS.values() for name in ours}
        saved: dict[str, Any] = {}
        for name, value in group.items():
            if name in pairs:
                saved[pairs[name]] = tuple(group[each] for each in self.PAIRS[pairs[name]])
            elif name not in numbers and name != "params":
                saved[name] = value
        return saved

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave, here or in PyTorch, for the same parameters in the same groups.

        All or nothing; a parameter without state there is as before its first step. JitgraphError where it is no
        state of an optimiser, or of another one.
        """
        state = self._changed("loading", dict(state_dict))
        if missing := [key for key in ("state", "param_groups") if key not in state]:
            what = f"this is no state of an optimiser: it has no {missing[0]!r}"
            raise JitgraphError(f"{what}\n  hint: pass what optimizer.state_dict() gave, not a model's")
        groups = state["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise SettingError("the saved optimiser has other parameter groups")
        settings = [{k: v for k, v in self._own_settings(group).items() if k != "params"} for group in groups]
        for own in settings:
            if missing := sorted(k for k, v in self.defaults.items() if isinstance(v, float) and k not in own):
                raise JitgraphError(
                    f"this is the state of another optimiser than {type(self).__name__}: "
                    f"a parameter group has no {', '.join(missing)}"
                )
        every, numbers = state["state"], [number for group in groups for number in group["params"]]
        owners = [
            (p, {**group, **own})
            for group, own in zip(self.param_groups, settings, strict=True)
            for p in group["params"]
        ]
        fresh: list[tuple[Tensor, Any]] = []
        for number, own, (parameter, group) in zip(numbers, self._each_state(), owners, strict=True):
            saved = every.get(number, every.get(str(number)))
            if self._steps_itself():
                own.clear()
                own.update({name: _taken(value, parameter) for name, value in (saved or {}).items()})
                continue
            fresh += self._loaded(number, own, saved or self.initial_state(parameter, group), saved is not None)
        for tensor, value in fresh:
            tensor._rebind(wrap(value).to(tensor.device).value)
        for group, own in zip(self.param_groups, settings, strict=True):
            group.update(own)
        if not self._steps_itself():
            self.add_missing_state()
        self._notify("loaded")

    def _loaded(
        self, number: int, own: dict[str, Any], saved: Mapping[str, Any], has_saved: bool
    ) -> list[tuple[Tensor, Any]]:
        """Each of a parameter's state tensors with the value that it gets."""
        if has_saved:
            saved = {**{name: 1 for name in self.HIDDEN if name in own}, **saved}
        theirs = {name for name, value in saved.items() if value is not None}
        if theirs != own.keys():
            shown = sorted(own.keys() - set(self.HIDDEN))
            raise JitgraphError(
                f"the saved state of parameter {number} has {sorted(theirs - set(self.HIDDEN))}, not {shown}\n"
                "  hint: make this optimiser with the settings of the saved one"
            )
        pairs = []
        for name, tensor in own.items():
            value = asarray(saved[name]).value
            if tuple(value.shape) != tuple(tensor.shape):
                shapes = f"shape {tuple(value.shape)}, not {tuple(tensor.shape)}"
                raise JitgraphError(f"the saved {name} of parameter {number} has {shapes}")
            pairs.append((tensor, lifting.cast(value, tensor.dtype)))
        return pairs


class States(Mapping[Tensor, dict[str, Any]]):
    """The state of each parameter of an optimiser by the parameter itself, or by its number."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def __getitem__(self, parameter: Tensor | int) -> dict[str, Any]:
        states = self._optimizer._states
        if isinstance(parameter, int):
            return states[parameter]
        for other, state in zip(self, states, strict=True):
            if other is parameter:
                return state
        raise KeyError("this tensor is no parameter of the optimiser")

    def __iter__(self) -> Iterator[Tensor]:
        return self._optimizer._parameters()

    def __contains__(self, parameter: object) -> bool:
        return any(other is parameter for other in self)

    def __len__(self) -> int:
        return len(self._optimizer._states)

    def __repr__(self) -> str:
        return repr(self._optimizer._states)


def _taken(value: Any, parameter: Tensor) -> Any:
    """Saved state of a class that steps by itself: arrays as tensors beside the parameter, other things as they are."""
    return asarray(value).to(parameter.device) if hasattr(value, "dtype") and hasattr(value, "shape") else value


def _follow(parameter: Tensor, state: Mapping[str, Any]) -> None:
    """Bring state that was made, or loaded, before its parameter went to another device there.

    The values are the same, so a trace, in which this happens before it reads them, has nothing to undo.
    """
    there = parameter._value
    if isinstance(there, COMPUTED):
        bring(state.values(), there.device)


def bring(tensors: Iterable[Tensor], device: str) -> None:
    """Put what tensors hold on a device, which is no change of their values."""
    for tensor in tensors:
        value = tensor._value
        if isinstance(value, COMPUTED) and value.device != device:
            tensor._value = placement.copied(value, device)
