"""``.pt2`` files run without PyTorch: results, free sizes, state, training, saving; damaged and hostile ones."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import LoadError
from jitgraph.runtime import loader
from tests.graphs import needs_native
from tests.processes import in_child
from tests.runtime import c_library

FOLDER = Path(__file__).parent / "files"
NAMES = sorted(path.stem for path in FOLDER.glob("*.pt2"))
HOSTILE = int(os.environ.get("HOSTILE_PROGRAMS", "150"))


def example(name: str) -> tuple[list[Any], list[Any]]:
    """The arguments, and what PyTorch gave for them."""
    arrays = np.load(FOLDER / f"{name}.npz")
    return tuple([arrays[key] for key in sorted(arrays) if key.startswith(kind)] for kind in ("arg", "result"))  # type: ignore[return-value]


def leaves(result: Any) -> list[Any]:
    return [value.detach().numpy() for value in (result.values() if isinstance(result, dict) else [result])]


@pytest.mark.parametrize("name", NAMES)
def test_results_are_pytorchs(name: str) -> None:
    args, expected = example(name)
    model = jg.from_torch(FOLDER / f"{name}.pt2")
    for actual, result in zip(leaves(model(*args)), expected, strict=True):
        np.testing.assert_allclose(actual, result, rtol=2e-5, atol=2e-6)


def test_other_readers_say_who_reads_it() -> None:
    with pytest.raises(LoadError, match=r"jg\.from_torch"):
        jg.load(FOLDER / "mlp.pt2")


def test_there_are_files() -> None:
    assert len(NAMES) == 7


def test_sizes_that_the_program_leaves_free_are_compiled_once() -> None:
    model = jg.from_torch(FOLDER / "mlp.pt2", dynamic_shapes={"input": {0: "rows"}})
    whole = model(np.ones((5, 8), np.float32))
    np.testing.assert_array_equal(model(np.ones((3, 8), np.float32)).detach().numpy(), whole.detach().numpy()[:3])
    assert model.traced.cache_info().misses == 1
    assert "rows" in str(model.traced.lower(np.ones((5, 8), np.float32)).graph)


def test_arguments_for_which_no_program_was_made_are_refused() -> None:
    model = jg.from_torch(FOLDER / "mlp.pt2")
    with pytest.raises(jg.ShapeError, match=r"exported for \(.*, 8\)"):
        model(np.ones((5, 9), np.float32))
    with pytest.raises(jg.DTypeError, match="float64, and the program was exported for float32"):
        model(np.ones((5, 8)))
    with pytest.raises(TypeError, match="argument"):
        model()


def test_the_state_has_pytorchs_names_and_is_written_to() -> None:
    model = jg.from_torch(FOLDER / "cnn.pt2")
    state = model.state_dict()
    assert list(state)[:4] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert "1.num_batches_tracked" in state and "1.running_mean" in state
    before = state["1.running_mean"].copy()
    args, expected = example("cnn")
    model(*args)
    assert model.state_dict()["1.num_batches_tracked"] == 1
    assert not np.array_equal(model.state_dict()["1.running_mean"], before)
    model.load_state_dict(state)
    np.testing.assert_allclose(model(*args).detach().numpy(), expected[0], rtol=2e-5, atol=2e-6)
    twin = copy.deepcopy(model)
    twin(*args)
    assert (twin.state_dict()["1.num_batches_tracked"], model.state_dict()["1.num_batches_tracked"]) == (2, 1)


def test_buffers_that_views_write_to() -> None:
    model = jg.from_torch(FOLDER / "in_place.pt2")
    args, _ = example("in_place")
    for calls in (1, 2, 3):
        model(*args)
        assert model.calls.item() == calls
        np.testing.assert_allclose(model.seen.numpy()[1], calls * args[0][0], rtol=1e-6)
        assert not model.seen.numpy()[0].any()


def test_tensors_that_are_one_stay_one() -> None:
    model = jg.from_torch(FOLDER / "gpt.pt2")
    assert model.head.weight is model.wte.weight
    assert {"head.weight", "wte.weight"} <= set(model.state_dict())


@pytest.mark.parametrize("name", ["mlp", "lstm_tagger", "branches"])
def test_fine_tuning_in_one_graph(name: str) -> None:
    model = jg.from_torch(FOLDER / f"{name}.pt2")
    args, _ = example(name)
    optimizer = jg.optim.Adam(model.parameters(), lr=3e-2)

    @jg.trace
    def step(x: Any) -> Any:
        loss = jg.mean(jg.square(model(x)[..., 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(args[0]).item() for _ in range(15)]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("name", ["mlp", "lstm_tagger", "gpt"])
def test_saved_for_the_standalone_loader(name: str, tmp_path: Path) -> None:
    args, expected = example(name)
    model = jg.from_torch(FOLDER / f"{name}.pt2")
    jg.save(model, tmp_path / "model.jg", example_inputs=tuple(args))
    saved = loader.load(tmp_path / "model.jg")
    np.testing.assert_allclose(saved(*args), expected[0], rtol=2e-5, atol=2e-6)
    fewer = [arg[:1] for arg in args]
    np.testing.assert_allclose(saved(*fewer), expected[0][:1], rtol=2e-4, atol=2e-5)


@needs_native
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")
def test_saved_for_c(tmp_path: Path) -> None:
    """Results, and the buffers that they write to, by PyTorch's names behind "module."."""
    library = c_library.Library(tmp_path)
    for name in ("branches", "cnn", "in_place", "vae"):
        args, expected = example(name)
        model = jg.from_torch(FOLDER / f"{name}.pt2")
        names = {f"module.{key}" for key in model.state_dict()}
        jg.save(model, tmp_path / f"{name}.jg", example_inputs=tuple(args))
        assert loader.load(tmp_path / f"{name}.jg").state.keys() <= names
        in_c = library.load(tmp_path / f"{name}.jg")
        for own, theirs in zip(in_c(*args), expected, strict=True):
            np.testing.assert_allclose(own, theirs, rtol=2e-5, atol=2e-6)
        model(*args)
        for key, buffer in model.named_buffers():
            np.testing.assert_array_equal(in_c.state(f"module.{key}"), buffer.numpy(), err_msg=key)


