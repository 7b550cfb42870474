"""Which code a trace follows: the user's, and code rewritten from it, but not that of libraries."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from jitgraph.own_code import OWN, STATEFUL, STATELESS

PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_SCRIPT: Final = os.path.join(os.path.realpath(PACKAGE), "tracing", "script")
_STAGING: Final = tuple(  # these do what the user's code would do
    os.path.join(_SCRIPT, name) for name in ("staging.py", "matching.py", "lookups.py", "paths.py")
)
_STANDARD_LIBRARY: Final = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
_INSTALLED: Final = ("site-packages", "dist-packages")  # the folders of other libraries, wherever they are
STAGING: Final = "__jg__"
"""The variable of rewritten functions that holds the staging functions."""

CALL_LOOKUPS: Final[list[Callable[[Any], Any]]] = []
"""Functions by which rewritten code finds out what to call, which register themselves."""

_REWRITTEN: Final[dict[CodeType, tuple[CodeType, bool]]] = {}  # code made from a user's, and whether it is all of it


@lru_cache(maxsize=4096)
def is_followed(file: str) -> bool:
    """Whether a trace follows code of this file: it may hold state, and reads more than its arguments."""
    return _may_hold_state(file) and not STATELESS.have(file)


def _may_hold_state(file: str) -> bool:
    """Whether code of this file is the user's, or of a part of jitgraph that holds state of the user's."""
    if file.startswith("<"):
        return not file.startswith(("<frozen", "<jitgraph", "<attrs", "<__array_function__"))
    path = os.path.realpath(file)
    if OWN.have(file):
        return STATEFUL.have(file) or path in _STAGING
    return not path.startswith(_STANDARD_LIBRARY) and not any(name in path for name in _INSTALLED)


def register_rewritten(code: CodeType, original: CodeType) -> None:
    """Say that ``code``, and the code inside it, was made from a user's function with the code ``original``."""
    _REWRITTEN[code] = original, True
    pending = [code]
    while pending:
        for inner in pending.pop().co_consts:
            if isinstance(inner, CodeType):
                _REWRITTEN[inner] = original, False
                pending.append(inner)


def is_rewritten(code: CodeType) -> bool:
    """Whether ``code`` was made by a rewrite."""
    return code in _REWRITTEN


@lru_cache(maxsize=4096)
def is_library_module(name: str) -> bool:
    """Whether the module of this name is none of the user's."""
    module = sys.modules.get(name)
    if module is None:
        return name.startswith("namedtuple_")  # what the standard library writes for a named tuple
    file = getattr(module, "__file__", None)
    if name == "__main__" or (file is None and getattr(module, "__spec__", None) is None):
        return False  # a module that nobody imported was made by the user
    return file is None or not _may_hold_state(file)


def original_of(code: CodeType) -> tuple[CodeType, bool]:
    """The user's code from which ``code`` was made, or itself, and whether it is all of it."""
    return _REWRITTEN.get(code, (code, True))


def is_users_class(kind: type) -> bool:
    """Whether a class is the user's or holds the user's state."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "__main__" or (file is not None and is_followed(file))
