"""The names of ``torch.func``, and where each is defined."""

from jitgraph.torch.func.modules import functional_call as functional_call
from jitgraph.torch.func.modules import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from jitgraph.torch.func.modules import stack_module_state as stack_module_state
from jitgraph.torch.func.transforms import debug_unwrap as debug_unwrap
from jitgraph.torch.func.transforms import functionalize as functionalize
from jitgraph.torch.func.transforms import grad as grad
from jitgraph.torch.func.transforms import grad_and_value as grad_and_value
from jitgraph.torch.func.transforms import hessian as hessian
from jitgraph.torch.func.transforms import jacfwd as jacfwd
from jitgraph.torch.func.transforms import jacrev as jacrev
from jitgraph.torch.func.transforms import jvp as jvp
from jitgraph.torch.func.transforms import linearize as linearize
from jitgraph.torch.func.transforms import vjp as vjp
from jitgraph.torch.func.transforms import vmap as vmap
