"""Profiles: which kernels a program ran, from which lines they came, how long they took and how near the limit."""

from __future__ import annotations

from jitgraph.profiler.events import ProfileRow
from jitgraph.profiler.session import profile

__all__ = ["ProfileRow", "profile"]
