"""``torch.utils.data.dataset``: datasets, under the name of PyTorch's module."""

from jitgraph.data import ChainDataset as ChainDataset
from jitgraph.data import ConcatDataset as ConcatDataset
from jitgraph.data import Dataset as Dataset
from jitgraph.data import IterableDataset as IterableDataset
from jitgraph.data import StackDataset as StackDataset
from jitgraph.data import Subset as Subset
from jitgraph.data import TensorDataset as TensorDataset
from jitgraph.data import random_split as random_split
