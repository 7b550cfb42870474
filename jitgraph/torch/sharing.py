"""Tensors that get the elements of others and share them from then on: ``x.data = y``, ``x.set_(y)``, ``Parameter(x)``.

One of the two owns the elements, the other becomes a view of it. It is the one that gets them that owns them, as what
it gets them from is mostly dropped; it becomes a view itself of what is a view of other tensors, or has a history.
"""

from __future__ import annotations

import math
import types
from typing import Any, Final, cast
from weakref import ref

import jitgraph as jg
from jitgraph.eager import versions
from jitgraph.eager.handle import COMPUTED, ValueHandle, of_its_own, stopped
from jitgraph.errors import TraceError
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.runtime.buffer import holders
from jitgraph.tensor import lifting
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.functions.views import as_strided
from jitgraph.torch.layouts import contiguous_strides
from jitgraph.torch.storages import LazyLayout, Moved, SharedStorage, ViewState, has_views, storage_of
from jitgraph.torch.tensors import Tensor, View, indexed, layout_of, new_view, offset_of
from jitgraph.torch.view_steps import DataStep, Detach, ViewStep, of_copy

_VIEW_CLASSES: Final[dict[type[Tensor], type[View]]] = {Tensor: View}


def view_class(kind: type[Tensor]) -> type[View]:
    """The class of views that are of a class of tensors, such as of parameters."""
    if kind not in _VIEW_CLASSES:
        members = {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__, "_owner_class": kind}
        _VIEW_CLASSES[kind] = types.new_class(kind.__name__, (View, kind), {}, lambda names: names.update(members))
    return _VIEW_CLASSES[kind]


# ----------------------------------------------------------------------
# What ``x.data = y`` and its like do.


def set_data(x: Tensor, y: Any) -> None:
    """``x.data = y``: x has the elements of y, which may have another shape and dtype; earlier views of x keep its own.

    TraceError in a compiled function where x and y would have to share elements after the call.
    """
    if x is y or (isinstance(y, Tensor) and _is_same(x, y)):
        return
    with context.using(grad_enabled=False):
        if context.current().trace is not None:
            _set_in_trace(x, y)
        elif isinstance(y, Tensor):
            step = DataStep()
            share(x, y, step)
        else:
            replace(x, of_its_own(lifting.value_of(y)), counted=False)


