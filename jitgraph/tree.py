"""Pytrees: nested tuples, lists, dicts, named tuples, dataclasses and registered types, flattened and rebuilt.

Everything that is not such a container is a leaf; None is a container of nothing. Dictionaries keep their order, which
is part of the structure.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Annotated, Any, Final, TypeAlias

from jitgraph.errors import JitgraphError
from jitgraph.records import NamedTuple, dataclass

__all__ = ["TreeDef", "flatten", "flatten_with_paths", "map_leaves", "register", "register_leaf"]


class Item(NamedTuple):
    """A step of a path: ``[key]``."""

    key: Annotated[Any, "key"]

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class Attribute(NamedTuple):
    """A step of a path: ``.name``."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


Step: TypeAlias = "Item | Attribute"
Path: TypeAlias = tuple[Step, ...]


class Flattened(NamedTuple):
    """A container taken apart: the step to each child, the children, and hashable data that rebuilding needs."""

    steps: tuple[Step, ...]
    children: tuple[Any, ...]
    data: Hashable = None


@dataclass(frozen=True, slots=True)
class Container:
    """How one type is taken apart and rebuilt: ``build(type, steps, children, data)``."""

    take_apart: Callable[[Any], Flattened]
    build: Callable[[type, tuple[Step, ...], Sequence[Any], Any], Any]
    kind: type | None = None  # the type whose structure it has, where that is another one


def _sequence(value: Any) -> Flattened:
    return Flattened(tuple(Item(i) for i in range(len(value))), tuple(value))


def _mapping(value: Any) -> Flattened:
    return Flattened(tuple(Item(key) for key in value), tuple(value.values()))


def _build_mapping(kind: type, steps: tuple[Step, ...], children: Sequence[Any], data: Any) -> Any:
    return kind((step[0], child) for step, child in zip(steps, children, strict=True))


def _named_tuple(value: Any) -> Flattened:
    return Flattened(tuple(Attribute(name) for name in value._fields), tuple(value))


def _dataclass(value: Any) -> Flattened:
    names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    return Flattened(tuple(map(Attribute, names)), tuple(getattr(value, name) for name in names))


def _build_dataclass(kind: type, steps: tuple[Step, ...], children: Sequence[Any], data: Any) -> Any:
    instance: Any = object.__new__(kind)
    for step, child in zip(steps, children, strict=True):
        object.__setattr__(instance, step[0], child)  # frozen dataclasses, too; __post_init__ has run once already
    return instance


_REGISTERED: Final[dict[type, Container]] = {
    type(None): Container(lambda value: Flattened((), ()), lambda kind, steps, children, data: None),
    tuple: Container(_sequence, lambda kind, steps, children, data: tuple(children)),
    list: Container(_sequence, lambda kind, steps, children, data: list(children) if data is None else data(children)),
    dict: Container(_mapping, _build_mapping),
    OrderedDict: Container(_mapping, _build_mapping),
}
_BUILT_IN: Final = frozenset(_REGISTERED)
_LEAVES: Final[set[type]] = set()
_NAMED_TUPLE: Final = Container(_named_tuple, lambda kind, steps, children, data: kind(*children))
_DATACLASS: Final = Container(_dataclass, _build_dataclass)


def register(
    kind: type,
    take_apart: Callable[[Any], Flattened | tuple[Sequence[Any], Sequence[Any], Hashable]],
    build: Callable[[type, tuple[Step, ...], Sequence[Any], Any], Any],
) -> None:
    """Make instances of exactly ``kind`` containers; JitgraphError if the type already is one.

    ``take_apart(value)`` gives ``(steps, children, data)``: a name for each child, the children (as tuples of one
    length), and hashable data. ``build(kind, steps, children, data)`` makes a value of them again.

        register(Box, lambda box: (("x",), (box.x,), box.tag), lambda kind, steps, children, tag: Box(*children, tag))
    """
    if kind in _REGISTERED:
        raise JitgraphError(f"{kind.__name__} is registered as a container already")
    _REGISTERED[kind] = Container(lambda value: _parts(take_apart(value), kind), build)


def register_list(kind: type, take_apart: Callable[[Any], Flattened]) -> None:
    """Give instances of exactly ``kind`` the structure of lists; data, if any, is called with the children to build."""
    _REGISTERED[kind] = Container(take_apart, _REGISTERED[list].build, list)


