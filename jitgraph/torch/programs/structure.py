"""Nests of containers, as PyTorch's pytrees say them: what a call passes to leaves in a row, and back."""

from __future__ import annotations

import functools
import json
from collections import OrderedDict, namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.errors import ArgumentError, LoadError
from jitgraph.torch.programs.program import LEAF, Spec

_KINDS: Final = {
    "builtins.tuple": "tuple",
    "builtins.list": "list",
    "builtins.dict": "dict",
    "collections.OrderedDict": "ordered dict",
    "collections.namedtuple": "namedtuple",
    "collections.defaultdict": "dict",
    "torch.fx.immutable_collections.immutable_list": "list",
    "torch.fx.immutable_collections.immutable_dict": "dict",
}
_DEEPEST: Final = 100


def read(text: Any, fields: Mapping[str, Sequence[str]]) -> Spec:
    """The nest that a text of ``treespec_dumps`` says; ``fields`` has those of named tuples. LoadError for others."""
    try:
        protocol, tree = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise LoadError("the structure of the arguments or results is no treespec") from None
    if protocol != 1:
        raise LoadError(f"the structure of the arguments or results has protocol {protocol!r}, and 1 is known")
    return _read(tree, fields, 0)


def _read(tree: Any, fields: Mapping[str, Sequence[str]], depth: int) -> Spec:
    if not isinstance(tree, dict) or not isinstance(tree.get("children_spec"), list) or depth > _DEEPEST:
        raise LoadError("the structure of the arguments or results is no treespec")
    name = tree.get("type")
    children = tuple(_read(child, fields, depth + 1) for child in tree["children_spec"])
    if name is None:
        if children:
            raise LoadError("a leaf of the structure of the arguments or results has parts")
        return LEAF
    kind = _KINDS.get(name)
    context: Any = tree.get("context")
    if kind in ("tuple", "list"):
        return Spec(kind, None, children)
    try:
        context = json.loads(context) if isinstance(context, str) else context
    except ValueError:
        raise LoadError("the structure of the arguments or results is no treespec") from None
    if name == "collections.defaultdict" and isinstance(context, list) and len(context) == 2:
        context = context[1]
    if kind is None or kind == "namedtuple":
        known = fields.get(context if kind == "namedtuple" else name)
        if known is not None and len(known) == len(children):
            return Spec("namedtuple", ((context if kind else name).rpartition(".")[2], tuple(known)), children)
        keys = context[0] if isinstance(context, list) and context and isinstance(context[0], list) else context
        if isinstance(keys, list) and len(keys) == len(children) and all(isinstance(key, str) for key in keys):
            return Spec("dict", tuple(keys), children)  # a class of somebody's, as the dict of what it has
        raise LoadError(f"the arguments or results have a container of the class {name!r}, which is not known")
    if not isinstance(context, list) or len(context) != len(children):
        raise LoadError("a dict of the structure of the arguments or results has not as many keys as values")
    return Spec(kind, tuple(tuple(key) if isinstance(key, list) else key for key in context), children)


def flatten(spec: Spec, value: Any, what: str, leaves: list[Any]) -> None:
    """Append the leaves of ``value``; ArgumentError where it is not built as ``spec`` says."""
    if spec.kind == "leaf":
        leaves.append(value)
        return
    if spec.kind in ("dict", "ordered dict"):
        if not isinstance(value, Mapping) or set(value) != set(spec.context):
            keys = ", ".join(map(repr, spec.context))
            raise ArgumentError(f"{what} was a dict with the keys {keys} when the model was exported")
        for key, child in zip(spec.context, spec.children, strict=True):
            flatten(child, value[key], f"{what}[{key!r}]", leaves)
        return
    if not isinstance(value, tuple | list) or len(value) != len(spec.children):
        raise ArgumentError(
            f"{what} was a {spec.kind} of {len(spec.children)} when the model was exported, "
            f"and is {type(value).__name__}{f' of {len(value)}' if isinstance(value, tuple | list) else ''}"
        )
    for number, child in enumerate(spec.children):
        flatten(child, value[number], f"{what}[{number}]", leaves)


def unflatten(spec: Spec, leaves: Sequence[Any], start: int = 0) -> tuple[Any, int]:
    """The nest over leaves from ``start`` on, and where those end that it took."""
    if spec.kind == "leaf":
        return leaves[start], start + 1
    parts = []
    for child in spec.children:
        part, start = unflatten(child, leaves, start)
        parts.append(part)
    if spec.kind == "list":
        return parts, start
    if spec.kind == "dict":
        return dict(zip(spec.context, parts, strict=True)), start
    if spec.kind == "ordered dict":
        return OrderedDict(zip(spec.context, parts, strict=True)), start
    if spec.kind == "namedtuple":
        return _namedtuple(*spec.context)(*parts), start
    return tuple(parts), start


@functools.lru_cache(maxsize=256)
def _namedtuple(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)
