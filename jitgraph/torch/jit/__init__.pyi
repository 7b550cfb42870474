"""The names of ``torch.jit``, and where each is defined."""

from jitgraph.torch.jit.modules import ScriptModule as ScriptModule
from jitgraph.torch.torchscript.loading import load as load
