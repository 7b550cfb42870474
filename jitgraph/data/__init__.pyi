"""The names of ``jitgraph.data``, and where each is defined."""

from jitgraph.data.dataset import BatchSampler as BatchSampler
from jitgraph.data.dataset import ChainDataset as ChainDataset
from jitgraph.data.dataset import ConcatDataset as ConcatDataset
from jitgraph.data.dataset import Dataset as Dataset
from jitgraph.data.dataset import IterableDataset as IterableDataset
from jitgraph.data.dataset import RandomSampler as RandomSampler
from jitgraph.data.dataset import Sampler as Sampler
from jitgraph.data.dataset import SequentialSampler as SequentialSampler
from jitgraph.data.dataset import StackDataset as StackDataset
from jitgraph.data.dataset import Subset as Subset
from jitgraph.data.dataset import SubsetRandomSampler as SubsetRandomSampler
from jitgraph.data.dataset import TensorDataset as TensorDataset
from jitgraph.data.dataset import WeightedRandomSampler as WeightedRandomSampler
from jitgraph.data.dataset import random_split as random_split
from jitgraph.data.loading import DataLoader as DataLoader
from jitgraph.data.loading import collate as collate
from jitgraph.data.loading import default_collate as default_collate
from jitgraph.data.loading import default_convert as default_convert
from jitgraph.data.workers import WorkerInfo as WorkerInfo
from jitgraph.data.workers import get_worker_info as get_worker_info
