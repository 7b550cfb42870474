"""``torch.backends``: settings of PyTorch's libraries, which programs set and which change nothing here."""

from __future__ import annotations

from typing import Any, Final


class Backend:
    """A library that PyTorch may use: it is not used, and its settings are kept as they are set."""

    def __init__(self, **settings: Any) -> None:
        vars(self).update(settings)

    def is_available(self) -> bool:
        """Whether the library is used: no."""
        return False

    is_built = is_available

    def version(self) -> None:
        """The version of the library: None."""
        return


cudnn: Final = Backend(enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True)
cuda: Final = Backend(matmul=Backend(allow_tf32=False, allow_fp16_reduced_precision_reduction=True))
mkl: Final = Backend()
mkldnn: Final = Backend(enabled=True)
mps: Final = Backend()
openmp: Final = Backend()
opt_einsum: Final = Backend(enabled=True, strategy="auto")
