"""Arguments of a traced function: how they are bound, their structure, what each leaf is, and what of it is part of
the key.
"""

from __future__ import annotations

import enum
import functools
import inspect
import types
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from jitgraph import dtypes, foreign, tree
from jitgraph.eager.handle import Api
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import ArgumentError, TraceError
from jitgraph.ir.dims import DimLike
from jitgraph.records import NamedTuple, dataclass
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor
from jitgraph.tracing.guards.guard import Equals, Guard, Layout, Objects, Same, Varies
from jitgraph.tracing.guards.plain import plain_of
from jitgraph.tracing.guards.source import Source
from jitgraph.tree import Item, TreeDef

# ----------------------------------------------------------------------
# What a call binds its arguments to: the function behind a callable, and Python's own errors where they do not fit.

_NONE: Final = object()


class Omitted(enum.Enum):
    """What stands for an argument that a wrapper is not given: what it wraps has the default, and may read more."""

    OMITTED = "the default"

    def __repr__(self) -> str:
        return self.value


OMITTED: Final = Omitted.OMITTED


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has the parameters of ``function``: of a module, and of a script of one, that is its ``forward``."""
    if isinstance(function, types.FunctionType):
        function = vars(function).get("made_of", function)
    behind = getattr(type(function), "_called", None)
    return function if behind is None else behind(function)


class Binding:
    """Binds arguments as Python does: by a function with the same parameters, which gives their values in order.

    ``function`` has the parameters; those in ``wrapped`` have their values put into ``wrap``. The defaults are those
    that the function has at the time of the call, and OMITTED where it only says that it has them.
    """

    def __init__(self, function: Callable[..., Any], wrapped: Container[str], wrap: Callable[[Any], Any]) -> None:
        behind = inspect.unwrap(getattr(function, "__func__", function))
        self._behind = behind if isinstance(behind, types.FunctionType) else None
        self._function = function
        self._omits = is_wrapper(function)
        signature = inspect.signature(function)
        name = "wrap"
        while name in signature.parameters:
            name += "_"
        values = [f"{name}({parameter})" if parameter in wrapped else parameter for parameter in signature.parameters]
        names: dict[str, Any] = {name: wrap}
        exec(f"def bind{_written(signature)}: return ({''.join(f'{value}, ' for value in values)})", names)
        self._bind = names["bind"]
        self._take_defaults(signature)

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """One value for each parameter; TypeError as the function itself would raise it."""
        behind = self._behind
        if behind is not None and (
            behind.__defaults__ is not self._defaults or behind.__kwdefaults__ is not self._named
        ):
            self._take_defaults(inspect.signature(self._function))
        try:
            values: tuple[Any, ...] = self._bind(*args, **kwargs)
        except TypeError:
            _raise_as_python(self._function, args, kwargs)
            raise
        return values

    def _take_defaults(self, signature: inspect.Signature) -> None:
        """Give the function that binds the defaults of now; it shares the dict of those that are given by name."""
        behind = self._behind
        self._defaults, self._named = (None, None) if behind is None else (behind.__defaults__, behind.__kwdefaults__)
        parameters = signature.parameters.values()
        kwdefaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}
        if self._omits:
            kwdefaults = dict.fromkeys(kwdefaults, OMITTED)
        self._bind.__defaults__ = tuple(
            [
                OMITTED if self._omits else p.default
                for p in parameters
                if p.kind is not p.KEYWORD_ONLY and p.default is not p.empty
            ]
        )
        own = self._named
        shared = own is not None and all(own.get(name, _NONE) is default for name, default in kwdefaults.items())
        self._bind.__kwdefaults__ = own if shared else kwdefaults


def unstaged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose defaults those of a script's function are: itself, unless it was made of another one."""
    return function.__wrapped__ if getattr(function, "is_staged", False) else function  # type: ignore[attr-defined]


