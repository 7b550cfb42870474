"""``torch.utils.data.sampler``: orders of items, under the name of PyTorch's module."""

from jitgraph.data import BatchSampler as BatchSampler
from jitgraph.data import RandomSampler as RandomSampler
from jitgraph.data import Sampler as Sampler
from jitgraph.data import SequentialSampler as SequentialSampler
from jitgraph.data import SubsetRandomSampler as SubsetRandomSampler
from jitgraph.data import WeightedRandomSampler as WeightedRandomSampler
