"""Memory of other libraries that begins at no multiple of 16: kernels are given a copy of it."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgraph as jg
from tests.cuda.places import Machine
from tests.graphs import needs_native

pytestmark = needs_native


def part_of(tensor: Any, count: int) -> Any:
    """The last ``count`` elements, as another library shows them."""
    interface = dict(tensor.__cuda_array_interface__)
    address, read_only = interface["data"]
    interface["data"] = address + 4 * (tensor.shape[0] - count), read_only
    interface["shape"] = (count,)
    return type("Shown", (), {"__cuda_array_interface__": interface, "of": tensor})()


def test_no_output_lies_where_the_copy_of_an_operand_does(here: Machine) -> None:
    reversed_twice = jg.trace(lambda x: jg.flip(x, 0) * 2)
    full = jg.arange(1025, dtype=jg.float32).cuda()
    expected = np.arange(1024, 0, -1, dtype=np.float32) * 2
    for _ in range(3):
        x = jg.asarray(part_of(full, 1024), copy=False)
        assert x.__cuda_array_interface__["data"][0] % 16 == 4
        np.testing.assert_array_equal(reversed_twice(x).cpu().numpy(), expected)
