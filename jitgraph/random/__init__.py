"""Random tensors from a counter-based generator: a stream has the same numbers eagerly, traced and on any target.

Numbers of a distribution that has parameters carry gradients to those that scale and move them (``mean``, ``std``,
``low``, ``high``, ``scale``), and none to those that decide by comparisons (``p``, ``rate``, ``concentration``).
"""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