def _parts(raw: Any, kind: type) -> Flattened:
    """What a user's function gave, its names as steps; JitgraphError where it is not as ``register`` says."""
    if isinstance(raw, Flattened):
        return raw
    what = (
        f"take_apart of {kind.__name__} gave {raw!r:.80}\n"
        "  hint: it gives (steps, children, data): a name for each child, the children, and hashable data"
    )
    try:
        names, children, data = raw
        steps = tuple([name if isinstance(name, Item | Attribute) else Attribute(str(name)) for name in names])
        parts = Flattened(steps, tuple(children), data)
    except (TypeError, ValueError) as error:
        raise JitgraphError(what) from error
    if len(parts.steps) != len(parts.children):
        raise JitgraphError(what)
    return parts


def register_leaf(kind: type) -> None:
    """Make instances of exactly ``kind``, a dataclass or named tuple, leaves."""
    _LEAVES.add(kind)


def container_of(value: Any) -> Container | None:
    """How ``value`` is taken apart, or None where it is a leaf."""
    kind = type(value)
    if kind in _LEAVES:
        return None
    if (registered := _REGISTERED.get(kind)) is not None:
        return registered
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return _NAMED_TUPLE
    if dataclasses.is_dataclass(kind):
        return _DATACLASS
    return None


def is_plain_container(kind: type) -> bool:
    """Whether the class of a container says by itself how it is taken apart, without registered functions."""
    return kind in _BUILT_IN or (
        kind not in _REGISTERED and (hasattr(kind, "_fields") or dataclasses.is_dataclass(kind))
    )


class TreeDef:
    """The structure of a tree without its leaves; hashable, prints as the tree with ``*`` for each leaf."""

    __slots__ = ("_hash", "children", "data", "kind", "leaves", "steps")

    def __init__(
        self, kind: type | None, steps: tuple[Step, ...], children: tuple[TreeDef, ...], data: Hashable
    ) -> None:
        self.kind = kind
        self.steps = steps
        self.children = children
        self.data = data
        self.leaves: int = 1 if kind is None else sum(child.leaves for child in children)
        self._hash = hash((kind, steps, children, data))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, TreeDef)
            and self._hash == other._hash
            and self.kind is other.kind
            and self.steps == other.steps
            and self.children == other.children
            and self.data == other.data
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        parts = [f"{step}: {child}" for step, child in zip(self.steps, self.children, strict=True)]
        return f"{self.kind.__name__}({', '.join(parts)})"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves, in order; JitgraphError where there are too few or too many."""
        leaf_list = list(leaves)
        if len(leaf_list) != self.leaves:
            raise JitgraphError(f"a tree of {self.leaves} leaves cannot be built from {len(leaf_list)}: {self}")
        return self._build(iter(leaf_list))

    def _build(self, leaves: Any) -> Any:
        if self.kind is None:
            return next(leaves)
        children = [child._build(leaves) for child in self.children]
        container = _REGISTERED.get(self.kind)
        if container is None:
            container = _NAMED_TUPLE if issubclass(self.kind, tuple) else _DATACLASS
        return container.build(self.kind, self.steps, children, self.data)


LEAF: Final = TreeDef(None, (), (), None)


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves in order, and the structure."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> TreeDef:
    container = container_of(tree)
    if container is None:
        leaves.append(tree)
        return LEAF
    parts = container.take_apart(tree)
    children = tuple([_flatten(child, leaves) for child in parts.children])
    return TreeDef(container.kind or type(tree), parts.steps, children, parts.data)


def flatten_with_paths(tree: Any) -> tuple[list[tuple[Path, Any]], TreeDef]:
    """The leaves in order, each with its path, and the structure."""
    leaves: list[tuple[Path, Any]] = []
    return leaves, _flatten_with_paths(tree, (), leaves)


def _flatten_with_paths(tree: Any, path: Path, leaves: list[tuple[Path, Any]]) -> TreeDef:
    container = container_of(tree)
    if container is None:
        leaves.append((path, tree))
        return LEAF
    parts = container.take_apart(tree)
    children = [
        _flatten_with_paths(child, (*path, step), leaves)
        for step, child in zip(parts.steps, parts.children, strict=True)
    ]
    return TreeDef(container.kind or type(tree), parts.steps, tuple(children), parts.data)


def map_leaves(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The tree of ``function(leaf, ...)``; ``rest`` must have the structure of ``tree``."""
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in rest:
        others, other_structure = flatten(other)
        if other_structure != structure:
            raise JitgraphError(f"trees differ in structure: {structure} and {other_structure}")
        columns.append(others)
    return structure.unflatten([function(*row) for row in zip(*columns, strict=True)])


def path_text(root: str, path: Path) -> str:
    """``path`` as a user would write it: ``batch['x'][0].mean``."""
    return root + "".join(map(str, path))
