"""Files whose hashes are right and whose contents are not: every reader refuses them, cheaply, and names the cause."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import artifact
from jitgraph.ir import dims
from jitgraph.ir.constraints import Constraints, SizeConstraint
from jitgraph.ir.dims import Dim
from jitgraph.runtime import loader
from tests.fuzz.mutations import GRAPH, MANIFEST, WEIGHTS, members_of, rebuilt, zipped
from tests.runtime.c_library import CError, Library

Members = dict[str, bytes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model with a weight and a condition on its named size: ``n >= 3``."""
    weight = jg.asarray(np.arange(4, dtype=np.float32))
    f = jg.trace(lambda x: x[1:3] * weight, dynamic_shapes={"x": {0: "n"}})
    path = tmp_path / "model.jg"
    jg.save(f, path, example_inputs=(np.ones((5, 4), np.float32),), targets=["x86-64-v3"])
    return path


def change(path: Path, manifest: Callable[[Any], None], graph: Callable[[str], str] = str) -> None:
    """Rewrite the file with its signature and its graph changed, and all hashes right."""
    members = members_of(path.read_bytes())
    tree = json.loads(members[MANIFEST])
    manifest(tree["entries"]["forward"]["signature"])
    members[GRAPH] = graph(members[GRAPH].decode()).encode()
    path.write_bytes(rebuilt(members, tree))


def weaken(signature: Any) -> None:
    signature["constraints"] = ["n >= 1"]


def weaker(text: str) -> str:
    assert " where n >= 1, n >= 3 {" in text
    return text.replace(" where n >= 1, n >= 3 {", " where n >= 1 {")


SIGNATURES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "key of a state": (lambda s: s["state"][0].update(key="other"), "is missing from"),
    "dtype of a state": (lambda s: s["state"][0].update(dtype="float64"), "is float32"),
    "name with a space": (lambda s: s["inputs"][0].update(name="an input"), "no name of an argument"),
    "empty name": (lambda s: s["inputs"][0].update(name=""), "no name of an argument"),
    "name that is a word of Python": (lambda s: s["inputs"][0].update(name="class"), "no name of an argument"),
    "fewer conditions": (weaken, "the graph assumes"),
    "more conditions": (lambda s: s["constraints"].append("n >= 4"), "the graph assumes"),
    "condition that is none": (lambda s: s["constraints"].append("n >= n >= n"), "not a constraint"),
    "shape of an input": (lambda s: s["inputs"][0].update(shape=["n", 5]), "the graph takes"),
    "size that multiplies out": (lambda s: s["inputs"][0].update(shape=["n", "(n+1)*" * 60 + "1"]), "too long"),
    "shape of an output": (lambda s: s["outputs"][0].update(shape=[3, 4]), "the graph gives"),
    "number of outputs": (lambda s: (s["outputs"].append(s["outputs"][0]), s.update(structure=1)), "the graph gives"),
}


@pytest.mark.parametrize("case", SIGNATURES)
def test_a_signature_that_is_not_the_graphs_is_refused(path: Path, case: str) -> None:
    edit, message = SIGNATURES[case]
    change(path, edit)
    with pytest.raises(jg.LoadError, match=message):
        jg.load(path)


def test_a_default_before_an_argument_without_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.jg"
    scalar = np.array(1.0, np.float32)
    jg.save(lambda a, b: a + b, path, example_inputs=(scalar, scalar), targets=["x86-64-v3"])
    change(path, lambda s: s["inputs"][0].update(default=1.0))
    with pytest.raises(jg.LoadError, match="behind one that has a default"):
        jg.load(path)


def test_a_graph_whose_conditions_were_weakened_is_refused(path: Path) -> None:
    change(path, weaken, weaker)
    with pytest.raises(jg.LoadError, match="slice refuses"):
        jg.load(path)


def test_native_code_does_not_trust_a_signature_that_was_weakened(path: Path, c_library: Library | None) -> None:
    change(path, weaken, weaker)
    x = np.ones((1, 4), np.float32)
    with pytest.raises(loader.ArgumentError, match="the sizes must satisfy"):
        loader.load(path)(x)
    if c_library is not None:
        with pytest.raises(CError, match="the sizes must satisfy"):
            c_library.load(path)(x)


