"""The steps from a tensor to a view of it: how each reads the view and puts new elements back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jitgraph.eager.handle import stopped
from jitgraph.tensor.tensor import wrap


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


class Detach(ViewStep):
    """The step through which no gradient flows: what is written behind it leaves the base's history as it is."""

    __slots__ = ()
    is_data = False

    def __init__(self) -> None:
        super().__init__("detach", lambda x: wrap(stopped(x.value)), lambda x, new: new)


class DataStep(Detach):
    """The step of ``.data``, behind which writes leave the base's version, too, and are counted for it alone."""

    __slots__ = ("writes",)
    is_data = True

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0


DETACH: Final = Detach()


def data_step(steps: tuple[ViewStep, ...]) -> DataStep | None:
    """The ``.data`` of which a view by these steps is a part: it counts the writes."""
    return next((step for step in steps if step.__class__ is DataStep), None)


def stepped(value: Any, steps: tuple[ViewStep, ...]) -> Any:
    """What the steps make of a value."""
    x = wrap(value)
    for step in steps:
        x = step.apply(x)
    return x.value
