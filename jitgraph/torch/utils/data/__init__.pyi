"""The names of ``torch.utils.data``, and where each is defined."""

from jitgraph.data import *
from jitgraph.torch.utils.data.distributed import DistributedSampler as DistributedSampler
from jitgraph.torch.utils.data.loading import DataLoader as DataLoader
from jitgraph.torch.utils.data.loading import default_collate as default_collate
from jitgraph.torch.utils.data.loading import default_convert as default_convert
