"""``torch.functional``: functions of ``torch`` that PyTorch also has under this name."""

from __future__ import annotations

from jitgraph.torch.functions.joining import atleast_1d as atleast_1d
from jitgraph.torch.functions.joining import atleast_2d as atleast_2d
from jitgraph.torch.functions.joining import atleast_3d as atleast_3d
from jitgraph.torch.functions.joining import block_diag as block_diag
from jitgraph.torch.functions.joining import broadcast_shapes as broadcast_shapes
from jitgraph.torch.functions.joining import broadcast_tensors as broadcast_tensors
from jitgraph.torch.functions.joining import cartesian_prod as cartesian_prod
from jitgraph.torch.functions.joining import chain_matmul as chain_matmul
from jitgraph.torch.functions.joining import einsum as einsum
from jitgraph.torch.functions.joining import meshgrid as meshgrid
from jitgraph.torch.functions.joining import tensordot as tensordot
from jitgraph.torch.functions.joining import unravel_index as unravel_index
from jitgraph.torch.functions.reductions import norm as norm
from jitgraph.torch.functions.reductions import unique as unique
from jitgraph.torch.functions.reductions import unique_consecutive as unique_consecutive
from jitgraph.torch.functions.views import split as split
