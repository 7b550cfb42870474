"""Drivers that stand in for this machine's: who registers them, and what JITGRAPH_CUDA says where nobody does."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitgraph.errors import DeviceError
from jitgraph.runtime.cuda import devices
from tests import ROOT
from tests.processes import in_child

ELSEWHERE = """
import os, sys, importlib.util
os.chdir({folder!r})
sys.path[:] = [path for path in sys.path if path and not os.path.exists(os.path.join(path, "jitgraph_testing"))]
import jitgraph as jg
try:
    jg.zeros(3, device="cuda")
except jg.errors.DeviceError as error:
    print(error)
print(jg.cuda.is_available(), "jitgraph_testing" in sys.modules)
"""
USER = """import jitgraph as jg
@jg.trace
def f(x):
    return jg.asarray([1.0, 2.0, 3.0], device="cuda") + x
print(f(jg.ones(3, device="cuda")).tolist())
from jitgraph.runtime.cuda.devices import devices
devices().driver.fake.fail("cuStreamCreate", code=999)
try:
    jg.cuda.Stream()
except jg.errors.CudaError as error:
    print(error.location)
"""


def package_alone(folder: Path) -> Path:
    """A folder with the package and nothing of what stands beside it in the repository."""
    folder.mkdir()
    (folder / "jitgraph").symlink_to(ROOT / "jitgraph")
    return folder


def test_an_installed_package_names_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = package_alone(tmp_path / "installed")
    monkeypatch.setenv("JITGRAPH_CUDA", "simulated")
    code = f"import sys; sys.path.insert(0, {str(installed)!r})\n{ELSEWHERE.format(folder=str(installed))}"
    said = in_child(code)
    assert "needs the package jitgraph_testing, which cannot be imported" in said
    assert "the folder of a checkout" in said and said.splitlines()[-1] == "False False"


def test_a_checkout_has_the_simulator_and_errors_name_the_user_s_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces do not follow its code, and no line of it counts as the user's."""
    monkeypatch.setenv("JITGRAPH_CUDA", "simulated")
    (tmp_path / "user.py").write_text(USER)
    said = in_child(f"import runpy; runpy.run_path({str(tmp_path / 'user.py')!r})").splitlines()
    assert said == ["[2.0, 3.0, 4.0]", "user.py:9"]


def test_a_name_that_nobody_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_CUDA", "imagined")
    with pytest.raises(DeviceError, match=r"JITGRAPH_CUDA='imagined' is no kind of GPU[\s\S]*hint: simulated"):
        devices.Devices(devices._of_this_machine).device()


def test_a_registered_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> devices.Driver:
        raise DeviceError("the imagined driver was asked for")

    monkeypatch.setattr(devices, "_DRIVERS", {})
    devices.register_driver("imagined", load)
    monkeypatch.setenv("JITGRAPH_CUDA", "imagined")
    with pytest.raises(DeviceError, match="the imagined driver was asked for"):
        devices.Devices(devices._of_this_machine).device()
