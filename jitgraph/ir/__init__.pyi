"""The names of ``jitgraph.ir``, and where each is defined."""

from jitgraph.ir.interpreter import interpret as interpret
from jitgraph.ir.parser import parse as parse
from jitgraph.ir.verifier import verify as verify
