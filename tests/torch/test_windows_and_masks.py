"""``torch.signal.windows`` and ``torch.masked`` against formulas of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph.torch as torch

VALUES = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], np.float32)
MASK = np.array([[True, False, True], [True, True, False]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bartlett", np.bartlett), ("blackman", np.blackman), ("hamming", np.hamming), ("hann", np.hanning)],
)
def test_symmetric_windows_are_numpys(name: str, expected: Any) -> None:
    window = getattr(torch.signal.windows, name)
    for count in (0, 1, 2, 7):
        np.testing.assert_allclose(window(count).numpy(), expected(count), atol=1e-6)
        assert window(count).dtype is torch.float32
    np.testing.assert_allclose(window(6, sym=False, dtype=torch.float64).numpy(), expected(7)[:6], atol=1e-12)


def test_windows_refuse_what_they_cannot_be() -> None:
    windows = torch.signal.windows
    with pytest.raises(ValueError, match="non-negative"):
        windows.hann(-1)
    with pytest.raises(ValueError, match="float32 or float64"):
        windows.hann(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="Standard deviation"):
        windows.gaussian(3, std=0)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_reductions_are_of_the_selected_elements(name: str, dim: int | None) -> None:
    x, mask = torch.tensor(VALUES), torch.tensor(MASK)
    selected = np.ma.masked_array(VALUES, ~MASK)
    expected = getattr(selected, {"amax": "max", "amin": "min"}.get(name, name))(axis=dim)
    np.testing.assert_allclose(getattr(torch.masked, name)(x, dim, mask=mask).numpy(), np.asarray(expected), rtol=1e-6)


def test_of_nothing_the_identity_results() -> None:
    x, mask = torch.tensor(VALUES), torch.tensor(np.zeros((2, 3), bool))
    assert torch.masked.sum(x, mask=mask).item() == 0 and torch.masked.prod(x, mask=mask).item() == 1
    assert torch.masked.amax(x, mask=mask).item() == -np.inf and np.isnan(torch.masked.mean(x, mask=mask).item())


def test_normalisations_leave_the_others_out() -> None:
    x, mask = torch.tensor(VALUES), torch.tensor(MASK)
    soft = torch.masked.softmax(x, 1, mask=mask).numpy()
    np.testing.assert_allclose(soft.sum(1), [1, 1], rtol=1e-6)
    assert (soft[~MASK] == 0).all()
