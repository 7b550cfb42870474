"""The persistent cache in its folder: what is found is what was written, whatever else lies there or happens to it."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from jitgraph import config
from jitgraph.runtime import digests, disk_cache, system
from jitgraph.runtime.disk_cache import MOST_BYTES, DiskCache, key_of

KEY, OTHER = key_of("a", "key"), key_of("another")
NOBODY = 65534


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(str(tmp_path / "cache"))


def path_of(cache: DiskCache, key: str = KEY) -> Path:
    return Path(cache.folder, key)


def in_child(work: Callable[[], bool]) -> int:
    """Run ``work`` in a fork; its number, to be waited for."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return child


def succeeded(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("size", [0, 3, 1 << 16, (1 << 20) + 1])
def test_digests_are_those_of_hashlib(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert digests.sha256_of(data) == digests.sha256_of(memoryview(data)) == hashlib.sha256(data).digest()
    digest = digests.sha256()
    digest.update(data)
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()


def test_what_was_kept_is_found(cache: DiskCache) -> None:
    assert cache.find(KEY, "it") is None
    cache.store(KEY, b"content")
    cache.store(OTHER, b"")
    assert (cache.find(KEY, "it"), cache.find(OTHER, "it")) == (b"content", b"")
    assert DiskCache(cache.folder).find(KEY, "it") == b"content"
    assert cache.info() == (2, 80 + 7 + 80, disk_cache.LIMIT, 2, 1, 0)
    assert stat.S_IMODE(os.stat(cache.folder).st_mode) == 0o700
    cache.clear()
    assert cache.find(KEY, "it") is None and cache.info().entries == 0


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    keys = [key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", ""), key_of("", "abc")]
    assert len(set(keys)) == len(keys)
    assert key_of("a\udc80") and key_of(b"a") == key_of("a")


def corrupted(path: Path, how: str, cache: DiskCache) -> None:
    data = path.read_bytes()
    match how:
        case "empty":
            path.write_bytes(b"")
        case "header cut":
            path.write_bytes(data[:79])
        case "cut":
            path.write_bytes(data[:-1])
        case "extended":
            path.write_bytes(data + b"\0")
        case "content":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "hash":
            path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        case "foreign":
            path.write_bytes(b"\x7fELF" + os.urandom(200))
        case "swapped":
            cache.store(OTHER, b"other")
            shutil.copy(path_of(cache, OTHER), path)
        case "link":
            path.rename(path.with_suffix(".real"))
            path.symlink_to(path.with_suffix(".real"))
        case "dangling":
            path.unlink()
            path.symlink_to("/nonexistent")
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "oversized":
            os.truncate(path, MOST_BYTES + 81)


FAULTS = (
    *("empty", "header cut", "cut", "extended", "content", "hash", "foreign", "swapped", "link", "dangling", "pipe"),
    "oversized",
)


@pytest.mark.parametrize("how", FAULTS)
def test_what_is_not_sound_is_removed(how: str, cache: DiskCache) -> None:
    cache.store(KEY, b"content")
    corrupted(path_of(cache), how, cache)
    assert cache.find(KEY, "it") is None
    assert not os.path.lexists(path_of(cache)) and cache.info().errors == 1
    cache.store(KEY, b"content")
    assert cache.find(KEY, "it") == b"content"


def test_a_folder_in_the_place_of_an_entry(cache: DiskCache) -> None:
    cache.store(OTHER, b"other")
    path_of(cache).mkdir()
    assert cache.find(KEY, "it") is None
    cache.store(KEY, b"content")
    assert cache.find(KEY, "it") is None and cache.find(OTHER, "it") == b"other"
    assert cache.info().errors == 3


def test_what_is_no_entry_stays(cache: DiskCache) -> None:
    cache.store(KEY, b"content")
    stranger = Path(cache.folder, "notes.txt")
    stranger.write_text("mine")
    cache.limit = 1
    cache._sweep()
    cache.clear()
    assert os.listdir(cache.folder) == ["notes.txt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_entry_of_another_user_is_not_read(cache: DiskCache) -> None:
    cache.store(KEY, b"content")
    os.chown(path_of(cache), NOBODY, NOBODY)
    assert cache.find(KEY, "it") is None


def refused(folder: Path) -> str:
    """What is warned of once when this folder is to be the cache, which is then neither read nor written."""
    cache = DiskCache(str(folder))
    before = sorted(os.listdir(folder)) if folder.is_dir() else []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            cache.store(KEY, b"content")
            assert cache.find(KEY, "it") is None
    assert before == (sorted(os.listdir(folder)) if folder.is_dir() else [])
    (warning,) = caught
    assert "JITGRAPH_CACHE_DIR=off" in str(warning.message)
    return str(warning.message)


def test_the_warning_ends_no_call(tmp_path: Path) -> None:
    """Where warnings are errors, either: pytest has them so."""
    (tmp_path / "cache").mkdir(mode=0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert DiskCache(str(tmp_path / "cache")).find(KEY, "it") is None


@pytest.mark.parametrize("mode", [0o755, 0o720, 0o701, 0o777])
def test_a_folder_that_others_may_enter_is_refused(mode: int, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    DiskCache(str(folder)).store(KEY, b"content")
    folder.chmod(mode)
    assert f"{mode & 0o077:03o}" in refused(folder)
    folder.chmod(0o700)
    assert DiskCache(str(folder)).find(KEY, "it") == b"content"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder, link = tmp_path / "cache", tmp_path / "link"
    DiskCache(str(folder)).store(KEY, b"content")
    os.chown(folder, NOBODY, NOBODY)
    link.symlink_to(folder)
    assert f"user {NOBODY}" in refused(folder)
    assert f"user {NOBODY}" in refused(link)


def test_a_link_to_a_folder_of_the_users_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    linked = DiskCache(str(tmp_path / "link"))
    linked.store(KEY, b"content")
    assert linked.find(KEY, "it") == b"content"


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("mine")
    assert "no folder" in refused(tmp_path / "cache")
    below = DiskCache(str(tmp_path / "cache" / "inner"))
    below.store(KEY, b"content")
    assert below.find(KEY, "it") is None and below.info().errors == 3  # info asks for the folder, too


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_a_name_that_no_folder_can_have(name: str, tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path / name))
    cache.store(KEY, b"content")
    assert cache.find(KEY, "it") is None and cache.info().entries == 0
    cache.clear()


@pytest.fixture
def open_place() -> Iterator[str]:
    """A folder that others may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as position:
        os.chmod(position, 0o711)
        yield position


def test_a_folder_that_cannot_be_written(open_place: str) -> None:
    """Read all the same; as another user than root, who may write anywhere."""
    cache = DiskCache(os.path.join(open_place, "cache"))
    cache.store(KEY, b"content")
    if os.geteuid() == 0:
        os.chown(path_of(cache), NOBODY, NOBODY)
        os.chown(cache.folder, NOBODY, NOBODY)
    os.chmod(cache.folder, 0o500)

    def work() -> bool:
        if os.geteuid() == 0:
            os.setuid(NOBODY)
        cache.store(OTHER, b"other")
        cache.clear()
        return (cache.find(KEY, "it"), cache.find(OTHER, "it")) == (b"content", None) and cache.info().errors == 1

    assert succeeded(in_child(work))


def test_a_home_that_is_missing_or_read_alone(tmp_path: Path) -> None:
    cache = DiskCache("/proc/1/jitgraph")
    cache.store(KEY, b"content")
    assert cache.find(KEY, "it") is None and cache.info()[:2] == (0, 0)


def test_a_full_disk(cache: DiskCache) -> None:
    cache.store(OTHER, b"other")

    def work() -> bool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        cache.store(KEY, bytes(5000))
        return cache.find(KEY, "it") is None and cache.find(OTHER, "it") == b"other" and cache.info().errors == 1

    assert succeeded(in_child(work))
    assert os.listdir(cache.folder) == [OTHER]


def test_too_many_open_files_remove_nothing(cache: DiskCache) -> None:
    cache.store(KEY, b"content")

    def work() -> bool:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        cache.store(OTHER, b"other")
        return cache.find(KEY, "it") is None and cache.info().errors == 2

    assert succeeded(in_child(work))
    assert cache.find(KEY, "it") == b"content"


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("where", ["os.replace", "system.lock_file"])
def test_a_writer_that_is_killed(where: str, named: bool, cache: DiskCache) -> None:
    code = "import os, signal\nfrom jitgraph.runtime import digests, disk_cache, system\n"
    if named:
        code += "system.unnamed_file = lambda folder: None\n"
    code += f"{where} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    code += f"disk_cache.DiskCache({cache.folder!r}).store({KEY!r}, bytes(100_000))\n"
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert cache.find(KEY, "it") is None and cache.info()[:2] == (0, 0)
    cache._sweep()
    assert os.listdir(cache.folder) == []


def test_forks_in_the_middle_of_writing(cache: DiskCache) -> None:
    contents = {key_of(str(i)): bytes([i]) * 200_000 for i in range(20)}
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            for key, content in contents.items():
                cache.store(key, content)

    def work() -> bool:
        for key, content in contents.items():
            cache.store(key, content)
        return all(cache.find(key, "it") == content for key, content in contents.items())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert [succeeded(in_child(work)) for _ in range(8)] == [True] * 8
    finally:
        done.set()
        writer.join()
    assert cache.info().errors == 0 and cache.info().entries == 20


def used(cache: DiskCache, key: str, ago: float) -> None:
    os.utime(path_of(cache, key), (time.time() - ago, time.time() - ago))


def test_the_time_of_use_is_noted_once_a_minute(cache: DiskCache) -> None:
    cache.store(KEY, b"content")
    for ago, noted in ((30, False), (3600, True)):
        used(cache, KEY, ago)
        assert cache.find(KEY, "it") == b"content"
        assert (time.time() - path_of(cache).stat().st_mtime < 20) is noted


def test_what_was_used_least_recently_goes(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path / "cache"), limit=100_000)
    keys = [key_of(str(i)) for i in range(12)]
    for age, key in enumerate(keys[:9]):
        cache.store(key, bytes(10_000))
        used(cache, key, 10_000 - 1000 * age)
    assert cache.info().entries == 9
    assert cache.find(keys[0], "it") is not None  # so keys[1] and those behind it are the oldest now
    cache.store(keys[9], bytes(10_000))
    left = {key for key in keys if path_of(cache, key).exists()}
    assert left == {keys[0], *keys[4:10]}
    assert cache.info().bytes <= 0.75 * cache.limit


def test_what_is_too_large_for_the_limit_is_not_kept(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path / "cache"), limit=1000)
    cache.store(KEY, bytes(251))
    assert cache.find(KEY, "it") is None
    cache.store(KEY, bytes(250))
    assert cache.find(KEY, "it") == bytes(250)


def test_small_entries_seldom_look_at_the_whole_folder(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    monkeypatch.setattr(DiskCache, "_sweep", lambda self: looks.append(self.folder))
    cache.limit = 1 << 20
    for i in range(1000):
        cache.store(key_of(str(i)), bytes(1024))
    assert 10 <= len(looks) <= 60  # 31 are expected: one for each 32 KB


def test_many_processes_at_once(tmp_path: Path) -> None:
    """Each reads and writes and removes; what is found is right, and no more is there than the limit allows, about."""
    cache = DiskCache(str(tmp_path / "cache"), limit=400_000)
    contents = {key_of(str(i)): random.Random(i).randbytes(5000 + 100 * i) for i in range(100)}

    def work(number: int) -> bool:
        order = list(contents)
        random.Random(number).shuffle(order)
        for key in order:
            if cache.find(key, "it") not in (None, contents[key]):
                return False
            cache.store(key, contents[key])
        return cache.info().errors == 0

    children = [in_child(partial(work, number)) for number in range(8)]
    assert [succeeded(child) for child in children] == [True] * 8
    assert 100_000 < cache.info().bytes < 800_000
    assert all(cache.find(key, "it") in (None, content) for key, content in contents.items())
    assert not [name for name in os.listdir(cache.folder) if name not in contents]


def test_where_the_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("JITGRAPH_CACHE_DIR")
    assert disk_cache.folder() == str(tmp_path / ".cache" / "jitgraph")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, by the specification
    assert disk_cache.folder() == str(tmp_path / ".cache" / "jitgraph")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert disk_cache.folder() == "/caches/jitgraph"
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", "~/here")
    assert disk_cache.folder() == str(tmp_path / "here")
    for off in ("", "off", " OFF "):
        monkeypatch.setenv("JITGRAPH_CACHE_DIR", off)
        assert disk_cache.folder() is None and disk_cache.current() is None
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", "~nobody-of-this-name/cache")
    assert disk_cache.folder() is None
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", "relative")
    assert config.cache_folder() is None


def test_hits_and_misses_are_logged(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JITGRAPH_LOG", "cache")
    cache.find(KEY, "code of f")
    cache.store(KEY, b"content")
    cache.find(KEY, "code of f")
    corrupted(path_of(cache), "content", cache)
    cache.find(KEY, "code of f")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[cache] code of f: miss, never compiled")
    assert lines[1].startswith("[cache] code of f: hit")
    assert "content is damaged" in lines[2] and "miss, its content is damaged" in lines[3]


def test_other_systems_have_no_owners(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, b"content")
    monkeypatch.setattr(system.sys, "platform", "win32")
    monkeypatch.delattr(os, "geteuid")
    assert cache.find(KEY, "it") == b"content"
