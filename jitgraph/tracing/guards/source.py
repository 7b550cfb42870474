"""Source: where a Python value is found again at a call, as a root and steps from it. Plain data, no live object.

What a step means (how it is read, written and taken away, the code for it and its text for people) stands in one
table, ``STEPS``. Objects that no name leads to are addressed by their number in the plan's table of objects.
"""

from __future__ import annotations

import keyword
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from jitgraph.once import cached_property
from jitgraph.records import NamedTuple
from jitgraph.tracing.guards.storage import (
    EXPECTED_ERRORS,
    MISSING,
    attributes_of,
    class_entry,
    delete_attribute,
    delete_item,
    entries_of,
    is_by_storage,
    item_of,
    set_attribute,
    set_item,
    storage_of,
)

RootKind: TypeAlias = Literal["argument", "function", "module", "object"]
StepKind: TypeAlias = Literal[
    "attribute", "item", "entry", "cell", "closure", "namespace", "type", "globals", "defaults", "kwdefaults", "code",
    "self", "func", "wrapped", "partial func", "partial args", "partial keywords", "static", "value", "grad",
    "requires_grad", "hooks", "class", "own", "cached", "view",
]  # fmt: skip

ObjectNumber: TypeAlias = Annotated[int, "objects"]
"""The number of an object in the table of a plan."""
_STEP_KEYS: Final[dict[StepKind, Any]] = {
    **dict.fromkeys(get_args(StepKind), Annotated[Any, "key"]),
    **dict.fromkeys(("attribute", "class", "own"), str),
}


class Ref(NamedTuple):
    """An object by its number in the table of objects."""

    number: ObjectNumber


class Step(NamedTuple):
    """One step from an owner to what stands in it; ``key`` is plain data, or a Ref where it is an object."""

    kind: StepKind
    key: Annotated[Any, _STEP_KEYS] = None


class Source(NamedTuple):
    """A root and steps. ``key`` is the number of an argument, a module's name, or the number of an object.

    ``name`` is what people call the root.
    """

    kind: RootKind
    key: Any
    name: str
    steps: tuple[Step, ...] = ()

    def then(self, kind: StepKind, key: Any = None) -> Source:
        """The source one step further."""
        return Source(self.kind, self.key, self.name, (*self.steps, Step(kind, key)))

    @property
    def owner(self) -> Source:
        """The source without its last step."""
        return Source(self.kind, self.key, self.name, self.steps[:-1])

    def is_inside(self, other: Source) -> bool:
        """Whether further steps lead from ``other`` to this source."""
        count = len(other.steps)
        same = (self.kind, self.key, self.steps[:count]) == (other.kind, other.key, other.steps)
        return same and len(self.steps) > count

    @property
    def stored(self) -> Source:
        """The source by what is set there: an attribute of an instance, however it is read."""
        if not self.steps or self.steps[-1].kind != "own":
            return self
        return self.owner.then("attribute", self.steps[-1].key)

    @property
    def text(self) -> str:
        """The source as people would write it."""
        text = self.name
        for step in self.steps:
            text = STEPS[step.kind].shown(text, step.key)
        return text

    @property
    def is_storable(self) -> bool:
        """Whether the source can be found in another process."""
        return self.kind != "object" and not any(isinstance(step.key, Ref) for step in self.steps)


class World(NamedTuple):
    """What the roots are at a call: the traced function, the bound arguments, and the table of objects."""

    function: Any
    arguments: Sequence[Any]
    objects: Sequence[Any]

    def root(self, source: Source) -> Any:
        """The object at the root of a source."""
        match source.kind:
            case "argument":
                return self.arguments[source.key]
            case "function":
                return self.function
            case "module":
                return sys.modules[source.key]
        return self.objects[source.key]

    def find(self, source: Source) -> Any:
        """What stands at a source now; one of EXPECTED_ERRORS where nothing does."""
        value = self.root(source)
        for step in source.steps:
            value = STEPS[step.kind].read(value, self.key(step))
        return value

    def slot(self, source: Source) -> Slot | None:
        """The place where a source stands now; None where its owner is not there, or is found by other steps."""
        if not source.steps or source.steps[-1].kind not in ("attribute", "own", "item", "entry", "cell", "class"):
            return None
        step = source.steps[-1]
        kind: Any = "item" if step.kind == "entry" else step.kind
        try:
            return Slot(kind, self.find(source.owner), self.key(step), source.text)
        except EXPECTED_ERRORS:
            return None

    def key(self, step: Step) -> Any:
        """The key of a step, as the object that it is."""
        return self.objects[step.key.number] if isinstance(step.key, Ref) else step.key


