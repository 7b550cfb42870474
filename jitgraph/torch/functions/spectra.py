"""Transforms of windows of samples."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph.torch.adapters import torch_function


@torch_function
def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """The Fourier transforms of windows of ``n_fft`` samples, one every ``hop_length``."""
    if return_complex is None:
        if not input.is_complex() and (window is None or not window.is_complex()):
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
        return_complex = True
    return jg.stft(input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex)


@torch_function
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The samples of which ``stft`` with the same parameters gives such transforms."""
    return jg.istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)
