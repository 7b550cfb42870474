"""Each command on small saved models: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests import ROOT
from tests.cli.conftest import Result
from tests.torch.jit.records import ARCHIVES, records, require_same

Command = Callable[..., Result]
X = np.array([[0, 1, 2], [3, 1, 0]], np.float32)
SCORES = jg.exp(jg.asarray(X * np.array([1, 2, 3], np.float32))).numpy() * 2


def outputs(result: Result) -> dict[str, Any]:
    assert (result.code, result.err) == (0, "")
    return {name: np.array(told["data"], told["dtype"]) for name, told in json.loads(result.out)["outputs"].items()}


# --- run ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("native", [(), ("--native",)])
def test_run_gives_the_bits_of_a_call(command: Command, folder: Path, native: tuple[str, ...]) -> None:
    actual = outputs(command("run", folder / "scaled.jg", "-i", folder / "x.npy", "--json", *native))
    np.testing.assert_array_equal(actual["scores"], SCORES, strict=True)
    np.testing.assert_array_equal(actual["top"], [2, 0])


def test_run_prints_a_table(command: Command, folder: Path) -> None:
    result = command("run", folder / "scaled.jg", "-i", f"x={folder / 'x.npy'}", "-i", "scale=1")
    assert result.code == 0 and result.out.split()[:3] == ["output", "type", "values"]
    assert "scores  float32[2, 3]  [[" in result.out and "top     int64[2]       [2, 0]" in result.out
    assert max(map(len, result.out.splitlines())) <= 80


INPUTS: dict[str, Callable[[Path], Any]] = {
    "x.npz": lambda path: np.savez(path, x=X),
    "plain.npz": lambda path: np.savez(path, X),
    "x.json": lambda path: path.write_text(json.dumps(X.tolist())),
    "named.json": lambda path: path.write_text(json.dumps({"x": X.astype(int).tolist()})),
    "x.safetensors": lambda path: __import__("safetensors.numpy").numpy.save_file({"x": X}, path),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_come_from_files(command: Command, folder: Path, tmp_path: Path, name: str) -> None:
    INPUTS[name](tmp_path / name)
    what = f"x={tmp_path / name}" if name == "plain.npz" else tmp_path / name
    actual = outputs(command("run", folder / "scaled.jg", "-i", what, "--json"))
    np.testing.assert_array_equal(actual["scores"], SCORES, strict=True)


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.safetensors", "y.json"])
def test_outputs_go_to_files(command: Command, folder: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    target = f"scores={path}" if name == "y.npy" else path
    assert command("run", folder / "scaled.jg", "-i", folder / "x.npy", "-o", target) == (0, "", "")
    from jitgraph.saved.array_files import fitted, read_arrays

    arrays = {key or "scores": value for key, value in read_arrays(path).items()}
    assert list(arrays) == (["scores"] if name == "y.npy" else [*arrays])
    actual = fitted("scores", arrays["scores"], "float32", (2, 3), cast=False)
    np.testing.assert_array_equal(actual, SCORES, strict=True)


def test_random_inputs_go_by_seed_and_name(command: Command, folder: Path) -> None:
    first, again, other = (
        command("run", folder / "scaled.jg", "--random", "--seed", seed, "--json", "-s", "batch=5")
        for seed in (1, 1, 2)
    )
    a, b, c = map(outputs, (first, again, other))
    assert a["scores"].shape == (5, 3)
    np.testing.assert_array_equal(a["scores"], b["scores"])
    assert (a["scores"] != c["scores"]).any()
    ids = outputs(command("run", folder / "counter.jg", "-i", "ids=random:5:9", "--json"))["out0"]
    assert set(ids.tolist()) <= {10.0, 12.0, 14.0, 16.0}


def test_images_are_arrays_in_the_layout_of_the_input(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    from jitgraph.saved.array_files import fitted, read_arrays

    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    image.fromarray(pixels).save(tmp_path / "i.png")
    loose = read_arrays(tmp_path / "i.png")[""]
    np.testing.assert_array_equal(fitted("x", loose, "uint8", (4, 5, 3), cast=False), pixels)
    first = fitted("x", loose, "float32", ("batch", 3, 4, 5), cast=False)
    np.testing.assert_array_equal(first, (np.moveaxis(pixels, 2, 0)[None] / 255).astype(np.float32), strict=True)
    last = fitted("x", loose, "float32", (1, "h", "w", 3), cast=False)
    assert last.shape == (1, 4, 5, 3)
    image.fromarray(pixels[:, :, 0]).save(tmp_path / "g.png")
    assert fitted("x", read_arrays(tmp_path / "g.png")[""], "float32", (1, 1, 4, 5), cast=False).shape == (1, 1, 4, 5)


# --- info, show, bench ----------------------------------------------------------------------------------------------


def test_info(command: Command, folder: Path) -> None:
    result = command("info", folder / "scaled.jg")
    assert result.code == 0
    for text in ("x: float32[batch, 3]", "scale: float64[] = 2.0", "top: int64[batch]", "x86-64-v3", "argmax 1"):
        assert text in result.out
    assert "me\\x1b[31m" in result.out and "\x1b" not in result.out
    data = json.loads(command("info", folder / "counter.jg", "--json").out)
    assert data["entries"]["forward"]["writes"] == [data["weights"][0]["key"]] and data["parameters"] == 3


@pytest.mark.parametrize(
    ("view", "text"),
    [
        ("graph", "argmax(%x)"),
        ("optimized", "graph @weighted"),
        ("fused", "graph @weighted"),
        ("kernels", "kernel @"),
        ("memory", "for batch = 7"),
        ("llvm", "define "),
        ("asm", ".text"),
        ("ptx", ".target sm_80"),
        ("dot", "digraph"),
        ("html", "<!DOCTYPE html>"),
    ],
)
def test_show(command: Command, folder: Path, tmp_path: Path, view: str, text: str) -> None:
    path = tmp_path / "shown"
    assert command("show", folder / "scaled.jg", f"--{view}", "-s", "batch=7", "-o", path) == (0, "", "")
    assert text in path.read_text()


def test_show_prints_several_views_or_json(command: Command, folder: Path) -> None:
    result = command("show", folder / "scaled.jg", "--memory", "--graph")
    assert result.out.startswith("# graph\ngraph @weighted") and "\n# memory\n" in result.out
    assert json.loads(command("show", folder / "scaled.jg", "--json").out)["graph"] in result.out


def test_bench(command: Command, folder: Path) -> None:
    result = command("bench", folder / "scaled.jg", "--seconds", "0", "-s", "batch=3")
    assert result.code == 0 and "x float32[3, 3]" in result.out and "native code of the file" in result.out
    data = json.loads(command("bench", folder / "counter.jg", "--seconds", "0", "--no-native", "--json").out)
    assert data["inputs"] == {"ids": [3]} and data["seconds"]["compiled here"]["calls"] >= 5


# --- export, convert, loader ----------------------------------------------------------------------------------------


def test_export_for_other_targets(command: Command, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.jg"
    result = command("export", folder / "scaled.jg", "--target", "x86-64-v3,sm_90", "-o", path)
    assert result.code == 0 and path.name in result.out
    data = json.loads(command("info", path, "--json").out)
    assert (data["entries"]["forward"]["targets"], data["entries"]["forward"]["gpus"]) == (["x86-64-v3"], ["sm_90"])
    assert command("diff", folder / "scaled.jg", path).out.endswith("no difference\n")
    assert jg.load(path).inputs == jg.load(folder / "scaled.jg").inputs
    assert jg.load(path).metadata == jg.load(folder / "scaled.jg").metadata


MAIN = """#include "scaled.h"
#include <stdio.h>

