"""Packages of PyTorch's names: what their stubs take from jitgraph is adapted; what is missing has its reason."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from jitgraph.runtime import stubs
from jitgraph.torch import module_reasons


def attach(
    package: str, source: str = "", adapt: Callable[[Any], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package with a stub.

    What the stub takes from modules whose names begin with ``source`` is given to ``adapt`` when it is first used.
    """
    attribute, names = stubs.attach(package)

    def adapted(name: str) -> Any:
        try:
            value = attribute(name)
        except AttributeError:
            if name.startswith("__") or name in stubs.of(package).homes:
                raise
            raise module_reasons.missing(package.removeprefix("jitgraph."), name) from None
        if adapt is not None and stubs.of(package).homes.get(name, ("", ""))[0].startswith(source):
            value = adapt(value)
            setattr(sys.modules[package], name, value)
        return value

    return adapted, names
