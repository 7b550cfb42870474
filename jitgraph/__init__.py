"""jitgraph: a tracing JIT compiler with a static-graph IR for NumPy-style tensor programs.

Names load their modules when they are first used, so that importing the package stays cheap.
"""

from jitgraph import own_code
from jitgraph.runtime import imports, stubs

__version__ = "0.1.0"

# the constants of the Array API
e = 2.718281828459045
pi = 3.141592653589793
inf = float("inf")
nan = float("nan")
newaxis = None

__array_api_version__ = "2024.12"

_attribute, __dir__ = stubs.attach(__name__)


def __getattr__(name):  # type: ignore[no-untyped-def]
    if name == "ir":
        imports.module("jitgraph.ops")  # hands the op table down, so that jg.ir.parse knows every op
    return _attribute(name)


def __array_namespace_info__():  # type: ignore[no-untyped-def]  # noqa: N807 - the name is the standard's
    """The inspection of the Array API: capabilities, devices and dtypes."""
    return imports.module("jitgraph.tensor.dtype_queries").NamespaceInfo()


own_code.register_packages(
    stateful=("nn", "optim", "torch.nn", "torch.optim", "torch.jit", "torch.utils", "torch.export", "onnx.loaded"),
    stateless=("nn.functional", "torch.nn.functional"),
    staged=("nn", "torch.nn"),
)

# What lower layers ask for without knowing what stands above them.
imports.provide("the package", __name__)
imports.provide("hints for missing names", "jitgraph.migration_hints", "of_module")
imports.provide("names of torch", "jitgraph.torch.habits", "hint")
imports.provide("tensors of torch", "jitgraph.torch.tensors", "Tensor")
imports.provide("op with a gradient function", "jitgraph.transforms.custom", "passing")
imports.provide("state of the global generator", "jitgraph.random.generator", "_GLOBAL.state")

imports.after_import("einops._backends", "jitgraph.foreign_einops", "register")
