"""The traced side of jitgraph: trace, control flow on tensors, and looking inside."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
