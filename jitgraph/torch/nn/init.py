"""``torch.nn.init``: initial values, written into a tensor."""

from jitgraph.nn.init import _calculate_fan_in_and_fan_out as _calculate_fan_in_and_fan_out
from jitgraph.nn.init import calculate_gain as calculate_gain
from jitgraph.nn.init import constant_ as constant_
from jitgraph.nn.init import dirac_ as dirac_
from jitgraph.nn.init import eye_ as eye_
from jitgraph.nn.init import kaiming_normal_ as kaiming_normal_
from jitgraph.nn.init import kaiming_uniform_ as kaiming_uniform_
from jitgraph.nn.init import normal_ as normal_
from jitgraph.nn.init import ones_ as ones_
from jitgraph.nn.init import orthogonal_ as orthogonal_
from jitgraph.nn.init import sparse_ as sparse_
from jitgraph.nn.init import trunc_normal_ as trunc_normal_
from jitgraph.nn.init import uniform_ as uniform_
from jitgraph.nn.init import xavier_normal_ as xavier_normal_
from jitgraph.nn.init import xavier_uniform_ as xavier_uniform_
from jitgraph.nn.init import zeros_ as zeros_