def test_a_graph_of_countless_conditions_is_refused(path: Path) -> None:
    countless = ", ".join(["n >= 1"] * 5000)
    change(path, lambda s: None, lambda text: text.replace("where n >= 1", f"where {countless}"))
    with pytest.raises(jg.LoadError, match="constraints; at most"):
        jg.load(path)


def test_a_composite_without_its_region_is_refused(tmp_path: Path) -> None:
    """Else the reader would decompose it, by attributes of which the file says anything: loops of 2**40 turns."""
    path = tmp_path / "model.jg"
    pool = jg.nn.functional.max_pool2d
    jg.save(lambda x: pool(x, 2), path, example_inputs=(np.ones((1, 1, 4, 4), np.float32),), targets=["x86-64-v3"])
    title = "graph @f(%x: f32[1, 1, 4, 4]) -> f32[1, 1, 2, 2] {"
    attrs = "{kernel=[1099511627776, 2], strides=[2, 2], padding=[[0, 0], [0, 0]]}"
    text = f"{title}\n  %0: f32[1, 1, 2, 2] = max_pool2d(%x) {attrs}\n  return %0\n}}\n"
    change(path, lambda s: None, lambda _: text)
    with pytest.raises(jg.LoadError, match="without its region"):
        jg.load(path)


# --- what it costs --------------------------------------------------------------------------------------------------

MANIFESTS: dict[str, Callable[[], bytes]] = {
    "long": lambda: b'{"metadata": {"text": "' + b"x" * (40 << 20) + b'"}}',
    "of small parts": lambda: b'{"metadata": {"list": [' + b"[]," * (12 << 20) + b"[]]}}",
    "within the limit of bytes": lambda: b'{"metadata": {"list": [' + b"{}," * (5 << 20) + b"{}]}}",
    "deep": lambda: b"[" * (8 << 20),
}
MEASURE = """
import resource, sys, time
if sys.argv[1] == "jg.load":
    import jitgraph as reader
else:
    sys.path.insert(0, sys.argv[1])
    import loader as reader
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
try:
    reader.load(sys.argv[2])
except reader.LoadError as error:
    seconds = time.perf_counter() - start
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, seconds, str(error)[:300])
"""


@pytest.mark.parametrize(("case", "reader"), [*((case, "loader.py") for case in MANIFESTS), ("long", "jg.load")])
def test_a_huge_manifest_costs_little(path: Path, written: Path, case: str, reader: str) -> None:
    members = members_of(path.read_bytes())
    path.write_bytes(zipped({**members, MANIFEST: MANIFESTS[case]()}))
    size = path.stat().st_size >> 20
    words = ["-I", "-c", MEASURE, str(written)] if reader == "loader.py" else ["-c", MEASURE, reader]
    done = subprocess.run([sys.executable, *words, str(path)], capture_output=True, text=True, timeout=60)
    megabytes, _, message = done.stdout.split(maxsplit=2)
    assert "allowed" in message or "values" in message or "sound JSON" in message
    assert int(megabytes) < 3 * size + 60, "the file, the manifest as bytes, and little beside"


def test_a_huge_graph_is_refused_before_it_is_read(path: Path) -> None:
    change(path, lambda s: None, lambda text: text + " " * loader.MAX_GRAPH_BYTES)
    start = time.perf_counter()
    with pytest.raises(jg.LoadError, match="more than the"):
        jg.load(path)
    assert time.perf_counter() - start < 10


def test_a_huge_graph_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_GRAPH_BYTES", 100)
    with pytest.raises(jg.JitgraphError, match=r"jg\.scan"):
        jg.save(lambda x: x + 1, tmp_path / "model.jg", example_inputs=(np.ones(2, np.float32),))


