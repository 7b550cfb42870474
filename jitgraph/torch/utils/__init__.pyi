"""The names of ``torch.utils``, and where each is defined."""

from jitgraph.torch.utils import checkpoint as checkpoint
from jitgraph.torch.utils import data as data
