"""The steps from a tensor to a view of it: how each reads the view and puts new elements back."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

from jitgraph.eager.handle import stopped
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.runtime import imports
from jitgraph.tensor import indexing
from jitgraph.tensor.tensor import Tensor, wrap


class ViewStep:
    """One step from a tensor to a view of it, on jitgraph's tensors."""

    __slots__ = ("apply", "name", "put", "repeats")

    def __init__(
        self, name: str, apply: Callable[[Any], Any], put: Callable[[Any, Any], Any] | None, repeats: bool = False
    ) -> None:
        """``apply(x)`` is the view; ``put(x, new)`` is x with new elements there, None where that cannot be.

        Where the view ``repeats`` elements of x, ``put`` takes new elements that are equal where x's are the same.
        """
        self.name = name
        self.apply = apply
        self.put = put
        self.repeats = repeats


class IndexStep(ViewStep):
    """The step to the elements that a basic index chooses."""

    __slots__ = ("index",)
    name = "indexing"
    repeats = False

    def __init__(self, index: Any) -> None:
        self.index = index

    def apply(self, x: Any) -> Any:
        """``x[index]``."""
        return Tensor.__getitem__(x, self.index)

    def put(self, x: Any, new: Any) -> Any:
        """``x`` after ``x[index] = new``."""
        return wrap(indexing.put(x.value, self.index, new))


class _History:
    """What a detached tensor depends on, once a value with a gradient was written to it; apart from the step.

    The step refers to it alone, so that nothing of a detached tensor waits for the cyclic collector.
    """

    __slots__ = ("recorder", "value")

    def __init__(self) -> None:
        trace = context.current().trace
        self.recorder = None if trace is None else weakref.ref(trace)
        self.value: Any = None

    def detached(self, x: Any) -> Any:
        """The tensor behind the step, of the tensor before it."""
        value = stopped(x.value)
        if self.value is None or self.value.type != value.type:
            return wrap(value)
        history, trace = self.value, context.current().trace
        if trace is not None:
            if self.recorder is None:
                raise JitgraphError(
                    "a traced function reads a detached tensor from outside to which a value with a gradient was "
                    "written\n  hint: pass the tensor as an argument"
                )
            history = trace.own(history)
        return wrap(imports.module("jitgraph.torch.history").with_history_of(history, value))


def _replaced(_: Any, new: Any) -> Any:
    return new


class Detach(ViewStep):
    """The step through which no gradient flows: what is written behind it leaves the base's history as it is.

    A detached tensor may get a history of its own: that of the last value with a gradient that was written to it.
    """

    __slots__ = ("_history",)
    is_data = False

    def __init__(self) -> None:
        self._history = _History()
        super().__init__("detach", self._history.detached, _replaced)

    @property
    def history(self) -> Any:
        """The value that has what the detached tensor depends on, or None."""
        return self._history.value

    def depend_on(self, value: Any) -> None:
        """Note that the detached tensor has been given this value, while gradients were recorded."""
        if not value.requires_grad:
            self._history.value = None
            return
        trace, recorder = context.current().trace, self._history.recorder
        if (recorder and recorder()) is not trace:
            raise JitgraphError(
                "a value with a gradient is written to a tensor that was detached outside of the traced function or "
                "staged block\n  hint: call detach() there, or write x = x.detach() + y for a new tensor"
            )
        self._history.value = value


class Ungraded(Detach):
    """The step that makes a view taken under ``no_grad`` of what requires a gradient: only there it can be written."""

    __slots__ = ()

    def depend_on(self, value: Any) -> None:
        """Raise RuntimeError, as PyTorch does."""
        raise JitgraphError(
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this "
            "use case is ambiguous and error-prone, it is forbidden.\n"
            "  hint: take the view and write to it both inside of no_grad, or both outside"
        )


class DataStep(Detach):
    """The step of ``.data``, behind which writes leave the base's version, too, and are counted for it alone."""

    __slots__ = ("writes",)
    is_data = True

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0


UNGRADED: Final = Ungraded()


def of_copy(steps: tuple[ViewStep, ...]) -> tuple[ViewStep, ...]:
    """The steps for a view of a copy, which is detached by itself."""
    return tuple([step.__class__() if isinstance(step, Detach) else step for step in steps])


def data_step(steps: tuple[ViewStep, ...]) -> DataStep | None:
    """The ``.data`` of which a view by these steps is a part: it counts the writes."""
    for step in steps:
        if step.__class__ is DataStep:
            return step
    return None


def stepped(value: Any, steps: tuple[ViewStep, ...]) -> Any:
    """What the steps make of a value."""
    x = wrap(value)
    for step in steps:
        x = step.apply(x)
    return x.value
