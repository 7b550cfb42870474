"""The names of ``torch.autograd``, and where each is defined."""

from jitgraph.torch.autograd import forward_ad as forward_ad
from jitgraph.torch.autograd import function as function
from jitgraph.torch.autograd import functional as functional
from jitgraph.torch.autograd import grad_mode as grad_mode
from jitgraph.torch.autograd import graph as graph
from jitgraph.torch.autograd import profiler as profiler
from jitgraph.torch.autograd import variable as variable
from jitgraph.torch.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from jitgraph.torch.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from jitgraph.torch.autograd.function import Function as Function
from jitgraph.torch.autograd.function import NestedIOFunction as NestedIOFunction
from jitgraph.torch.autograd.grad_mode import enable_grad as enable_grad
from jitgraph.torch.autograd.grad_mode import inference_mode as inference_mode
from jitgraph.torch.autograd.grad_mode import no_grad as no_grad
from jitgraph.torch.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from jitgraph.torch.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
from jitgraph.torch.autograd.gradients import backward as backward
from jitgraph.torch.autograd.gradients import grad as grad
from jitgraph.torch.autograd.gradients import gradcheck as gradcheck
from jitgraph.torch.autograd.gradients import gradgradcheck as gradgradcheck
from jitgraph.torch.autograd.variable import Variable as Variable
