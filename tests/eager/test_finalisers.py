"""Finalisers that the collector runs at any moment may apply ops of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import in_child

PROGRAM = """
import gc, os
import jitgraph as jg

failed, applied, end = [], [], 0

class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        if len(applied) < end:
            Cycle()
        try:
            applied.append(jg.special.erf(jg.exp(jg.asarray([1.0, 2.0]))).sum().item())
        except RecursionError:  # a finaliser within a finaliser, and so on
            pass
        except BaseException as error:
            failed.append(repr(error))

def run(statement):
    global end
    before, end = len(applied), len(applied) + 200  # a chain without an end would take most of the time
    Cycle()  # each time, as what imports find is old from then on
    statement()
    assert len(applied) > before, statement

x = jg.asarray([1.0, 2.0, 3.0], requires_grad=True)
gc.set_threshold(1)
run(lambda: (jg.tanh(x) * x).sum().backward())
first = x.grad.numpy().tolist()
run(lambda: (jg.tanh(x) * x).sum())
run(lambda: (jg.trace(lambda x: jg.tanh(x) * x)(x)).sum().backward())
gc.set_threshold(1 << 30)
assert not failed, failed[:3]
assert len(set(applied)) == 1
assert x.grad.numpy().tolist() == [2 * each for each in first]
print("held")
os._exit(0)
"""


@pytest.mark.parametrize("dispatch", ["0", "1"])
def test_finalisers_that_apply_ops_leave_graphs_alone(
    dispatch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel's gradient and a traced call's are made, and modules imported for it, while the collector waits."""
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path))  # empty: all that is compiled is imported
    monkeypatch.setenv("JITGRAPH_DISPATCH", dispatch)
    assert in_child(PROGRAM.replace("os._exit(0)", "import sys; sys.stdout.flush(); os._exit(0)"), timeout=120) == (
        "held\n"
    )
