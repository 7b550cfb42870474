"""Where the tests of this folder compute: on a simulated machine, or under ``TEST_GPU=1`` on this one's GPUs.

What asks the simulator for more than results (planted errors of the driver, counts, races) stands in other folders
(``tests/runtime/cuda``, ``tests/simulator``, ``tests/codegen/cuda``), and stays there; so do the machines of
``test_control.py`` and ``test_donation.py``, which count what the driver is asked.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import jitgraph as jg
from jitgraph.runtime.cuda.devices import Devices, devices
from tests.runtime.cuda import machines

IS_GPU = os.environ.get("TEST_GPU") == "1"

needs_two = pytest.mark.skipif(IS_GPU and jg.cuda.device_count() < 2, reason="there is one GPU here")

Machine = machines.Machine | Devices
"""What a test is given; all that both have is that they are there."""


@contextmanager
def machine(*, hides: bool = True, must_end_clean: bool = True) -> Iterator[Machine]:
    """The devices to test on; on a GPU all work has to end without an error."""
    if not IS_GPU:
        with machines.machine(hides=hides, must_end_clean=must_end_clean) as actual:
            yield actual
            gc.collect()
        return
    assert jg.cuda.is_available(), "TEST_GPU=1 where there is no GPU"
    yield devices()
    gc.collect()
    for device in devices().used():
        device.synchronize()
