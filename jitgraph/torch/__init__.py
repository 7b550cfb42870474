"""PyTorch's names over jitgraph: ``import jitgraph.torch as torch`` runs PyTorch programs as they are."""

from __future__ import annotations

import sys
from typing import Any

from jitgraph.runtime import imports, stubs
from jitgraph.torch import functions as functions
from jitgraph.torch import imported_modules

inf = float("inf")
nan = float("nan")
pi = 3.141592653589793
e = 2.718281828459045
newaxis = None
__version__ = "2.13.0"  # of PyTorch, whose names these are

_attribute, _names = stubs.attach(__name__)
imported_modules.install()


def __getattr__(name: str) -> Any:
    try:
        if name.startswith("_foreach_"):
            value = imports.module("jitgraph.torch.functions.foreach").function(name)
        else:
            value = getattr(functions, name) if functions.has(name) else _attribute(name)
    except AttributeError as error:
        from jitgraph.torch import absent  # here, as only errors need it

        if absent.reason_for("torch", name) is None:
            raise
        raise absent.missing("torch", name) from error
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*_names(), *dir(functions)})
