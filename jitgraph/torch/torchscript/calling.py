"""Calls of TorchScript's methods from Python."""

from __future__ import annotations

import ast
from typing import Any

from jitgraph import tree
from jitgraph.ir import context
from jitgraph.nn import Parameter
from jitgraph.tensor import Tensor, wrap
from jitgraph.torch.tensors import Tensor as TorchTensor
from jitgraph.torch.tensors import adopted
from jitgraph.tracing.script.lists import require_known_lengths


def is_recording() -> bool:
    """Whether a trace is being recorded."""
    return context.current().trace is not None


def itself(value: Any) -> Any:
    """The argument: as this is jitgraph's own function, a trace guards the containers that it is called with."""
    return value


def snapshot(value: Any) -> Any:
    """A tensor of its own with the value of another; what is no tensor, or a parameter, as it is."""
    if not isinstance(value, Tensor) or isinstance(value, Parameter):
        return value
    own = wrap(value.value)
    own.__class__ = value.__class__ if value.__class__ in (Tensor, TorchTensor) else own.__class__
    return own


def overwritten(target: Any, value: Any) -> bool:
    """Write a tensor's value to another of the same type; False where that is none."""
    if not (isinstance(target, Tensor) and isinstance(value, Tensor)) or isinstance(target, Parameter):
        return False
    new = value.value
    if target._static.type != new.type:
        return False
    target._rebind(new)
    return True


def is_same_constant(old: Any, new: Any) -> bool:
    """Whether an attribute has the number or text that it is to get."""
    return type(old) is type(new) and type(new) in (int, bool, str, type(None)) and old == new


def run(module: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a method."""
    result = type(module).script_methods[name](module, *args, **kwargs)
    if context.current().trace is not None:
        require_known_lengths(result)
    given = {id(leaf) for leaf in tree.flatten((args, kwargs))[0] if isinstance(leaf, Tensor)}
    return _adopted(result, given)


def _adopted(result: Any, given: set[int]) -> Any:
    """A result with its tensors in PyTorch's class, but for those that were given."""
    if isinstance(result, Tensor):
        return result if id(result) in given else adopted(result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(_adopted(item, given) for item in result))
    if type(result) is tuple:
        return tuple([_adopted(item, given) for item in result])
    for item in result.values() if isinstance(result, dict) else result if isinstance(result, list) else ():
        _adopted(item, given)
    return result


def special(module: Any, name: str) -> Any:
    """A method that Python's syntax calls; TypeError where the class has none."""
    method = type(module).script_methods.get(name)
    if method is None:
        raise TypeError(f"{type(module).__name__} has no {name}")
    return lambda *args: method(module, *args)


def text_of(module: Any, name: str) -> str:
    """The text of a method."""
    source = type(module).script_methods[name].source
    lines = [f"def {name}({', '.join(parameter.name for parameter in source.parameters)}):"]
    return "\n".join([*lines, *(f"  {line}" for s in source.body for line in ast.unparse(s).splitlines())]) + "\n"
