"""What is wrong is said on one line, with the right exit code: 2 for the words, 1 for what they ask for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Result

Command = Callable[..., Result]

WRONG = {
    "frob": (2, "No such command"),
    "run scaled.jg --frob": (2, "--frob"),
    "run nothing.jg": (2, "nothing.jg"),
    "run .": (2, "directory"),
    "run scaled.jg": (2, "nothing is given for x: float32[batch, 3]"),
    "run scaled.jg -i y=x.npy": (2, "no input 'y'"),
    "run scaled.jg -i x=nothing.npy": (2, "neither a file"),
    "run scaled.jg -i x.npy -i x=x.npy -i 3 -i 4": (2, "for no input"),
    "run scaled.jg -i x=x.npy -i x=x.npy": (2, "given twice"),
    "run scaled.jg -i scale={}": (2, "no number or list"),
    "run scaled.jg -i x=random:5:5": (2, "no number lies"),
    "run scaled.jg -i q=both.npz": (2, "several arrays"),
    "run scaled.jg --random --size batch": (2, "a name and a number"),
    "run scaled.jg --random --size batch=3 --size batch=4": (2, "the size batch is given twice"),
    "run scaled.jg -i x=": (2, "'' is neither a file"),
    "run scaled.jg -i empty/": (1, "not from a folder"),
    "run scaled.jg -i [[1e39,0,0]]": (1, "does not hold every number"),
    "run scaled.jg -i [[1e400,0,0]]": (2, "neither a file"),
    "export scaled.jg --onnx empty": (1, "a folder stands where"),
    "show scaled.jg -o empty": (1, "empty cannot be written: a folder stands"),
    "show scaled.jg -o no/y.txt": (1, "no such folder"),
    "run scaled.jg --random --size rows=3": (2, "no size 'rows'"),
    "run scaled.jg --random --seed -1": (2, "--seed"),
    "run scaled.jg --random -o y.npy": (2, "takes one array, not 2"),
    "run scaled.jg --random -o y.txt": (2, ".safetensors"),
    "run scaled.jg --random -o no/y.npz": (1, "no such folder"),
    "run scaled.jg --random --entry other": (2, "scaled.jg has no entry 'other'; --entry is one of forward"),
    "run scaled.jg --random --entry other --native": (2, "no entry 'other'; --entry is one of forward"),
    "bench scaled.jg --entry other": (2, "no entry 'other'"),
    "show scaled.jg --entry other": (2, "no entry 'other'"),
    "diff scaled.jg scaled.jg --entry other": (2, "no entry 'other'"),
    "run scaled.jg --random --device cuda:77": (1, "cuda"),
    "run scaled.jg -i x64.npy": (1, "x: float32[batch, 3] is given float64[2, 3]; hint: --cast"),
    "run scaled.jg -i wide.npy": (1, "x: float32[batch, 3] is given float32[2, 4]"),
    "run scaled.jg -i 3": (1, "x: float32[batch, 3] is given float32[]"),
    "run scaled.jg -i [[1,2],[3]]": (1, "is no array"),
    "run counter.jg -i [1.5,2,3]": (1, "does not hold every number"),
    "run counter.jg -i [1,2,100000000000000000000]": (1, "does not hold"),
    "run x.npy --random": (1, "this is an .npy file of NumPy"),
    "info text.jg": (1, "not a jitgraph model"),
    "show scaled.jg --target z80": (2, "no target 'z80'"),
    "show scaled.jg --ptx --target x86-64-v3": (1, "no PTX"),
    "show scaled.jg --asm --target sm_80": (1, "--ptx"),
    "export scaled.jg": (2, "export needs"),
    "export scaled.jg --target sm_80": (2, "--target goes with"),
    "export scaled.jg -o y.jg": (2, "--target"),
    "export scaled.jg --target x86-64-v2 -o y.jg": (1, "fused multiply-add"),
    "convert x.npy": (1, "not a model to convert"),
    "convert text.jg": (1, "no ONNX, TorchScript or torch.export file"),
    "diff scaled.jg": (2, "'B'"),
    "verify scaled.jg --tolerance x": (2, "--tolerance"),
    "cache frob": (2, "No such command"),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_commands(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.chdir(folder)
    (folder / "text.jg").write_text("not a model")
    (folder / "empty").mkdir(exist_ok=True)
    if "--onnx" in words:
        pytest.importorskip("onnx")
    code, text = WRONG[words]
    result = command(*words.split())
    assert result.code == code, result
    assert text in result.err, result.err
    assert result.err.count("\n") == 1 and result.err.startswith("jitgraph") and result.out == ""
    assert "site-packages" not in result.err and "; at " not in result.err


HOSTILE_ARRAYS = {
    "cut.npy": lambda good: good[:70],
    "empty.npy": lambda good: b"",
    "huge.npy": lambda good: good.replace(b"(2, 3)", b"(9**9)"),
    "pickle.npy": lambda good: good.replace(b"'<f4'", b"'|O' "),
    "text.npz": lambda good: b"PK\x03\x04 nothing",
    "header.safetensors": lambda good: b"\xff" * 40,
    "deep.json": lambda good: b"[" * 100_000,
    "ragged.json": lambda good: b"[[1, 2], [3]]",
    "texts.json": lambda good: b'["a"]',
    "twice.json": lambda good: b'{"x": [[1, 2, 3]], "x": [[4, 5, 6]]}',
    "large.json": lambda good: b'{"x": [[1, 2, 3]], "scale": 1e400}',
    "cut.png": lambda good: b"\x89PNG\r\n\x1a\n\0\0",
    "unknown.xyz": lambda good: b"",
}


@pytest.mark.parametrize("name", HOSTILE_ARRAYS)
def test_hostile_arrays(command: Command, folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(HOSTILE_ARRAYS[name]((folder / "x.npy").read_bytes()))
    result = command("run", folder / "scaled.jg", "-i", tmp_path / name)
    assert result.code == 1 and result.err.count("\n") == 1 and name in result.err and result.out == ""


def test_a_file_of_arrays_is_not_called_weights(command: Command, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"\0")
    assert "weights" not in command("run", folder / "scaled.jg", "-i", tmp_path / "x.safetensors").err


@pytest.mark.parametrize("command_name", ["run", "info", "show", "bench", "diff", "export"])
def test_hostile_models(command: Command, folder: Path, tmp_path: Path, command_name: str) -> None:
    """Cut, with a bit changed, and with an end that is another's."""
    good = (folder / "scaled.jg").read_bytes()
    middle = len(good) // 2
    for number, data in enumerate((good[:middle], good[:900] + bytes([good[900] ^ 4]) + good[901:], good + b"x", b"")):
        path = tmp_path / f"hostile{number}.jg"
        path.write_bytes(data)
        rest = {"diff": [folder / "scaled.jg"], "export": ["--so", tmp_path / "so"], "run": ["--random"]}
        result = command(command_name, path, *rest.get(command_name, []))
        assert result.code == 1 and result.err.count("\n") == 1 and path.name in result.err and result.out == ""


