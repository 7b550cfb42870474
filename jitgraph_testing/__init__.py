"""What tests of jitgraph run its code on, beside it in a source checkout and no part of an installed jitgraph.

``simulator`` runs CUDA kernels without a GPU; ``kernels`` runs kernels and schedules in NumPy, and reads their text.
Importing the package registers the simulated driver, for which ``JITGRAPH_CUDA=simulated`` asks.
"""

from __future__ import annotations

import os

from jitgraph.own_code import OWN
from jitgraph.runtime.cuda.devices import register_driver
from jitgraph.runtime.cuda.driver import Driver

OWN.add(os.path.dirname(os.path.abspath(__file__)))


def _simulated_driver() -> Driver:
    from jitgraph_testing.simulator.simulated_driver import SimulatedDriver  # LLVM, and all of the simulator

    return SimulatedDriver()


register_driver("simulated", _simulated_driver)