class Meaning:
    """What a step is, written as code with ``{owner}``, ``{item}`` (its key) and ``{value}``.

    ``code`` gives what stands there, ``assign`` and ``delete`` change it where that can be, and ``text`` is for people.
    ``fixed`` says that the same owner gives the same object for as long as it lives. ``within`` gives the mapping
    whose keys say whether something stands there, where there is one.
    """

    def __init__(
        self, code: str, text: str, assign: str = "", delete: str = "", *, fixed: bool = False, within: str = ""
    ) -> None:
        self.code = code
        self.text = text
        self.assign = assign
        self.delete = delete
        self.fixed = fixed
        self.within = within

    @cached_property
    def read(self) -> Callable[[Any, Any], Any]:
        """What stands at ``(owner, key)``."""
        return _function(f"return {self.code}")

    @cached_property
    def write(self) -> Callable[[Any, Any, Any], None]:
        """Put a value at ``(owner, key)``."""
        return _function(self.assign)

    @cached_property
    def remove(self) -> Callable[[Any, Any], None]:
        """Take away what stands at ``(owner, key)``."""
        return _function(self.delete)

    @cached_property
    def _mapping(self) -> Callable[[Any, Any], Any]:
        return _function(f"return {self.within}")

    def shown(self, owner: str, key: Any) -> str:
        """The step from ``owner`` as people would write it."""
        if not owner and self.text in ("{owner}.{key}", "{owner}[{item}]"):
            return str(key)
        return self.text.format(owner=owner, key=key, item="..." if isinstance(key, Ref) else repr(key))

    def expression(self, owner: str, key: Any, constant: Callable[[Any], str]) -> str:
        """The code of the step; ``constant`` gives the name of an object that is no literal."""
        if self.code == _ATTRIBUTE and _is_name(key):
            return f"{owner}.{key}"
        return self.code.format(owner=owner, item=self._item(key, constant))

    def assignment(self, owner: str, key: Any, value: str, constant: Callable[[Any], str]) -> str:
        """The statement that puts a value there."""
        return self.assign.format(owner=owner, item=self._item(key, constant), value=value)

    def deletion(self, owner: str, key: Any, constant: Callable[[Any], str]) -> str:
        """The statement that takes away what stands there."""
        return self.delete.format(owner=owner, item=self._item(key, constant))

    def absence(self, owner: str, standing: Any, key: Any, constant: Callable[[Any], str]) -> str:
        """The code that says whether nothing stands there, or "" where that is not a look into a mapping.

        ``standing`` is the object that ``owner`` is the code of.
        """
        try:
            mapping = self._mapping(standing, key) if self.within else None
        except EXPECTED_ERRORS:
            return ""
        if type(mapping) not in (dict, types.MappingProxyType):
            return ""
        return f"{self._item(key, constant)} not in {self.within.format(owner=owner)}"

    @staticmethod
    def _item(key: Any, constant: Callable[[Any], str]) -> str:
        return repr(key) if key is None or type(key) in (int, str) else constant(key)


_ATTRIBUTE: Final = "getattr({owner}, {item})"
_WRITTEN: Final = frozenset({int, float, bool, str, bytes, type(None)})


def item_text(owner: str, key: Any) -> str:
    """An item as people would write it; a key whose ``repr`` may run a user's code is left out."""
    parts = key if type(key) is tuple else (key,)
    return f"{owner}[{key!r}]" if all(type(part) in _WRITTEN for part in parts) else f"{owner}[...]"


