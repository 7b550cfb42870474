"""The standalone loader: good files, hostile files, arguments, memory, state."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import struct
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jitgraph import artifact
from jitgraph.errors import JitgraphError
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable
from jitgraph.runtime.loader import ArgumentError, LoadError, abi
from jitgraph.runtime.loader.entry import as_array
from jitgraph.runtime.loader.memory import _size_class, allocator
from jitgraph.runtime.loader.signatures import rebuild
from tests.processes import in_child
from tests.runtime.handwritten import ENTRY, SCALE, SCALE_SIGNATURE, buffer, entry, image, spec

WEIGHTS = {"layer.s": np.array(2.5, np.float32), "other": np.arange(100.0).reshape(4, 25), "flag": np.array([True])}


@pytest.fixture(scope="module")
def scale_image() -> bytes:
    return image(SCALE, runtime=True)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, scale_image: bytes) -> Path:
    path = tmp_path_factory.mktemp("good") / "model.jg"
    saved = artifact.SavedEntry(SCALE_SIGNATURE, "graph @scale", {"x86-64-v2": scale_image})
    artifact.write_artifact(path, entries={"forward": saved}, weights=WEIGHTS, metadata={"by": "test"})
    return path


# --- good files -----------------------------------------------------------------------------------------------------


def test_load_and_run(good: Path) -> None:
    model = loader.load(good)
    assert (model.target, model.metadata, model.entries) == ("x86-64-v2", {"by": "test"}, ("forward",))
    assert [str(s) for s in (*model.inputs, *model.outputs)] == ["x: float32[n]", "y: float32[n]"]
    scale = 2.5
    for n in (0, 1, 7, 1797):
        x = np.linspace(-1, 1, n, dtype=np.float32)
        result = model(x) if n else model(x=x)
        assert list(result) == ["y", "version", "none"] and result["version"] == 3 and result["none"] is None
        assert np.array_equal(result["y"], x * np.float32(scale))
        scale += 1


def test_state_is_written_after_success_only(good: Path) -> None:
    model = loader.load(good)
    before = model.state
    for _ in range(4):
        model([1.0])
    assert model.state["layer.s"] == np.float32(6.5) and before["layer.s"] == np.float32(2.5)
    assert np.array_equal(model.state["other"], WEIGHTS["other"])
    for array in model.state.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    model._state = {**model.state, "layer.s": np.array(7, np.float32)}
    for _ in range(2):
        with pytest.raises(IndexError, match=r"index 41 is out of range for size 42\n  at model.py:3") as caught:
            model([1.0])
        assert isinstance(caught.value, JitgraphError)
        assert model.state["layer.s"] == 7


def test_an_entry_that_reads_sees_what_another_wrote(tmp_path: Path) -> None:
    """What is kept of a state from call to call is that of the last step."""
    read = loader.Signature((), (spec("y", "int32"),), (loader.StateSpec("s", "int32", (), key="k"),))
    write = loader.Signature((), (spec("t", "int32"),), read.state, writes=((0, 0),))
    ir = f"{ENTRY} {{\n{buffer('%s', 0)}{buffer('%y', 1)}  %v = load i32, ptr %s\n  %w = add i32 %v, STEP\n"
    ir += "  store i32 %w, ptr %y\n  ret i32 0\n}\n"
    entries = {
        name: artifact.SavedEntry(signature, "", {"x86-64-v2": image(ir.replace("STEP", str(step)))})
        for name, signature, step in (("forward", read, 0), ("step", write, 3))
    }
    artifact.write_artifact(tmp_path / "m.jg", entries=entries, weights={"k": np.array(5, np.int32)}, metadata={})
    model = loader.load(tmp_path / "m.jg")
    assert [int(model()), int(model())] == [5, 5]
    for expected in (8, 11):
        model.run("step")
        assert [int(model()), int(model()), int(model.state["k"])] == [expected] * 3


def test_concurrent_steps_take_turns(good: Path) -> None:
    model = loader.load(good)
    model._state = {**model.state, "layer.s": np.array(100, np.float32)}
    threads = [threading.Thread(target=lambda: [model([1.0, 2.0]) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.state["layer.s"] == 300


def test_members_and_weights_are_aligned(good: Path) -> None:
    actual = loader.Artifact(good)
    assert actual.members and all(member.start % 64 == 0 for member in actual.members.values())
    weights = actual.weights()
    assert weights["other"].ctypes.data % 64 == 0 and not weights["other"].flags.owndata
    for name, array in WEIGHTS.items():
        assert weights[name].dtype == array.dtype and np.array_equal(weights[name], array)


def test_same_model_same_bytes_and_no_leftovers(good: Path, tmp_path: Path, scale_image: bytes) -> None:
    saved = artifact.SavedEntry(SCALE_SIGNATURE, "graph @scale", {"x86-64-v2": scale_image})
    path = tmp_path / "again.jg"
    path.write_bytes(b"old")
    with pytest.raises(JitgraphError, match="not among the weights"):
        artifact.write_artifact(path, entries={"forward": saved}, weights={}, metadata={})
    with pytest.raises(TypeError):
        artifact.write_artifact(path, entries={"forward": saved}, weights=WEIGHTS, metadata={"f": object()})
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["again.jg"]
    artifact.write_artifact(path, entries={"forward": saved}, weights=WEIGHTS, metadata={"by": "test"})
    assert path.read_bytes() == good.read_bytes() and os.listdir(tmp_path) == ["again.jg"]
    zipfile.ZipFile(path).testzip()


def test_bfloat16_weights(tmp_path: Path, scale_image: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    value = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    saved = artifact.SavedEntry(SCALE_SIGNATURE, "", {"x86-64-v2": scale_image})
    path = tmp_path / "model.jg"
    artifact.write_artifact(path, entries={"step": saved}, weights={**WEIGHTS, "b": value}, metadata={})
    assert np.array_equal(loader.load(path).state["b"], value)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert np.array_equal(loader.load(path).state["b"], value.view(np.uint16))


def test_alone_beside_the_model(good: Path, tmp_path: Path, written: Path) -> None:
    shutil.copy(written / "loader.py", tmp_path)
    assert (tmp_path / "loader.py").stat().st_size < 300_000
    shutil.copy(good, tmp_path / "model.jg")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport loader, numpy as np\n"
        f"print(loader.load({str(tmp_path / 'model.jg')!r})(np.ones(3, np.float32))['y'].tolist())\n"
        "heavy = {'jitgraph', 'llvmlite', 'networkx', 'numba', 'ml_dtypes', 'safetensors'}\n"
        "print(heavy & {name.partition('.')[0] for name in sys.modules})\nprint(loader.__file__)"
    )
    assert in_child(code, "-I").splitlines() == ["[2.5, 2.5, 2.5]", "set()", str(tmp_path / "loader.py")]


# --- hostile files --------------------------------------------------------------------------------------------------

Parts = dict[str, bytes]


def parts_of(path: Path) -> Parts:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, parts: Parts, *, rehash: bool = True, **options: Any) -> Path:
    """A zip of ``parts``, with the manifest's hashes brought up to date on demand."""
    parts = dict(parts)
    if rehash:
        manifest = json.loads(parts["manifest.json"])
        manifest["members"] = {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in parts.items()
            if name != "manifest.json"
        }
        parts["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def manifest_with(change: Callable[[dict[str, Any]], object]) -> Callable[[Parts], object]:
    def edit(parts: Parts) -> None:
        manifest = json.loads(parts["manifest.json"])
        change(manifest)
        parts["manifest.json"] = json.dumps(manifest).encode()

    return edit


def signature_with(change: Callable[[dict[str, Any]], object]) -> Callable[[Parts], object]:
    return manifest_with(lambda manifest: change(manifest["entries"]["forward"]["signature"]))


def printing(change: Callable[[dict[str, Any]], object]) -> Callable[[Parts], object]:
    return signature_with(lambda signature: change(signature["prints"][0]))


def operand(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda printed: printed["operands"][0].update(fields)


def weights_with(header: Any, data: bytes = b"", length: int | None = None) -> Callable[[Parts], object]:
    def edit(parts: Parts) -> None:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        parts["weights.safetensors"] = struct.pack("<Q", len(text) if length is None else length) + text + data

    return edit


def tensor(code: str = "F32", shape: Any = (), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"layer.s": {"dtype": code, "shape": shape, "data_offsets": offsets}}


def image_with(offset: int, value: bytes) -> Callable[[Parts], object]:
    def edit(parts: Parts) -> None:
        data = bytearray(parts["native/x86-64-v2"])
        data[offset : offset + len(value)] = value
        parts["native/x86-64-v2"] = bytes(data)

    return edit


def setting(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda target: target.__setitem__(key, value)


F4 = bytes(4)
HOSTILE: dict[str, tuple[Callable[[Parts], object], str]] = {
    "no manifest": (lambda parts: parts.pop("manifest.json"), "'manifest.json' is missing"),
    "manifest not JSON": (setting("manifest.json", b"{"), "not sound JSON"),
    "manifest not UTF-8": (setting("manifest.json", b"\xff\xfe"), "not sound JSON"),
    "manifest a list": (setting("manifest.json", b"[1]"), "not a JSON object but a list"),
    "manifest deep": (setting("manifest.json", b"[" * 100_000), "not sound JSON"),
    "manifest with NaN": (setting("manifest.json", b'{"a": NaN}'), "NaN is not JSON"),
    "manifest with two keys": (setting("manifest.json", b'{"a": 1, "a": 2}'), "appears twice"),
    "manifest with a long int": (setting("manifest.json", b'{"a": ' + b"9" * 5000 + b"}"), "not sound JSON"),
    "other format": (manifest_with(setting("format", "onnx")), "names the format 'onnx'"),
    "no format": (manifest_with(lambda m: m.pop("format")), "names the format None"),
    "newer version": (manifest_with(setting("version", 3)), "format version 3 is unknown"),
    "version a bool": (manifest_with(setting("version", True)), "'version' is True"),
    "no entries": (manifest_with(setting("entries", {})), "has no entry"),
    "entries a list": (manifest_with(setting("entries", [])), "'entries' is"),
    "entry a text": (manifest_with(setting("entries", {"a": "b"})), "not a JSON object but a str"),
    "no members": (manifest_with(lambda m: m.pop("members")), "lacks 'members'"),
    "metadata a list": (manifest_with(setting("metadata", [1])), "'metadata' is"),
    "missing member": (lambda parts: parts.pop("native/x86-64-v2"), "is missing"),
    "no native code": (manifest_with(lambda m: m["entries"]["forward"]["native"].clear()), "code for no target"),
    "native code for others": (
        manifest_with(lambda m: m["entries"]["forward"].update(native={"x86-64-v9": "a"})),
        "native code for x86-64-v9, but this machine runs x86-64-v",
    ),
    "native a number": (manifest_with(lambda m: m["entries"]["forward"].update(native={"x86-64-v2": 3})), "is 3"),
    "native elsewhere": (
        manifest_with(lambda m: m["entries"]["forward"].update(native={"x86-64-v2": "graph.jgir"})), "native image",
    ),
    "image cut": (lambda parts: parts.update({"native/x86-64-v2": parts["native/x86-64-v2"][:-1]}), "cut or extended"),
    "image empty": (setting("native/x86-64-v2", b""), "shorter than its header"),
    "image magic": (image_with(0, b"\x7fELF"), "begins with"),
    "image ABI": (image_with(8, b"\x09"), "speaks ABI 9"),
    "image machine": (image_with(12, struct.pack("<I", 183)), "for machine 183"),
    "image size": (image_with(16, b"\xff" * 8), "says 18446744073709551615 bytes"),
    "image code end": (image_with(24, b"\xff" * 8), "code ends at"),
    "image code end 0": (image_with(24, b"\0" * 8), "code ends at 0"),
    "image entry in the header": (image_with(32, struct.pack("<Q", 8)), "'entry' at 8"),
    "image entry 0": (image_with(32, bytes(8)), "'entry' at 0"),
    "image entry outside": (image_with(32, struct.pack("<Q", 2**63)), "'entry' at"),
    "image entry behind the code": (image_with(24, struct.pack("<Q", 65)), "at"),
    "image worker outside": (image_with(48, struct.pack("<Q", 10**6)), "'worker' at"),
    "weights missing": (lambda parts: parts.pop("weights.safetensors"), "missing from weights.safetensors"),
    "weights empty": (setting("weights.safetensors", b""), "less than its header's length"),
    "weights header long": (weights_with({}, length=2**63), "says its header has"),
    "weights header longer": (weights_with({}, length=3), "says its header has 3"),
    "weights not JSON": (weights_with(b"\xff\xff"), "not sound JSON"),
    "weights twice": (weights_with(b'{"a": 1, "a": 1}'), "appears twice"),
    "weights a list": (weights_with([1]), "not a JSON object"),
    "tensor a list": (weights_with({"layer.s": [1]}), "not a JSON object but a list"),
    "tensor complex": (weights_with(tensor("C256", (), (0, 8)), bytes(8)), "dtype 'C256' is not supported"),
    "tensor without offsets": (weights_with({"layer.s": {"dtype": "F32", "shape": []}}, F4), "lacks 'data_offsets'"),
    "tensor three offsets": (weights_with(tensor(offsets=(0, 4, 4)), F4), "are not sizes"),
    "tensor bool offsets": (weights_with(tensor(offsets=(False, 4)), F4), "are not sizes"),
    "tensor float offsets": (weights_with(tensor(offsets=(0.0, 4.0)), F4), "are not sizes"),
    "tensor negative": (weights_with(tensor(offsets=(-4, 0)), F4), "are not sizes"),
    "tensor backwards": (weights_with(tensor(offsets=(4, 0)), F4), "do not hold"),
    "tensor outside": (weights_with(tensor(offsets=(0, 8), shape=(2,)), F4), "do not hold"),
    "tensor too short": (weights_with(tensor(shape=(2,)), F4), "do not hold"),
    "tensor absurd": (weights_with(tensor(shape=(2**62, 4), offsets=(0, 0)), b""), "do not hold"),
    "tensor wraps": (weights_with(tensor(shape=(2**32, 2**32, 4)), F4), "do not hold"),
    "tensor huge": (weights_with(tensor(shape=(2**70,)), F4), "are not sizes"),
    "tensor huge and empty": (weights_with(tensor(shape=(2**62, 2**62, 0), offsets=(0, 0))), "tensor 'layer.s'"),
    "tensor deep": (weights_with(tensor(shape=(1,) * 65), F4), "are not sizes"),
    "tensor negative shape": (weights_with(tensor(shape=(-1, -1)), F4), "are not sizes"),
    "tensors overlap": (
        weights_with({**tensor(), "b": tensor(offsets=(2, 6))["layer.s"]}, bytes(6)), "begins at 2, where 4 is due",
    ),
    "gap between tensors": (
        weights_with({**tensor(), "b": tensor(offsets=(8, 12))["layer.s"]}, bytes(12)), "where 4 is due",
    ),
    "data left over": (weights_with(tensor(), bytes(5)), "its tensors 4"),
    "bool of 2": (
        weights_with({**tensor(), "b": tensor("BOOL", (), (4, 5))["layer.s"]}, F4 + b"\2"), "neither 0 nor 1",
    ),
    "state of another dtype": (weights_with(tensor("I32"), F4), r"is int32\[\]"),
    "state of another shape": (weights_with(tensor(shape=(1,)), F4), r"is float32\[1\]"),
    "state under another key": (signature_with(lambda s: s["state"][0].update(key="x")), "missing from"),
    "signature without inputs": (signature_with(lambda s: s.pop("inputs")), "lacks 'inputs'"),
    "input a text": (signature_with(setting("inputs", ["x"])), "not a JSON object but a str"),
    "input dtype": (signature_with(lambda s: s["inputs"][0].update(dtype="object")), "dtype 'object'"),
    "input shape": (signature_with(lambda s: s["inputs"][0].update(shape=[1.5])), "is no size"),
    "input shape bool": (signature_with(lambda s: s["inputs"][0].update(shape=[True])), "is no size"),
    "input negative": (signature_with(lambda s: s["inputs"][0].update(shape=[-1])), "has the size -1"),
    "input rank": (signature_with(lambda s: s["inputs"][0].update(shape=["n"] * 65)), "has rank 65"),
    "code in a size": (signature_with(lambda s: s["outputs"][0].update(shape=["exit()"])), "only names, ints"),
    "power in a size": (signature_with(lambda s: s["outputs"][0].update(shape=["n**n"])), "only names, ints"),
    "attribute in a size": (signature_with(lambda s: s["outputs"][0].update(shape=["n.real"])), "only names, ints"),
    "lambda in a size": (signature_with(lambda s: s["outputs"][0].update(shape=["lambda: 1"])), "only names, ints"),
    "float in a size": (signature_with(lambda s: s["outputs"][0].update(shape=["n + 1.5"])), "only names, ints"),
    "unfinished size": (signature_with(lambda s: s["outputs"][0].update(shape=["(n"])), "is not a size"),
    "nested size": (signature_with(lambda s: s["outputs"][0].update(shape=["(" * 1000])), "is not a size"),
    "minus size": (signature_with(lambda s: s["outputs"][0].update(shape=["-" * 4000 + "n"])), "is not a size"),
    "null in a size": (signature_with(lambda s: s["outputs"][0].update(shape=["n\0"])), "is not a size"),
    "long size": (signature_with(lambda s: s["outputs"][0].update(shape=["n+" * 9000 + "n"])), "18001 characters"),
    "unknown dim": (signature_with(lambda s: s["outputs"][0].update(shape=["m"])), r"unknown dims \['m'\]"),
    "unbound dim": (signature_with(setting("dims", ["n", "m"])), r"no input has the bare size \['m'\]"),
    "dims twice": (signature_with(setting("dims", ["n", "n"])), "not distinct"),
    "dim no name": (signature_with(setting("dims", ["n", "a b"])), "not distinct identifiers"),
    "constraint no comparison": (signature_with(setting("constraints", ["n + 1"])), "is not a constraint"),
    "constraint of code": (signature_with(setting("constraints", ["open() == 1"])), "only names, ints"),
    "constraint of others": (signature_with(setting("constraints", ["m == 1"])), "unknown dims"),
    "write out of range": (signature_with(setting("writes", [[2, 0]])), r"the pair \(2, 0\) is out of range"),
    "write of another type": (signature_with(setting("writes", [[0, 0]])), "cannot be written"),
    "write of a text": (signature_with(setting("writes", [["0", 0]])), "expected pairs of ints"),
    "alias of another type": (signature_with(setting("aliases", [[0, 1]])), "cannot share memory"),
    "alias twice": (signature_with(setting("aliases", [[1, 1], [1, 1]])), "appears twice"),
    "alias negative": (signature_with(setting("aliases", [[-1, 1]])), "out of range"),
    "check kind": (signature_with(lambda s: s["checks"][0].update(kind="SystemExit")), "a check raises 'SystemExit'"),
    "prints missing": (signature_with(lambda s: s.pop("prints")), "lacks 'prints'"),
    "prints a text": (signature_with(setting("prints", "x")), "'prints' is"),
    "print a text": (signature_with(setting("prints", ["x"])), "not a JSON object"),
    "print without texts": (printing(lambda p: p.pop("texts")), "lacks 'texts'"),
    "print texts a number": (printing(setting("texts", ["a", 1])), "'texts' holds"),
    "print texts too few": (printing(setting("texts", ["a"])), "1 texts around 1 operands"),
    "print elsewhere": (printing(setting("stream", "/etc/passwd")), "to '/etc/passwd'"),
    "print flush a number": (printing(setting("flush", 1)), "'flush' is"),
    "print operand a text": (printing(setting("operands", ["x"])), "not a JSON object"),
    "print operand dtype": (printing(operand(dtype="object")), "dtype 'object'"),
    "print operand size": (printing(operand(shape=["exit()"], form="")), "only names, ints"),
    "print operand dim": (printing(operand(shape=["m"], form="")), r"dims \['m'\]"),
    "print operand style": (printing(operand(style="code")), "style"),
    "print operand conversion": (printing(operand(conversion="x")), "conversion"),
    "print format of a vector": (printing(operand(shape=["n"])), "of a tensor of rank 1"),
    "print number of a vector": (printing(operand(shape=["n"], style="number", form="")), "of a tensor of rank 1"),
    "print format long": (printing(operand(form="9" * 65)), "the format '9"),
    "structure index": (signature_with(setting("structure", {"tuple": [2]})), "is no structure"),
    "structure code": (signature_with(setting("structure", {"namedtuple": [0]})), "is no structure"),
    "structure deep": (signature_with(setting("structure", json.loads('{"list":[' * 70 + "]}" * 70))), "nested deeper"),
    "default of a vector": (signature_with(lambda s: s["inputs"][0].update(default=1.0)), "is not 0-d"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_parts(case: str, good: Path, tmp_path: Path) -> None:
    edit, message = HOSTILE[case]
    parts = parts_of(good)
    edit(parts)
    own_hashes = case in ("no manifest", "missing member", "no members") or case.startswith("manifest ")
    path = written(tmp_path / "bad.jg", parts, rehash=not own_hashes)
    with pytest.raises(LoadError, match=message) as caught:
        loader.load(path)
    assert str(caught.value).startswith(str(path))


def zip_changed(good: Path, path: Path, change: Callable[[bytearray], bytes | bytearray | None]) -> Path:
    data = bytearray(good.read_bytes())
    result = change(data)
    path.write_bytes(data if result is None else result)
    return path


def replaced(old: bytes, new: bytes, which: int = 0) -> Callable[[bytearray], None]:
    """Overwrite one occurrence of ``old``; ``which`` counts from the end where negative."""

    def change(data: bytearray) -> None:
        positions = [i for i in range(len(data)) if data.startswith(old, i)]
        start = positions[which]
        data[start : start + len(new)] = new

    return change


def at_end(offset: int, value: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        start = len(data) - 22 + offset
        data[start : start + len(value)] = value

    return change


ZIPS: dict[str, tuple[Callable[[bytearray], bytes | bytearray | None], str]] = {
    "empty": (lambda data: b"", "is empty"),
    "text": (lambda data: b"hello, this is not a model at all", "not a jitgraph model"),
    "tiny": (lambda data: b"PK\3\4", "not a jitgraph model"),
    "elf": (lambda data: b"\x7fELF" + bytes(200), "not a jitgraph model"),
    "cut": (lambda data: data[: len(data) // 2], "no end record"),
    "cut at the end": (lambda data: data[:-1], "no end record"),
    "comment": (lambda data: data[:-2] + b"\x03\x00abc", "no end record"),
    "prefix": (lambda data: b"PK\3\4" + bytes(60) + bytes(data), "does not fit|header of"),
    "count": (at_end(8, b"\x06\x00\x06\x00"), "no directory entry|outside|longer"),
    "count less": (at_end(8, b"\x01\x00\x01\x00"), "bytes too many"),
    "disk": (at_end(4, b"\x01"), "several disks"),
    "directory": (at_end(16, b"\xff\xff\xff\x7f"), "does not fit"),
    "zip64 without a record": (at_end(16, b"\xff\xff\xff\xff"), "zip64 locator"),
    "name of the directory": (replaced(b"graph.jgir", b"graph.jgix", -1), "two headers"),
    "name of the member": (replaced(b"graph.jgir", b"graph.jgix", 0), "two headers"),
    "escaping name": (replaced(b"native/x86-64-v2", b"../ive/x86-64-v2", -1), "not a plain relative path"),
    "absolute name": (replaced(b"native/x86-64-v2", b"/ative/x86-64-v2", -1), "not a plain relative path"),
    "drive name": (replaced(b"native/x86-64-v2", b"C:\\ive/x86-64-v2", -1), "not a plain relative path"),
    "name of controls": (replaced(b"native/x86-64-v2", b"\x1bative/x86-64-v2", -1), "not a plain relative path"),
    "name not ASCII": (replaced(b"native/x86-64-v2", b"\xe4ative/x86-64-v2", -1), "not ASCII"),
    "hash": (replaced(b"graph @scale", b"graph @scalf"), "does not match its SHA-256"),
    "weights damaged": (replaced(np.array(2.5, "<f4").tobytes(), b"\0\0\0\1", -1), "does not match its SHA-256"),
    "manifest damaged": (replaced(b'"by": "test"', b'"by": "tesu"'), "does not match its checksum"),
}


@pytest.mark.parametrize("case", ZIPS)
def test_hostile_zips(case: str, good: Path, tmp_path: Path) -> None:
    change, message = ZIPS[case]
    with pytest.raises(LoadError, match=message):
        loader.load(zip_changed(good, tmp_path / "bad.jg", change))


def test_hostile_compression_and_duplicates(good: Path, tmp_path: Path) -> None:
    parts = parts_of(good)
    with pytest.raises(LoadError, match="is compressed"):
        loader.load(written(tmp_path / "a.jg", parts, compression=zipfile.ZIP_DEFLATED))
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(tmp_path / "b.jg", "w") as archive:
        for name, data in [*parts.items(), ("graph.jgir", b"other")]:
            archive.writestr(name, data)
    with pytest.raises(LoadError, match=r"'graph.jgir' appears twice"):
        loader.load(tmp_path / "b.jg")
    with pytest.raises(LoadError, match="is not listed"):
        loader.load(written(tmp_path / "c.jg", {**parts, "extra.txt": b"?"}, rehash=False))
    with pytest.raises(LoadError, match="not ASCII"):
        loader.load(written(tmp_path / "d.jg", {**parts, "\xfc": b"?"}))


def test_members_that_overlap(good: Path, tmp_path: Path) -> None:
    for extra, message in ((200, "overlap"), (10**6, r"reaches past")):

        def lengthen(data: bytearray, extra: int = extra) -> None:
            directory = struct.unpack_from("<L", data, len(data) - 6)[0]
            for offset in (20, 24):  # both sizes of the first entry
                size = struct.unpack_from("<L", data, directory + offset)[0]
                struct.pack_into("<L", data, directory + offset, size + extra)

        with pytest.raises(LoadError, match=message):
            loader.load(zip_changed(good, tmp_path / "bad.jg", lengthen))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jg", tmp_path):
        with pytest.raises(LoadError, match="cannot be opened"):
            loader.load(path)


def test_any_damage_is_a_load_error_or_harmless(good: Path, tmp_path: Path) -> None:
    data = good.read_bytes()
    path = tmp_path / "bad.jg"
    rng = np.random.default_rng(2)
    for size in [*range(0, len(data), 37), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(LoadError):
            loader.load(path)
    actual = 0
    for position in rng.permutation(len(data))[:1500]:
        changed = bytearray(data)
        changed[position] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        try:
            model = loader.load(path)
        except LoadError:
            actual += 1
        else:  # padding, times, version numbers
            assert np.array_equal(model([2.0])["y"], [5.0])
    assert actual > 900


def test_zip64_members(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "wide.jg"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts_of(good).items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content)
    assert loader.load(path)([2.0])["y"].tolist() == [5.0]
    # A directory in zip64 form, as files beyond 4 GiB have it.
    data = bytearray(path.read_bytes())
    count, size, start = struct.unpack_from("<HLL", data, len(data) - 12)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(data) - 22, 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(data[:-22] + record + locator + end)
    assert loader.load(path)([2.0])["y"].tolist() == [5.0]
    path.write_bytes(data[:-22] + record + locator[:8] + b"\xff" * 8 + locator[16:] + end)
    with pytest.raises(LoadError, match="outside the file"):
        loader.load(path)


def test_processor_levels() -> None:
    v2 = frozenset(("fpu", "cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"))
    v3 = v2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
    assert loader.cpu_levels(frozenset()) == ()
    assert loader.cpu_levels(v2) == ("x86-64-v2",)
    assert loader.cpu_levels(v3) == ("x86-64-v3", "x86-64-v2")
    assert loader.cpu_levels(v3 - {"fma"}) == ("x86-64-v2",)
    assert loader.cpu_levels(v3 | {"avx512f"})[0] == "x86-64-v3"
    assert loader.cpu_flags("/nonexistent") == frozenset()


def test_level_that_the_machine_lacks(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitgraph.runtime.loader.model.cpu_levels", lambda: ())
    with pytest.raises(LoadError, match="native code for x86-64-v2, but this machine runs none"):
        loader.load(good)
    with pytest.raises(LoadError, match="does not run 'x86-64-v3'"):
        loader.load(good, level="x86-64-v3")
    monkeypatch.setenv("JITGRAPH_TARGET_CPU", "x86-64-v7")
    with pytest.raises(LoadError, match="does not run 'x86-64-v7'"):
        loader.load(good)


# --- sizes and signatures -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, value",
    [
        ("n", 7), ("2*n + 1", 15), ("(n + 1)//2", 4), ("n % 4", 3), ("-n", -7), ("-n // 2", -4), ("-n % 4", 1),
        ("n*n*m - 3", 144), ("n // -2", -4), (" 5 ", 5),
    ],
)  # fmt: skip
def test_expressions(text: str, value: int) -> None:
    assert loader.Expression(text).evaluate({"n": 7, "m": 3}) == value


@pytest.mark.parametrize("text", ["n*n", "n + n", "-n - 2 - n", "9223372036854775808", "n*n*0"])
def test_sizes_stay_in_64_bits(text: str) -> None:
    with pytest.raises(ArgumentError, match="leaves 64 bits"):
        loader.Expression(text).evaluate({"n": 2**63 - 1})


def test_division_by_zero() -> None:
    for text in ("3 // n", "3 % n"):
        with pytest.raises(ArgumentError, match="divides by zero"):
            loader.Expression(text).evaluate({"n": 0})


def test_constraints() -> None:
    sizes = {"a": 4, "b": 4}
    for text, holds in {"a == b": 1, "a != b": 0, "a >= 5": 0, "a % 4 == 0": 1, "a*b > 15": 1, "a <= b - 1": 0}.items():
        assert loader.Constraint(text).evaluate(sizes) == holds


def test_signature_round_trip() -> None:
    text = json.dumps(SCALE_SIGNATURE.to_json())
    assert loader.Signature.from_json(json.loads(text)) == SCALE_SIGNATURE
    changed = copy.deepcopy(json.loads(text))
    changed["constraints"] = ["n >= 2"]
    assert loader.Signature.from_json(changed) != SCALE_SIGNATURE


def test_structures() -> None:
    leaves: list[Any] = [np.array(0), np.array(1)]
    actual = rebuild({"tuple": [1, {"list": [0, None]}, {"dict": {"k": {"value": "v"}, "e": {"tuple": []}}}]}, leaves)
    assert actual == (leaves[1], [leaves[0], None], {"k": "v", "e": ()})


# --- arguments ------------------------------------------------------------------------------------------------------

# sums[i] = x[i] + y[i] over n*m float64; k is an int64 scalar copied to an output of shape ((n + 1)//2, m % 3)
ADD = f"""
{ENTRY} {{
{buffer("%x", 0)}{buffer("%y", 1)}{buffer("%k", 2)}{buffer("%sum", 3)}{buffer("%copy", 4)}
  %n = load i64, ptr %dims
  %m.at = getelementptr i64, ptr %dims, i64 1
  %m = load i64, ptr %m.at
  %k.value = load i64, ptr %k
  store i64 %k.value, ptr %copy
  %size = mul i64 %n, %m
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %j, %body ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %x.i = getelementptr double, ptr %x, i64 %i
  %y.i = getelementptr double, ptr %y, i64 %i
  %a = load double, ptr %x.i
  %b = load double, ptr %y.i
  %c = fadd double %a, %b
  %s.i = getelementptr double, ptr %sum, i64 %i
  store double %c, ptr %s.i
  %j = add i64 %i, 1
  br label %head
done:
  ret i32 0
}}
"""


@pytest.fixture(scope="module")
def add() -> loader.Entry:
    return entry(
        image(ADD),
        [spec("x", "float64", "n", "m"), spec("y", "float64", "n", "m"), spec("k", "int64", default=5)],
        [spec("sum", "float64", "n", "m"), spec("copy", "int64")],
        dims=("n", "m"),
        constraints=("n >= 1", "m % 2 == 0"),
        aliases=((0, 0),),
        name="add",
    )


def test_layouts(add: loader.Entry) -> None:
    base = np.arange(48.0).reshape(4, 12)
    wide = np.frombuffer(b"\0" + base.tobytes(), np.uint8)[1:].view(np.float64).reshape(4, 12)
    assert not wide.flags.aligned
    for x in (base, base.T, base[::-1], base[:, ::2], base[1:3, 2:8], np.broadcast_to(base[0], (3, 12)), wide,
              base.astype(">f8"), base[:2], np.asfortranarray(base)):  # fmt: skip
        total, copied = add(x, x, k=9)
        assert np.array_equal(total, x + x) and copied == 9 and copied.shape == ()
    empty = add(np.zeros((3, 0)), np.zeros((3, 0)))[0]
    assert empty.shape == (3, 0)


def test_arguments_are_borrowed(add: loader.Entry) -> None:
    x = np.ones((2, 2))
    x.flags.writeable = False
    assert as_array(x, add.signature.inputs[0], x.dtype, "") is x
    assert add(x, x)[0].tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize(
    "arguments, named, message",
    [
        ((), {}, r"add: the argument x: float64\[n, m\] is missing"),
        ((1, 2, 3, 4), {}, "add takes 3 arguments .* got 4"),
        ((np.ones((2, 2)),), {"x": 1, "y": 1}, "'x' was given both"),
        ((), {"x": np.ones((2, 2)), "y": np.ones((2, 2)), "z": 1}, "add has no argument 'z'"),
        ((np.ones((2, 2), np.float32), np.ones((2, 2))), {},
         r"argument 0 \(x\): expected x: float64\[n, m\], got float32\[2, 2\]; convert it with .astype\('float64'\)"),
        ((np.ones((2, 2)), np.ones((2, 2), int)), {}, r"argument 1 \(y\): .* got int64\[2, 2\]"),
        ((np.ones(2), np.ones((2, 2))), {}, r"argument 0 \(x\): .* of rank 2, got the shape \[2\] of rank 1"),
        ((np.ones((2, 2)), np.ones((2, 4))), {},
         r"argument 1 \(y\): .* which is 2 \(m is 2 by x.shape\[1\]\), but axis 1 of its shape \[2, 4\] is 4"),
        ((np.ones((2, 3)), np.ones((2, 3))), {}, r"the sizes must satisfy m % 2 == 0 \(m is 3 by x.shape\[1\]\)"),
        ((np.ones((0, 2)), np.ones((0, 2))), {}, "must satisfy n >= 1"),
        ((np.ones((2, 2)), "text"), {}, r"argument 1 \(y\): .* got str"),
        ((np.ones((2, 2)), None), {}, "got NoneType"),
        ((np.ones((2, 2)), [[1.0], [1.0, 2.0]]), {}, r"argument 1 \(y\): .* got a list"),
        ((np.ones((2, 2)), np.ones((2, 2))), {"k": 1.5}, r"float64 values that int64 cannot hold"),
        ((np.ones((2, 2)), np.ones((2, 2))), {"k": 2**70}, r"argument 2 \(k\)"),
        ((np.ones((2, 2)), np.ones((2, 2))), {"k": np.int32(1)}, r"got int32\[\]"),
        ((np.ones((2, 2)), np.array([["a", "b"], ["c", "d"]])), {}, r"got str"),
        ((np.ones((2, 2)), np.array([[object()] * 2] * 2)), {}, r"got object"),
    ],
)  # fmt: skip
def test_bad_arguments(add: loader.Entry, arguments: Any, named: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        add(*arguments, **named)


@pytest.mark.parametrize(
    "dtype, value, safe",
    [
        ("float32", 1, True), ("float32", True, True), ("float32", 0.1, True), ("int8", 127, True),
        ("int8", 128, False), ("int8", True, True), ("uint8", -1, False), ("uint64", 2**64 - 1, True),
        ("int64", 1.0, False), ("bool", True, True), ("bool", 1, False), ("bfloat16", 1.5, True),
        ("float16", float("inf"), True), ("uint64", 2**53 + 1, True),
    ],
)  # fmt: skip
def test_python_scalars(dtype: str, value: Any, safe: bool) -> None:
    wanted = loader.dtype_named(dtype)
    if not safe:
        with pytest.raises(ArgumentError, match="cannot hold"):
            as_array(value, spec("x", dtype), wanted, "f")
        return
    actual = as_array(value, spec("x", dtype), wanted, "f")
    assert actual.dtype == wanted and actual.shape == () and actual == np.asarray(value).astype(wanted)


def test_dlpack_arguments(add: loader.Entry) -> None:
    class Exporter:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    assert add(Exporter(np.ones((2, 2))), [[1, 2], [3, 4]])[0].tolist() == [[2, 3], [4, 5]]


class Lying(np.ndarray[Any, Any]):
    """Says that it is more than its memory."""

    shape = property(lambda self: (1 << 30, 2))  # type: ignore[assignment]
    dtype = property(lambda self: np.dtype(np.float64))  # type: ignore[assignment]
    flags = np.ones((2, 2)).flags


class Giving:
    """An array of another library, which gives what a call of ``give`` gives."""

    def __init__(self, give: Callable[[], Any]) -> None:
        self.give = give

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.give()


class Withholding(Giving):
    """One that has DLPack, too, and hands nothing over by it."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("not by this way")

    def __dlpack_device__(self) -> Any:
        return 1, 0


class Described:
    """One with an array interface alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


def test_memory_is_read_as_it_is_and_not_as_a_subclass_says(add: loader.Entry) -> None:
    y = np.ones((2, 2))
    assert add(y.view(Lying), y)[0].tolist() == [[2, 2], [2, 2]]
    for give in (lambda: y.astype(np.int32).view(Lying), lambda: np.ones((2, 2), "S8").view(Lying)):
        for x in (give(), Giving(give)):
            with pytest.raises(ArgumentError, match=r"argument 0 \(x\): expected .* got (int32|bytes64)\[2, 2\]"):
                add(x, y)


def test_arrays_of_other_libraries(add: loader.Entry) -> None:
    y = np.ones((2, 2))
    for inputs in (Giving(lambda: y), Withholding(lambda: y), Described(y), Giving(lambda: y[::-1].astype(">f8"))):
        assert add(inputs, y)[0].tolist() == [[2, 2], [2, 2]]
    masked = np.ma.masked_array(y, y > 0)
    for inputs in (masked, Giving(lambda: masked)):
        with pytest.raises(ArgumentError, match=r"argument 0 \(x\): the mask"):
            add(inputs, y)
    for hand_over in (lambda: 1 / 0, lambda: None, lambda: inputs):
        for kind in (Giving, Withholding):
            with pytest.raises(ArgumentError, match=r"argument 0 \(x\): .* does not hand over its elements: "):
                add(kind(hand_over), y)
    with pytest.raises(ArgumentError, match=r"argument 0 \(x\): .* got type; pass"):
        add(np.ndarray, y)


# --- memory ---------------------------------------------------------------------------------------------------------


def test_outputs_are_aligned_and_never_shared(add: loader.Entry) -> None:
    x = np.ones((10, 10))
    held = [add(x, x + i)[0] for i in range(20)]
    for i, array in enumerate(held):
        assert array.ctypes.data % 64 == 0 and (array == 2 + i).all() and array.flags.writeable
    view = held[3][1:, ::2].T
    address = held[3].ctypes.data
    held.clear()
    assert all(add(x, x)[0].ctypes.data != address for _ in range(30))  # a view keeps the memory
    assert (view == 5).all()
    del view
    taken = [add(x, x)[0] for _ in range(30)]
    assert address in {array.ctypes.data for array in taken}


def test_size_classes() -> None:
    for size in [*range(1, 5000, 7), 2**20 + 1, 2**31, 2**40 - 1]:
        rounded = _size_class(size)
        assert size <= rounded <= max(64, size * 9 // 8 + 64) and rounded % 64 == 0
        assert _size_class(rounded) == rounded


def test_large_leases() -> None:
    array = allocator.empty((5 << 20,), np.dtype(np.uint8), 5 << 20)
    array[:] = 7
    assert array.ctypes.data % (2 << 20) == 0 and int(array.sum(dtype=np.int64)) == 7 * (5 << 20)


def test_donation(add: loader.Entry) -> None:
    def run(x: Any, y: Any, donate: tuple[int, ...]) -> Any:
        return add.run([x, y, 0], donate)[0]

    y = np.full((2, 2), 3.0)
    x = np.ones((2, 2))
    assert run(x, y, ()) is not x and x[0, 0] == 1
    assert run(x, y, (0,)) is x and x[0, 0] == 4
    assert run(x, y, (1,)) is not x and x[0, 0] == 4  # no output aliases y
    assert run(x, x, (0,)) is not x and x[0, 0] == 4  # passed twice
    base = np.ones((4, 2))
    overlapping = run(base[0:2], base[1:3], (0,))
    assert not np.shares_memory(overlapping, base) and (base == 1).all()
    assert np.shares_memory(run(base[0:2], base[2:4], (0,)), base) and base[:, 0].tolist() == [2, 2, 1, 1]
    frozen = np.ones((2, 2))
    frozen.flags.writeable = False
    assert run(frozen, y, (0,)) is not frozen and (frozen == 1).all()
    strided = np.ones((2, 4))[:, ::2]
    assert not np.shares_memory(run(strided, y, (0,)), strided) and (strided == 1).all()


# Asks for the workspace 8*n*n, notes its address and size, fills it.
ARENA = f"""
define i64 @arena(ptr %dims) nounwind {{
  %n = load i64, ptr %dims
  %huge = icmp sgt i64 %n, 1000000
  br i1 %huge, label %refuse, label %give
refuse:
  ret i64 -1
give:
  %square = mul i64 %n, %n
  %bytes = mul i64 %square, 8
  ret i64 %bytes
}}
{ENTRY} {{
{buffer("%out", 1)}
  %arena.at = getelementptr i8, ptr %call, i64 {abi.CALL_ARENA}
  %arena = load ptr, ptr %arena.at
  %bytes.at = getelementptr i8, ptr %call, i64 {abi.CALL_ARENA_BYTES}
  %bytes = load i64, ptr %bytes.at
  %filled = call ptr @memset(ptr %arena, i32 255, i64 %bytes)
  %address = ptrtoint ptr %arena to i64
  store i64 %address, ptr %out
  %second = getelementptr i64, ptr %out, i64 1
  store i64 %bytes, ptr %second
  ret i32 0
}}
declare ptr @memset(ptr, i32, i64)
"""


def test_arena() -> None:
    run = entry(
        image(ARENA, {"arena_bytes": "arena"}), [spec("x", "bool", "n")], [spec("out", "int64", 2)], dims=("n",)
    )
    for n in (1, 300, 2, 301):
        address, size = run(np.zeros(n, bool)).tolist()
        assert size == 8 * n * n and address % 64 == 0
    assert len(run._free) == 1 and run._free[0].capacity >= 8 * 301 * 301
    with pytest.raises(ArgumentError, match=r"workspace .* leaves 64 bits"):
        run(np.zeros(1_000_001, bool))


def test_results_too_large() -> None:
    run = entry(
        image(f"{ENTRY} {{ ret i32 0 }}"), [spec("x", "bool", "n")], [spec("y", "float64", "n*n*n*n")], dims=("n",)
    )
    with pytest.raises(ArgumentError, match="leaves 64 bits"):
        run(np.zeros(40_000, bool))
    with pytest.raises(MemoryError):
        run(np.zeros(20_000, bool))
    less = entry(image(f"{ENTRY} {{ ret i32 0 }}"), [spec("x", "bool", "n")], [spec("y", "bool", "n - 2")], dims=("n",))
    assert less(np.zeros(2, bool)).shape == (0,)
    with pytest.raises(ArgumentError, match=r"would have the shape \[-1\]"):
        less(np.zeros(1, bool))


@pytest.mark.parametrize("code, kind", [(3, MemoryError), (4, ArgumentError), (1, JitgraphError), (99, JitgraphError)])
def test_codes(code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        entry(image(f"{ENTRY} {{ ret i32 {code} }}"), [], [])()


def test_executable(scale_image: bytes) -> None:
    results: list[int] = []
    exe = Executable(scale_image, SCALE_SIGNATURE, llvm_ir=SCALE, asm=lambda: results.append(1) or "text")
    scale = np.array(3, np.float32)
    y, s = exe.run([np.ones(2, np.float32), scale], donate=[1])
    assert y.tolist() == [3, 3] and s is scale and scale == 4
    assert exe.asm == exe.asm == "text" and results == [1] and "fmul" in exe.llvm_ir
    assert exe.image == scale_image
