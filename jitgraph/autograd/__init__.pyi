"""The names of ``jitgraph.autograd``, and where each is defined."""

from jitgraph.autograd.gradients import backward as backward
from jitgraph.autograd.gradients import detect_anomaly as detect_anomaly
from jitgraph.autograd.gradients import enable_grad as enable_grad
from jitgraph.autograd.gradients import grad as grad
from jitgraph.autograd.gradients import no_grad as no_grad
from jitgraph.autograd.gradients import set_grad_enabled as set_grad_enabled
from jitgraph.transforms.custom import Function as Function
from jitgraph.transforms.gradient_checks import gradcheck as gradcheck
from jitgraph.transforms.gradient_checks import gradgradcheck as gradgradcheck
