"""The functions that stand between compiled callers and entries, mapped once a process."""

from __future__ import annotations

import ctypes
from functools import cache
from types import MappingProxyType
from typing import Final

from jitgraph.runtime import imports
from jitgraph.runtime import native_records as layout
from jitgraph.runtime.loader import Image

EXPORT_TYPE: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)


@cache
def _calls() -> tuple[Image, MappingProxyType[str, int]]:
    """The image of native calls, and the addresses of its functions."""
    image = Image(imports.module("jitgraph.codegen.native_calls").image())
    export = EXPORT_TYPE(image.export("entry"))
    return image, MappingProxyType({name: int(export(number)) for number, name in enumerate(layout.FUNCTIONS)})


def function_of(name: str) -> int:
    """The address of one of ``layout.FUNCTIONS``."""
    return _calls()[1][name]
