"""The short-time Fourier transform and its inverse, with PyTorch's parameters."""

from __future__ import annotations

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.fft import fft, ifft, irfft, rfft
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.arrangement import unfold
from jitgraph.tensor.functions.complex_numbers import view_as_real
from jitgraph.tensor.functions.creation import arange, ones
from jitgraph.tensor.functions.elementwise import abs, astype
from jitgraph.tensor.functions.manipulation import index_add, moveaxis, pad
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import float_tensor
from jitgraph.tensor.functions.reductions import min as min_of
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike

__all__ = ["istft", "stft"]


def _sizes(name: str, n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if n_fft < 1 or hop < 1 or not 0 < width <= n_fft:
        raise ShapeError(f"{name}: n_fft={n_fft}, hop_length={hop}, win_length={width}", hint="0 < win_length <= n_fft")
    return hop, width


def _window(name: str, window: TensorLike | None, width: int, n_fft: int, like: Tensor) -> Tensor:
    """The window, or ones, in the middle of n_fft zeros."""
    part = dtypes.part_of(like.dtype)
    taper = ones((width,), dtype=part, device=like.device) if window is None else float_tensor(window)
    if taper.value.type.shape != (width,):
        raise ShapeError(f"{name}: a window {taper.value.type} for win_length={width}")
    if not dtypes.is_complex(taper.dtype):
        taper = astype(taper, part)
    before = (n_fft - width) // 2
    return pad(taper, [(before, n_fft - width - before)])


@array_function
def stft(
    x: TensorLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = True,
) -> Tensor:
    """Transforms [..., frequencies, frames] of windows of ``n_fft`` samples, one every ``hop_length``, of [..., time].

    ``window`` has ``win_length`` elements; ones where it is None. With ``center`` frame t has sample t * hop_length in
    its middle, and the ends are padded by ``pad_mode`` (of ``jg.pad``). ``normalized`` divides by sqrt(n_fft).
    ``onesided``, the default for real numbers, leaves out the frequencies that are conjugates of others.
    ``return_complex=False`` gives real and imaginary parts along a last axis. ShapeError for more axes than two.
    """
    tensor = float_tensor(x)
    hop, width = _sizes("stft", n_fft, hop_length, win_length)
    if tensor.ndim not in (1, 2):
        raise ShapeError(f"stft takes [time] or [batch, time], not {tensor.value.type}", hint="jg.vmap, or x.reshape")
    taper = _window("stft", window, width, n_fft, tensor)
    is_complex = dtypes.is_complex(tensor.dtype) or dtypes.is_complex(taper.dtype)
    half = not is_complex if onesided is None else onesided
    if half and is_complex:
        raise DTypeError("stft: onesided=True of complex numbers, whose frequencies are no conjugates of one another")
    if center:
        sides = [(0, 0)] * (tensor.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        tensor = pad(tensor, sides, mode=pad_mode)
    size = tensor.value.type.shape[-1]
    if isinstance(size, int) and size < n_fft:
        raise ShapeError(f"stft: {size} samples are no window of n_fft={n_fft}")
    frames = unfold(tensor, -1, n_fft, hop) * taper
    norm = "ortho" if normalized else "backward"
    spectrum = moveaxis(rfft(frames, norm=norm) if half else fft(frames, norm=norm), -1, -2)
    return spectrum if return_complex else view_as_real(spectrum)


@array_function
def istft(
    x: TensorLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The samples [..., time] whose ``stft`` with the same parameters is closest to x, [..., frequencies, frames].

    Frames overlap and add, divided by the sum of the squares of the windows, after D. Griffin and J. Lim, "Signal
    estimation from modified short-time Fourier transform" (1984): ValueError where that is 0. ``length`` cuts the
    samples or puts zeros behind. With ``return_complex`` they are complex. DTypeError for real x.
    """
    tensor = wrap(lifting.value_of(x))
    hop, width = _sizes("istft", n_fft, hop_length, win_length)
    if not dtypes.is_complex(tensor.dtype):
        raise DTypeError(f"istft of {tensor.value.type}, which is not complex", hint="jg.view_as_complex(x)")
    if tensor.ndim not in (2, 3):
        raise ShapeError(f"istft takes [frequencies, frames] or [batch, frequencies, frames], not {tensor.value.type}")
    rows, count = tensor.value.type.shape[-2:]
    if not isinstance(rows, int) or not isinstance(count, int) or count < 1:
        raise ShapeError(f"istft needs the numbers of frequencies and frames, not {tensor.value.type}")
    half = rows != n_fft if onesided is None else onesided
    if rows != (n_fft // 2 + 1 if half else n_fft):
        raise ShapeError(f"istft: {rows} frequencies for n_fft={n_fft}, onesided={half}")
    if return_complex and half:
        raise JitgraphError("istft: return_complex=True takes all frequencies\n  hint: onesided=False in stft")
    taper = _window("istft", window, width, n_fft, tensor)
    norm = "ortho" if normalized else "backward"
    spectra = moveaxis(tensor, -1, -2)
    if return_complex:
        frames = ifft(spectra, norm=norm)
    else:
        frames = irfft(spectra if half else spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    total = n_fft + hop * (count - 1)
    indices = reshape(arange(count)[:, None] * hop + arange(n_fft), (-1,))

    def added(rows: Tensor) -> Tensor:
        flat = reshape(rows, (*rows.value.type.shape[:-2], count * n_fft))
        zeros = lifting.repeated(0, flat.dtype, (*flat.value.type.shape[:-1], total))
        return index_add(wrap(zeros), -1, indices, flat)

    square = wrap(lifting.broadcast_to((taper * taper).value, (count, n_fft)))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - (n_fft // 2 if center else 0)
    weight = added(square)[start : min(end, total)]
    signal = added(frames * taper)[..., start : min(end, total)]
    if weight.size:
        ops.check(
            (min_of(abs(weight)) > 1e-11).value,
            kind="ValueError",
            message="istft: no window reaches some of the samples",
        )
    signal = signal / weight
    if length is not None and end > total:
        signal = pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, end - total)])
    return wrap(signal.value)
