"""Module and Parameter: PyTorch's terms, with plain attributes for state; state dicts, other dtypes and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jitgraph.autograd import no_grad
from jitgraph.dtypes import bfloat16, canonical, float16, float32, float64, is_float
from jitgraph.eager import placement
from jitgraph.eager.handle import NATIVE_CLASSES
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.location import MODULE_CALLS
from jitgraph.nn import hooks
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import asarray, zeros_like
from jitgraph.tensor.gradients import zeroed
from jitgraph.tensor.lifting import TensorLike

# ----------------------------------------------------------------------
# What a module holds of one kind, as a dict by name: a view of the module's attributes.

T = TypeVar("T")


class AttributeView(MutableMapping[str, T]):
    """The attributes of a module of which ``pick(name, value)`` is true; what is set or deleted is set there.

    A name that holds None there, as a bias that was left out, gives None without being listed.
    """

    def __init__(self, module: Any, pick: Callable[[str, Any], bool]) -> None:
        self._module, self._pick = module, pick

    def _names(self) -> list[str]:
        return [name for name, value in vars(self._module).items() if self._pick(name, value)]

    def __getitem__(self, name: str) -> T:
        attributes = vars(self._module)
        if name not in attributes or not (attributes[name] is None or self._pick(name, attributes[name])):
            raise KeyError(name)
        return attributes[name]  # type: ignore[no-any-return]

    def __setitem__(self, name: str, value: T) -> None:
        if value is None or self._pick(name, value):
            setattr(self._module, name, value)
        else:  # a plain tensor in the place of a parameter, which is meant where it is set here
            vars(self._module)[name] = value

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))


# ----------------------------------------------------------------------
# State dicts of modules: making them, and setting parameters and buffers from one, all or none.

_EXTRA = "_extra_state"


class Keys(NamedTuple):
    """What ``load_state_dict`` found no place or no value for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def save(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> dict[str, Any]:
    """As ``Module.state_dict``, into ``destination``; modules below are asked for their own."""
    metadata = module._described(destination, prefix)
    _run(module, "saving", prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module.named_children():
        child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for when, hook, _ in module._state_hooks:
        if when == "saved":
            changed = hook(module, destination, prefix, metadata)
            destination = destination if changed is None else changed
    return destination


def _has_extra(module: Module) -> bool:
    """Whether a class of the module's defines ``get_extra_state``, which the base of all only refuses."""
    definer = next(kind for kind in type(module).__mro__ if "get_extra_state" in vars(kind))
    return definer.__module__ != "jitgraph.nn.module"


def _run(module: Module, when: str, *args: Any) -> None:
    for kind, hook, _ in module._state_hooks:
        if kind == when:
            hook(module, *args)


def _prepared(module: Module, state: Mapping[str, Any], strict: bool) -> tuple[dict[str, Any], list[str]]:
    """A copy of a state dict as hooks and classes have changed it, and what they object to."""
    prepared, errors = dict(state), list[str]()
    keys: tuple[list[str], list[str]] = ([], [])
    metadata = getattr(state, "_metadata", {})  # PyTorch's, of each module
    for path, part in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        hook_args: tuple[Any, ...] = (prepared, prefix, metadata.get(path, {}), strict, *keys, errors)
        for when, hook, with_module in part._state_hooks:
            if when == "loading":
                hook(part, *hook_args) if with_module else hook(*hook_args)
        part._load_from_state_dict(*hook_args)
    return prepared, errors


def load(module: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> Keys:
    """As ``Module.load_state_dict``; the texts of errors are PyTorch's."""
    if not isinstance(state_dict, Mapping):
        raise JitgraphError(f"load_state_dict takes a dict of arrays by name, not a {type(state_dict).__name__}")
    state, problems = _prepared(module, state_dict, strict)
    waiting: Any
    for path, waiting in module.named_modules():
        if waiting._deferred is not None:
            waiting.materialize_from(state, f"{path}." if path else "")
    own = dict(module._persistent())
    extra = {f"{path}.{_EXTRA}" if path else _EXTRA: part for path, part in module.named_modules() if _has_extra(part)}
    expected_keys = [*own, *extra]
    keys = Keys(
        [name for name in expected_keys if name not in state],
        [name for name in state if name not in own and name not in extra],
    )
    values, mismatches = _values(own, state, assign)
    hooked = any(when == "loaded" for part in module.modules() for when, _, _ in part._state_hooks)
    if problems or mismatches or not hooked:
        _complain(module, [*problems, *_misses(keys, strict)], mismatches)
    before = [own[name].value for name in values]
    _set(own, values.items(), assign)
    if hooked:  # which may change what is missing, and see the new values
        for part in module.modules():
            _run(part, "loaded", keys)
        misses = _misses(keys, strict)
        if misses:
            _set(own, zip(values, before, strict=True), True)
        _complain(module, misses, [])
    for name, part in extra.items():
        if name in state:
            part.set_extra_state(state[name])
    return keys


def _values(own: Mapping[str, Tensor], state: Mapping[str, Any], assign: bool) -> tuple[dict[str, Any], list[str]]:
    """The value of each tensor that the state has, and which shapes differ."""
    values, mismatches = {}, []
    for name, tensor in own.items():
        if name not in state:
            continue
        entry = state[name]
        value = entry.detach().value if isinstance(entry, Tensor) else asarray(entry).value
        if tuple(value.type.shape) != tuple(tensor.shape):
            mismatches.append(
                f"size mismatch for {name}: copying a param with shape {tuple(value.type.shape)} from checkpoint, "
                f"the shape in current model is {tuple(tensor.shape)}."
            )
        elif not assign:
            values[name] = lifting.cast(value, tensor.dtype)
        elif is_float(value.dtype) == is_float(tensor.dtype):
            values[name] = value
        else:
            kinds = f"{value.dtype.name} for {name}, which is {tensor.dtype.name}"
            raise DTypeError(f"load_state_dict(assign=True): {kinds}", hint="leave assign out, which casts")
    return values, mismatches


def _set(own: Mapping[str, Tensor], values: Iterable[tuple[str, Any]], assign: bool) -> None:
    with no_grad():
        for name, value in values:
            tensor = own[name]
            if assign and value.dtype != tensor.dtype:
                tensor.grad = None
            tensor._rebind(value if assign else wrap(value).to(tensor.device).value)


def _misses(keys: Keys, strict: bool) -> list[str]:
    problems = []
    if strict and keys.missing_keys:
        problems.append(f"Missing key(s) in state_dict: {_quoted(keys.missing_keys)}. ")
    if strict and keys.unexpected_keys:
        problems.append(f"Unexpected key(s) in state_dict: {_quoted(keys.unexpected_keys)}. ")
    return problems


def _complain(module: Module, problems: list[str], mismatches: list[str]) -> None:
    if problems or mismatches:
        lines = "\n\t".join([*problems, *mismatches])
        kind = JitgraphError if problems else ShapeError
        raise kind(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{lines}")


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


# ----------------------------------------------------------------------
# Modules in other float dtypes and on other devices.

P = TypeVar("P", bound="Conversion")


class Conversion:
    """What a module is, as far as its dtype and device go."""

    _deferred: list[Any] | None = None
    """What ``to`` was asked for while a layer waits for its first call to make its parameters (``lazy.py``)."""

    def modules(self) -> Iterator[Any]:
        """This module and all below it."""
        raise NotImplementedError

    def to(self: P, *targets: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False) -> P:
        """Float parameters and buffers in another float dtype, all on another device, or both; returns the module.

        A tensor stands for its device and dtype. DTypeError for a dtype that is no float, DeviceError for a device that
        is absent. ``non_blocking`` is PyTorch's: copies to a GPU never wait.
        """
        for target in targets:
            if isinstance(target, Tensor):
                self._to(target.device)
                self._to(target.dtype)
            elif target is not None:
                self._to(target)
        if device is not None:
            self._to(placement.canonical(device))
        if dtype is not None:
            self._to(canonical(dtype))
        return self

    def _to(self, target: Any) -> None:
        modules = list(self.modules())
        tensors: list[Tensor] = []
        for module in modules:
            if module._deferred is None:
                tensors += module.parameters(recurse=False)
                tensors += module.buffers(recurse=False)
        self._move(target, {id(tensor): tensor for tensor in tensors}.values())
        for module in modules:
            if module._deferred is not None:
                module._deferred.append(target)

    def _move(self, target: Any, tensors: Iterable[Tensor]) -> None:
        if placement.is_name(target):
            with no_grad():
                for tensor in tensors:
                    gradient = tensor.grad
                    tensor.grad = None
                    tensor._rebind(tensor.to(target).value)
                    tensor.grad = None if gradient is None else gradient.to(target)
            return
        dtype = canonical(target)
        if not is_float(dtype):
            raise DTypeError(f"a module's parameters are floats, not {dtype.name}", hint="module.to(jg.float32)")
        with no_grad():
            for tensor in tensors:
                if is_float(tensor.dtype) and tensor.dtype != dtype:
                    tensor._rebind(lifting.cast(tensor.value, dtype))
                    tensor.grad = None

    def cuda(self: P, device: str | int | None = None) -> P:
        """Parameters, buffers and gradients on the current GPU, or the one given; returns the module."""
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def cpu(self: P) -> P:
        """Parameters, buffers and gradients on the CPU; returns the module."""
        return self.to("cpu")

    def double(self: P) -> P:
        """Float parameters and buffers in float64; returns the module."""
        return self.to(float64)

    def float(self: P) -> P:
        """Float parameters and buffers in float32; returns the module."""
        return self.to(float32)

    def half(self: P) -> P:
        """Float parameters and buffers in float16; returns the module."""
        return self.to(float16)

    def bfloat16(self: P) -> P:
        """Float parameters and buffers in bfloat16; returns the module."""
        return self.to(bfloat16)

    def type(self: P, dst_type: Any) -> P:
        """Float parameters and buffers in the dtype; returns the module."""
        return self.to(dtype=dst_type)

    def to_empty(self: P, *, device: Any, recurse: bool = True) -> P:
        """As ``to(device)``, values included, where PyTorch leaves them undefined; returns the module."""
        modules: list[Any] = list(self.modules()) if recurse else [self]
        for module in modules:
            module._move(device, [*module.parameters(recurse=False), *module.buffers(recurse=False)])
        return self


# ----------------------------------------------------------------------
# Module and Parameter: PyTorch's terms, with plain attributes for state.
#
# Parameters, buffers and submodules are ordinary attributes of the instance, found by looking at ``vars(self)`` in the
# order in which they were first set; there is no registry beside them that could disagree.

M = TypeVar("M", bound="Module")


class Parameter(Tensor):
    """A tensor that a module learns: a leaf that requires a gradient (floats only); empty where no data are given."""

    __slots__ = ()

    _is_parameter = True

    def __init__(self, data: TensorLike | None = None, requires_grad: bool = True) -> None:
        self._bind(lifting.value_of(() if data is None else data))
        if isinstance(data, Tensor):
            self._bind(data.detach().value)
        if requires_grad:
            self.requires_grad_()


NATIVE_CLASSES["", True] = Parameter


class ModuleBuffer(Tensor):
    """A tensor that, set as an attribute of a module, is state that is not learned, as by ``register_buffer``."""

    __slots__ = ("persistent",)

    def __init__(self, data: TensorLike | None = None, *, persistent: bool = True) -> None:
        self._bind(data.detach().value if isinstance(data, Tensor) else lifting.value_of(() if data is None else data))
        self.persistent = persistent


class Module(hooks.Hooked, Conversion):
    """A part of a model: state as attributes, and ``forward``.

    Subclasses call ``super().__init__()`` first, set parameters and submodules as attributes and define ``forward``.
    """

    training: bool
    forward: Callable[..., Any]

    def __init__(self) -> None:
        self.training = True
        self._persistence: dict[str, bool] = {}  # of each buffer, whether state dicts have it
        self._hooks = ()  # of every kind, so that calls have one to look at

    def __setattr__(self, name: str, value: Any) -> None:
        plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
        if plain and isinstance(vars(self).get(name), Parameter):
            raise JitgraphError(
                f"{type(self).__name__}.{name} is a parameter, and a plain tensor would not be trained: assign "
                f"jg.nn.Parameter(value), or set its elements, module.{name}[...] = value under jg.no_grad()"
            )
        if plain and isinstance(value, ModuleBuffer):
            self._persistence[name] = value.persistent
        super().__setattr__(name, value)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "_persistence"):
            raise JitgraphError(f"{type(self).__name__}.__init__ does not call super().__init__() first")
        if not hasattr(self, "forward"):
            raise JitgraphError(f"{type(self).__name__} defines no forward()")
        if self._hooks or hooks.EVERYWHERE._hooks:
            return hooks.called(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def _called(self) -> Callable[..., Any]:
        """What has the parameters of a call: ``forward``, or where hooks see the arguments as given, this call."""
        return self.__call__ if self._hooks or hooks.EVERYWHERE._hooks else self.forward

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Set a tensor that is state but not learned; ``persistent=False`` keeps it out of ``state_dict``."""
        self._persistence[name] = persistent
        setattr(self, name, tensor)

    # --- what a module holds -----------------------------------------------------------------------------------

    @property
    def _modules(self) -> AttributeView[Module]:
        """Submodules by name, in PyTorch's name; setting or deleting one there is as in the module."""
        return AttributeView(self, lambda _, value: isinstance(value, Module))

    @property
    def _parameters(self) -> AttributeView[Parameter]:
        """Parameters of this module alone by name, as ``_modules``."""
        return AttributeView(self, lambda _, value: isinstance(value, Parameter))

    @property
    def _buffers(self) -> AttributeView[Tensor]:
        """Buffers of this module alone by name, as ``_modules``."""
        return AttributeView(self, lambda name, _: name in self._persistence)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Direct submodules with their attribute names."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value

    def children(self) -> Iterator[Module]:
        """Direct submodules."""
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it with dotted names, each once unless ``remove_duplicate`` is False.

        Those in ``memo`` are left out, and those that are given are added to it.
        """
        seen: set[int] = set() if memo is None else {id(module) for module in memo}
        pending: list[tuple[str, Module]] = [(prefix, self)]
        while pending:
            name, module = pending.pop()
            if remove_duplicate and id(module) in seen:
                continue
            seen.add(id(module))  # not the module: a trace would have to guard all that a set may ask of it
            if memo is not None:
                memo.add(module)
            yield name, module
            below = [(f"{name}.{child}" if name else child, m) for child, m in module.named_children()]
            pending.extend(reversed(below))

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once unless ``remove_duplicate`` is False."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def _named_tensors(
        self, pick: Callable[[Module, str, Any], bool], prefix: str, recurse: bool, once: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(None, prefix, once) if recurse else [(prefix, self)]:
            module._require_parameters(path)
            for name, value in vars(module).items():
                if pick(module, name, value) and not (once and id(value) in seen):
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def _require_parameters(self, path: str) -> None:
        """JitgraphError where this module waits for its first call."""
        if self._deferred is not None:
            name = f"{path} ({type(self).__name__})" if path else type(self).__name__
            raise JitgraphError(
                f"{name} has no parameters before its first call\n"
                "  hint: call the model once on a batch, then make the optimiser, or load a state dict"
            )

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with dotted names, in PyTorch's order, each once unless ``remove_duplicate`` is False."""
        return self._named_tensors(lambda _, __, value: isinstance(value, Parameter), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, each once; those of this module alone without ``recurse``."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with dotted names."""
        return self._named_tensors(
            lambda module, name, value: name in module._persistence and value is not None,
            prefix,
            recurse,
            remove_duplicate,
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, each once; those of this module alone without ``recurse``."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that ``jg.save`` takes as state, by name."""
        yield from self.named_parameters()
        yield from self.named_buffers()

    def get_submodule(self, target: str) -> Module:
        """The module below this one by its dotted name, "" for this one; AttributeError where there is none."""
        module: Any = self
        for name in target.split(".") if target else ():
            module = vars(module).get(name)
            if not isinstance(module, Module):
                raise AttributeError(f"{type(self).__name__} has no submodule {target!r}")
        return module  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Parameter:
        """The parameter by its dotted name; AttributeError where there is none."""
        parameter = self._attribute_at(target)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"{type(self).__name__} has no parameter {target!r}")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer by its dotted name; AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        buffer = self._attribute_at(target)
        if name not in self.get_submodule(path)._persistence or buffer is None:
            raise AttributeError(f"{type(self).__name__} has no buffer {target!r}")
        return buffer  # type: ignore[no-any-return]

    def _attribute_at(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        return vars(self.get_submodule(path)).get(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Set a submodule by a name that need not be one of Python's."""
        if "." in name or not name:
            raise JitgraphError(f"add_module: {name!r} is no name of a module: it is empty or has a dot")
        setattr(self, name, module)

    register_module = add_module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Set or replace the module of a dotted name; AttributeError where what should hold it is not there.

        With ``strict`` there has to be a module of that name.
        """
        path, _, name = target.rpartition(".")
        if strict:
            self.get_submodule(target)
        self.get_submodule(path).add_module(name, module)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Set a parameter by its name, or None in its place."""
        if param is not None and not isinstance(param, Parameter):
            raise JitgraphError(f"register_parameter takes a Parameter, not a {type(param).__name__}")
        setattr(self, name, param)

    def _own_persistent(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """What ``state_dict`` holds of this module alone, in PyTorch's order."""
        self._require_parameters(prefix.rstrip("."))
        own = vars(self).items()
        for name, value in own:
            if isinstance(value, Parameter):
                yield prefix + name, value
        for name, value in own:
            if self._persistence.get(name) and value is not None:
                yield prefix + name, value

    def _persistent(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """As ``_own_persistent``, of modules below, too; a tensor that stands in two places is named twice."""
        yield from self._own_persistent(prefix)
        for name, child in self.named_children():
            yield from child._persistent(f"{prefix}{name}.")

    # --- saving and loading ------------------------------------------------------------------------------------

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by PyTorch's keys, as NumPy copies.

        ``prefix`` stands before each key, ``destination`` is a dict to fill and return, and ``keep_vars`` puts the
        tensors themselves there. What ``get_extra_state`` gives, where a class defines it, is there as "_extra_state".
        """
        return save(self, {} if destination is None else destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put this module's own part into a state dict; PyTorch's name."""
        for name, tensor in self._own_persistent(prefix):
            destination[name] = tensor if keep_vars else self._saved(tensor)
        if _has_extra(self):
            destination[prefix + _EXTRA] = self.get_extra_state()

    @staticmethod
    def _saved(tensor: Tensor) -> Any:
        """What a state dict has of a tensor."""
        return np.array(tensor.detach().cpu().numpy())

    def _described(self, destination: dict[str, Any], prefix: str) -> dict[str, Any]:
        """What hooks of state dicts are told of this module."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Keys:
        """Set parameters and buffers from arrays or tensors by PyTorch's keys, all or none.

        With ``strict``, keys missing or left over are an error; else they are returned. Shapes must fit; dtypes are
        cast to the module's, and tensors stay on their devices, or with ``assign`` take those that are given. Errors
        are worded as PyTorch's.
        """
        return load(self, state_dict, strict, assign)

    def get_extra_state(self) -> Any:
        """What a class saves in state dicts beside tensors, if it defines this and ``set_extra_state``."""
        raise JitgraphError(
            f"{type(self).__name__} has no extra state\n  hint: define get_extra_state and set_extra_state"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take over what ``get_extra_state`` gave."""
        raise JitgraphError(
            f"{type(self).__name__} has no extra state\n  hint: define get_extra_state and set_extra_state"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """What a class changes of a state dict, of which it gets a copy, before it is loaded; PyTorch's name.

        ``error_msgs`` takes what makes the load fail. The tensors are set afterwards, all or none.
        """

    # --- modes and dtypes --------------------------------------------------------------------------------------

    def train(self: M, mode: bool = True) -> M:
        """Training mode (dropout drops, batch norm uses the batch) for this module and all below; returns it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Evaluation mode for this module and all below; returns it."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set ``.grad`` of every parameter to None, or those that are there to zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = zeroed(parameter.grad, zeros_like(parameter.grad))

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Ask for gradients of every parameter, or not; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call ``fn`` on every module below and then on this one; returns the module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def extra_repr(self) -> str:
        """What stands between the parentheses of ``repr``, before the children where there are any."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr().splitlines()
        children = self._shown_children()
        if not children and len(own) < 2:
            return f"{type(self).__name__}({''.join(own)})"
        return "\n".join([f"{type(self).__name__}(", *(f"  {line}" for line in (*own, *children)), ")"])

    def _shown_children(self) -> list[str]:
        """What ``repr`` says of each child."""
        return [f"({name}): {_indent(repr(child))}" for name, child in self.named_children()]


for _name in ("compile", "ipu", "mtia", "share_memory", "xpu"):
    setattr(Module, _name, hooks.Elsewhere(_name))

MODULE_CALLS[id(Module.__call__.__code__)] = Module.__call__.__code__


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")
