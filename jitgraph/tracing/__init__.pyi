"""The names of ``jitgraph.tracing``, and where each is defined."""

from jitgraph.tracing.call.arguments import TensorSpec as TensorSpec
from jitgraph.tracing.call.function import TracedFunction as TracedFunction
from jitgraph.tracing.call.function import trace as trace
from jitgraph.tracing.call.host import host_float as host_float
from jitgraph.tracing.call.host import host_math as host_math
from jitgraph.tracing.record.control_flow import cond as cond
from jitgraph.tracing.record.control_flow import scan as scan
from jitgraph.tracing.record.control_flow import while_loop as while_loop
