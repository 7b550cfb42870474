"""What users of PyTorch, NumPy, SciPy and JAX write out of habit, and what to write here: read where a name is missing.

The names are data, in ``foreign_names.toml``: of modules ("jg", "jg.nn"), tensors ("x"), generators ("g") and modules
of layers ("module"). Of a name of PyTorch's that is not there, ``jitgraph.torch`` says where it has it, or why not.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Container
from typing import Any, Final

from jitgraph.runtime import imports, stubs

_FUNCTIONS: Final = ("jg.nn.functional", "jg.special", "jg.linalg", "jg.random", "jg")
"""Where functions may be that other libraries have at the top or as methods of their arrays."""


@functools.cache
def foreign_names() -> dict[str, Any]:
    """The tables of ``foreign_names.toml``."""
    import tomllib  # here, as only errors need it

    with open(os.path.join(os.path.dirname(__file__), "foreign_names.toml"), "rb") as file:
        return tomllib.load(file)


def replacement(owner: str, name: str) -> str | None:
    """What to write for a name that ``owner`` ("jg", "jg.nn", "x" ...) lacks, by its own table; None for others."""
    text: str | None = foreign_names()["names"].get(owner, {}).get(name)
    return text


def of_module(module: str, name: str, public: Container[str] = ()) -> str:
    """What follows a message that a module of jitgraph, which has the ``public`` names, lacks ``name``."""
    owner = module.replace("jitgraph", "jg", 1)
    if owner == "jg" and name in foreign_names()["planned"]:
        return f": it is planned for a later version\n  hint: until then, {foreign_names()['planned'][name]}"
    hint = advice(owner, name)
    if not hint and owner == "jg" and name.endswith("_") and name[:-1] in public:
        hint = f"\n  hint: write x[...] = jg.{name[:-1]}(x, ...)"
    return hint


def advice(owner: str, name: str) -> str:
    """What follows a message that ``owner`` lacks ``name``: nothing, or what to write instead."""
    text = replacement(owner, name)
    if text is None and not name.startswith("_"):
        text = _elsewhere(owner, name)
        if text is None and name.endswith("_"):
            text = _in_place(owner, name.removesuffix("_"))
        if text is None and owner[:2] in ("jg", "x"):
            hint = imports.provided("names of torch")(owner, name)
            return f"\n  hint: {hint}" if hint else ""
    return "" if text is None else f"\n  hint: write {text}"


def keyword_advice(function: str, keyword: str) -> str | None:
    """What to write instead of a keyword of other libraries; None for one that none of them has."""
    names = foreign_names()
    text: str | None = names["keywords_of"].get(function, {}).get(keyword) or names["keywords"].get(keyword)
    return text


def _elsewhere(owner: str, name: str) -> str | None:
    """What to write for a public name of another library, by the tables that several owners share."""
    names = foreign_names()
    if owner == "jg.special" and name in names["scipy"]["special"]:
        return f"scipy.special.{name}(np.asarray(x)) outside of traces, or jg.custom_op of it"
    if owner not in ("jg", "x"):
        return None
    if name in names["renamed"]:
        return str(names["renamed"][name])
    if name in names["dtypes"]:
        dtype = names["dtypes"][name]
        return f"jg.{dtype}" if owner == "jg" else f"x.astype(jg.{dtype.partition(',')[0]})"
    for module in _FUNCTIONS:
        if name in stubs.of(module.replace("jg", "jitgraph", 1)).homes and (owner, module) != ("jg", "jg"):
            return f"{module}.{name}"
    for pattern, text in names["patterns"].items():
        if re.fullmatch(pattern, name):
            return str(text)
    if name.endswith("_copy"):
        plain = name.removesuffix("_copy")
        return _elsewhere(owner, plain) or (f"jg.{plain}" if plain in stubs.of("jitgraph").homes else None)
    return None


def _in_place(owner: str, name: str) -> str | None:
    """What to write for a function that would change its tensor, as ``abs_``, where one without is known."""
    text = replacement(owner, name) or _elsewhere(owner, name)
    return None if text is None else f"x[...] = {text}" + ("(x, ...)" if re.fullmatch(r"jg\.[\w.]+", text) else "")


def absent(what: str, hint: str) -> AttributeError:
    """The error for a name that is missing; beside a hint Python proposes no name of its own that looks alike."""
    error = AttributeError(f"{what}{hint}")
    if hint:
        error.name, error.obj = "", None
    return error