def is_wrapper(function: Callable[..., Any]) -> bool:
    """Whether the parameters that a function shows are those of another one, which it calls as it likes."""
    own = unstaged(getattr(function, "__func__", function))
    return isinstance(own, functools.partial) or hasattr(own, "__wrapped__") or hasattr(own, "__signature__")


def _raise_as_python(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise Python's TypeError for arguments that do not fit, with the name that Python gives the function."""
    while isinstance(function, functools.partial):
        args, kwargs, function = (*function.args, *args), {**function.keywords, **kwargs}, function.func
    call = type(function).__call__
    if isinstance(function, types.MethodType):
        function, args = function.__func__, (None, *args)
    elif isinstance(call, types.FunctionType):
        function, args = call, (None, *args)
    names: dict[str, Any] = {}
    exec(f"def stub{_written(inspect.signature(function))}: pass", names)
    stub = names["stub"]
    stub.__qualname__ = getattr(function, "__qualname__", None) or type(function).__qualname__
    stub(*args, **kwargs)


def _written(signature: inspect.Signature) -> str:
    """The parameters as Python writes them, with ``None`` for each default."""
    empty = inspect.Parameter.empty
    bare = [
        parameter.replace(annotation=empty, default=empty if parameter.default is empty else None)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))


# ----------------------------------------------------------------------
# Arguments of a traced function: their structure, what each leaf is, and what of it is part of the key.


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The shape and dtype of a tensor argument, for ``f.lower``; a string in ``shape`` names a size.

    ArgumentError for a size that is neither a number from 0 on nor a name; DTypeError for a dtype that is none.
    """

    shape: tuple[int | str, ...]
    dtype: Any = dtypes.float32

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple | list):
            raise ArgumentError(f"the shape of a TensorSpec is a tuple, not {self.shape!r}")
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "dtype", dtypes.canonical(self.dtype))
        for size in self.shape:
            if not (isinstance(size, int) and size >= 0) and not (isinstance(size, str) and size.isidentifier()):
                raise ArgumentError(f"{size!r} in a TensorSpec is neither a size nor a name")


tree.register_leaf(TensorSpec)


class Static(NamedTuple):
    """An argument that is part of the key as a whole."""

    value: Any


LeafKind: TypeAlias = Literal["tensor", "array", "float", "number", "equal", "identity", "static float"]


class LeafKey(NamedTuple):
    """What of a leaf is part of the key. ``first`` numbers the first leaf that is the same tensor handle.

    A "number" is an int that varies, whose value is no part of the key.
    """

    kind: LeafKind
    dtype: Any = None
    shape: tuple[DimLike, ...] = ()
    requires_grad: bool = False
    first: int = 0
    value: Any = None
    device: str = CPU
    api: Api = ""


class Arguments(NamedTuple):
    """One call's arguments, taken apart; arrays of any library are NumPy's, aligned and of native order."""

    structure: TreeDef
    leaves: tuple[Any, ...]
    texts: tuple[str, ...]
    keys: tuple[LeafKey, ...]


class Binder:
    """Brings the arguments of a call into the order of the function's parameters."""

    def __init__(
        self, function: Callable[..., Any], static_names: Sequence[str], static_numbers: Sequence[int]
    ) -> None:
        """TraceError where a static argument is no parameter."""
        self.function = called(function)
        self.parameters = tuple(inspect.signature(self.function).parameters.values())
        self.names = tuple(parameter.name for parameter in self.parameters)
        positional = [p for p in self.parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for name in static_names:
            if name not in self.names:
                raise TraceError(f"static_argnames names {name!r}; the parameters are {', '.join(self.names)}")
        for number in static_numbers:
            if not -len(positional) <= number < len(positional):
                raise TraceError(f"static_argnums names argument {number} of {len(positional)}")
        self.static = frozenset(static_names) | {positional[number].name for number in static_numbers}
        self._binding = Binding(self.function, self.static, Static)
        simple = len(positional) == len(self.parameters) and not self.static
        self.plain_count = len(positional) if simple else -1

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """One value for each parameter, defaults included; TypeError as the function itself would raise it."""
        if not kwargs and len(args) == self.plain_count:
            return args
        return self._binding(args, kwargs)

    def unbind(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments for a call of the function."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        by_name = False  # what follows an argument that is omitted
        for parameter, argument in zip(self.parameters, values, strict=True):
            value = argument.value if isinstance(argument, Static) else argument
            if value is OMITTED:
                by_name = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs.update(value)
            elif by_name or parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return args, kwargs

    def describe(self, values: Sequence[Any]) -> Arguments:
        """The arguments taken apart, with the key of each leaf; TraceError for one that cannot be an argument."""
        leaves: list[Any] = []
        texts: list[str] = []
        structures = []
        for name, value in zip(self.names, values, strict=True):
            if isinstance(value, Static):
                _require_key(name, value.value)
                leaves.append(value)
                texts.append(name)
                structures.append(tree.LEAF)
                continue
            path_leaves, structure = tree.flatten_with_paths(value)
            texts += (own := [tree.path_text(name, path) for path, _ in path_leaves])
            leaves += [_leaf(leaf, text) for (_, leaf), text in zip(path_leaves, own, strict=True)]
            structures.append(structure)
        steps = tuple(tree.Item(i) for i in range(len(structures)))
        structure = TreeDef(tuple, steps, tuple(structures), None)
        first: dict[int, int] = {}
        keys = tuple(_key(i, leaf, first) for i, leaf in enumerate(leaves))
        return Arguments(structure, tuple(leaves), tuple(texts), keys)


def _require_key(name: str, value: Any) -> None:
    """TraceError where a static argument cannot be part of the key by its value."""
    if any(isinstance(leaf, Tensor) for leaf in tree.flatten(value)[0]):
        raise TraceError(
            f"the static argument {name} holds a Tensor, whose value is no part of the key",
            hint=f"leave {name} out of static_argnames and static_argnums",
        )
    try:
        hash(value)
    except TypeError:
        raise TraceError(
            f"the static argument {name} is a {type(value).__name__}, which is not hashable", hint="pass a tuple"
        ) from None


def _leaf(leaf: Any, text: str) -> Any:
    return leaf if isinstance(leaf, Tensor) else foreign.as_argument(leaf, text)


def _key(number: int, leaf: Any, first: dict[int, int]) -> LeafKey:
    if isinstance(leaf, Tensor):
        if not isinstance(leaf._value, EagerValue | DeviceValue):
            leaf.value  # noqa: B018 - raises the error for a tensor that has left its trace
        value = leaf._value
        return LeafKey(
            "tensor",
            value.dtype,
            value.shape,
            leaf._requires_grad or value.requires_grad,
            first.setdefault(id(leaf), number),
            device=value.device,
            api=leaf._api,
        )
    if isinstance(leaf, TensorSpec):
        return LeafKey("tensor", leaf.dtype, leaf.shape, False, number)  # type: ignore[arg-type]
    if isinstance(leaf, np.ndarray):
        return LeafKey("array", dtypes.canonical(leaf.dtype), leaf.shape, False, number)
    if isinstance(leaf, Static):
        kind: LeafKind = "static float" if isinstance(leaf.value, float) else "equal"
        return LeafKey(kind, value=leaf.value)
    if type(leaf) is float:
        return LeafKey("float")
    if isinstance(leaf, bool) or type(leaf) not in (int, str, bytes, complex, range, slice):
        if isinstance(leaf, np.dtype) and plain_of(leaf) is not None:
            return LeafKey("equal", value=leaf)
        return LeafKey("identity", value=leaf)
    return LeafKey("equal", value=leaf)


class Sources(NamedTuple):
    """Where the arguments are found again: the containers, each before those inside it, and the leaves.

    ``nothings`` are where None stands.
    """

    containers: tuple[tuple[Source, TreeDef], ...]
    leaves: tuple[Source, ...]
    nothings: tuple[Source, ...]


def sources_of(arguments: Arguments, names: Sequence[str], objects: Objects) -> Sources:
    """The sources in the arguments of a function with these parameters."""
    containers: list[tuple[Source, TreeDef]] = []
    leaves: list[Source] = []
    nothings: list[Source] = []

    def walk(structure: TreeDef, source: Source) -> None:
        if structure.kind is None:
            is_static = isinstance(arguments.leaves[len(leaves)], Static)
            leaves.append(source.then("static") if is_static else source)
            return
        if structure.kind is type(None):
            nothings.append(source)
            return
        containers.append((source, structure))
        for step, child in zip(structure.steps, structure.children, strict=True):
            walk(child, source.then("item" if isinstance(step, Item) else "attribute", objects.key(step[0])))

    for number, (name, structure) in enumerate(zip(names, arguments.structure.children, strict=True)):
        walk(structure, Source("argument", number, name))
    return Sources(tuple(containers), tuple(leaves), tuple(nothings))


def guards_of(sources: Sources, keys: Sequence[LeafKey], numbers: Mapping[int, int], objects: Objects) -> list[Guard]:
    """The guards of arguments with these keys; ``numbers`` gives for leaves that vary what conditions call them."""
    nothing = objects.same(None)
    guards = [Guard(source, nothing) for source in sources.nothings]
    for source, structure in sources.containers:
        assert structure.kind is not None
        guards.append(Guard(source, objects.kind(structure.kind)))
        if issubclass(structure.kind, dict):
            guards.append(Guard(source, objects.keys(step[0] for step in structure.steps)))
        elif issubclass(structure.kind, tuple | list):
            guards.append(Guard(source, objects.extent(structure.steps)))
    for number, (source, key) in enumerate(zip(sources.leaves, keys, strict=True)):
        match key.kind:
            case "tensor" if key.first != number:
                predicate: Any = Same(sources.leaves[key.first])
            case "tensor" | "array":
                predicate = Layout(key.kind, key.dtype, tuple(key.shape), key.requires_grad, key.device, key.api)
            case "float":
                predicate = Varies("float", numbers[number]) if number in numbers else objects.kind(float)
            case "number":
                predicate = Varies("int", numbers[number])
            case "identity":
                predicate = objects.same(key.value)
            case _:
                plain = plain_of(key.value)
                predicate = Equals(plain) if plain is not None else objects.equal(key.value)
        guards.append(Guard(source, predicate))
    return guards


def shapes_by_name(dynamic: Mapping[str, Any] | None) -> dict[str, dict[int, str]]:
    """``dynamic_shapes`` in one form: names by axis for each argument (by its text: ``x``, ``batch['x']``)."""
    by_argument: dict[str, dict[int, str]] = {}
    form = 'dynamic_shapes={"x": {0: "batch"}}'
    if dynamic is not None and not isinstance(dynamic, Mapping):
        raise TraceError(f"dynamic_shapes is a {type(dynamic).__name__}, not a dict by argument", hint=form)
    for text, names in (dynamic or {}).items():
        if not isinstance(names, Mapping | list | tuple):
            raise TraceError(f"dynamic_shapes[{text!r}] is {names!r}, which names no axis", hint=form)
        pairs = names.items() if isinstance(names, Mapping) else enumerate(names)
        by_argument[text] = {axis: name for axis, name in pairs if name is not None}
        for axis, name in by_argument[text].items():
            if not isinstance(axis, int) or isinstance(axis, bool):
                raise TraceError(f"dynamic_shapes[{text!r}] names the axis {axis!r}, which is no number", hint=form)
            if not isinstance(name, str) or not name.isidentifier():
                raise TraceError(f"dynamic_shapes: {name!r} is not a name", hint=form)
    return by_argument
