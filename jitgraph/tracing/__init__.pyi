"""The names of ``jitgraph.tracing``, and where each is defined."""

from jitgraph.tracing.arguments import TensorSpec as TensorSpec
from jitgraph.tracing.control.flow import cond as cond
from jitgraph.tracing.control.flow import scan as scan
from jitgraph.tracing.control.flow import while_loop as while_loop
from jitgraph.tracing.function import TracedFunction as TracedFunction
from jitgraph.tracing.function import trace as trace
from jitgraph.tracing.host import host_float as host_float
from jitgraph.tracing.host import host_math as host_math