def test_traceback_shows_the_whole_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from jitgraph.cli import main

    assert main(["run", "--traceback", str(folder / "x.npy"), "--random"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_error_of_our_own_says_how_to_see_more(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jitgraph.saved.description.describe", lambda path: 1 // 0)
    result = command("info", folder / "scaled.jg")
    assert result.code == 1
    assert (
        result.err == "jitgraph info: ZeroDivisionError: integer division or modulo by zero; --traceback shows where\n"
    )
    interrupted = "jitgraph.saved.description.describe"
    monkeypatch.setattr(interrupted, lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
    assert command("info", folder / "scaled.jg").code == 130


def test_a_reader_that_has_read_enough_ends_it_in_silence(folder: Path) -> None:
    import subprocess
    import sys

    from tests import ROOT

    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "jitgraph", "info", str(folder / "scaled.jg")]
    done = subprocess.run(words, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_verify_of_a_damaged_file_says_what_is_wrong_as_a_step(command: Command, folder: Path, tmp_path: Path) -> None:
    good, path = (folder / "scaled.jg").read_bytes(), tmp_path / "damaged.jg"
    for data in (good[: len(good) // 2], good[:900] + bytes([good[900] ^ 4]) + good[901:], b""):
        path.write_bytes(data)
        assert command("verify", path).code == 1
        result = command("verify", path, "--json")
        told = json.loads(result.out)
        assert (result.code, result.err, told["right"]) == (1, "", False)
        assert (told["steps"][-1]["outcome"], path.name in told["steps"][-1]["text"]) == ("differs", True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("words", ["show scaled.jg -o", "export scaled.jg --onnx", "convert scaled.onnx -o"])
def test_a_full_disk_is_named_and_a_device_stays_one(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(folder)
    if "onnx" in words:
        pytest.importorskip("onnx")
        assert command("export", "scaled.jg", "--onnx", "scaled.onnx").code == 0
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to("/dev/full")  # should it be replaced, then only the link
    result = command(*words.split(), "link")
    assert result.code == 1 and "No space left on device" in result.err, result
    assert "link" in result.err or "/dev/full" in result.err
    assert (folder / "link").is_symlink() and Path("/dev/full").is_char_device()


def test_closed_streams_and_interrupts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from jitgraph import cli

    for name in ("stdout", "stderr"):
        with monkeypatch.context() as closed:
            closed.setattr(sys, name, None)
            assert cli.main(["info", str(folder / "scaled.jg")]) == 0
            assert cli.main(["nonsense"]) == 2
    monkeypatch.setattr(cli, "_main", lambda words: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cli.main(["info"]) == 130


def test_json_has_words_for_numbers_that_json_cannot_write(command: Command, folder: Path, tmp_path: Path) -> None:
    rows = np.array([[np.nan, np.inf, -np.inf]], np.float32)
    np.save(tmp_path / "x.npy", rows)
    result = command("run", folder / "scaled.jg", "-i", tmp_path / "x.npy", "--json")
    assert json.loads(result.out)["outputs"]["scores"]["data"] == [["nan", "inf", 0.0]]
    (tmp_path / "x.json").write_text('[["nan", "inf", "-inf"]]')
    again = command("run", folder / "scaled.jg", "-i", tmp_path / "x.json", "--json")
    assert json.loads(again.out)["outputs"] == json.loads(result.out)["outputs"]
