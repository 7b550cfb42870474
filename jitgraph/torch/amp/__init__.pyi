"""The names of ``torch.amp``, and where each is defined."""

from jitgraph.torch.amp.autocast_mode import autocast as autocast
from jitgraph.torch.amp.autocast_mode import custom_bwd as custom_bwd
from jitgraph.torch.amp.autocast_mode import custom_fwd as custom_fwd
from jitgraph.torch.amp.autocast_mode import is_autocast_available as is_autocast_available
from jitgraph.torch.amp.grad_scaler import GradScaler as GradScaler
