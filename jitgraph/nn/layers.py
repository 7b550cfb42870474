"""Linear layers, embeddings, and layers without parameters. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from jitgraph.autograd import no_grad
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn import functional, init
from jitgraph.nn.functional import bags
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray, zeros
from jitgraph.tensor.functions.shapes import flatten

# ----------------------------------------------------------------------
# Linear layers. Names, keys, layouts and defaults as PyTorch.


def begin_affine(weight: Tensor, bias: Tensor | None) -> None:
    """Weight and bias as PyTorch begins those of linear layers and convolutions.

    Both are uniform between +-1 / sqrt(fan_in), as kaiming's bound is for a = sqrt(5).
    """
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init.fans(weight)
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """``x @ weight.T + bias``: [..., in_features] to [..., out_features]; weight [out_features, in_features]."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros((out_features, in_features)))
        self.bias = Parameter(zeros(out_features)) if bias else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform between +-1 / sqrt(in_features)."""
        begin_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The affine map of the last axis."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


# ----------------------------------------------------------------------
# Tables of vectors: Embedding and EmbeddingBag. Names, keys, layouts and defaults as PyTorch.


class _Table(Module):
    """``weight`` [num_embeddings, embedding_dim], of which row ``padding_idx`` begins as zeros."""

    sparse = False
    """Gradients are never sparse here; the name is PyTorch's."""

    shown: ClassVar[dict[str, Any]]  # what repr shows where it is not as here

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        table: Any,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        bags.require_dense(type(self).__name__, sparse)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise JitgraphError(f"padding_idx={padding_idx} is not one of {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        below = padding_idx is not None and padding_idx < 0
        self.padding_idx = padding_idx + num_embeddings if padding_idx is not None and below else padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        if table is None:
            self.weight = Parameter(zeros((num_embeddings, embedding_dim)))
            self.reset_parameters()
        elif tuple(table.shape) == (num_embeddings, embedding_dim):
            self.weight = table if isinstance(table, Parameter) else Parameter(table)
        else:
            raise ShapeError(f"_weight of {tuple(table.shape)} is not [{num_embeddings}, {embedding_dim}]")
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the table anew, normal with mean 0 and deviation 1; row ``padding_idx`` is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, **settings: Any) -> Any:
        """A module with a copy of a table [num_embeddings, embedding_dim], which is not learned if ``freeze``."""
        table = asarray(embeddings)
        if table.ndim != 2:
            raise ShapeError(f"{cls.__name__}.from_pretrained takes [num_embeddings, embedding_dim], not {table.shape}")
        module: Any = cls(int(table.shape[0]), int(table.shape[1]), **settings)
        module.weight = Parameter(table, requires_grad=not freeze)
        return module

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, plain in self.shown.items():
            value = getattr(self, name)
            text += "" if value == plain else f", {name}={value!r}"
        return text


class Embedding(_Table):
    """Rows of ``weight`` [num_embeddings, embedding_dim] by index; IndexError for an index out of range.

    Row ``padding_idx`` begins as zeros and gets no gradient. ``max_norm`` scales the rows that a call uses, in place;
    ``scale_grad_by_freq`` divides their gradients by how often each is used.
    """

    shown: ClassVar = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        how = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        super().__init__(num_embeddings, embedding_dim, *how, _weight, device, dtype)
        self.weight.requires_grad_(not _freeze)

    def forward(self, input: Tensor) -> Tensor:
        """[...] integers to [..., embedding_dim]."""
        if self.max_norm is None and not self.scale_grad_by_freq:
            return functional.embedding(input, self.weight, self.padding_idx)
        how = (self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)
        return functional.embedding(input, self.weight, *how)


class EmbeddingBag(_Table):
    """``functional.embedding_bag`` of ``weight`` [num_embeddings, embedding_dim]."""

    shown: ClassVar = {
        "max_norm": None,
        "norm_type": 2,
        "scale_grad_by_freq": False,
        "mode": None,
        "padding_idx": None,
    }

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        how = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        super().__init__(num_embeddings, embedding_dim, *how, _weight, device, dtype)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """The bags [B, embedding_dim]."""
        return bags.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            False,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )


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
