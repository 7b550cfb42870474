"""``jg.load`` and ``jg.load_checkpoint`` say what a file of another library is, and what to do with it."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import jitgraph as jg


def zipped(*names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, b"\x80\x02}q\x00." if name.endswith(".pkl") else b"content")
    return held.getvalue()


def saved(write: Callable[[io.BytesIO], object]) -> bytes:
    held = io.BytesIO()
    write(held)
    return held.getvalue()


def weights(path: Path) -> bytes:
    save_file({"weight": np.ones((2, 3), np.float32)}, path)
    return path.read_bytes()


def archived() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("weights"))
    return held.getvalue()


FILES: dict[str, tuple[bytes, str, str]] = {
    "model.pt": (zipped("model/data.pkl", "model/version", "model/data/0"), "torch.save, a zip", r"weights_only=True"),
    "script.pt": (zipped("m/data.pkl", "m/constants.pkl", "m/code/__torch__.py"), "TorchScript", r"torch\.jit\.load"),
    "mobile.ptl": (zipped("m/data.pkl", "m/constants.pkl", "m/bytecode.pkl"), "mobile", r"torch\.jit\.load"),
    "flat.ptl": (b"<\0\0\0PTMF" + bytes(64), "mobile", r"torch\.jit\.load"),
    "program.pt2": (zipped("serialized_exported_program.json", "version"), r"torch\.export", r"jg\.from_torch"),
    "old.pth": (pickle.dumps({"weight": [1.0]}, 2), "a pickle, .* runs code", r"only where you trust it"),
    "data.pkl": (pickle.dumps([1, 2], 5), "a pickle", r"torch\.load"),
    "arrays.npz": (saved(lambda f: np.savez(f, a=np.ones(3))), r"an \.npz file", r"numpy\.load\(path\)"),
    "packed.npz": (saved(lambda f: np.savez_compressed(f, a=np.ones(3))), r"an \.npz file", r"load_state_dict"),
    "array.npy": (saved(lambda f: np.save(f, np.ones(3))), r"an \.npy file", r"jg\.asarray\(numpy\.load\(path\)\)"),
    "model.keras": (zipped("config.json", "metadata.json", "model.weights.h5"), "a Keras model", r"get_weights"),
    "model.h5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "an HDF5 file", r"h5py\.File\(path\)"),
    "model.onnx": (b"\x08\x08\x12\x07pytorch\x1a\x052.5.0:\x10" + bytes(20), "an ONNX model", r"jg\.onnx\.load"),
    "model.gguf": (b"GGUF\x03\x00\x00\x00" + bytes(60), "GGUF", r"GGUFReader"),
    "model.tflite": (b"\x1c\x00\x00\x00TFL3" + bytes(60), "TensorFlow Lite", r"jg\.nn\.Module"),
    "model.tar": (archived(), "a tar archive", r"unpack it"),
    "model.jg.gz": (gzip.compress(b"content"), "compressed by gzip", r"gunzip"),
    "wheel.whl": (zipped("package/__init__.py"), r"a zip that jg\.save did not write", r"the file that jg\.save wrote"),
    "graph.jgir": (b"graph @f(%x: f32[2]) -> f32[2] {\n  return %x\n}\n", "text of a graph", r"jitgraph\.opt"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_foreign_file_is_named_with_what_reads_it(name: str, tmp_path: Path) -> None:
    data, what, hint = FILES[name]
    file = tmp_path / name
    file.write_bytes(data)
    for load in (jg.load, jg.load_checkpoint):
        with pytest.raises(jg.LoadError, match=rf"(?s){name}.* is .*{what}.*hint: .*{hint}"):
            load(file)
    with pytest.raises(jg.LoadError, match=r"jg.load reads what jg.save wrote"):
        jg.load(str(file))


def test_files_of_jitgraph_and_safetensors_name_the_other_function(tmp_path: Path) -> None:
    model = jg.nn.Linear(3, 2)
    function, run, alone = tmp_path / "model.jg", tmp_path / "run.ckpt", tmp_path / "model.safetensors"
    jg.save(model, function, example_inputs=(np.ones((1, 3), np.float32),))
    jg.save_checkpoint(run, model=model)
    weights(alone)
    with pytest.raises(jg.LoadError, match=r"a checkpoint of jitgraph; .*(?s:.)*hint: jg.load_checkpoint\(path"):
        jg.load(run)
    with pytest.raises(jg.LoadError, match=r"a function saved by jg.save; .*(?s:.)*hint: jg.load\(path\)"):
        jg.load_checkpoint(function)
    for load in (jg.load, jg.load_checkpoint):
        with pytest.raises(
            jg.LoadError, match=r"a safetensors file(?s:.)*load_state_dict\(safetensors.numpy.load_file"
        ):
            load(alone)
    assert jg.load(function)(np.ones((1, 3), np.float32)).shape == (1, 2)


def test_folders_are_named(tmp_path: Path) -> None:
    for name, what in (
        ("saved_model.pb", "SavedModel"),
        ("model.safetensors", "weights"),
        ("pytorch_model.bin", "save"),
    ):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        (folder / name).write_bytes(b"content")
        with pytest.raises(jg.LoadError, match=what):
            jg.load(folder)


def test_other_files_are_refused_as_before(tmp_path: Path) -> None:
    file = tmp_path / "model.jg"
    jg.save(lambda x: x * 2, file, example_inputs=(np.ones(3, np.float32),))
    data = file.read_bytes()
    for content, message in ((b"", "empty"), (b"hello, world", "does not begin like a zip"), (data[:-9], "zip")):
        file.write_bytes(content)
        with pytest.raises(jg.LoadError, match=message) as error:
            jg.load(file)
        assert "jg.load reads what" not in str(error.value)
    with pytest.raises(jg.LoadError, match="cannot be opened"):
        jg.load(tmp_path / "missing.pt")
