"""The names of ``torch.jit``, and where each is defined."""

from typing import Final as Final

from jitgraph.torch.jit.modules import ScriptModule as ScriptModule
from jitgraph.torch.jit.scripting import annotate as annotate
from jitgraph.torch.jit.scripting import export as export
from jitgraph.torch.jit.scripting import fork as fork
from jitgraph.torch.jit.scripting import freeze as freeze
from jitgraph.torch.jit.scripting import ignore as ignore
from jitgraph.torch.jit.scripting import interface as interface
from jitgraph.torch.jit.scripting import is_scripting as is_scripting
from jitgraph.torch.jit.scripting import is_tracing as is_tracing
from jitgraph.torch.jit.scripting import optimize_for_inference as optimize_for_inference
from jitgraph.torch.jit.scripting import save as save
from jitgraph.torch.jit.scripting import script as script
from jitgraph.torch.jit.scripting import script_if_tracing as script_if_tracing
from jitgraph.torch.jit.scripting import trace as trace
from jitgraph.torch.jit.scripting import unused as unused
from jitgraph.torch.jit.scripting import wait as wait
from jitgraph.torch.torchscript.loading import load as load
