"""Activations, dropout and other layers without parameters; what they compute stands in ``functional``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn import functional
from jitgraph.nn.functional.activation import alpha_dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import full
from jitgraph.tensor.functions.shapes import flatten

# ----------------------------------------------------------------------
# Layers without parameters: activations, dropout, pooling, reshaping.


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
    """x itself; the constructor accepts and ignores any arguments, as in PyTorch."""

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


# ----------------------------------------------------------------------
# Activations as modules, with PyTorch's parameters; what they compute stands in ``functional``.


class _Activation(Module):
    """A function of x and of settings, which are attributes by the names of PyTorch's."""

    function: Callable[..., Tensor]
    settings: tuple[str, ...] = ()
    inplace = False

    def forward(self, input: Tensor) -> Tensor:
        """The function of input, element by element."""
        settings = [getattr(self, name) for name in self.settings]
        return (
            type(self).function(input, *settings, inplace=True)
            if self.inplace
            else type(self).function(input, *settings)
        )

    def extra_repr(self) -> str:
        return shown(", ".join(f"{name}={getattr(self, name)}" for name in self.settings), self.inplace)


class Hardtanh(_Activation):
    """x limited to the range from ``min_val`` to ``max_val``."""

    function, settings = functional.hardtanh, ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if max_val <= min_val:
            raise JitgraphError(f"Hardtanh: max_val={max_val} should be greater than min_val={min_val}")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace


class CELU(_Activation):
    """``functional.celu`` of x."""

    function, settings = functional.celu, ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace


class Hardshrink(_Activation):
    """``functional.hardshrink`` of x."""

    function, settings = functional.hardshrink, ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(_Activation):
    """``functional.softshrink`` of x."""

    function, settings = functional.softshrink, ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Threshold(_Activation):
    """``functional.threshold`` of x."""

    function, settings = functional.threshold, ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace


class GLU(_Activation):
    """``functional.glu`` of x along ``dim``."""

    function, settings = functional.glu, ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class Softmin(_Activation):
    """``functional.softmin`` of x along ``dim``."""

    function, settings = functional.softmin, ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax2d(Module):
    """Softmax over the channels of x[N, C, H, W] or x[C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        """``functional.softmax`` along the third axis from the end."""
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d takes x[N, C, H, W] or x[C, H, W], not {input.value.type}")
        return functional.softmax(input, -3)


class PReLU(Module):
    """x, or a learned ``weight`` times x where x is not positive: one, or one for each channel (He et al. 2015)."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), float(init)))
        self.to(device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        """``functional.prelu`` of input."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """x, or a random slope times x where x is negative; while evaluating the mean slope (Xu et al. 2015)."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """``functional.rrelu`` of input."""
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return shown(f"lower={self.lower}, upper={self.upper}", self.inplace)


SELU = activation("SELU", functional.selu, __name__)
Mish = activation("Mish", functional.mish, __name__)
Hardsigmoid = activation("Hardsigmoid", functional.hardsigmoid, __name__)
Hardswish = activation("Hardswish", functional.hardswish, __name__)
Softsign = activation("Softsign", functional.softsign, __name__, takes_inplace=False)
Tanhshrink = activation("Tanhshrink", functional.tanhshrink, __name__, takes_inplace=False)


# ----------------------------------------------------------------------
# Dropout of channels and for SELU networks, as modules.


class _Variant(Dropout):
    """A function of x, ``p`` and whether the module trains."""

    function: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with what was dropped."""
        return type(self).function(input, self.p, self.training, self.inplace)


class Dropout1d(_Variant):
    """``functional.dropout1d`` of x[N, C, L]."""

    function = dropout1d


class Dropout2d(_Variant):
    """``functional.dropout2d`` of x[N, C, H, W]."""

    function = dropout2d


class Dropout3d(_Variant):
    """``functional.dropout3d`` of x[N, C, D, H, W]."""

    function = dropout3d


class AlphaDropout(_Variant):
    """``functional.alpha_dropout`` of x."""

    function = alpha_dropout


class FeatureAlphaDropout(_Variant):
    """``functional.feature_alpha_dropout`` of x[N, C, ...]."""

    function = feature_alpha_dropout
