"""The op table: every primitive and composite by its name, ``ops.add``, each in the module of its family.

A family is loaded when one of its ops is first used, as most programs need few; ``OPS`` loads them all.
"""

from jitgraph.ir import op
from jitgraph.ops import registry
from jitgraph.runtime import stubs

op.register(registry.op_named, registry.every_op, registry.has_name)

__getattr__, __dir__ = stubs.attach(__name__)
