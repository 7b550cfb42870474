"""PyTorch's functions by subject, as the stub lists them; marks there say what else a name has.

``method``: it is a method of ``Tensor``. ``in_place``: ``NAME_`` writes the result to the first operand. What the stub
takes from ``aten_ops`` is an operator of ATen, whose signature is the function's own with ``input`` for ``self``.
"""

from __future__ import annotations

import sys
from typing import Any

from jitgraph.runtime import stubs
from jitgraph.tensor.functions import method
from jitgraph.torch.adapters import in_place, of_aten
from jitgraph.torch.tensors import Tensor

_stub = stubs.of(__name__)
_attribute, _names = stubs.attach(__name__)
_in_place = {f"{name}_" for name in _stub.marked("in_place")} - _stub.homes.keys()
_methods = set(_stub.marked("method"))


def has(name: str) -> bool:
    """Whether ``name`` is a function here."""
    return name in _stub.homes or name in _in_place


def __getattr__(name: str) -> Any:
    if name in _in_place:
        function = in_place(getattr(sys.modules[__name__], name[:-1]))
    else:
        function = _attribute(name)
        if _stub.homes.get(name, ("", ""))[0].startswith("jitgraph.torch.aten_ops"):
            function = of_aten(function, name)
    setattr(sys.modules[__name__], name, function)
    return function


def __dir__() -> list[str]:
    return sorted({*_names(), *_in_place})


method.attach(sorted(_methods | {name for name in _in_place if name[:-1] in _methods}), Tensor, __name__)
