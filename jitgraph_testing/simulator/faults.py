"""What kernels do wrong, as errors that name the kernel, the thread and the buffer."""

from __future__ import annotations

from jitgraph.errors import LocatedError


class SimulationError(LocatedError):
    """A kernel, or the code that launches it, does what CUDA leaves undefined or refuses."""


class BoundsError(SimulationError):
    """A thread touches memory that is not there, is freed, or may not be written."""


class AlignmentError(SimulationError):
    """A thread touches memory at an address that its instruction does not take."""


class DivergenceError(SimulationError):
    """Threads wait for others that do not come."""


class TrapError(SimulationError):
    """A thread came to a trap."""


class RaceError(SimulationError):
    """Two threads touch the same memory with nothing that orders them, and one of them writes."""


class DamageError(SimulationError):
    """What lies around a buffer was overwritten."""