def _is_name(key: str) -> bool:
    return key.isidentifier() and not keyword.iskeyword(key)


def _function(body: str) -> Callable[..., Any]:
    text = body.format(owner="owner", item="key", value="value")
    names: dict[str, Any] = dict(STEP_NAMES)
    exec(compile(f"def step(owner, key, value=None): {text}", "<jitgraph steps>", "exec"), names)
    function: Callable[..., Any] = names["step"]
    return function


def _member(name: str, text: str, *, fixed: bool = False) -> Meaning:
    """A part of an object that its class has a member for."""
    return Meaning(f"{{owner}}.{name}", text, f"{{owner}}.{name} = {{value}}", fixed=fixed)


STEP_NAMES: Final[dict[str, Any]] = {
    function.__name__: function
    for function in (item_of, set_item, delete_item, set_attribute, delete_attribute, entries_of, storage_of)
}
"""What the code of steps may use."""

_ITEM: Final = "{owner}[{item}]"
_STORED: Final = "storage_of({owner})"
_ATTRIBUTE_CHANGES: Final = ("set_attribute({owner}, {item}, {value})", "delete_attribute({owner}, {item})")

STEPS: Final[dict[StepKind, Meaning]] = {
    "attribute": Meaning(_ATTRIBUTE, "{owner}.{key}", *_ATTRIBUTE_CHANGES),
    "class": Meaning(
        "entries_of({owner})[{item}]",
        "{owner}.{key}",
        "type.__setattr__({owner}, {item}, {value})",
        "type.__delattr__({owner}, {item})",
        within="entries_of({owner})",
    ),
    "own": Meaning(
        f"{_STORED}[{{item}}]",
        "{owner}.{key}",
        f"{_STORED}[{{item}}] = {{value}}",
        f"del {_STORED}[{{item}}]",
        within=_STORED,
    ),
    "cached": Meaning("{owner}(*{item})", "{owner}{item}"),
    "item": Meaning(_ITEM, _ITEM, "{owner}[{item}] = {value}", "del {owner}[{item}]", within="{owner}"),
    "entry": Meaning(
        "item_of({owner}, {item})", _ITEM, "set_item({owner}, {item}, {value})", "delete_item({owner}, {item})"
    ),
    "cell": Meaning("{owner}.cell_contents", "{owner}", "{owner}.cell_contents = {value}", "del {owner}.cell_contents"),
    "closure": Meaning("{owner}.__closure__[{item}[0]]", "{key[1]}", fixed=True),
    "namespace": Meaning("vars({owner})", "", fixed=True),
    "type": Meaning("type({owner})", "type({owner})", "set_attribute({owner}, '__class__', {value})"),
    "globals": _member("__globals__", "", fixed=True),
    "defaults": _member("__defaults__", "{owner}.__defaults__"),
    "kwdefaults": _member("__kwdefaults__", "{owner}.__kwdefaults__"),
    "code": _member("__code__", "{owner}.__code__"),
    "self": _member("__self__", "{owner}.__self__", fixed=True),
    "func": _member("__func__", "{owner}", fixed=True),
    "wrapped": _member("__wrapped__", "{owner}.__wrapped__"),
    "partial func": _member("func", "{owner}.func", fixed=True),
    "partial args": _member("args", "{owner}.args", fixed=True),
    "partial keywords": _member("keywords", "{owner}.keywords", fixed=True),
    "static": _member("value", "{owner}", fixed=True),
    "value": _member("_value", "{owner}"),
    "grad": _member("_grad", "{owner}.grad"),
    "view": _member("_state", "{owner}"),
    "requires_grad": Meaning("{owner}._requires_grad", "{owner}.requires_grad", "{owner}.requires_grad_({value})"),
    "hooks": Meaning("({owner}._hooks and {owner}._hooks.number)", "the state of the hooks of {owner}"),
}


