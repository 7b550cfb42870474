"""Arguments with a structure: containers taken apart, and values that choose a specialisation compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn

from jitgraph.runtime.loader.errors import ArgumentError, LoadError
from jitgraph.runtime.loader.json_objects import FrozenRecord, Json, get_typed

# ----------------------------------------------------------------------
# Arguments with a structure.
#
# The structure of an argument in JSON: an int is the number of an input, null is None, ``{"value": v}`` is exactly that
# bool, int, float or str, and the rest nests: ``{"tuple": [...]}``, for a named tuple with ``"fields"`` beside it,
# ``{"list": [...]}``, ``{"dict": {...}}``, ``{"object": {...}}`` by attributes or keys. Inputs stand in their order,
# each once.

_MAX_NESTING: Final = 64


class Argument(FrozenRecord):
    """A parameter of an entry. One that is ``optional`` may be left out and has no inputs."""

    name: str
    structure: Any = None
    optional: bool = False

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        return {"name": self.name, "structure": self.structure} | ({"optional": True} if self.optional else {})

    @staticmethod
    def from_json(source: Json, where: str) -> Argument:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        name = get_typed(source, "name", str, where)
        optional = get_typed(source, "optional", bool, where, default=False)
        if "structure" not in source:
            raise LoadError(f"{where} lacks 'structure'; the file is damaged or from another writer")
        return Argument(name, source["structure"], optional)

    def __hash__(self) -> int:  # the structure may hold lists and dicts
        return hash(self.name)


def verify_arguments(arguments: Sequence[Argument], inputs: int, where: str) -> None:
    """LoadError where these are no arguments of an entry with so many inputs."""
    names = [argument.name for argument in arguments]
    if len(set(names)) != len(names):
        raise LoadError(f"{where}: two arguments have one name: {names!r:.80}")
    reached = 0
    for argument in arguments:
        place = f"{where}, argument {argument.name[:60]!r}"
        before, reached = reached, _verified(argument.structure, reached, place, 0)
        if argument.optional and reached != before:
            raise LoadError(f"{place}: it may be left out and has inputs")
    if reached != inputs:
        raise LoadError(f"{where}: the arguments have {reached} inputs, the signature {inputs}")


def _verified(part: Any, reached: int, where: str, depth: int) -> int:
    """The number of the input behind this part, whose first one is ``reached``; LoadError where it is no structure."""
    if depth > _MAX_NESTING:
        raise LoadError(f"{where}: it is nested deeper than {_MAX_NESTING}")
    children: Any = ()
    match part:
        case None:
            pass
        case int() if type(part) is int:
            if part != reached:
                raise LoadError(f"{where}: the input {part} stands where {reached} is due")
            return reached + 1
        case {"value": bool() | int() | float() | str(), **rest} if not rest:
            pass
        case {"tuple": list(children), "fields": list(fields), **rest} if not rest:
            if len(fields) != len(children) or not all(isinstance(field, str) for field in fields):
                raise LoadError(f"{where}: {fields!r:.60} are no names of {len(children)} fields")
        case {"tuple": list(children), **rest} | {"list": list(children), **rest} if not rest:
            pass
        case {"dict": dict(items), **rest} | {"object": dict(items), **rest} if not rest:
            children = items.values()
        case _:
            raise LoadError(f"{where}: {part!r:.60} is no structure of an argument")
    for child in children:
        reached = _verified(child, reached, where, depth + 1)
    return reached


OMITTED: Final = object()
"""What stands for an input that is left out."""


def flattened(
    arguments: Sequence[Argument],
    inputs: int,
    title: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] = MappingProxyType({}),
) -> list[Any]:
    """The values of the inputs in order, OMITTED for those of arguments that are left out.

    ArgumentError for arguments that do not bind, or have another structure or other values than the entry is for.
    """
    if len(args) > len(arguments):
        raise ArgumentError(f"{title} takes {len(arguments)} arguments ({_argument_names(arguments)}), got {len(args)}")
    leaves = [OMITTED] * inputs
    left = dict(kwargs)
    for number, argument in enumerate(arguments):
        if number < len(args):
            if argument.name in left:
                raise ArgumentError(f"{title}: {argument.name!r} was given both by position and by name")
            value = args[number]
        elif argument.name in left:
            value = left.pop(argument.name)
        elif argument.optional or type(argument.structure) is int:  # whether it has a default says its input
            continue
        else:
            takes = _argument_names(arguments)
            raise ArgumentError(f"{title}: the argument {argument.name} is missing; it takes ({takes})")
        _flatten(argument.structure, value, leaves, f"{title}: {argument.name}")
    if left:
        raise ArgumentError(f"{title} has no argument {next(iter(left))!r}; it takes ({_argument_names(arguments)})")
    return leaves


def first_fitting(names: Sequence[str], bind: Callable[[str], list[Any]]) -> tuple[str, list[Any]]:
    """The first of an entry's specialisations whose arguments ``bind`` takes apart, with what it gives.

    ArgumentError that says why none fits.
    """
    reasons: dict[str, None] = {}
    for name in names:
        try:
            return name, bind(name)
        except ArgumentError as error:
            if len(names) == 1:
                raise
            reasons[str(error)] = None
    raise ArgumentError("no specialisation fits: " + "; ".join(reasons))


def _argument_names(arguments: Sequence[Argument]) -> str:
    return ", ".join(argument.name for argument in arguments)


def _flatten(structure: Any, value: Any, leaves: list[Any], path: str) -> None:
    if type(structure) is int:
        if value is None or isinstance(value, str | Mapping):
            _mismatch(path, "a tensor", value)
        leaves[structure] = value
        return
    if structure is None:
        if value is not None:
            _mismatch(path, "None", value)
        return
    if "value" in structure:
        if not is_same(value, structure["value"]):
            _mismatch(path, repr(structure["value"]), value)
        return
    if "dict" in structure:
        items = structure["dict"]
        if not isinstance(value, Mapping) or value.keys() != items.keys():
            _mismatch(path, f"a dict with the keys {', '.join(map(repr, items))}" if items else "an empty dict", value)
        for key, child in items.items():
            _flatten(child, value[key], leaves, f"{path}[{key!r}]")
        return
    if "object" in structure:
        for name, child in structure["object"].items():
            is_mapping = isinstance(value, Mapping)
            if name not in value if is_mapping else not hasattr(value, name):
                _mismatch(path, f"an object with the attributes {', '.join(structure['object'])}", value)
            _flatten(child, value[name] if is_mapping else getattr(value, name), leaves, f"{path}.{name}")
        return
    children = structure["tuple"] if "tuple" in structure else structure["list"]
    fields = structure.get("fields")
    own = getattr(value, "_fields", None)
    if not isinstance(value, tuple | list) or len(value) != len(children) or (own and fields and list(own) != fields):
        what = "tuple" if "tuple" in structure else "list"
        named = f" with the fields {', '.join(fields)}" if fields else ""
        _mismatch(path, f"a {what} of {len(children)}{named}", value)
    for number, child in enumerate(children):
        step = f".{fields[number]}" if fields else f"[{number}]"
        _flatten(child, value[number], leaves, path + step)


def is_same(value: Any, expected: Any) -> bool:
    """Whether an argument is the value that code was made for: of its type, a float with its sign."""
    return type(value) is type(expected) and (
        repr(value) == repr(expected) if isinstance(expected, float) else bool(value == expected)
    )


def _mismatch(path: str, expected: str, value: Any) -> NoReturn:
    if value is None or isinstance(value, bool | int | float | str):
        got = f"{value!r:.60}"
    elif isinstance(value, Mapping):
        got = f"a dict with the keys {', '.join(map(repr, value)):.80}"
    elif isinstance(value, tuple | list):
        got = f"a {type(value).__name__} of {len(value)}"
    else:
        got = f"a {type(value).__name__}"
    raise ArgumentError(f"{path} is {expected} in the file, got {got}")


class StructurePart(NamedTuple):
    """A part of a container: its name, how Python writes the step to it, and its structure."""

    name: str
    step: str
    structure: Any


def _children(part: Mapping[str, Any]) -> list[StructurePart]:
    """The parts of a container's structure in their order."""
    for kind in ("dict", "object"):
        if kind in part:
            form = "[{!r}]" if kind == "dict" else ".{}"
            return [StructurePart(name, form.format(name), child) for name, child in part[kind].items()]
    children = part["tuple"] if "tuple" in part else part["list"]
    if "fields" in part:
        return [StructurePart(name, f".{name}", child) for name, child in zip(part["fields"], children, strict=True)]
    return [StructurePart(str(number), f"[{number}]", child) for number, child in enumerate(children)]


