"""Layers without parameters: activations, dropout, pooling, reshaping."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.nn import functional
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.shapes import flatten


def shown(settings: str, inplace: bool) -> str:
    """The settings of a layer that may write to its input, as PyTorch shows them."""
    return ", ".join([*([settings] if settings else []), *(["inplace=True"] if inplace else [])])


def activation(name: str, function: Any, module: str = __name__, *, takes_inplace: bool = True) -> type[Module]:
    """The module of a function of x alone, which may be told to write to x."""

    def begin(self: Any, inplace: bool = False) -> None:
        Module.__init__(self)
        self.inplace = inplace

    def in_place(self: Any, input: Tensor) -> Tensor:
        return function(input, inplace=self.inplace)  # type: ignore[no-any-return]

    def plain(self: Module, input: Tensor) -> Tensor:
        return function(input)  # type: ignore[no-any-return]

    def extra_repr(self: Any) -> str:
        return shown("", self.inplace)

    forward = in_place if takes_inplace else plain
    forward.__name__ = "forward"
    forward.__doc__ = f"``functional.{function.__name__}`` of input."
    members: dict[str, Any] = {"forward": forward, "__doc__": function.__doc__, "__module__": module}
    if takes_inplace:
        members |= {"__init__": begin, "extra_repr": extra_repr}
    return type(name, (Module,), members)


ReLU = activation("ReLU", functional.relu)
ReLU6 = activation("ReLU6", functional.relu6)
Sigmoid = activation("Sigmoid", functional.sigmoid, takes_inplace=False)
LogSigmoid = activation("LogSigmoid", functional.logsigmoid, takes_inplace=False)
Tanh = activation("Tanh", functional.tanh, takes_inplace=False)
SiLU = activation("SiLU", functional.silu)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """``functional.softplus`` of input."""
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class GELU(Module):
    """x * Phi(x), exact or by the tanh approximation (Hendrycks and Gimpel 2016)."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """``functional.gelu`` of input."""
        return functional.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """x, or ``negative_slope * x`` where x is negative."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """``functional.leaky_relu`` of input."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return shown(f"negative_slope={self.negative_slope}", self.inplace)


class ELU(Module):
    """x where it is positive, else ``alpha * (exp(x) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """``functional.elu`` of input."""
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return shown(f"alpha={self.alpha}", self.inplace)


class Softmax(Module):
    """Softmax along ``dim``."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """``functional.softmax`` of input."""
        return functional.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """Logarithm of softmax along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """``functional.log_softmax`` of input."""
        return functional.log_softmax(input, self.dim)


class Dropout(Module):
    """Each element zero with probability ``p`` while training, the others scaled by 1 / (1 - p).

    JitgraphError where ``p`` does not lie between 0 and 1.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise JitgraphError(f"Dropout: p={p} is not a probability")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """``functional.dropout`` of input."""
        return functional.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Identity(Module):
    """x as it is; arguments of the constructor are taken and not used, as in PyTorch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """input."""
        return input


class Flatten(Module):
    """Axes ``start_dim`` to ``end_dim`` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """The flattened input."""
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
