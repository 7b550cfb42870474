"""``torch.backends``: settings of PyTorch's libraries, which programs set and which change nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from jitgraph.torch import settings


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

    @contextmanager
    def flags(self, **changes: Any) -> Iterator[None]:
        """A block in which settings are others."""
        before = dict(vars(self))
        vars(self).update(changes)
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)


def _attention(name: str) -> dict[str, Any]:
    """PyTorch's switch of an implementation of attention, and the question whether it is on."""
    return {
        f"enable_{name}_sdp": lambda enabled: settings.attention.__setitem__(name, bool(enabled)),
        f"{name}_sdp_enabled": lambda: settings.attention[name],
    }


fp32_precision = "none"
cpu: Final = Backend(get_cpu_capability=lambda: "DEFAULT")
cudnn: Final = Backend(
    enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, fp32_precision="none",
    conv=Backend(fp32_precision="tf32"), rnn=Backend(fp32_precision="tf32"),
)  # fmt: skip
cuda: Final = Backend(
    matmul=Backend(
        allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True,
        allow_fp16_accumulation=False, fp32_precision="none",
    ),
    preferred_linalg_library=lambda backend=None: backend or "default",
    preferred_blas_library=lambda backend=None: backend or "default",
    **_attention("flash"), **_attention("mem_efficient"), **_attention("math"), **_attention("cudnn"),
)  # fmt: skip
cusparselt: Final = Backend()
mha: Final = Backend(get_fastpath_enabled=lambda: True, set_fastpath_enabled=lambda value: None)
mkl: Final = Backend()
mkldnn: Final = Backend(enabled=True, deterministic=False, allow_tf32=True, fp32_precision="none")
mps: Final = Backend()
nnpack: Final = Backend()
openmp: Final = Backend()
opt_einsum: Final = Backend(enabled=True, strategy="auto")
quantized: Final = Backend(engine="none", supported_engines=["none"])
xnnpack: Final = Backend(enabled=False)
