"""Tables of vectors: Embedding and EmbeddingBag. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

from typing import Any, ClassVar

from jitgraph.autograd import no_grad
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn import functional, init
from jitgraph.nn.functional import bags
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray, zeros


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
