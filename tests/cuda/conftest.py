"""The devices that tests of this folder are given, unless a file has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cuda.places import Machine, machine


@pytest.fixture
def here() -> Iterator[Machine]:
    """Devices for one test; at the end nothing may be left on simulated ones, and no error on others."""
    with machine() as actual:
        yield actual
