"""Quotas of processor time: the files of control groups as both loaders read them, and how many threads follow."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from jitgraph.runtime import loader
from jitgraph.runtime.loader import pool
from jitgraph.runtime.loader.pool import file_text, processor_quota

Files = Mapping[str, str]

UNIFIED, CPU = "/sys/fs/cgroup", "/sys/fs/cgroup/cpu"


def second(group: str, **limits: str) -> Files:
    """Files of version 2; ``limits`` are texts of ``cpu.max`` by the folder, its slashes as ``__``."""
    folders = {f"{UNIFIED}{name.replace('__', '/')}/cpu.max": text for name, text in limits.items()}
    return {"/proc/self/cgroup": f"0::{group}\n", **folders}


def first(group: str, quota: Mapping[str, int], mount: str = CPU) -> Files:
    """Files of version 1; ``quota`` has microseconds of 100,000 by the folder below the mount."""
    files = {"/proc/self/cgroup": f"9:name=systemd:/\n4:cpuset:/other\n3:cpu,cpuacct:{group}\n0::/\n"}
    for folder, value in quota.items():
        files[f"{mount}{folder}/cpu.cfs_quota_us"] = f"{value}\n"
        files[f"{mount}{folder}/cpu.cfs_period_us"] = "100000\n"
    return files


SAMPLES: dict[str, tuple[Files, float | None]] = {
    "no files": ({}, None),
    "v2, a container": (second("/", **{"": "150000 100000\n"}), 1.5),
    "v2, max": (second("/", **{"": "max 100000\n"}), None),
    "v2, another period": (second("/a", __a="10000 50000\n"), 0.2),
    "v2, the least on the way up": (
        second("/a/b/c", __a__b__c="max 100000", __a__b="400000 100000", __a="250000 100000", __other="1000 100000"),
        2.5,
    ),
    "v2, no cpu.max at the root": (second("/user.slice/x", **{"__user.slice": "300000 100000"}), 3.0),
    "v2, a name of the system outside": (second("/docker/f00", **{"": "200000 100000"}), 2.0),
    "v2, a group outside the namespace": (second("/../..", **{"": "200000 100000"}), 2.0),
    "v2, damage": (second("/a", __a="many 100000", **{"": "100000 0"}), None),
    "v2, one word": (second("/", **{"": "100000"}), None),
    "v1, a quota": (first("/job", {"/job": 150000, "": -1}), 1.5),
    "v1, none": (first("/job", {"/job": -1, "": -1}), None),
    "v1, above": (first("/a/b", {"/a/b": 800000, "/a": 320000, "": -1}), 3.2),
    "v1, a name of the system outside": (first("/docker/f00", {"": 50000}), 0.5),
    "v1, another mount": (first("/job", {"/job": 60000}, f"{CPU},cpuacct"), 0.6),
    "v1, no period": ({**first("/job", {"": 400000}), f"{CPU}/job/cpu.cfs_quota_us": "1000\n"}, 4.0),
    "both versions": (
        {**first("/job", {"/job": 300000}), f"{UNIFIED}/unified/cpu.max": "120000 100000"},
        1.2,
    ),
    "not cpuset's": (
        {
            **first("/job", {"/job": -1}), f"{CPU}/other/cpu.cfs_quota_us": "1000",
            f"{CPU}/other/cpu.cfs_period_us": "100000",
        },
        None,
    ),
    "damage": ({"/proc/self/cgroup": "cpu\n0:\n\n:::\n::\n"}, None),
}  # fmt: skip
NAMES = sorted(SAMPLES)


@pytest.mark.parametrize("name", NAMES)
def test_the_loader_in_python(name: str) -> None:
    files, expected = SAMPLES[name]
    assert processor_quota(files.get) == expected


@pytest.fixture(scope="module")
def quota_under(tmp_path_factory: pytest.TempPathFactory, written: Path) -> Callable[[Path], float]:
    """The quota by loader.c, from files under a folder."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is needed to compile loader.c")
    result = tmp_path_factory.mktemp("quota") / "quota.so"
    source = Path(__file__).parent / "c" / "quota.c"
    strict = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-Wno-unused-function")
    sanitized = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    shared = ("-shared", "-fPIC", f"-I{written}", str(source), "-lpthread", "-o", str(result))
    subprocess.run(["gcc", *strict, *sanitized, *shared], check=True)
    function = ctypes.CDLL(str(result)).quota_under
    function.restype = ctypes.c_double
    return lambda folder: float(function(str(folder).encode()))


@pytest.mark.parametrize("name", NAMES)
def test_the_loader_in_c(name: str, quota_under: Callable[[Path], float], tmp_path: Path) -> None:
    files, expected = SAMPLES[name]
    for path, text in files.items():
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert quota_under(tmp_path) == (math.inf if expected is None else expected)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert file_text(str(tmp_path)) is None
    assert file_text(str(tmp_path / "none")) is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
def test_threads_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a processor counts as one; threads that share processors do not stay awake for work."""
    monkeypatch.delenv("JITGRAPH_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    for quota, threads, awake in (
        (None, 64, True),
        (1.5, 2, False),
        (2.0, 2, True),
        (0.25, 1, False),
        (100.0, 64, True),
    ):
        monkeypatch.setattr(pool, "processor_quota", lambda quota=quota: quota)
        assert loader.thread_count() == loader.processors() == threads
        assert (pool.patience(threads) > 0) == awake
        assert pool.patience(65) == 0
    monkeypatch.setenv("JITGRAPH_NUM_THREADS", "3")
    monkeypatch.setattr(pool, "processor_quota", lambda: 1.5)
    assert loader.thread_count() == 3
