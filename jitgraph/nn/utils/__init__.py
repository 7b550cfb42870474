"""What PyTorch keeps in ``nn.utils``."""

from jitgraph.nn.utils import rnn
from jitgraph.nn.utils.clip_grad import clip_grad_norm_

__all__ = ["clip_grad_norm_", "rnn"]