def test_sizes_that_multiply_out_are_refused() -> None:
    """A few lines of text can stand for more terms than there is memory."""
    chain = [SizeConstraint(Dim.name(f"a{i}"), "==", Dim.name(f"a{i + 1}") * Dim.name(f"a{i + 1}")) for i in range(40)]
    with pytest.raises(jg.JitgraphError, match="product of more than"):
        Constraints(chain, frozen=True).same(Dim.name("a0"), 1)
    total: Any = Dim.name("a")
    for i in range(60):
        total = total + Dim.name(f"b{i}")
    with pytest.raises(jg.JitgraphError, match="too many terms"):
        dims.product([total] * 64)
    half: Any = Dim.name("a")
    with pytest.raises(jg.JitgraphError, match="too long"):
        for _ in range(64):
            half = (half * half + 1) // 2


# --- what happens to a file that is in use --------------------------------------------------------------------------


def test_a_file_may_be_cut_while_it_is_loaded(path: Path, written: Path, c_library: Library | None) -> None:
    code = (
        "import sys, os, numpy as np\nsys.path.insert(0, sys.argv[2])\nimport loader\n"
        "model = loader.load(sys.argv[1])\nos.truncate(sys.argv[1], 0)\n"
        "y = model(np.ones((5, 4), np.float32))\nassert y.tolist() == [[0, 1, 2, 3]] * 2, y\n"
        "assert model.state['weight'].tolist() == [0, 1, 2, 3], model.state\n"
    )
    data = path.read_bytes()
    subprocess.run([sys.executable, "-I", "-c", code, str(path), str(written)], check=True)
    path.write_bytes(data)
    again = jg.load(path)
    os.truncate(path, 0)
    x = np.ones((5, 4), np.float32)
    assert again(x).numpy().tolist() == [[0, 1, 2, 3]] * 2
    if c_library is not None:
        path.write_bytes(data)
        model = c_library.load(path)
        os.truncate(path, 0)
        assert model(x)[0].tolist() == [[0, 1, 2, 3]] * 2


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "", "missing", "nul\0", "empty"):
        (tmp_path / "empty").touch()
        for read in (loader.load, jg.load):
            with pytest.raises(jg.LoadError):
                read(os.path.join(tmp_path, name))


def test_weights_that_overlap_or_leave_gaps_are_refused(path: Path) -> None:
    members = members_of(path.read_bytes())
    size = struct.unpack_from("<Q", members[WEIGHTS])[0]
    tree = json.loads(members[WEIGHTS][8 : 8 + size])
    tree["twice"] = tree[next(iter(tree))]
    text = json.dumps(tree).encode()
    data = struct.pack("<Q", len(text)) + text + members[WEIGHTS][8 + size :]
    path.write_bytes(rebuilt({**members, WEIGHTS: data}))
    for read in (loader.load, jg.load):
        with pytest.raises(jg.LoadError, match="begins at"):
            read(path)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint64", "bool"])
def test_a_default_is_held_by_its_dtype_or_refused(tmp_path: Path, dtype: str, c_library: Library | None) -> None:
    path = tmp_path / "model.jg"
    jg.save(lambda x: x * 1, path, example_inputs=(np.ones((), loader.dtype_named(dtype)),), targets=["x86-64-v3"])
    sound = path.read_bytes()
    for value in (True, 0, 1.5, -1, 127, 128, 2**63, 2**64 - 1, 2**64, 10**30, 1e39, 1e300, 10**310):
        path.write_bytes(sound)
        change(path, lambda s, value=value: s["inputs"][0].update(default=value))  # type: ignore[misc]
        try:
            expected = loader.load(path)()
        except jg.LoadError as error:
            assert "cannot hold" in str(error)
            with pytest.raises(jg.LoadError, match="cannot hold"):
                jg.load(path)
            if c_library is not None and value != 10**310:  # infinity in C
                with pytest.raises(CError, match="cannot hold"):
                    c_library.load(path)
            continue
        np.testing.assert_array_equal(jg.load(path)().numpy(), expected)
        if c_library is not None:
            (inputs,) = c_library.load(path)(None)
            assert inputs.tobytes() == expected.tobytes()
        assert "int" not in dtype or expected == value
