"""``torch.signal``: windows of samples."""

from jitgraph.torch.signal import windows as windows
