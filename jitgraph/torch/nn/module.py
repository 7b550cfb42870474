"""``torch.nn.Module``, and the layers: jitgraph's own classes, whose tensors are ``torch.Tensor``."""

# mypy: disable-error-code="override, misc"

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import jitgraph as jg
from jitgraph.dtypes import canonical, is_float
from jitgraph.eager import placement
from jitgraph.eager.versions import is_another
from jitgraph.nn.module import Keys, ModuleBuffer
from jitgraph.torch.compiled_functions import compile_function
from jitgraph.torch.functions.queries import typename
from jitgraph.torch.nn.parameter import Parameter, adopt
from jitgraph.torch.scalar_types import float32, get_default_dtype
from jitgraph.torch.sharing import separate
from jitgraph.torch.tensors import Tensor, adopted

_LAYERS: Final[dict[type, type]] = {}


class Module(jg.nn.Module):
    """A part of a model, as ``jitgraph.nn.Module``, whose parameters, buffers and children are PyTorch's."""

    _version = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            unexpected = repr(next(iter(kwargs))) if kwargs else f"{len(args) + 1} positional arguments"
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected argument: {unexpected}")
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, jg.Tensor):
            adopt(value)
            self._require_begun(name, "parameters" if isinstance(value, Parameter) else "buffers", value)
            if not isinstance(value, Parameter) and isinstance(vars(self).get(name), Parameter):
                raise TypeError(_no_place("parameter", name, value, "torch.nn.Parameter or None expected"))
        elif isinstance(value, jg.nn.Module):
            adopt_module(value)
            self._require_begun(name, "module", value)
        elif value is not None:
            before = vars(self).get(name)
            if isinstance(before, Parameter):
                raise TypeError(_no_place("parameter", name, value, "torch.nn.Parameter or None expected"))
            if isinstance(before, jg.nn.Module):
                raise TypeError(_no_place("child module", name, value, "torch.nn.Module or None expected"))
            if name in vars(self).get("_persistence", ()):
                raise TypeError(_no_place("buffer", name, value, "torch.Tensor or None expected"))
        super().__setattr__(name, value)

    def _require_begun(self, name: str, what: str, value: Any) -> None:
        plain = isinstance(value, jg.Tensor) and not isinstance(value, Parameter | ModuleBuffer)
        if "_persistence" not in vars(self) and not plain:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")

    # --- what a module holds -------------------------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Set a tensor that is state but not learned; ``persistent=False`` keeps it out of ``state_dict``."""
        if "_persistence" not in vars(self):
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._require_name("buffer", name, self._persistence)
        if tensor is not None and not isinstance(tensor, jg.Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        super().register_buffer(name, tensor, persistent)

    def register_parameter(self, name: str, param: Any) -> None:
        """Set a parameter by its name, or None in its place."""
        if "_persistence" not in vars(self):
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._require_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, jg.nn.Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        super().register_parameter(name, param)

    def add_module(self, name: str, module: Any) -> None:
        """Set a submodule by a name that need not be one of Python's."""
        if module is not None and not isinstance(module, jg.nn.Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._require_name("module", name, self._modules)
        super().add_module(name, module)

    register_module = add_module

    def _require_name(self, what: str, name: Any, own: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in own and vars(self).get(name, self) is not None:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name or not name:
            raise KeyError(
                f'{what} name can\'t contain ".", got: {name}' if name else f'{what} name can\'t be empty string ""'
            )

    def compile(self, **settings: Any) -> None:
        """Run ``forward`` as native code from now on, as ``torch.compile`` with these settings makes it."""
        self._compile_forward(functools.partial(compile_function, **settings))

    def _compile_forward(self, compiler: Callable[..., Any]) -> None:
        self._compiled_forward = vars(self)["forward"] = compiler(type(self).forward.__get__(self))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if state.pop("_compiled_forward", None) is not None:  # compiled for this very module
            del state["forward"]
        return state

    call_super_init = False
    dump_patches = False

    def _get_name(self) -> str:
        return type(self).__name__

    def share_memory(self) -> Self:
        """The module as it is: another process gets copies of its tensors."""
        return self

    # --- modes, dtypes and devices -------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Training mode for this module and, by their own ``train``, for its children; returns it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Float parameters and buffers in another dtype, all on another device; returns the module."""
        return super().to(
            *[x for x in args if not isinstance(x, bool)], **{k: v for k, v in kwargs.items() if k != "memory_format"}
        )

    def _move(self, target: Any, tensors: Any) -> None:
        members = list(tensors)
        for tensor in members:
            if _is_changed(tensor, target):
                separate(tensor)
        super()._move(target, members)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Give each parameter and buffer the value that ``fn`` makes of it, as PyTorch's conversions do."""
        for child in self.children() if recurse else ():
            child._apply(fn)  # type: ignore[attr-defined]
        for parameter in self._parameters.values():
            gradient = parameter.grad
            parameter.grad = None
            parameter.data = fn(parameter.data)
            parameter.grad = None if gradient is None else fn(gradient)
        for name, buffer in list(self._buffers.items()):
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    # --- saving and loading --------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Parameters and persistent buffers by name: without history, sharing their elements with the module."""
        positional = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
        into = positional.get("destination", destination)
        if into is None:
            into = StateDict()
        return super().state_dict(
            destination=into,
            prefix=positional.get("prefix", prefix),
            keep_vars=positional.get("keep_vars", keep_vars),
        )

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> _IncompatibleKeys:
        """Set parameters and buffers by name, all or none; which names were missing or had no place.

        TypeError for what is no dict; RuntimeError for shapes that differ, and with ``strict`` for such names.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        keys = _IncompatibleKeys(*super().load_state_dict(state_dict, strict, assign))
        for name, tensor in self._persistent() if assign else ():
            entry = state_dict.get(name)
            if isinstance(entry, Tensor) and not is_another(tensor._value, entry.detach()._value):  # else a hook's
                tensor.data = entry
        return keys

    def _described(self, destination: Any, prefix: str) -> dict[str, Any]:
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        return metadata

    @staticmethod
    def _saved(tensor: Any) -> Any:
        return tensor.detach()


def _is_changed(tensor: Any, target: Any) -> bool:
    """Whether a tensor of a module gets other elements for this device or dtype."""
    if placement.is_name(target):
        return bool(tensor._static.device != placement.canonical(target))
    own = tensor._static.type.dtype
    return is_float(own) and own != canonical(target)


class _IncompatibleKeys(Keys):
    """The names that ``load_state_dict`` missed, and those that it found no place for."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if any(self) else "<All keys matched successfully>"

    __str__ = __repr__


class StateDict(OrderedDict[str, Any]):
    """What ``state_dict`` gives: tensors by name, and of each module its version."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._metadata: OrderedDict[str, Any] = OrderedDict()


def _no_place(what: str, name: str, value: Any, expected: str) -> str:
    return f"cannot assign '{typename(value)}' as {what} '{name}' ({expected})"


# ----------------------------------------------------------------------
# Layers of jitgraph as PyTorch's.


def layer(kind: type[jg.nn.Module]) -> type[Module]:
    """The class of PyTorch that a layer of jitgraph's is: a subclass of it and of ``Module``, made once."""
    if kind not in _LAYERS:
        _LAYERS[kind] = _made(kind)
    return _LAYERS[kind]


_KINDS_OF: Final = {"NLLLoss2d": "NLLLoss", "NonDynamicallyQuantizableLinear": "Linear"}
"""Layers that are of the class of another one, too."""


def _made(kind: Any) -> Any:
    members: dict[str, Any] = {"__module__": __package__, "__doc__": kind.__doc__}
    bases: tuple[type, ...] = (kind, Module)
    if kind.__name__ in _KINDS_OF:
        bases = (kind, layer(getattr(jg.nn, _KINDS_OF[kind.__name__])))
    if hasattr(kind, "becomes"):
        members["becomes"] = layer(kind.becomes)
        bases = (kind, members["becomes"])
    elif "dtype" in inspect.signature(kind.__init__).parameters:
        members["__init__"] = _of_default_dtype(kind.__init__)
    if hasattr(kind, "forward") and kind.__module__ != "jitgraph.nn.containers":
        members["forward"] = _adopting(kind.forward)
    return type(kind.__name__, bases, members)


def _adopting(forward: Any) -> Any:
    @functools.wraps(forward)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return adopted(forward(self, *args, **kwargs))

    return call


def _of_default_dtype(begin: Any) -> Any:
    """``__init__`` whose floats have the default dtype where none is asked for."""
    parameters = inspect.signature(begin)

    @functools.wraps(begin)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        default = get_default_dtype()
        if default is not float32 and parameters.bind(self, *args, **kwargs).arguments.get("dtype") is None:
            self.to(default)

    return call


def adopt_module(module: Any) -> None:
    """Make a layer of jitgraph's, with all below it, one of PyTorch's, the object itself; others stay."""
    kind = module.__class__
    if isinstance(module, Module) or not kind.__module__.startswith(("jitgraph.nn.", "jitgraph.optim.")):
        return
    module.__class__ = layer(kind)
    for value in list(vars(module).values()):
        if isinstance(value, jg.Tensor):
            adopt(value)
        elif isinstance(value, jg.nn.Module):
            adopt_module(value)
