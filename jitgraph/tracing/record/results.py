"""Results: what a call gives out or leaves in Python state, as templates that each call fills in."""

from __future__ import annotations

import enum
import functools
import inspect
import types
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph import tree
from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.tensor import Tensor, scalars, wrap
from jitgraph.tracing.call.plan import Computed, Copied, Fresh, Leaf, Template, ViewOf, copy_of
from jitgraph.tracing.capture.capture import Capture
from jitgraph.tracing.guards.guard import Objects
from jitgraph.tracing.guards.plain import plain_of
from jitgraph.tracing.guards.source import Source
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.symbolic.number import SymbolicNumber, resolved
from jitgraph.tree import TreeDef

if TYPE_CHECKING:
    from jitgraph.tracing.record.trace import Trace

_PLAIN: Final = frozenset({int, float, complex, bool, str, bytes, type(None)})
_IMMUTABLE: Final = frozenset({frozenset, range, slice})
_MUTABLE: Final = frozenset({set, bytearray, deque, array, Counter, defaultdict})


class Results:
    """Makes templates of what one trace gives out.

    ``fresh`` are the handles that each call makes anew, ``made`` the containers that it makes once for several places,
    ``views`` the tensors that share elements with a handle from outside, or with another one that it gives out.
    """

    def __init__(self, trace: Trace, objects: Objects, arguments: Mapping[int, Source]) -> None:
        """``arguments`` are the sources of the arguments' containers, by id: they are given out as they are."""
        self.fresh: list[Fresh] = []
        self.made: list[Template] = []
        self.views: list[ViewOf] = []
        self._trace = trace
        self._capture = trace.capture
        self._objects = objects
        self._arguments = arguments
        self._fresh_of: dict[int, int] = {}
        self._view_of: dict[int, int | None] = {}
        self._given_out: set[int] = set()  # ids of the tensors that are given out
        self._shared: dict[int, Any] = {}
        self._staying: set[int] = set()  # ids of containers that are put into Python state
        self._made_of: dict[int, int | None] = {}  # by the ids of containers; None while one is being made
        self._copies: list[Any] = []
        self._copy_of: dict[int, int | None] = {}
        self._known: dict[int, Any] | None = None  # copies, and what is not copied, by the ids of what they are of
        self._kept: list[Any] = []  # so that no other object gets the id of one that is known by it

    def template(self, value: Any, what: str, location: Location | None = None, *, stays: bool = False) -> Template:
        """What a call makes in place of ``value``, which people call ``what``; TraceError where no call can.

        ``stays``: it is put into Python state, so that a new object would have to be another one at each call.
        """
        leaves: list[Any] = []
        structure = self._flattened(value, leaves, what, location)
        return Template(structure, tuple(self.leaf(leaf, what, location, stays=stays) for leaf in leaves))

    def share(self, result: Any, state: Iterable[Any]) -> None:
        """Templates will be made of the result, and of these values, which are put into Python state: a container that
        stands in them more than once is to be one container."""
        seen: set[int] = set()

        def walk(value: Any, stays: bool) -> None:
            container = tree.container_of(value)
            if isinstance(value, Tensor):
                self._given_out.add(id(value))
            if container is None or id(value) in self._arguments or self._is_outside(value):
                return
            if not isinstance(value, tuple | None):
                known = id(value) in seen and not (stays and id(value) not in self._staying)
                if id(value) in seen:
                    self._shared[id(value)] = value
                seen.add(id(value))
                if stays:
                    self._staying.add(id(value))
                if known:
                    return
            for child in container.take_apart(value).children:
                walk(child, stays)

        walk(result, False)
        for value in state:
            walk(value, True)

    def _flattened(
        self, value: Any, leaves: list[Any], what: str, location: Location | None, *, is_made: bool = False
    ) -> TreeDef:
        """As ``tree.flatten``, with leaves for containers from outside, which are given out as they are, and for those
        that stand at several places."""
        container = tree.container_of(value)
        known = id(value) in self._arguments or (id(value) in self._shared and not is_made)
        if container is None or known or self._is_outside(value):
            leaves.append(value)
            return tree.LEAF
        parts = container.take_apart(value)
        for step in parts.steps:
            if isinstance(step, tree.Item):
                self.require_lasting(step.key, what, location)
        children = tuple([self._flattened(child, leaves, what, location) for child in parts.children])
        return TreeDef(container.kind or type(value), parts.steps, children, parts.data)

    def require_lasting(self, key: Any, what: str, location: Location | None) -> None:
        """TraceError for a key that holds a tensor of this call: later calls would find this very one there."""
        if self._is_of_this_call(key):
            raise TraceError(
                f"{what} has a key that holds a tensor of this call, which a compiled call cannot make again",
                location=location,
                hint="use names or numbers as keys, and keep tensors in the values",
            )

    def _is_of_this_call(self, value: Any, depth: int = 3) -> bool:
        """Whether a key is or holds a tensor that the function made or was given."""
        if isinstance(value, Tensor):
            return self._trace.is_own(value) or self._trace.is_argument(value)
        if depth == 0 or type(value) in _PLAIN or self._is_reachable(value):
            return False
        return any(self._is_of_this_call(element, depth - 1) for element in _inside(value))

    def _is_reachable(self, value: Any) -> bool:
        """Whether guarded steps lead to an object, or it is a container of the arguments."""
        return self._capture is not None and self._capture.identities.is_reachable(value)

    def _is_outside(self, value: Any) -> bool:
        """Whether a tuple, list, dict or dataclass is an object from outside, and no argument."""
        return self._capture is not None and value is not None and self._capture.identities.is_outside(value)

    def leaf(self, leaf: Any, what: str, location: Location | None = None, *, stays: bool = False) -> Leaf:
        """As ``template``, of what is no container, or one that stands at several places."""
        if (source := self._arguments.get(id(leaf))) is not None:
            return Leaf("argument", source)
        if id(leaf) in self._shared:
            return Leaf("made", self._made(leaf, what, location, stays=stays))
        if isinstance(leaf, TracedValue):
            leaf = wrap(leaf)
        if type(leaf) is SymbolicNumber and leaf.is_live:
            if self._trace.numbers.portable:
                return self.plain(leaf.refuse(what))
            self._trace.numbers.use(leaf.text)
            return Leaf("number", leaf.text)
        leaf = leaf.handle if scalars.is_computed(leaf) else resolved(leaf)
        if isinstance(leaf, Tensor):
            return self._of_handle(leaf)
        return self._of_object(leaf, what, location, stays=stays)

    def _made(self, value: Any, what: str, location: Location | None, *, stays: bool) -> int:
        """The number of a container that stands at several places."""
        number = self._made_of.setdefault(id(value), -1)
        if number is None:
            raise TraceError(
                f"{what} holds a {type(value).__name__} that holds itself, which a compiled call cannot make again",
                location=location,
                hint="keep such an object outside of the traced function",
            )
        if number < 0:
            self._made_of[id(value)] = None
            leaves: list[Any] = []
            structure, stays = (
                self._flattened(value, leaves, what, location, is_made=True),
                stays or id(value) in self._staying,
            )
            self.made.append(
                Template(structure, tuple([self.leaf(leaf, what, location, stays=stays) for leaf in leaves]))
            )
            number = self._made_of[id(value)] = len(self.made) - 1
        return number

    def _of_handle(self, leaf: Tensor) -> Leaf:
        if not self._trace.is_own(leaf):
            if isinstance(leaf._value, TracedValue):
                raise leaf._value.leaked()
            return Leaf("handle", self._trace.slot_of(leaf))
        if id(leaf) not in self._view_of:
            self._kept.append(leaf)
            self._view_of[id(leaf)] = self._view(leaf)
        number = self._view_of[id(leaf)]
        return Leaf("fresh", self._fresh_handle(leaf)) if number is None else Leaf("view", number)

    def _view(self, leaf: Any) -> int | None:
        """The number of a view of a tensor that there is after the call; None where there is no such tensor."""
        root = leaf._root
        if root is leaf or self._trace.numbers.portable:
            return None
        if not self._trace.is_own(root):
            at = Leaf("handle", self._trace.slot_of(root))
        elif id(root) in self._given_out:
            at = Leaf("fresh", self._fresh_handle(root))
        else:
            return None
        make, value = leaf._recipe(), -1
        if any(self._hides_tensor(part) or self._hidden_numbers(part) for part in make.parts):
            make, value = make.of_snapshot, self._fresh_handle(leaf)
        self.views.append(ViewOf(at, self._objects.number(make), value))
        return len(self.views) - 1

    def _of_object(self, leaf: Any, what: str, location: Location | None, *, stays: bool) -> Leaf:
        """A Python object: the very one, or a copy that each call makes; TraceError where neither would be right."""
        if isinstance(leaf, Iterator) or inspect.isawaitable(leaf):
            raise TraceError(
                f"{what} is a {type(leaf).__name__}, which would be used up after the first call",
                location=location,
                hint="make a list of it: list(...)",
            )
        if self._hides_tensor(leaf):
            raise TraceError(
                f"{what} holds tensors inside a {type(leaf).__name__}, which a compiled call cannot make again",
                location=location,
                hint="put them into tuples, lists, dicts or dataclasses",
            )
        for number in self._hidden_numbers(leaf):
            number.refuse(f"{what}, which holds {{}} inside a {type(leaf).__name__},")
        if (copy_index := self._copied(leaf)) is not None:
            return Leaf("copy", copy_index)
        if stays and not _is_plain(leaf) and not self._is_outside(leaf):
            raise TraceError(
                f"{what} is set to a new {type(leaf).__name__}, which a compiled call cannot make again",
                location=location,
                hint="set it outside of the traced function, or keep tensors and Python numbers in it",
            )
        return self.plain(leaf)

    def plain(self, value: Any) -> Leaf:
        """A Python value that is given out as it is."""
        data = plain_of(value) if type(value) in _PLAIN else None
        return Leaf("object", self._objects.number(value)) if data is None else Leaf("plain", data)

    def copied(self) -> int | None:
        """The number of the table's ``Copied``, when all has been given out."""
        if not self._copies:
            return None
        assert self._capture is not None
        return self._objects.number(Copied(tuple(self._copies), self._capture.identities.outside()))

    def _copied(self, leaf: Any) -> int | None:
        """The number of the copy of an object that the function made, as it may be changed in place."""
        if self._capture is None or self._capture.identities.is_reachable(leaf):
            return None
        if isinstance(leaf, np.ndarray):
            base: Any = leaf
            while isinstance(base, np.ndarray) and not self._capture.identities.is_reachable(base):
                base = base.base
            if base is not None or not leaf.flags.writeable:  # it shows memory from outside
                return None
        elif not (type(leaf) in _MUTABLE or self._capture.identities.is_created(leaf)):
            if not callable(leaf) and hasattr(leaf, "__dict__"):
                what = f"a {type(leaf).__name__} that it gives out, the same one at each call"
                self._capture.limits.cannot_guard(what)
            return None
        if id(leaf) not in self._copy_of:
            self._kept.append(leaf)
            self._copy_of[id(leaf)] = self._copy(leaf, self._capture)
        return self._copy_of[id(leaf)]

    def _copy(self, leaf: Any, capture: Capture) -> int | None:
        """Keep a copy of an object as it is now, in one with those kept before; its number."""
        if self._known is None:
            self._known = {id(x): x for x in capture.identities.outside()}
        try:
            copy = copy_of(leaf, self._known)
        except Exception as error:
            capture.limits.cannot_guard(
                f"a {type(leaf).__name__} that it gives out, of which there is no copy: {error}"
            )
            return None
        self._copies.append(copy)
        return len(self._copies) - 1

    def _hides_tensor(self, value: Any, depth: int = 3) -> bool:
        """Whether a new object (a set, a closure, an instance) holds tensors that are this call's alone."""
        if scalars.is_computed(value):
            return True
        if isinstance(value, Tensor):
            return self._trace.is_argument(value) or isinstance(value._value, TracedValue)
        if depth == 0 or self._is_reachable(value):
            return False
        return any(self._hides_tensor(element, depth - 1) for element in _inside(value))

    def _hidden_numbers(self, value: Any, depth: int = 3) -> list[SymbolicNumber]:
        """The numbers that vary in a new object (a set, a closure, an instance), of which each call gets the same."""
        if type(value) is SymbolicNumber:
            return [value] if value.is_live else []
        if depth == 0 or self._is_reachable(value):
            return []
        return [number for element in _inside(value) for number in self._hidden_numbers(element, depth - 1)]

    def _fresh_handle(self, handle: Tensor) -> int:
        index = self._fresh_of.get(id(handle))
        if index is None:
            self._kept.append(handle)
            index = self._fresh_of[id(handle)] = len(self.fresh)
            value = self.computed(self._trace.read(handle))
            self.fresh.append(Fresh(value, handle._requires_grad, handle._weak, handle._api))
        return index

    def computed(self, value: TracedValue) -> Computed:
        """Where a value is found after the call; values that are no inputs become outputs of the graph."""
        trace = self._trace
        differentiable = trace.is_differentiable(value)
        number = trace.input_number(value.ir)
        if number is not None and trace.taken[number].kind == "slot":
            return Computed("input", number, differentiable)
        return Computed("output", trace.output_number(value.ir), differentiable)


def _inside(value: Any) -> Iterable[Any]:
    """What an object that is no pytree holds, as far as that can be seen without running code of the user's."""
    if isinstance(value, type | types.ModuleType | int | float | str | bytes | np.ndarray):
        return ()
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return (*cells, *(value.__defaults__ or ()))
    if isinstance(value, types.MethodType):
        return (value.__self__,)
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, tuple | list | set | frozenset):
        return value
    if isinstance(value, slice):
        return value.start, value.stop, value.step
    return (value if isinstance(value, dict) else getattr(value, "__dict__", {})).values()


def _is_plain(leaf: Any) -> bool:
    """Whether a value may stand in a place again and again: immutable, or an object that lives on anyway."""
    values = bool | int | float | complex | str | bytes | enum.Enum | type | np.dtype | np.generic
    return isinstance(leaf, values) or callable(leaf) or (type(leaf) in _IMMUTABLE and plain_of(leaf) is not None)