def _is_container(part: Any) -> bool:
    return isinstance(part, Mapping) and "value" not in part


def statics_of(arguments: Sequence[Argument]) -> dict[str, Any]:
    """The values that the arguments have in the file, by where they stand: ``mode``, ``options.depth``."""
    statics: dict[str, Any] = {}

    def visit(part: Any, path: str) -> None:
        if _is_container(part):
            for child in _children(part):
                visit(child.structure, f"{path}.{child.name}")
        elif type(part) is not int:
            statics[path] = None if part is None else part["value"]

    for argument in arguments:
        visit(argument.structure, argument.name)
    return statics


def paths_of(argument: Argument) -> list[tuple[int, str]]:
    """The inputs of an argument, each with how Python writes it: ``batch['x']``, ``pair[0]``, ``point.x``."""
    paths: list[tuple[int, str]] = []

    def visit(part: Any, path: str) -> None:
        if type(part) is int:
            paths.append((part, path))
        elif _is_container(part):
            for child in _children(part):
                visit(child.structure, path + child.step)

    visit(argument.structure, argument.name)
    return paths


def assembled(arguments: Sequence[Argument], values: Sequence[Any]) -> list[Any]:
    """The arguments in order for these values of the inputs; a dict stands for an object, a tuple for a named one."""

    def build(part: Any) -> Any:
        if type(part) is int:
            return values[part]
        if not _is_container(part):
            return None if part is None else part["value"]
        children = {child.name: build(child.structure) for child in _children(part)}
        if "tuple" in part or "list" in part:
            return (tuple if "tuple" in part else list)(children.values())
        return children

    return [build(argument.structure) for argument in arguments]


def without_inputs(structure: Any) -> Any:
    """A structure with all inputs alike, and lists as tuples: where it is equal, two arguments fit the same calls."""
    if _is_container(structure):
        names = None if "tuple" in structure or "list" in structure else "names"
        return [names, *([child.name, without_inputs(child.structure)] for child in _children(structure))]
    if type(structure) is int:
        return "input"
    return structure and [type(structure["value"]).__name__, repr(structure["value"])]
