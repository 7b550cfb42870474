"""The methods of ``torch.Tensor`` that are no functions of ``torch``."""

from jitgraph.torch.functions.pointwise import add_ as add_  # method
from jitgraph.torch.functions.pointwise import mul_ as mul_  # method
from jitgraph.torch.functions.pointwise import sub_ as sub_  # method
from jitgraph.torch.functions.views import contiguous as contiguous  # method
from jitgraph.torch.functions.views import expand as expand  # method
from jitgraph.torch.functions.views import expand_as as expand_as  # method
from jitgraph.torch.functions.views import reshape_as as reshape_as  # method
from jitgraph.torch.functions.views import unfold as unfold  # method
from jitgraph.torch.functions.views import view as view  # method
from jitgraph.torch.functions.views import view_as as view_as  # method
