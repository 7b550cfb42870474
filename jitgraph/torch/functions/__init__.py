"""PyTorch's functions by subject, as the stub lists them; marks there say what else a name has.

``method``: it is a method of ``Tensor``. ``in_place``: ``NAME_`` writes the result to the first operand. What the stub
takes from ``aten_ops`` is an operator of ATen, whose signature is the function's own with ``input`` for ``self``.
"""

from __future__ import annotations

import sys
from typing import Any

from jitgraph.runtime import stubs

_stub = stubs.of(__name__)
_attribute, _names = stubs.attach(__name__)
_in_place = {f"{name}_" for name in _stub.marked("in_place")} - _stub.homes.keys()


def has(name: str) -> bool:
    """Whether ``name`` is a function here."""
    return name in _stub.homes or name in _in_place


def methods() -> list[str]:
    """The names of the functions that are methods of ``torch.Tensor``, those that write in place included."""
    own = _stub.marked("method")
    return sorted({*own, *_in_place.intersection(f"{name}_" for name in own)})


def __getattr__(name: str) -> Any:
    if name in _in_place:
        from jitgraph.torch.adapters import in_place  # here and below, as it loads what tensors are made of

        function = in_place(getattr(sys.modules[__name__], name[:-1]))
    else:
        function = _attribute(name)
        if _stub.homes.get(name, ("", ""))[0].startswith("jitgraph.torch.aten_ops"):
            from jitgraph.torch.adapters import of_aten

            function = of_aten(function, name)
    setattr(sys.modules[__name__], name, function)
    return function


def __dir__() -> list[str]:
    return sorted({*_names(), *_in_place})
