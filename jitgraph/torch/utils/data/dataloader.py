"""``torch.utils.data.dataloader``: loaders, under the name of PyTorch's module."""

from jitgraph.data import get_worker_info as get_worker_info
from jitgraph.torch.utils.data.loading import DataLoader as DataLoader
from jitgraph.torch.utils.data.loading import default_collate as default_collate
from jitgraph.torch.utils.data.loading import default_convert as default_convert
