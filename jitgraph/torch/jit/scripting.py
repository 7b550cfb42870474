"""``torch.jit`` for functions and modules written in Python: they compile as ``jg.script`` and ``jg.trace`` do."""

from __future__ import annotations

import copy
import enum
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import jitgraph as jg


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """A function or module whose loops and branches on tensors compile; a class or a module of an archive as it is."""
    from jitgraph.torch.jit.modules import ScriptModule  # here, as it needs more than scripts do

    if inspect.isclass(obj) or isinstance(obj, ScriptModule | enum.EnumMeta):
        return obj
    return _compiled(obj, jg.script)


def trace(func: Any, example_inputs: Any = None, *args: Any, example_kwarg_inputs: Any = None, **options: Any) -> Any:
    """A function or module that compiles what it does for each kind of arguments; it is recorded when it is called.

    The options of PyTorch's checks of a trace change nothing: a trace never assumes what it does not check.
    """
    return _compiled(func, jg.trace)


def _compiled(obj: Any, compiler: Callable[..., Any]) -> Any:
    from jitgraph.torch.nn.module import Module  # here, as functions compile without layers

    if not isinstance(obj, Module):
        return compiler(obj)
    module = copy.copy(obj)  # with the parameters, buffers and children of the first
    module._compile_forward(compiler)
    return module


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """RuntimeError: archives of TorchScript are read, not written."""
    raise RuntimeError(
        "torch.jit.save: archives of TorchScript are read here, not written\n"
        '  hint: jg.save(model, "model.jg", example_inputs=(x,)) writes a file for Python and C'
    )


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module: compiling folds what is constant."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module: compiling optimises it."""
    return mod


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The method: all methods can be called."""
    return fn


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function: what is not called is not compiled."""
    return fn


def ignore(drop: Any = False, **options: Any) -> Any:
    """The function, or a decorator that gives it: Python code can be called from anywhere."""
    return drop if callable(drop) else lambda fn: fn


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a script."""
    compiled: Callable[..., Any] = jg.script(fn)
    return compiled


def interface(obj: Any) -> Any:
    """The class: methods are looked up by name."""
    return obj


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def is_scripting() -> bool:
    """False: Python code is never that of TorchScript."""
    return False


def is_tracing() -> bool:
    """False: what depends on sizes stays right, as it is guarded."""
    return False


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, which ``wait`` gives."""
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """What ``fork`` gave."""
    return future