def _is_same(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors have the same elements in the same order, by the steps to them."""
    return x._root is y._root and _moves(x) == _moves(y)


def _moves(x: Tensor) -> list[ViewStep]:
    return [step for step in x.steps if not isinstance(step, Detach)] if isinstance(x, View) else []


def replace(x: Tensor, value: Any, *, counted: bool = True) -> None:
    """Give x a value of any shape and dtype; earlier views of x keep what it had, and its base, where it is one.

    ``counted``: x then has another version.
    """
    if not isinstance(x, View):
        leave_views(x)
        x._rebind(value, counted)
    elif context.current().trace is None:
        _own(x, value)
    else:
        _require_own(x)
        x._state = ViewState(base := Tensor._of(value), storage_of(base), (), (0, contiguous_strides(value.shape)))


def separate(x: Tensor) -> None:
    """Let x have its elements for itself: its views and its base keep theirs."""
    if isinstance(x, View):
        replace(x, of_its_own(stopped(x._read())))
    else:
        leave_views(x)


def share(x: Tensor, y: Tensor, step: Detach) -> None:
    """Let x have the elements of y, which are detached by ``step`` where one of them is a view of the other."""
    if not isinstance(x, View):
        leave_views(x)
    owner = _owner(x, y)
    if owner is None:
        value = of_its_own(stopped(y.value))
        _own(x, value) if isinstance(x, View) else x._rebind(value, False)
        _follow(y, x, step)
        return
    if isinstance(step, DataStep):
        step.writes = x._version
    state = ViewState(owner, storage_of(owner), (*_steps(y), step), layout_of(y))
    if isinstance(x, View):
        x._state = state
        return
    old = x._value
    _to_view(x, state)
    versions.overwritten(x, old, counted=False)


def begin(x: Tensor, y: Tensor, step: Detach) -> None:
    """Let a new tensor have the elements of y: as ``share``."""
    if context.current().trace is not None:
        x._bind(stopped(of_its_own(y.value)))
        _stand_in(x, cast(Tensor, y._root))
        return
    owner = _owner(x, y)
    if owner is None:
        with context.using(grad_enabled=False):
            x._bind(of_its_own(stopped(y.value)))
        x._indexed = y._version
        _follow(y, x, step)
    else:
        x.__class__ = view_class(type(x))
        x._hooks = None
        cast(View, x)._become(owner, (*_steps(y), step), layout_of(y))


def leave_views(x: Tensor) -> Tensor | None:
    """Let the views of a tensor, which is none, keep the elements that it has now: it is to have others.

    Gives the tensor that has them then, None where there is none.
    """
    trace = context.current().trace
    views = [] if trace is None else [each() for each in trace.outermost.views.get(id(x), ())]
    left = [view for view in views if view is not None and view.base is x]
    if trace is not None and trace is not trace.outermost and (left or (_is_traced(x) and has_views(x))):
        raise TraceError(
            "a tensor that has views gets the elements of another one in a loop or branch on tensors",
            location=Location.of_user(),
            hint="write x.copy_(y), or take the views behind it",
        )
    if trace is not None and not _is_traced(x):
        if not left:
            return None
        behind = Tensor._of(trace.own(x.value))
        for view in left:
            view._state = ViewState(behind, storage_of(behind), view.steps, view.storage_layout)
        return behind
    if not has_views(x):
        return None
    storage, behind = storage_of(x), Tensor._of(x.value)
    behind._indexed = x._indexed = storage.writes
    storage.moved = Moved(behind, (), storage_of(behind))
    return behind


def resized_in_storage(x: Tensor, shape: tuple[int, ...]) -> bool:
    """``x.resize_(shape)`` where others share the elements: whether x is now another part of the same storage.

    Where the storage is too small, x becomes larger instead, of which its views have the first elements then.
    """
    if context.current().trace is not None:
        return False
    count, whole = math.prod(shape), int(cast(Tensor, x._root).numel())
    if isinstance(x, View) or (count < whole and has_views(x)):
        if offset_of(x) + count > whole:
            return False
        become(x, cast(View, as_strided(x, shape, contiguous_strides(shape))))
        return True
    if count <= whole or not has_views(x):
        return False
    flat = jg.concat([jg.reshape(x, (-1,)), jg.zeros((count - whole,), dtype=x._static.type.dtype)])
    storage, step = storage_of(x), _first_elements(tuple(x.shape))
    x._indexed = storage.writes
    storage.moved = Moved(x, (step,), storage_of(x))
    x._rebind(jg.reshape(flat, shape).value)
    return True


def _first_elements(shape: tuple[int, ...]) -> ViewStep:
    """As many elements as this shape has, of the first ones of a tensor."""
    count = math.prod(shape)

    def put(x: Any, new: Any) -> Any:
        rest = jg.Tensor.__getitem__(jg.reshape(x, (-1,)), slice(count, None))
        return jg.reshape(jg.concat([jg.reshape(new, (-1,)), rest]), tuple(x.shape))

    first = lambda x: jg.reshape(jg.Tensor.__getitem__(jg.reshape(x, (-1,)), slice(0, count)), shape)
    return ViewStep("resize_", first, put)


def become(x: Tensor, view: View) -> None:
    """Let x be what a view of it is: of a view another view; another tensor has such elements, unless it is shared."""
    traced = context.current().trace is not None
    if not isinstance(x, View) and (traced or not has_views(x, own=1)):
        value = view.value
        behind = leave_views(x) if traced else None
        x._rebind(value)
        if behind is not None:
            _stand_in(behind, x)
        return
    if traced:
        _require_own(cast(View, x))
    layout = view.storage_layout
    if not isinstance(x, View):
        leave_views(x)
    settled = view._settled()
    state = ViewState(settled.base, settled.storage, settled.steps, layout)
    if isinstance(x, View):
        x._state = state
    else:
        _to_view(x, state)


def _to_view(x: Tensor, state: ViewState) -> None:
    x.__class__ = view_class(type(x))
    cast(View, x)._state = state
    x._indexed = False


def _own(x: View, value: Any) -> None:
    """Let a view be a tensor with elements of its own."""
    version = x._version
    cast(Any, x).__class__ = x._owner_class
    x._value = value
    x._indexed = version


def _owner(x: Tensor, y: Tensor) -> Tensor | None:
    """The tensor that goes on to own the elements of y when x shares them; None where x is to own them."""
    if isinstance(y, View):
        return None if not y.requires_grad and _is_alone(y) else y.base
    has_history = y._requires_grad or y._value.record is not None
    return y if has_history or (y._is_parameter and not x._is_parameter) else None


def _steps(y: Tensor) -> tuple[ViewStep, ...]:
    return y.steps if isinstance(y, View) else ()


def _is_alone(view: View) -> bool:
    """Whether nobody but a view refers to its base, or to the views between them."""
    state = view._settled()
    listed: list[Tensor] = [state.base]
    while state.parent is not None:
        listed.append(state.parent[0])
        state = state.parent[1]
    return holders(listed) == [len(listed)] + [1] * (len(listed) - 1)


def _follow(y: Tensor, x: Tensor, step: Detach) -> None:
    """Let y, whose elements x has now, be a view of it."""
    if isinstance(step, DataStep):
        step.writes = y._version
    state = ViewState(x, storage_of(x), (step,), (0, contiguous_strides(x._value.shape)))
    if isinstance(y, View):
        y._state = state
        return
    before = y._indexed
    _to_view(y, state)
    if before.__class__ is SharedStorage:
        before.moved = Moved(x, (step,), state.storage)


# ----------------------------------------------------------------------
# Views that compiled calls give out: each call makes them of the tensor that it has in the place of the recorded one.


class Recipe:
    """Makes a view of a tensor by the steps of another view, a link for each of the views between."""

    def __init__(self, view: View) -> None:
        self.links: list[tuple[tuple[ViewStep, ...], LazyLayout]] = []
        state: ViewState | None = view._settled()
        while state is not None:
            before = None if state.parent is None else state.parent[1]
            self.links.insert(0, (state.steps[0 if before is None else len(before.steps) :], state.layout))
            state = before

    @property
    def parts(self) -> list[Any]:
        """All that may have been made in the trace: functions, and numbers in layouts."""
        steps = [step for steps, _ in self.links for step in steps]
        parts: list[Any] = [layout for _, layout in self.links]
        parts += [wrap(step.history) for step in steps if isinstance(step, Detach) and step.history is not None]
        return parts + [part for step in steps if not isinstance(step, Detach) for part in _fields(step)]

    @staticmethod
    def of_snapshot(root: Tensor, part: Tensor) -> View:
        """A view of a tensor, or of its base, with the elements of ``part``, until one of them is written."""
        return _by_steps(root, (Snapshot(part.value),), (0, contiguous_strides(part._value.shape)))

    def __call__(self, root: Tensor) -> View:
        x = root
        for steps, layout in self.links:
            x = _by_steps(x, of_copy(steps), layout)
        return cast(View, x)


def _fields(step: ViewStep) -> list[Any]:
    names = [name for kind in type(step).__mro__ for name in getattr(kind, "__slots__", ())]
    return [getattr(step, name) for name in names if hasattr(step, name)]


def _by_steps(x: Tensor, steps: tuple[ViewStep, ...], layout: LazyLayout) -> View:
    view: View = new_view()
    if isinstance(x, View):
        state = x._settled()
        view._become(state.base, (*state.steps, *steps), layout, (x, state))
    else:
        view._become(x, steps, layout)
    return view


class Snapshot(ViewStep):
    """The step to a part of a tensor of which only the elements are known: they are those of one value of the tensor.

    What part it is depends on the call, so it can be neither written nor read once the tensor is written.
    """

    __slots__ = ("_seen", "_value")

    def __init__(self, value: Any) -> None:
        super().__init__("a compiled function", self._of, self._refuse)
        self._value, self._seen = value, None

    def see(self, root: Tensor) -> None:
        """The value of the tensor is now that of which this is a part."""
        self._seen = root.value

    def _of(self, x: Any) -> Any:
        return wrap(self._value) if x.value is self._seen else self._refuse(x, None)

    def _refuse(self, x: Any, new: Any) -> Any:
        raise RuntimeError(
            "a compiled function gave this out as a part of another tensor, one of them is written since, and which "
            "part it is depends on numbers or tensors of the call\n"
            "  hint: return x[i].clone(), or write to x[i] in the function"
        )


# ----------------------------------------------------------------------
# Rows of staged loops.


class Row(View):
    """A row of a tensor along which a staged loop goes, which brings its elements while no turn writes to the tensor:
    otherwise each turn takes a view."""

    __slots__ = ("brought",)

    brought: Tensor

    def _read(self) -> Any:
        return self.brought.value


def row_of(x: Tensor, i: Any, elements: Tensor) -> Row:
    """Row i of a tensor, whose elements a loop brings."""
    view = indexed(x, i)
    row: Row = new_view(Row)
    row._become(view.base, view.steps, view._state.layout, view._state.parent)
    row._indexed = True
    row.brought = elements
    return row


# ----------------------------------------------------------------------
# In a trace, where a handle from outside can get another value and no other elements.


def _set_in_trace(x: Tensor, y: Any) -> None:
    value = of_its_own(lifting.value_of(y))
    root = y._root if isinstance(y, Tensor) else None
    if root is None:
        replace(x, value, counted=False)
        return
    if root is x._root:
        raise TraceError(
            "x.data = y is set in a compiled function where y is a part or another form of x: it would share elements "
            "with x's other views",
            location=Location.of_user(),
            hint="write x.data = y.clone(), or use y instead of x",
        )
    if not _is_traced(x._root) and not _is_traced(root):
        raise TraceError(
            "x.data = y is set in a compiled function where both are from outside: they would share elements after the "
            "call",
            location=Location.of_user(),
            hint="set it outside of the function, or write x.data = y.clone() or x.copy_(y)",
        )
    replace(x, value, counted=False)
    _stand_in(x, cast(Tensor, root))


def _stand_in(x: Tensor, root: Tensor) -> None:
    """Let x and ``root`` be as one tensor as far as a trace can: a write to one, and what is read of the other then,
    are refused."""
    one, other = (root, x) if _is_traced(root) else (x, root)
    trace: Any = context.current().trace
    trace.stand_ins.add(one, [other._root], trace, "shares the elements of another one since {}")


def _require_own(x: View) -> None:
    trace: Any = context.current().trace
    if trace.outermost.is_argument_or_gradient(x) or trace.outermost.read_slot(x) is not None:
        raise TraceError(
            "x.data = y is set in a compiled function where x is a view from outside: it would be no view of the same "
            "tensor after the call",
            location=Location.of_user(),
            hint="set it outside of the function, or write x.copy_(y)",
        )


def _is_traced(x: ValueHandle) -> bool:
    """Whether a tensor, which is no view, was made in the trace."""
    return not isinstance(x._value, COMPUTED)


def note_in_trace(view: View, base: Tensor, trace: Any) -> None:
    """A view of a tensor from outside was made in a trace: another value of that may leave it behind."""
    if not _is_traced(base):
        trace.outermost.views.setdefault(id(base), []).append(ref(view))
