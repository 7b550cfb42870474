"""What views know of their base: where the elements lie, and where they went when the base got those of another tensor.

A tensor that is no view owns its elements. It has a ``SharedStorage`` once views were made of it; they refer to that,
too. A tensor that gets the elements of another one (``x.data = y``) leaves its views behind: its storage says of which
tensor they are views from then on, and is dropped with the last of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from jitgraph.runtime.buffer import holders
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.layouts import StorageLayout, contiguous_strides
from jitgraph.torch.view_steps import ViewStep, stepped

if TYPE_CHECKING:
    from jitgraph.torch.tensors import Tensor, View

LazyLayout: TypeAlias = "StorageLayout | Callable[[tuple[Any, ...], StorageLayout], StorageLayout]"
"""Where the elements of a view lie in the storage, or what tells it of the shape and layout of what the view is of."""


class Moved(NamedTuple):
    """Where the elements of a storage are now: in a tensor, behind steps, of which ``storage`` is the storage."""

    base: Tensor
    steps: tuple[ViewStep, ...]
    storage: SharedStorage


class SharedStorage:
    """The elements of a tensor of which views were made; stands in the tensor for the count of its counted writes."""

    __slots__ = ("moved", "writes")

    def __init__(self, writes: int) -> None:
        self.writes = writes
        self.moved: Moved | None = None

    def __int__(self) -> int:
        return self.writes

    def __iadd__(self, writes: int) -> SharedStorage:
        self.writes += writes
        return self


def storage_of(base: Any) -> SharedStorage:
    """The storage of a tensor that is no view."""
    storage = base._indexed
    if storage.__class__ is not SharedStorage:
        storage = base._indexed = SharedStorage(int(storage))
    return storage


def has_views(x: Any, own: int = 0) -> bool:
    """Whether there are views of a tensor that is no view, besides so many of the caller's."""
    return x._indexed.__class__ is SharedStorage and holders([x._indexed]) > [1 + own]


class ViewState:
    """Of which tensor a view has the elements, by which steps. A view that becomes one of others gets another state."""

    __slots__ = ("base", "cache", "known", "layout", "parent", "steps", "storage")

    def __init__(
        self,
        base: Tensor,
        storage: SharedStorage,
        steps: tuple[ViewStep, ...],
        layout: LazyLayout,
        parent: tuple[View, ViewState] | None = None,
    ) -> None:
        self.base = base
        self.storage = storage
        self.steps = steps
        self.layout = layout
        self.known: StorageLayout | None = None  # the layout, once it was asked for
        self.parent = parent  # the view of which this one was made, as it was then: its elements come first
        self.cache: tuple[Any, Any] | None = None
        """A value of the base, and that of the view then: one object, so that threads see both or neither."""

    def derived(self, base: Any) -> Any:
        """The value of the view where the base has this one."""
        if self.parent is not None:
            view, before = self.parent
            if view._state is before:  # else it has become a view of other elements
                return stepped(view._read(), self.steps[len(before.steps) :])
        return stepped(base, self.steps)

    def known_layout(self) -> StorageLayout:
        """How many elements of the storage precede the first one, and how many lie between neighbours, by axis."""
        if self.known is None:
            layout = self.layout
            self.known = layout(*self._before()) if callable(layout) else layout
        return self.known

    def _before(self) -> tuple[tuple[Any, ...], StorageLayout]:
        """The shape and the layout of that of which the view was made."""
        if self.parent is not None:
            view, before = self.parent
            shape = tuple(view.shape) if view._state is before else before._shape_by(before.steps)
            return shape, before.known_layout()
        shape = self._shape_by(())
        return shape, (0, contiguous_strides(shape))

    def _shape_by(self, steps: tuple[ViewStep, ...]) -> tuple[Any, ...]:
        """The shape of what steps make of that which the base had when the view was made."""
        base, storage = self.base, self.storage
        while storage.moved is not None:
            base, more, storage = storage.moved
            steps = (*more, *steps)
        return tuple(wrap(stepped(base.value, steps)).shape if steps else base.shape)
