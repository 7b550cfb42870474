"""The driver by pycuda, over a library that stands in for the driver's; where pycuda is not installed, what is said."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from jitgraph.errors import DeviceError
from jitgraph.runtime.cuda import pycuda_driver
from jitgraph.runtime.cuda.devices import Devices, _of_this_machine
from tests.processes import in_child
from tests.runtime.cuda.machines import has_gpu
from tests.runtime.cuda.stub_library import build, symbols_wanted

FOUND = importlib.util.find_spec("pycuda")
needs_pycuda = pytest.mark.skipif(FOUND is None, reason="pycuda is not installed")
needs_tools = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("nm")), reason="no C compiler here")

BEGIN = """
import os, threading
os.environ["JITGRAPH_PYCUDA"] = "1"
from pathlib import Path
import numpy as np, jitgraph as jg
from jitgraph.errors import DeviceError
from jitgraph.runtime.cuda.devices import devices
from jitgraph_testing.simulator.driver import FakeDriver
from tests.runtime.cuda.machines import AXPY, PTX, axpy, down, leaks, up
from tests.runtime.cuda.stub_library import loaded
fake = FakeDriver(2)
fake.register(PTX, AXPY)
library = loaded(Path({path!r}), fake.addresses)
import pycuda.driver as drv
"""

SHARED = """
assert devices().driver.name == "libcuda.so.1, by pycuda" and jg.cuda.device_count() == 2
x = jg.asarray(np.arange(6.0), device="cuda")
context = devices().device(0).context
mine = drv.Device(0).retain_primary_context()
assert int(mine.handle) == context.handle, "the primary context is one for all"
mine.push(); mine.detach()
stream = jg.cuda.Stream()
made = devices().driver.stream_object(stream.cuda_stream)
assert isinstance(made, drv.Stream) and made.handle == stream.cuda_stream
assert devices().driver.stream_object(0) is None
ones = np.ones(256, np.float32)
y = up(ones)
with jg.cuda.stream(stream):
    axpy(devices().device(0), y.address, y.written_on(stream.cuda_stream), 1.0)
    assert not made.is_done()
np.testing.assert_array_equal(down(y, ones), 2 * ones)
made.synchronize()
assert made.is_done() and stream.query()
np.testing.assert_array_equal(x.to("cuda:1").cpu().numpy(), np.arange(6.0))
found = []
def work():
    with jg.cuda.stream(jg.cuda.Stream("cuda:1")):
        found.append(x.to("cuda:1").tolist())
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == [[0, 1, 2, 3, 4, 5]] * 4
fake.fail("cuStreamCreate", code=400)
try:
    jg.cuda.Stream()
except DeviceError as error:
    assert "a stream: cuStreamCreate failed: invalid" in str(error) and "hint: " in str(error), error
else:
    raise AssertionError("the failure was lost")
del x, y, made, stream
devices().close()
assert leaks(fake) == {}, leaks(fake)
print("done")
"""


@needs_pycuda
@needs_tools
def test_contexts_and_streams_are_pycudas(tmp_path: Path) -> None:
    assert FOUND is not None and FOUND.origin is not None
    (binary,) = Path(FOUND.origin).parent.glob("_driver*.so")
    path = build(tmp_path, symbols_wanted(binary))
    assert in_child(BEGIN.replace("{path!r}", repr(str(path))) + SHARED).strip() == "done"


@needs_pycuda
@pytest.mark.skipif(has_gpu(), reason="this machine has a driver")
def test_pycuda_without_a_driver() -> None:
    with pytest.raises(DeviceError, match=r"not available: pycuda finds no driver[\s\S]*libcuda\.so\.1"):
        pycuda_driver.load()


def test_pycuda_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_PYCUDA", "1")
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.delitem(sys.modules, "pycuda.driver", raising=False)
    with pytest.raises(DeviceError, match=r"pycuda, which is not installed[\s\S]*pip install 'jitgraph\[pycuda\]'"):
        Devices(_of_this_machine).device()
