"""The names of ``torch.nn``, and where each is defined."""

from jitgraph.nn import *
from jitgraph.torch.nn import attention as attention
from jitgraph.torch.nn import functional as functional  # type: ignore[no-redef]
from jitgraph.torch.nn import init as init  # type: ignore[no-redef]
from jitgraph.torch.nn import parallel as parallel
from jitgraph.torch.nn import parameter as parameter
from jitgraph.torch.nn import utils as utils  # type: ignore[no-redef]
from jitgraph.torch.nn.layers import Container as Container
from jitgraph.torch.nn.layers import CrossMapLRN2d as CrossMapLRN2d
from jitgraph.torch.nn.layers import DataParallel as DataParallel
from jitgraph.torch.nn.layers import Hardtanh as Hardtanh
from jitgraph.torch.nn.layers import HuberLoss as HuberLoss
from jitgraph.torch.nn.layers import KLDivLoss as KLDivLoss
from jitgraph.torch.nn.layers import L1Loss as L1Loss
from jitgraph.torch.nn.layers import LinearCrossEntropyLoss as LinearCrossEntropyLoss
from jitgraph.torch.nn.layers import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from jitgraph.torch.nn.layers import LogSoftmax as LogSoftmax
from jitgraph.torch.nn.layers import MSELoss as MSELoss
from jitgraph.torch.nn.layers import RNNBase as RNNBase
from jitgraph.torch.nn.layers import RNNCellBase as RNNCellBase
from jitgraph.torch.nn.layers import SmoothL1Loss as SmoothL1Loss
from jitgraph.torch.nn.layers import Softmax as Softmax
from jitgraph.torch.nn.layers import Softmin as Softmin
from jitgraph.torch.nn.layers import factory_kwargs as factory_kwargs
from jitgraph.torch.nn.module import Module as Module
from jitgraph.torch.nn.parameter import Buffer as Buffer
from jitgraph.torch.nn.parameter import Parameter as Parameter
from jitgraph.torch.nn.uninitialized import UninitializedBuffer as UninitializedBuffer
from jitgraph.torch.nn.uninitialized import UninitializedParameter as UninitializedParameter
