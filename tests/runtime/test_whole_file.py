"""Files that appear whole or not at all: whatever kills the writer, wherever, and on any file system."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import system
from jitgraph.runtime.atomic_file import replacing

NAMED = "system.unnamed_file = lambda folder: None\n"
UNLINKABLE = "system.name_file = lambda file, part: False\n"
KILL = "os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.fixture(params=["unnamed", "named", "unlinkable"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way in which a file is written: without a name, with one, or copied at the end."""
    if request.param == "named":
        monkeypatch.setattr(system, "unnamed_file", lambda folder: None)
    if request.param == "unlinkable":
        monkeypatch.setattr(system, "name_file", lambda file, part: False)
    return str(request.param)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed(code: str, path: Path) -> None:
    """Run ``code``, which must end by SIGKILL, with ``path`` and the module at hand."""
    start = f"import os, signal\nfrom jitgraph.runtime import system, atomic_file\npath = {str(path)!r}\n"
    done = subprocess.run([sys.executable, "-c", start + code])
    assert done.returncode == -signal.SIGKILL


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path, way: str) -> None:
    path = tmp_path / "model.jg"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new" * 1000)
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" * 1000
    assert names(tmp_path) == {"model.jg"}


def test_an_error_leaves_what_was_there(tmp_path: Path, way: str) -> None:
    path = tmp_path / "model.jg"
    for before in (False, True):
        if before:
            path.write_bytes(b"old")
        with pytest.raises(KeyboardInterrupt), replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt
        assert names(tmp_path) == ({"model.jg"} if before else set())
    assert path.read_bytes() == b"old"


def test_a_target_that_cannot_be_replaced_leaves_nothing(tmp_path: Path, way: str) -> None:
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(OSError), replacing(tmp_path / "folder") as file:
        file.write(b"new")
    assert names(tmp_path) == {"folder"}
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "missing" / "model.jg"):
        pytest.fail("there is no such folder")


def test_permissions_are_those_of_a_new_file(tmp_path: Path, way: str) -> None:
    path = tmp_path / "model.jg"
    before = os.umask(0o027)
    try:
        with replacing(path) as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("setup", ["", NAMED, UNLINKABLE], ids=["unnamed", "named", "unlinkable"])
@pytest.mark.parametrize("moment", ["while it is written", "before it is renamed"])
def test_a_killed_save_leaves_nothing_for_the_next_one(tmp_path: Path, setup: str, moment: str) -> None:
    path = tmp_path / "model.jg"
    path.write_bytes(b"old")
    if moment == "while it is written":
        killed(f"{setup}with atomic_file.replacing(path) as file:\n  file.write(b'new'); file.flush()\n  {KILL}", path)
        if not setup:  # without a name, nothing is there from the start
            assert names(tmp_path) == {"model.jg"}
    else:
        stop = f"os.replace = lambda *names: {KILL}"
        killed(f"{setup}{stop}with atomic_file.replacing(path) as file:\n  file.write(b'new')\n", path)
        assert len(names(tmp_path)) == 2
    assert path.read_bytes() == b"old"
    with replacing(path) as file:
        file.write(b"newer")
    assert names(tmp_path) == {"model.jg"}
    assert path.read_bytes() == b"newer"


def test_what_a_living_process_writes_is_no_leftover(tmp_path: Path, way: str) -> None:
    path, other = tmp_path / "model.jg", tmp_path / "other.jg"
    with replacing(path) as first, replacing(other) as beside:
        first.write(b"first")
        beside.write(b"beside")
        with replacing(path) as second:  # begins while the first is being written, as another process might
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert other.read_bytes() == b"beside"
    assert names(tmp_path) == {"model.jg", "other.jg"}


def test_names_of_any_length_can_be_saved(tmp_path: Path, way: str) -> None:
    path = tmp_path / ("ü" * 127)
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_save_that_meets_a_full_disk_leaves_the_old_file(tmp_path: Path, way: str) -> None:
    path = tmp_path / "model.jg"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        weight = jg.zeros((1 << 16,))
        with pytest.raises(OSError):
            jg.save(lambda x: x + weight, path, example_inputs=(np.ones(1, np.float32),), targets=["x86-64-v3"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == {"model.jg"}


def test_a_link_is_followed(tmp_path: Path, way: str) -> None:
    (tmp_path / "far").mkdir()
    real, link, dangling = tmp_path / "far" / "real", tmp_path / "link", tmp_path / "dangling"
    real.write_bytes(b"old")
    link.symlink_to(real)
    dangling.symlink_to(tmp_path / "far" / "made")
    for path in (link, dangling):
        with replacing(path) as file:
            file.write(b"new")
        assert path.is_symlink() and path.read_bytes() == b"new"
    assert names(tmp_path / "far") == {"real", "made"} and names(tmp_path) == {"far", "link", "dangling"}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_the_mode_of_the_file_stays(tmp_path: Path, way: str, mode: int) -> None:
    path = tmp_path / "model.jg"
    path.write_bytes(b"old")
    path.chmod(mode)
    with replacing(path) as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    """As root a rename would put a plain file where /dev/null is; a pipe shows the same without that risk."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with replacing(pipe) as file:
            file.write(b"new")
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and names(tmp_path) == {"pipe"}
