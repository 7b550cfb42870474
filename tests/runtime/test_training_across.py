"""A training that goes on elsewhere: steps in C, in the Python loader and in jitgraph, by files of the state."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader
from tests.graphs import needs_native
from tests.runtime.c_library import CError, Library

pytestmark = needs_native
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")
ROWS, COLUMNS = 6, 4


class Run:
    """A model with dropout, AdamW, a step counter and a schedule, and one step of its training."""

    def __init__(self, optimizer: str) -> None:
        jg.random.seed(7)
        nn = jg.nn
        self.model = nn.Sequential(nn.Linear(COLUMNS, 8), nn.Dropout(0.25), nn.BatchNorm1d(8), nn.Linear(8, 3))
        parameters = self.model.parameters()
        if optimizer == "AdamW":
            self.optimizer: Any = jg.optim.AdamW(parameters, lr=0.05)
        else:
            self.optimizer = jg.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True)
        self.steps = jg.asarray(0)
        self.step = jg.trace(self._step)

    def _step(self, batch: Any) -> Any:
        loss = jg.nn.functional.cross_entropy(self.model(batch["image"]), batch["label"])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return {"loss": loss, "steps": self.steps}

    @property
    def state(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "steps": self.steps}

    def save(self, path: Path) -> None:
        jg.save(
            {"forward": lambda x: self.model(x), "step": self.step},
            path,
            state=self.state,
            example_inputs={"forward": (batch_of(0)["image"],), "step": (batch_of(0),)},
        )

    def train(self, count: int) -> list[str]:
        """As ``train.c``."""
        losses = []
        for _ in range(count):
            reached = int(self.steps)
            self.optimizer.param_groups[0]["lr"] = rate_of(reached)
            losses.append(float(self.step(batch_of(reached))["loss"].detach()).hex())
        return losses


def batch_of(step: int) -> dict[str, np.ndarray[Any, Any]]:
    numbers = (7 * np.arange(ROWS * COLUMNS) + 5 * step) % 11
    image = numbers.astype(np.float32).reshape(ROWS, COLUMNS) / np.float32(8) - np.float32(0.5)
    return {"image": image, "label": (np.arange(ROWS) + step) % 3}


def rate_of(step: int) -> float:
    return 0.05 / (1 + step // 4)


def train_loaded(model: Any, count: int) -> list[str]:
    """As ``train.c``, with a model of jitgraph or of its loader."""
    losses = []
    for _ in range(count):
        reached = int(model.state["steps"])
        losses.append(float(model.step(batch_of(reached), lr=rate_of(reached))["loss"]).hex())
    return losses


@pytest.fixture(scope="module")
def train(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("train") / "train"
    source = Path(__file__).parent / "c" / "train.c"
    strict = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=address,undefined")
    files = (str(source), str(written / "loader.c"), f"-I{written}", "-lpthread", "-o", str(program))
    subprocess.run(["gcc", *strict, *files], check=True)
    return program


def trained_in_c(program: Path, model: Path, start: object, count: int, end: object) -> list[str]:
    words = [str(word) for word in (program, model, start, count, end)]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return [float.fromhex(line).hex() for line in result.stdout.split()]


@needs_gcc
@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
def test_a_training_goes_on_to_the_bit_wherever_it_goes_on(optimizer: str, train: Path, tmp_path: Path) -> None:
    path, states = tmp_path / "run.jg", [tmp_path / f"{number}.safetensors" for number in range(5)]
    run = Run(optimizer)
    run.save(path)
    expected = run.train(15)
    jg.load(path).save_state(states[0])
    assert trained_in_c(train, path, states[0], 3, states[1]) == expected[:3]

    in_jitgraph = jg.load(path)
    in_jitgraph.load_state(states[1])
    assert train_loaded(in_jitgraph, 3) == expected[3:6]
    in_jitgraph.save_state(states[2])

    in_loader = loader.load(path)
    in_loader.load_state(states[2])
    assert train_loaded(in_loader, 3) == expected[6:9]
    in_loader.save_state(states[3])

    assert trained_in_c(train, path, states[3], 3, states[4]) == expected[9:12]
    program = Run(optimizer)  # which goes on as it would have without all that
    jg.random.seed(99)
    jg.load_state(states[4], program.state)
    assert program.train(3) == expected[12:]


@needs_gcc
def test_all_write_the_same_file_of_a_state(train: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jg"
    Run("AdamW").save(path)
    trained_in_c(train, path, "-", 0, tmp_path / "c")
    jg.load(path).save_state(tmp_path / "jitgraph")
    loader.load(path).save_state(tmp_path / "loader")
    assert (tmp_path / "c").read_bytes() == (tmp_path / "jitgraph").read_bytes() == (tmp_path / "loader").read_bytes()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A model and a file of its state after two steps."""
    folder = tmp_path_factory.mktemp("saved")
    Run("SGD").save(folder / "run.jg")
    model = loader.load(folder / "run.jg")
    train_loaded(model, 2)
    model.save_state(folder / "state")
    return folder / "run.jg", (folder / "state").read_bytes()


def renamed(data: bytes) -> bytes:
    return data.replace(b"model.0.weight", b"model.9.weight")