int main(void) {
    static float x[2][3] = {{0, 1, 2}, {3, 1, 0}};
    jg_error error;
    jg_model *model = scaled_load(NULL, &error);
    if (!model) return puts(error.message), 1;
    jg_tensor inputs[2] = {{.data = x, .dtype = JG_FLOAT32, .rank = 2, .shape = {2, 3}}, {0}}, outputs[2] = {{0}, {0}};
    if (jg_run(model, NULL, inputs, 2, outputs, 2, &error)) return puts(error.message), 1;
    for (int i = 0; i < 6; i++) printf("%.9g ", ((float *)outputs[0].data)[i]);
    jg_tensor_free(&outputs[0]);
    jg_tensor_free(&outputs[1]);
    jg_close(model);
    return jg_load_bytes("", 0, NULL, &error) != NULL || jg_load_bytes("PK", 2, NULL, &error) != NULL;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler is needed")
def test_export_of_a_shared_library(command: Command, folder: Path, tmp_path: Path) -> None:
    result = command("export", folder / "scaled.jg", "--so", tmp_path, "--json")
    written = [Path(each["path"]) for each in json.loads(result.out)["written"]]
    assert [path.name for path in written] == ["libscaled.so", "scaled.h", "loader.h"]
    assert "Inputs: x: float32[batch, 3]; scale: float64[]." in written[1].read_text()
    (tmp_path / "main.c").write_text(MAIN)
    build = ["cc", "-Wall", "-Werror", "main.c", "./libscaled.so", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    np.testing.assert_array_equal(np.array(done.stdout.split(), np.float32), SCORES.reshape(-1))


def test_export_as_onnx(command: Command, folder: Path, tmp_path: Path) -> None:
    """With named sizes; the reference evaluator of onnx gives the numbers."""
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    path = tmp_path / "scaled.onnx"
    result = command("export", folder / "scaled.jg", "--onnx", path)
    assert result.code == 0, result.err
    model = onnx.load(path)
    assert [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == ["batch", 3]
    inputs = {"x": X} | {value.name: np.float64(2.0) for value in model.graph.input[1:]}
    actual = reference.ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_allclose(actual[0], SCORES, rtol=1e-6)
    np.testing.assert_array_equal(actual[1], [2, 0])


def test_convert_reads_what_export_wrote(command: Command, folder: Path, tmp_path: Path) -> None:
    """An ONNX model says its inputs, of which a number with a default is none; named sizes stay free."""
    pytest.importorskip("onnx")
    onnx, path = tmp_path / "scaled.onnx", tmp_path / "again.jg"
    assert command("export", folder / "scaled.jg", "--onnx", onnx).code == 0
    result = command("convert", onnx, "-o", path)
    assert (result.code, result.err) == (0, "")
    assert jg.load(path).inputs[0] == jg.load(folder / "scaled.jg").inputs[0]
    actual = outputs(command("run", path, "-i", folder / "x.npy", "--json"))
    np.testing.assert_array_equal(actual["out0"], SCORES, strict=True)
    np.testing.assert_array_equal(actual["out1"], [2, 0])


def test_convert_of_a_torchscript_archive(command: Command, tmp_path: Path) -> None:
    """It does not say its inputs, so that the command line does."""
    path = tmp_path / "mlp.jg"
    x, wanted = records()["mlp_traced"][0][0], records()["mlp_traced"][1]
    refused = command("convert", ARCHIVES / "mlp_traced.pt", "-o", path)
    assert refused.code == 2 and "does not say what x is: --input x=" in refused.err and not path.exists()
    result = command("convert", ARCHIVES / "mlp_traced.pt", "-o", path, "-i", f"x=float32[batch,{x.shape[-1]}]")
    assert (result.code, result.err) == (0, "")
    np.save(tmp_path / "x.npy", x)
    require_same(outputs(command("run", path, "-i", tmp_path / "x.npy", "--json"))["out0"], wanted)


def test_convert_of_an_exported_program(command: Command, tmp_path: Path) -> None:
    path, programs = tmp_path / "mlp.jg", ROOT / "tests" / "torch" / "export" / "files"
    result = command("convert", programs / "mlp.pt2", "-o", path)
    assert (result.code, result.err) == (0, "")
    arrays = np.load(programs / "mlp.npz")
    np.save(tmp_path / "x.npy", arrays["arg0"])
    require_same(outputs(command("run", path, "-i", tmp_path / "x.npy", "--json"))["out0"], arrays["result0"])


def test_names_in_c_are_names() -> None:
    from jitgraph.standalone.shared_object import c_name

    assert [c_name(text) for text in ("a-b.c", "1x", "", "é")] == ["a_b_c", "m_1x", "model", "model"]


def test_without_a_c_compiler_export_says_so(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = command("export", folder / "scaled.jg", "--so", tmp_path / "so")
    assert result.code == 1 and "needs a C compiler" in result.err and not (tmp_path / "so").exists()


def test_loader(command: Command, tmp_path: Path, written: Path) -> None:
    result = command("loader", tmp_path / "new")
    assert result.code == 0 and [Path(line).name for line in result.out.split()] == [
        "loader.py",
        "loader.c",
        "loader.h",
    ]
    assert (tmp_path / "new" / "loader.py").read_bytes() == (written / "loader.py").read_bytes()
    taken = command("loader", tmp_path / "new" / "loader.py")
    assert taken.code == 1 and "loader.py cannot be written: it is a file, not a folder" in taken.err


# --- diff and verify ------------------------------------------------------------------------------------------------


def test_diff(command: Command, folder: Path) -> None:
    same = command("diff", folder / "scaled.jg", folder / "scaled.jg")
    assert (same.code, same.out.splitlines()[-1]) == (0, "no difference")
    result = command("diff", folder / "scaled.jg", folder / "other.jg")
    assert result.code == 1 and "1 of 3 elements differ, by 0.5 at most" in result.out
    assert command("diff", folder / "scaled.jg", folder / "other.jg", "--tolerance", "1e9").code == 0
    assert command("diff", folder / "scaled.jg", folder / "other.jg", "--no-weights", "--no-outputs").code == 0
    data = json.loads(command("diff", folder / "scaled.jg", folder / "counter.jg", "--json").out)
    assert data["differs"] and data["interface"] and any(line.startswith("-") for line in data["graph"])


def test_bits_are_compared() -> None:
    from jitgraph.saved.comparison import array_difference

    def difference(a: Any, b: Any) -> Any:
        return array_difference("y", np.array(a), np.array(b))

    assert difference([np.nan, 1.0], [np.nan, 1.0]).reason == ""
    zeros = difference([0.0, 1.0], [-0.0, 1.0])
    assert zeros.differing == 1 and zeros.largest == 0 and zeros.within(0.0) and zeros.reason
    assert not difference([1.0], [np.nan]).within(1e9) and not difference([1.0], [np.inf]).within(1e9)
    assert not difference([1.0], [[1.0]]).within(1e9) and not difference([1.0], [1]).within(1e9)
    assert difference([2.0, 4.0], [2.0, 3.0]).relative == 0.25
    assert difference(np.zeros(0), np.zeros(0)).reason == ""


def test_verify(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = command("verify", folder / "scaled.jg")
    assert result.code == 0, result.out
    names = [line.split()[0] for line in result.out.splitlines()]
    assert names[:5] == ["hashes", "graph", "eager", "compiled", "loader.py"] and names[-1] == "loader.c"
    assert result.out.count("the same bits") == len(names) - 3 - (shutil.which("cc") is None)
    monkeypatch.setenv("PATH", "")
    written = command("verify", folder / "counter.jg")  # whose state is compared, too
    assert written.code == 0 and "2 results, by which" in written.out and "no C compiler" in written.out
    assert "skipped" in command("verify", folder / "counter.jg", "--no-native").out


def test_verify_sees_native_code_of_another_function(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose hashes are right: the file was written so."""
    monkeypatch.setenv("PATH", "")
    from jitgraph.artifact import SavedEntry, write_artifact
    from jitgraph.runtime.loader import Artifact

    files = [Artifact(folder / name) for name in ("scaled.jg", "other.jg")]
    signature = files[0].signatures()["forward"]
    text = bytes(files[0].read("graph.jgir")).decode().replace("exp(", "expm1(")
    level, image = files[0].image("forward", ("x86-64-v3",))
    entry = SavedEntry(signature, text, {level: bytes(image)})
    write_artifact(tmp_path / "forged.jg", entries={"forward": entry}, weights=files[0].weights(), metadata={})
    result = command("verify", tmp_path / "forged.jg", "--json")
    steps = {step["name"]: step["outcome"] for step in json.loads(result.out)["steps"]}
    assert result.code == 1 and steps["compiled"] == "right" and steps["loader.py"] == "differs"


# --- the machine ----------------------------------------------------------------------------------------------------


def test_cache(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    from jitgraph.runtime import disk_cache

    cache = disk_cache.current()
    assert cache is not None
    keys = [disk_cache.key_of(text) for text in ("a", "b")]
    for key in keys:
        cache.store(key, b"content")
    assert json.loads(command("cache", "info", "--json").out)["entries"] == 2
    assert command("cache", "verify") == (0, "all 2 entries are sound\n", "")
    (tmp_path / "cache" / keys[0]).write_bytes(b"damaged")
    assert [(e.key, e.reason) for e in jg.cache.verify()] == [(keys[0], "it is too short or too long")]
    result = command("cache", "verify")
    assert result.code == 1 and keys[0][:12] in result.out
    assert command("cache", "clear").out.startswith("2 entries removed")
    assert json.loads(command("cache", "info", "--json").out)["entries"] == 0
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", "off")
    assert command("cache", "info").code == 1 and jg.cache.verify() == []
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(shared))
    assert "is not safe" in command("cache", "clear").err


def test_doctor(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    result = command("doctor")
    assert result.code == 0, result.out
    assert {"jitgraph", "processor", "compiler", "cache", "rich"} <= {
        line.split(" ")[0] for line in result.out.splitlines()
    }
    from jitgraph import diagnosis

    def broken(*args: Any) -> Any:
        raise OSError("libllvmlite.so: cannot open shared object file")

    monkeypatch.setattr(diagnosis, "compile", broken)
    data = json.loads(command("doctor", "--json").out)
    findings = {finding["what"]: finding for finding in data["findings"]}
    assert not data["works"] and findings["compiler"]["outcome"] == "fails"
    assert "cannot open" in findings["compiler"]["text"]


# --- processes ------------------------------------------------------------------------------------------------------


def test_a_process_of_its_own(folder: Path) -> None:
    words = ["-m", "jitgraph", "run", str(folder / "scaled.jg"), "-i", str(folder / "x.npy"), "--native", "--json"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["outputs"]["top"]["data"] == [2, 0]


def test_without_typer_the_error_says_what_to_install_and_the_loader_is_written(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from jitgraph.cli import main\n"
        f"print(main(['loader', {str(tmp_path)!r}]), main(['run', 'm.jg']), main([]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "0 1 1" and (tmp_path / "loader.c").exists()
    line = "jitgraph: the command line needs typer and rich: pip install 'jitgraph[cli]' (typer is not installed)"
    assert done.stderr.splitlines() == [line, line]


# --- files with several functions -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("entries") / "entries.jg"
    model = jg.nn.Linear(3, 2)

    def scored(batch: Any, mode: str) -> Any:
        y = model(batch["rows"]) * batch["scale"]
        return {"best": y.max() if mode == "max" else y.sum()}

    rows = np.ones((4, 3), np.float32)
    jg.save(
        {"forward": model, "scored": scored},
        path,
        state=model,
        example_inputs={
            "forward": (rows,),
            "scored": [({"rows": rows, "scale": 2.0}, "max"), ({"rows": rows, "scale": 2.0}, "sum")],
        },
    )
    return path


def test_every_entry_of_a_file_is_shown_and_runs(command: Command, entries: Path) -> None:
    text = command("info", entries).out
    for part in ("forward", "scored", "scored-2", "batch.rows: float32[4, 3]", "mode = 'max'", "mode = 'sum'"):
        assert part in text
    model = jg.load(entries)
    batch = {"rows": np.ones((4, 3), np.float32), "scale": 3.0}
    for name, mode in (("scored", "max"), ("scored-2", "sum")):
        words = ["--entry", name, "-i", "batch.rows=" + str([[1.0] * 3] * 4), "-i", "batch.scale=3", "--json"]
        for native in ([], ["--native"]):
            result = command("run", entries, *words, *native)
            assert json.loads(result.out)["outputs"]["best"]["data"] == float(model.scored(batch, mode)["best"])
    assert command("run", entries, "--random").code == 0
    assert command("bench", entries, "--entry", "scored", "--seconds", "0").code == 0
    assert "reduce_max" in command("show", entries, "--entry", "scored").out
    for view in ("memory", "html"):
        assert command("show", entries, "--entry", "scored", f"--{view}", "-o", entries.with_suffix(".txt")).code == 0
    result = command("run", entries, "--entry", "decode")
    assert result.code == 2 and "--entry is one of forward, scored, scored-2" in result.err.replace("\n", " ")


def test_every_entry_is_verified(command: Command, entries: Path) -> None:
    result = command("verify", entries, "--no-native")
    assert result.code == 0
    for part in ("hashes", "forward: compiled", "scored: eager", "scored-2: compiled"):
        assert part in result.out


def test_other_targets_have_every_entry(command: Command, entries: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.jg"
    assert command("export", entries, "--target", "x86-64-v3", "-o", path).code == 0
    assert list(json.loads(command("info", path, "--json").out)["entries"]) == ["forward", "scored", "scored-2"]


# --- progress -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("patience", "shown"), [(0.0, True), (60.0, False)])
def test_a_bar_appears_in_a_terminal_for_work_that_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, patience: float, shown: bool
) -> None:
    from jitgraph.cli import screen

    monkeypatch.setattr(screen, "PATIENCE", patience)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(KeyboardInterrupt), screen.progress("working", total=2) as advance:
        advance(1, "the first half")
        time.sleep(0.3)
        raise KeyboardInterrupt
    told = capsys.readouterr()
    assert ("the first half" in told.err) == shown and told.out == ""
    assert told.err.count("\x1b[?25l") == told.err.count("\x1b[?25h")  # the cursor is there again


def test_without_a_terminal_there_is_no_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from jitgraph.cli import screen

    monkeypatch.setattr(screen, "PATIENCE", 0.0)
    with screen.progress("working") as advance:
        advance(0.5, "half")
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")
