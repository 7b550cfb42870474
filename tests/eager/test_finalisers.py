"""Finalisers that the collector runs at any moment may apply ops of their own."""

from __future__ import annotations

from tests.processes import in_child

PROGRAM = """
import gc, os
import jitgraph as jg

failed, applied = [], []

class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        Cycle()
        try:
            applied.append(jg.special.erf(jg.exp(jg.asarray([1.0, 2.0]))).sum().item())
        except RecursionError:  # a finaliser within a finaliser, and so on
            pass
        except BaseException as error:
            failed.append(repr(error))

x = jg.asarray([1.0, 2.0, 3.0], requires_grad=True)
gc.set_threshold(1)
Cycle()
(jg.tanh(x) * x).sum().backward()
first = x.grad.numpy().tolist()
Cycle()  # as what imports find is old from then on
(jg.tanh(x) * x).sum()
(jg.trace(lambda x: jg.tanh(x) * x)(x)).sum().backward()
gc.set_threshold(1 << 30)
assert not failed, failed[:3]
assert len(applied) > 10 and len(set(applied)) == 1
assert x.grad.numpy().tolist() == [2 * each for each in first]
print("held")
os._exit(0)
"""


def test_finalisers_that_apply_ops_leave_graphs_alone() -> None:
    """A kernel's gradient and a traced call's are made while the collector waits."""
    assert in_child(PROGRAM.replace("os._exit(0)", "import sys; sys.stdout.flush(); os._exit(0)"), timeout=120) == (
        "held\n"
    )