WRONG = {
    "empty": (lambda data: b"", "empty|0 bytes"),
    "cut": (lambda data: data[:-8], "bytes"),
    "a bit flipped": (lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:], "SHA-256"),
    "another name": (renamed, "state of another model"),
    "another dtype": (lambda data: data.replace(b'"I64"', b'"U64"'), "int64"),
    "no safetensors": (lambda data: b"PK" + data, "header"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("reader", ["jitgraph", "loader", pytest.param("c", marks=needs_gcc)])
def test_a_file_that_is_not_this_state_changes_nothing(
    case: str, reader: str, saved: tuple[Path, bytes], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, data = saved
    change, message = WRONG[case]
    (tmp_path / "wrong").write_bytes(change(data))
    if reader == "c":
        model: Any = c_library(tmp_path_factory).load(path)
        load: Any = lambda: model.load_state(tmp_path / "wrong")
        error: Any = CError
        now = lambda: model.state("steps").tobytes() + model.state("model.3.bias").tobytes()
    else:
        model = jg.load(path) if reader == "jitgraph" else loader.load(path)
        load, error = lambda: model.load_state(tmp_path / "wrong"), jg.LoadError
        now = lambda: {key: np.asarray(jg.asarray(value).detach()).tobytes() for key, value in model.state.items()}
    before = now()
    with pytest.raises(error, match=message):
        load()
    assert now() == before


_LIBRARIES: list[Library] = []


def c_library(factory: pytest.TempPathFactory) -> Library:
    if not _LIBRARIES:
        _LIBRARIES.append(Library(factory.mktemp("library")))
    return _LIBRARIES[0]


def test_a_write_that_fails_leaves_the_file_as_it_was(saved: tuple[Path, bytes], tmp_path: Path) -> None:
    path, data = saved
    target = tmp_path / "state"
    target.write_bytes(data)
    model = loader.load(path)
    with pytest.MonkeyPatch.context() as patch:

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(os, "fsync", full)
        for each in (model, jg.load(path)):
            with pytest.raises(OSError, match="No space left"):
                each.save_state(target)
    assert target.read_bytes() == data and os.listdir(tmp_path) == ["state"]


@needs_gcc
def test_a_write_that_fails_in_c_leaves_nothing(
    saved: tuple[Path, bytes], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = c_library(tmp_path_factory).load(saved[0])
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "folder", tmp_path / "none" / "state"):  # no file can take the place of a folder
        with pytest.raises(CError, match="cannot be written"):
            model.save_state(target)
    assert os.listdir(tmp_path) == ["folder"] and os.listdir(tmp_path / "folder") == []
    linked = tmp_path / "link"
    linked.symlink_to(tmp_path / "real")
    (tmp_path / "real").write_bytes(b"old")
    os.chmod(tmp_path / "real", 0o640)
    model.save_state(linked)
    assert linked.is_symlink() and (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    loader.load(saved[0]).load_state(tmp_path / "real")


@pytest.mark.parametrize("writer", ["jitgraph", "loader", pytest.param("c", marks=needs_gcc)])
def test_a_state_goes_into_a_pipe_which_stays_one(
    writer: str, saved: tuple[Path, bytes], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As root a file could take the place of /dev/null."""
    path = saved[0]
    library = c_library(tmp_path_factory) if writer == "c" else None
    model = library.load(path) if library else jg.load(path) if writer == "jitgraph" else loader.load(path)
    model.save_state(tmp_path / "plain")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        model.save_state(tmp_path / "pipe")
        assert (tmp_path / "pipe").is_fifo()
        assert os.read(reader, 1 << 16) == (tmp_path / "plain").read_bytes()
    finally:
        os.close(reader)


def test_folders_are_named_that_are_missing_or_in_the_way(saved: tuple[Path, bytes], tmp_path: Path) -> None:
    for model in (loader.load(saved[0]), jg.load(saved[0])):
        with pytest.raises(FileNotFoundError, match=r"no such folder to save in.*'.*/none'"):
            model.save_state(tmp_path / "none" / "state")
        with pytest.raises(IsADirectoryError, match="a folder stands where the file is to be"):
            model.save_state(tmp_path)


def test_a_state_is_saved_between_the_steps_of_other_threads(saved: tuple[Path, bytes], tmp_path: Path) -> None:
    """What a file holds is the state after some whole step: one that a training alone has reached, too."""
    path, _ = saved
    alone = loader.load(path)
    expected = {}
    for step in range(41):
        alone.save_state(tmp_path / "alone")
        expected[step] = (tmp_path / "alone").read_bytes()
        train_loaded(alone, 1)
    model = loader.load(path)
    trainer = threading.Thread(target=lambda: train_loaded(model, 40))
    trainer.start()
    reached = set()
    for number in range(20):
        model.save_state(tmp_path / f"{number}")
        other = loader.load(path)
        other.load_state(tmp_path / f"{number}")
        step = int(other.state["steps"])
        assert (tmp_path / f"{number}").read_bytes() == expected[step]
        reached.add(step)
    trainer.join()
    model.save_state(tmp_path / "end")
    assert (tmp_path / "end").read_bytes() == expected[40]
    assert reached <= set(range(41))
