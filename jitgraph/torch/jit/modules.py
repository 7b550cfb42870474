"""Modules and objects of archives: jitgraph's modules with the methods of their TorchScript classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jitgraph as jg
from jitgraph.torch.jit.state import reach
from jitgraph.torch.nn.module import Module
from jitgraph.torch.torchscript import calling


class ScriptModule(Module):
    """A module of a TorchScript archive: its parameters, buffers, submodules, attributes and exported methods.

    It is a ``jg.nn.Module`` in everything: ``state_dict``, ``to``, ``train``, optimisers, ``jg.trace``, ``jg.script``,
    ``jg.save``. Control flow on tensors runs in Python eagerly, and is part of the graph in traces.
    """

    qualified: ClassVar[str] = ""
    script_methods: ClassVar[Mapping[str, Callable[..., Any]]] = {}
    script_children: ClassVar[tuple[str, ...]] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if type(value) is jg.Tensor:  # an argument of jitgraph's class keeps it
            jg.nn.Module.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def code(self) -> str:
        """The text of ``forward``."""
        return calling.text_of(self, "forward")

    @property
    def original_name(self) -> str:
        """The name of the class that was compiled."""
        return type(self).__name__

    def __len__(self) -> int:
        return int(calling.special(self, "__len__")())

    def __contains__(self, key: Any) -> bool:
        return bool(calling.special(self, "__contains__")(key))


def exported(name: str, parameters: list[inspect.Parameter]) -> Callable[..., Any]:
    """A method of a class of modules, which runs the TorchScript method of its name."""

    def method(self: ScriptModule, *args: Any, **kwargs: Any) -> Any:
        if calling.is_recording():
            reach(self)
        return calling.run(self, name, args, kwargs)

    method.__name__ = method.__qualname__ = name
    method.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return method
