"""Module and Parameter: PyTorch's terms, with plain attributes for state.

Parameters, buffers and submodules are ordinary attributes of the instance, found by looking at ``vars(self)`` in the
order in which they were first set; there is no registry beside them that could disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from jitgraph.eager.handle import PARAMETERS
from jitgraph.errors import JitgraphError
from jitgraph.location import MODULE_CALLS
from jitgraph.nn import hooks
from jitgraph.nn import state as state_transfer
from jitgraph.nn.attribute_views import AttributeView
from jitgraph.nn.casting import Conversion
from jitgraph.nn.state import Keys
from jitgraph.tensor import Tensor, lifting
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.lifting import TensorLike

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


PARAMETERS.append(Parameter)


class ModuleBuffer(Tensor):
    """A tensor that is state of a module but not learned, once it is set as an attribute: as ``register_buffer``."""

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
        return hooks.called(self, args, kwargs) if self._hooks else self.forward(*args, **kwargs)

    def _called(self) -> Callable[..., Any]:
        """What has the parameters of a call: ``forward``, or where hooks see the arguments as given, this call."""
        return self.__call__ if self._hooks else self.forward

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
        return state_transfer.save(self, {} if destination is None else destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Keys:
        """Set parameters and buffers from arrays or tensors by PyTorch's keys, all or none.

        With ``strict``, keys missing or left over are an error; else they are returned. Shapes must fit; dtypes are
        cast to the module's, and tensors stay on their devices, or with ``assign`` take those that are given. Errors
        are worded as PyTorch's.
        """
        return state_transfer.load(self, state_dict, strict, assign)

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
                parameter.grad = zeros_like(parameter.grad)

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
