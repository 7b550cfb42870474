"""Layers without parameters: activations, dropout, pooling, reshaping."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.nn import functional
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.shapes import flatten


def refuse_in_place(name: str, inplace: bool) -> None:
    """JitgraphError for ``inplace=True``, as tensors' values never change under another handle."""
    if inplace:
        what = f"{name}(inplace=True): no other handle ever sees a value change"
        raise JitgraphError(f"{what}\n  hint: jg.nn.{name}(); compiled code reuses the memory where it can")


def _activation(name: str, function: Any) -> type[Module]:
    def forward(self: Module, x: Tensor) -> Tensor:
        return function(x)  # type: ignore[no-any-return]

    def __init__(self: Module, inplace: bool = False) -> None:  # noqa: N807
        refuse_in_place(name, inplace)
        Module.__init__(self)

    forward.__doc__ = f"``functional.{function.__name__}`` of x."
    members = {"__init__": __init__, "forward": forward, "__doc__": function.__doc__, "__module__": __name__}
    return type(name, (Module,), members)


ReLU = _activation("ReLU", functional.relu)
ReLU6 = _activation("ReLU6", functional.relu6)
Sigmoid = _activation("Sigmoid", functional.sigmoid)
LogSigmoid = _activation("LogSigmoid", functional.logsigmoid)
Tanh = _activation("Tanh", functional.tanh)
SiLU = _activation("SiLU", functional.silu)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Tensor) -> Tensor:
        """``functional.softplus`` of x."""
        return functional.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class GELU(Module):
    """x * Phi(x), exact or by the tanh approximation (Hendrycks and Gimpel 2016)."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """``functional.gelu`` of x."""
        return functional.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """x, or ``negative_slope * x`` where x is negative."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        refuse_in_place("LeakyReLU", inplace)
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """``functional.leaky_relu`` of x."""
        return functional.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x where it is positive, else ``alpha * (exp(x) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        refuse_in_place("ELU", inplace)
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """``functional.elu`` of x."""
        return functional.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Softmax(Module):
    """Softmax along ``dim``."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """``functional.softmax`` of x."""
        return functional.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """Logarithm of softmax along ``dim``."""

    def forward(self, x: Tensor) -> Tensor:
        """``functional.log_softmax`` of x."""
        return functional.log_softmax(x, self.dim)


class Dropout(Module):
    """Each element zero with probability ``p`` while training, the others scaled by 1 / (1 - p).

    JitgraphError where ``p`` does not lie between 0 and 1.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        refuse_in_place(type(self).__name__, inplace)
        if not 0.0 <= p <= 1.0:
            raise JitgraphError(f"Dropout: p={p} is not a probability")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """``functional.dropout`` of x."""
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace=False"


class Identity(Module):
    """x as it is; arguments of the constructor are taken and not used, as in PyTorch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        """x."""
        return x


class Flatten(Module):
    """Axes ``start_dim`` to ``end_dim`` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        """The flattened x."""
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