def test_pytorch_is_not_imported() -> None:
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np
import jitgraph as jg
print(jg.from_torch({str(FOLDER / "mlp.pt2")!r})(np.ones((2, 8), np.float32)).shape)
"""
    assert in_child(code) == "(2, 4)\n"


def test_other_dtypes_copies_and_hooks() -> None:
    model = jg.from_torch(FOLDER / "mlp.pt2")
    (x,), (expected,) = example("mlp")
    shapes: list[Any] = []
    handle = model.register_forward_hook(lambda module, args, result: shapes.append(result.shape))
    model(x)
    handle.remove()
    assert shapes == [(5, 4)]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again(x).detach().numpy(), model(x).detach().numpy())
    doubled = jg.functional_call(model, {key: jg.asarray(2 * value) for key, value in model.state_dict().items()}, (x,))
    assert not np.array_equal(doubled.detach().numpy(), model(x).detach().numpy())
    wide = model.double()(x.astype(np.float64))
    assert wide.dtype == jg.float64
    np.testing.assert_allclose(wide.detach().numpy(), expected, rtol=1e-5)


def test_on_a_gpu() -> None:
    """In the simulator: what the program makes lies where its arguments do."""
    code = f"""
import os
os.environ["JITGRAPH_CUDA"] = "simulated"
import numpy as np
import jitgraph as jg
model = jg.from_torch({str(FOLDER / "gpt.pt2")!r}).cuda()
arrays = np.load({str(FOLDER / "gpt.npz")!r})
result = model(jg.asarray(arrays["arg0"]).cuda())
print(result.device, np.abs(result.detach().cpu().numpy() - arrays["result0"]).max() < 1e-4)
"""
    assert in_child(code) == "cuda:0 True\n"


def test_an_error_names_the_line_of_the_model() -> None:
    model = jg.from_torch(FOLDER / "gpt.pt2")
    model.wpe.weight = jg.nn.Parameter(np.ones((10, 15), np.float32))
    with pytest.raises(jg.ShapeError) as info:
        model(np.full((2, 6), 9))
    assert "models.py:" in " ".join(info.value.__notes__)


# ----------------------------------------------------------------------
# Damaged and hostile files.


def rewritten(name: str, path: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """A copy of a file with its members changed; those for which ``change`` gives None are left out."""
    with zipfile.ZipFile(FOLDER / f"{name}.pt2") as before, zipfile.ZipFile(path, "w") as after:
        for info in before.infolist():
            data = change(info.filename.partition("/")[2], before.read(info))
            if data is not None:
                after.writestr(zipfile.ZipInfo(info.filename), data)
    return path


def edited(part: str, edit: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    """A change of the one member that is JSON and ends so."""

    def change(name: str, data: bytes) -> bytes:
        if not name.endswith(part):
            return data
        document = json.loads(data)
        edit(document)
        return json.dumps(document).encode()

    return change


def _weight(document: Any) -> Any:
    return next(iter(document["config"].values()))


def _nodes(document: Any) -> Any:
    return document["graph_module"]["graph"]["nodes"]


EDITS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a_size": ("weights_config.json", lambda d: _weight(d)["tensor_meta"]["sizes"][0].update(as_int=10**9), "storage"),
    "a_stride": (
        "weights_config.json",
        lambda d: _weight(d)["tensor_meta"]["strides"][0].update(as_int=999),
        "storage",
    ),
    "negative": (
        "weights_config.json",
        lambda d: _weight(d)["tensor_meta"]["storage_offset"].update(as_int=-8),
        "offset",
    ),
    "a_path": ("weights_config.json", lambda d: _weight(d).update(path_name="../../secret"), "no data/weights"),
    "a_pickle": ("weights_config.json", lambda d: _weight(d).update(use_pickle=True), "pickle"),
    "a_dtype": ("weights_config.json", lambda d: _weight(d)["tensor_meta"].update(dtype=29), "float8"),
    "another_dtype": ("weights_config.json", lambda d: _weight(d)["tensor_meta"].update(dtype=4), "in mind"),
    "a_name": ("model.json", lambda d: _nodes(d)[0]["inputs"][0]["arg"]["as_tensor"].update(name="later"), "before it"),
    "a_version": ("model.json", lambda d: d["schema_version"].update(major=9), "version 9"),
    "an_output": ("model.json", lambda d: d["graph_module"]["graph"]["outputs"].pop(), "inputs and outputs"),
    "a_structure": (
        "model.json",
        lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update(in_spec='[1, {"type": "os.system"}]'),
        "treespec",
    ),
    "a_class": (
        "model.json",
        lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update(
            out_spec='[1, {"type": "os.system", "context": "null", "children_spec": []}]'
        ),
        "os.system",
    ),
    "a_size_as_code": (
        "model.json",
        lambda d: next(iter(d["graph_module"]["graph"]["tensor_values"].values()))["sizes"].__setitem__(
            0, {"as_expr": {"expr_str": "__import__('os').system('true')"}}
        ),
        "expression",
    ),
}


@pytest.mark.parametrize("what", EDITS)
def test_what_the_schema_does_not_say_is_refused(what: str, tmp_path: Path) -> None:
    part, edit, message = EDITS[what]
    path = rewritten("mlp", tmp_path / "model.pt2", edited(part, edit))
    with pytest.raises(LoadError, match=message):
        jg.from_torch(path)


def test_an_operator_that_is_not_known_says_where_it_stands(tmp_path: Path) -> None:
    change = edited("model.json", lambda d: _nodes(d)[0].update(target="torch.ops.torchvision.nms.default"))
    with pytest.raises(jg.UnsupportedOp, match=r"torchvision::nms.*\.py:"):
        jg.from_torch(rewritten("mlp", tmp_path / "model.pt2", change))


@pytest.mark.parametrize(("version", "said"), [("8.2", r", by version 8\.2 of its schema"), ("x" * 99, ""), (None, "")])
def test_files_of_before_2_8_say_their_schema_and_how_to_convert_them(
    version: str | None, said: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as file:
        file.writestr("serialized_exported_program.json", "{}")
        file.writestr("serialized_state_dict.pt", b"")
        if version is not None:
            file.writestr("version", version)
    with pytest.raises(
        LoadError, match=rf"before PyTorch 2\.8{said}\n  hint: torch\.export\.save\(torch\.export\.load"
    ):
        jg.from_torch(tmp_path / "old.pt2")


def test_members_that_are_missing_or_compressed(tmp_path: Path) -> None:
    path = rewritten("mlp", tmp_path / "a.pt2", lambda name, data: None if name.endswith("weight_0") else data)
    with pytest.raises(LoadError, match="weight_0"):
        jg.from_torch(path)
    with zipfile.ZipFile(FOLDER / "mlp.pt2") as before, zipfile.ZipFile(tmp_path / "b.pt2", "w") as after:
        for info in before.infolist():
            after.writestr(info.filename, before.read(info), zipfile.ZIP_DEFLATED)
    with pytest.raises(LoadError, match="compressed"):
        jg.from_torch(tmp_path / "b.pt2")
    (tmp_path / "c.pt2").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(LoadError, match="no file of"):
        jg.from_torch(tmp_path / "c.pt2")
    with pytest.raises(FileNotFoundError):
        jg.from_torch(tmp_path / "d.pt2")


def _indexed_layout(document: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with each key in it."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    own = [(document, key) for key, _ in items]
    inner = document.values() if isinstance(document, dict) else document
    return own + [place for item in inner if isinstance(item, dict | list) for place in _indexed_layout(item)]


def test_files_changed_at_random_run_or_are_refused(tmp_path: Path) -> None:
    """Whatever a document says, reading it ends in a module or in jitgraph's error."""
    rng = random.Random(0)
    refused = 0
    with zipfile.ZipFile(FOLDER / "branches.pt2") as file:
        texts = {info.filename.partition("/")[2]: file.read(info) for info in file.infolist()}
    names = [name for name in texts if name.endswith(".json")]
    values = [None, True, -1, 10**12, 1.5, "", "x", [], {}, {"as_int": -3}, {"as_tensor": {"name": "x"}}]
    for _ in range(HOSTILE):
        name = rng.choice(names)
        document = json.loads(texts[name])
        for _ in range(rng.randint(1, 3)):
            container, key = rng.choice(_indexed_layout(document) or [([None], 0)])
            if rng.random() < 0.3:
                del container[key]
            else:
                container[key] = copy.deepcopy(rng.choice(values))
        path = rewritten(
            "branches",
            tmp_path / "model.pt2",
            lambda member, data, name=name, document=document: (  # type: ignore[misc]
                json.dumps(document).encode() if member == name else data
            ),
        )
        try:
            jg.from_torch(path)
        except jg.JitgraphError:
            refused += 1
    assert refused > HOSTILE // 3
