"""Fourier transforms."""

from __future__ import annotations

from jitgraph import fft, spectra
from jitgraph.torch.aten_ops import operands


def fft_fft(self, n=None, dim=-1, norm=None):
    return fft.fft(self, n, dim, norm)


def fft_ifft(self, n=None, dim=-1, norm=None):
    return fft.ifft(self, n, dim, norm)


def fft_rfft(self, n=None, dim=-1, norm=None):
    return fft.rfft(self, n, dim, norm)


def fft_irfft(self, n=None, dim=-1, norm=None):
    return fft.irfft(self, n, dim, norm)


def fft_hfft(self, n=None, dim=-1, norm=None):
    return fft.hfft(self, n, dim, norm)


def fft_ihfft(self, n=None, dim=-1, norm=None):
    return fft.ihfft(self, n, dim, norm)


def fft_fft2(self, s=None, dim=(-2, -1), norm=None):
    return fft.fft2(self, s, dim, norm)


def fft_ifft2(self, s=None, dim=(-2, -1), norm=None):
    return fft.ifft2(self, s, dim, norm)


def fft_rfft2(self, s=None, dim=(-2, -1), norm=None):
    return fft.rfft2(self, s, dim, norm)


def fft_irfft2(self, s=None, dim=(-2, -1), norm=None):
    return fft.irfft2(self, s, dim, norm)


def fft_fftn(self, s=None, dim=None, norm=None):
    return fft.fftn(self, s, dim, norm)


def fft_ifftn(self, s=None, dim=None, norm=None):
    return fft.ifftn(self, s, dim, norm)


def fft_rfftn(self, s=None, dim=None, norm=None):
    return fft.rfftn(self, s, dim, norm)


def fft_irfftn(self, s=None, dim=None, norm=None):
    return fft.irfftn(self, s, dim, norm)


def fft_fftshift(self, dim=None):
    return fft.fftshift(self, dim)


def fft_ifftshift(self, dim=None):
    return fft.ifftshift(self, dim)


def fft_fftfreq(n, d=1.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return operands.cast(fft.fftfreq(n, d), dtype)


def fft_rfftfreq(n, d=1.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return operands.cast(fft.rfftfreq(n, d), dtype)


def stft(
    self,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    return stft_center(
        self, n_fft, hop_length, win_length, window, False, "reflect", normalized, onesided, return_complex
    )


def stft_center(
    self,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    in_complex = operands.is_complex(self) if return_complex is None else return_complex
    return spectra.stft(
        self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex=in_complex
    )


def istft(
    self,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    return spectra.istft(
        self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
    )


# ----------------------------------------------------------------------
# Those of the core, which say by a number what they divide by: nothing, sqrt(n), n; and the others in several axes.


def _fft_c2c(self, dim, normalization, forward):
    sizes = [self.shape[axis] for axis in dim]
    result = fft.fftn(self, None, tuple(dim)) if forward else fft.ifftn(self, None, tuple(dim), "forward")
    return operands.scaled(result, operands.spectral_factor(sizes, normalization))


def _fft_r2c(self, dim, normalization, onesided):
    sizes = [self.shape[axis] for axis in dim]
    result = fft.rfftn(self, None, tuple(dim)) if onesided else fft.fftn(self, None, tuple(dim))
    return operands.scaled(result, operands.spectral_factor(sizes, normalization))


def _fft_c2r(self, dim, normalization, last_dim_size):
    sizes = [*(self.shape[axis] for axis in dim[:-1]), last_dim_size]
    result = fft.irfftn(self, tuple(sizes), tuple(dim), "forward")
    return operands.scaled(result, operands.spectral_factor(sizes, normalization))


def fft_hfft2(self, s=None, dim=(-2, -1), norm=None):
    return fft.hfftn(self, s, dim, norm)


def fft_ihfft2(self, s=None, dim=(-2, -1), norm=None):
    return fft.ihfftn(self, s, dim, norm)


def fft_hfftn(self, s=None, dim=None, norm=None):
    return fft.hfftn(self, s, dim, norm)


def fft_ihfftn(self, s=None, dim=None, norm=None):
    return fft.ihfftn(self, s, dim, norm)
