"""A traced function as a method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitgraph.tracing.cache_info import CacheInfo
    from jitgraph.tracing.function import TracedFunction
    from jitgraph.tracing.specialisation import Retrace


class BoundFunction:
    """A traced function as a method of an object."""

    def __init__(self, function: TracedFunction, instance: object) -> None:
        self.function = function
        self.instance = instance
        self.__wrapped__ = function.__wrapped__.__get__(instance)
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __reduce__(self) -> Any:
        return BoundFunction, (self.function, self.instance)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance, *args, **kwargs)

    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        """As ``TracedFunction.lower``."""
        return self.function.lower(self.instance, *args, **kwargs)

    def cache_info(self) -> CacheInfo:
        """As ``TracedFunction.cache_info``, of all instances together."""
        return self.function.cache_info()

    def cache_clear(self) -> None:
        """As ``TracedFunction.cache_clear``."""
        self.function.cache_clear()

    @property
    def ledger(self) -> list[Retrace]:
        """The ledger of all instances together."""
        return self.function.ledger