def item_step(container: Any) -> Literal["item", "entry"]:
    """The kind of step from a container to its items: one that asks no method of the user's and no ``__missing__``."""
    return "item" if is_by_storage(container) else "entry"


class Slot(NamedTuple):
    """Where a value stands now, while a function is recorded: a step from a live owner, or an ``object`` itself.

    class: what stands under ``key`` in the class ``owner`` itself. own: what stands in the instance ``owner`` itself,
    whatever its class has. type: the class of ``owner``. cached: what ``owner``, a cached function, gives for the
    arguments ``key``.
    """

    kind: Literal["attribute", "item", "cell", "object", "class", "own", "type", "cached"]
    owner: Any
    key: Any
    text: str

    @classmethod
    def of_attribute(cls, owner: Any, name: str, text: str) -> Slot:
        """An attribute that the instance ``owner`` itself may hold, found past a ``__getattribute__`` of the user's."""
        overridden = isinstance(class_entry(type(owner), "__getattribute__"), types.FunctionType)
        slot = cls("attribute", owner, name, text)
        return slot._replace(kind="own") if overridden and slot.storage is not None else slot

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for the same place of the same object (not for equal objects)."""
        return ("attribute" if self.kind == "own" else self.kind, id(self.owner), type(self.key), self.key)

    @property
    def step(self) -> StepKind:
        """The kind of step from the owner."""
        assert self.kind != "object"
        return item_step(self.owner) if self.kind == "item" else self.kind

    def get(self) -> Any:
        """What stands there now; one of EXPECTED_ERRORS where nothing does."""
        return self.owner if self.kind == "object" else STEPS[self.step].read(self.owner, self.key)

    def get_or(self, default: Any) -> Any:
        """What stands there now, or ``default`` where nothing does."""
        try:
            return self.get()
        except EXPECTED_ERRORS:
            return default

    def own_value(self) -> Any:
        """What the owner itself holds there, so that nothing of its class does; MISSING for nothing."""
        if (own := self.storage) is not None:
            return own.get(self.key, MISSING)
        return self.get_or(MISSING)

    @property
    def storage(self) -> dict[str, Any] | None:
        """The dict in which the owner keeps the attribute; None where a slot or a property does, or its class."""
        if self.kind != "own" and (self.kind != "attribute" or hasattr(type(self._of_class), "__set__")):
            return None
        return attributes_of(self.owner)

    @property
    def as_own(self) -> Slot:
        """The place in what the owner itself holds, where its class has something of that name, too."""
        if (
            self.kind != "attribute"
            or self.storage is None
            or class_entry(type(self.owner), self.key, MISSING) is MISSING
        ):
            return self
        return self._replace(kind="own")

    @property
    def _of_class(self) -> Any:
        """What the class of the owner has under the key."""
        return class_entry(type(self.owner), self.key)

    @property
    def setter(self) -> Callable[[Any], None] | None:
        """What puts a value there and runs no code of the user's; None where that cannot be."""
        owner, key = self.owner, self.key
        if self.kind in ("cell", "class"):
            return self.set
        if self.kind in ("type", "cached"):
            return None
        if self.kind == "item":
            if type(owner) in (dict, list, OrderedDict):
                return self.set
            derived = isinstance(owner, dict) and dict.__contains__(owner, key)
            return (lambda value: dict.__setitem__(owner, key, value)) if derived else None
        if (own := self.storage) is not None:
            return (lambda value: own.__setitem__(key, value)) if key in own else None
        slot = self._of_class
        if isinstance(slot, types.MemberDescriptorType) and "__slots__" in vars(slot.__objclass__):  # C's are read-only
            return lambda value: slot.__set__(owner, value)
        return None

    def set(self, value: Any) -> None:
        """Put ``value`` there."""
        STEPS[self.step].write(self.owner, self.key, value)

    def remove(self) -> None:
        """Take away what stands there, if anything does."""
        try:
            STEPS[self.step].remove(self.owner, self.key)
        except EXPECTED_ERRORS:
            return
