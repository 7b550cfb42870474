"""The errors for names of PyTorch that have no place here, with the reason."""

from __future__ import annotations

from typing import Final

REASONS: Final[dict[str, str]] = {
    "to_sparse": "there are no sparse tensors",
    "to_mkldnn": "there is one layout of tensors",
    "share_memory_": "tensors are shared with other processes as NumPy arrays are",
    "untyped_storage": "a tensor's memory is not visible; numpy() gives the elements",
    "storage": "a tensor's memory is not visible; numpy() gives the elements",
    "set_": "a tensor's memory is not visible; x.data = y gives a tensor other elements",
}
"""Why a method or function of PyTorch is none here."""


def missing(owner: str, name: str) -> AttributeError:
    """The AttributeError for a name that ``owner`` ("Tensor", "torch.nn") lacks."""
    reason = REASONS.get(name)
    what = f"'{owner}' object has no attribute '{name}'" if owner == "Tensor" else f"module '{owner}' has no '{name}'"
    return AttributeError(what if reason is None else f"{what}: {reason}")
