"""NativeCalls: what a traced function knows of its calls that go past Python, before there are any as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.dispatch.start import native_runtime
from jitgraph.runtime import forks

if TYPE_CHECKING:
    from jitgraph.tracing.call.native.dispatcher import Dispatcher
    from jitgraph.tracing.call.specialisation import Specialisation


class NativeCalls:
    """The dispatcher of one function, once there is one. ``refused`` says why there will never be."""

    def __init__(self, function: Any, binder: Any) -> None:
        self._function = function
        self._binder = binder
        self.dispatcher: Dispatcher | None = None
        self.refused: str | None = None
        self._lock = forks.lock()
        self._making = False

    def note(self, specialisation: Specialisation, values: tuple[Any, ...], operands: Sequence[Any]) -> None:
        """Note that Python serves a call that fits a specialisation, so that later ones may go past it."""
        if self.dispatcher is None:
            self._ask()
        if self.dispatcher is not None:
            self.dispatcher.served(specialisation, values, operands)

    def _ask(self) -> None:
        """Make the one dispatcher: the function's words lead to what it keeps, so a second one must not take its place.

        Who comes here while it is made (from a finaliser, too) goes on without.
        """
        with self._lock:
            if self.dispatcher is not None or self._making:
                return
            self._making = True
            try:
                self.dispatcher = dispatcher_for(self._function, self._binder)
            except Unsupported as reason:
                self.refused = str(reason)
            finally:
                self._making = False

    @property
    def hits(self) -> int:
        """How many calls went past Python."""
        return 0 if self.dispatcher is None else self.dispatcher.hits

    @property
    def reasons(self) -> dict[str, int]:
        """Why calls could not, with how often that was found."""
        return {} if self.dispatcher is None else self.dispatcher.reasons

    def used(self) -> frozenset[int]:
        """The ids of the specialisations that native calls have used since this was last asked."""
        return frozenset() if self.dispatcher is None else self.dispatcher.used()

    def retain(self, specialisations: Sequence[Specialisation]) -> None:
        """Serve none but these from now on, until Python has served others."""
        if self.dispatcher is not None:
            self.dispatcher.retain(specialisations)

    def clear(self) -> None:
        """Forget everything."""
        if self.dispatcher is not None:
            self.dispatcher.clear()


def dispatcher_for(function: Any, binder: Any) -> Dispatcher | None:
    """What makes native calls for a traced function; None where that cannot be yet.

    Unsupported says why there will never be any for this function.
    """
    runtime = native_runtime()
    if runtime is None:
        return None
    from jitgraph.tracing.call.native.dispatcher import Dispatcher  # here, as most functions are called a few times

    return Dispatcher(function, binder, runtime)
