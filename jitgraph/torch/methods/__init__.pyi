"""The methods of ``torch.Tensor`` that are no functions of ``torch``."""

from jitgraph.torch.functions.views import contiguous as contiguous  # method
from jitgraph.torch.functions.views import expand as expand  # method
from jitgraph.torch.functions.views import expand_as as expand_as  # method
from jitgraph.torch.functions.views import reshape_as as reshape_as  # method
from jitgraph.torch.functions.views import unfold as unfold  # method
from jitgraph.torch.functions.views import view as view  # method
from jitgraph.torch.functions.views import view_as as view_as  # method
