"""Operators that make tensors; a dtype that is not given is PyTorch's default."""

from __future__ import annotations

from jitgraph import dtypes
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import operands


def zeros(size, *, names=None, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.zeros(tuple(size), dtype=dtype)


def ones(size, *, names=None, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.ones(tuple(size), dtype=dtype)


def empty(size, *, names=None, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return fn.zeros(tuple(size), dtype=dtype)


def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.zeros(tuple(size), dtype=dtype)


def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.zeros(tuple(size), dtype=dtype)


def full(size, fill_value, *, names=None, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.full(tuple(size), fill_value, dtype=dtype)


def zeros_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return fn.zeros_like(self, dtype=dtype)


def ones_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return fn.ones_like(self, dtype=dtype)


def empty_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return fn.zeros_like(self, dtype=dtype)


def full_like(self, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return fn.full_like(self, fill_value, dtype=dtype)


def new_zeros(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.zeros(tuple(size), dtype=dtype or self.dtype)


def new_ones(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.ones(tuple(size), dtype=dtype or self.dtype)


def new_empty(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.zeros(tuple(size), dtype=dtype or self.dtype)


def new_empty_strided(self, size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.zeros(tuple(size), dtype=dtype or self.dtype)


def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.full(tuple(size), fill_value, dtype=dtype or self.dtype)


def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.full((), s, dtype=dtype or dtypes.float32)


def zero(self):
    return fn.zeros_like(self)


def fill(self, value):
    return fn.broadcast_to(operands.in_dtype(value, self.dtype), self.shape)


def arange(end, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.arange(end, dtype=dtype)


def arange_start(start, end, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.arange(start, end, dtype=dtype)


def arange_start_step(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.arange(start, end, step, dtype=dtype)


def linspace(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.linspace(operands.number(start), operands.number(end), steps, dtype=dtype)


def logspace(start, end, steps, base=10.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.logspace(operands.number(start), operands.number(end), steps, base, dtype=dtype)


def eye(n, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.eye(n, dtype=dtype)


def eye_m(n, m, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.eye(n, m, dtype=dtype)


def tril_indices(row, col, offset=0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return operands.cast(fn.tril_indices(row, col, offset), dtype)


def triu_indices(row, col, offset=0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return operands.cast(fn.triu_indices(row, col, offset), dtype)


def hann_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.hann_window(window_length, dtype=dtype)


def hann_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.hann_window(window_length, periodic, dtype=dtype)


def hamming_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.hamming_window(window_length, dtype=dtype)


def hamming_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.hamming_window(window_length, periodic, dtype=dtype)


def blackman_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.blackman_window(window_length, dtype=dtype)


def hamming_window_periodic_alpha(
    window_length, periodic, alpha, *, dtype=None, layout=None, device=None, pin_memory=None
):
    return fn.hamming_window(window_length, periodic, alpha, dtype=dtype)


def hamming_window_periodic_alpha_beta(
    window_length, periodic, alpha, beta, *, dtype=None, layout=None, device=None, pin_memory=None
):
    return fn.hamming_window(window_length, periodic, alpha, beta, dtype=dtype)


def blackman_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.blackman_window(window_length, periodic, dtype=dtype)


def bartlett_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.bartlett_window(window_length, periodic, dtype=dtype)


def bartlett_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.bartlett_window(window_length, dtype=dtype)


def kaiser_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.kaiser_window(window_length, dtype=dtype)


def kaiser_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.kaiser_window(window_length, periodic, dtype=dtype)


def kaiser_window_beta(window_length, periodic, beta, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.kaiser_window(window_length, periodic, beta, dtype=dtype)


def range(start, end, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.arange(start, end + 1, dtype=dtype or dtypes.float32)


def range_step(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fn.arange(start, end + step, step, dtype=dtype or dtypes.float32)
