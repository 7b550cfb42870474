"""Custom ops in files: stored by name and types, resolved from the caller's table by jg.load and by both loaders."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ir
from jitgraph.runtime import loader
from tests.runtime.test_loader_c import HERE, SANITIZED, compiled, execute

X = np.asarray([[3, 1, 2], [-1, 5, 0], [9, 8, 7], [4, 4, 1], [0, -2, -3]], np.float32)


def twice_sorted(x: Any, k: Any) -> Any:
    assert k == 7
    return 2 * np.sort(x, axis=-1), np.asarray(True)


def declared(name: str = "twice_sorted", impl: Any = twice_sorted) -> Any:
    return jg.custom_op(name, impl, lambda x, k: [x, ((), "bool")], vjp=lambda ct, out, x, k: (ct[0] * 3, None))


OP = declared()


@jg.trace(dynamic_shapes={"x": {0: "n"}})
def model(x: Any) -> Any:
    y, is_done = OP(x + 1, jg.asarray(7))
    return y - 2, is_done


@jg.trace(dynamic_shapes={"x": {0: "n"}})
def slope(x: Any) -> Any:
    return jg.grad(lambda x: (OP(x, jg.asarray(7))[0] ** 2).sum())(x)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("files") / "model.jg"
    jg.save(model, file, example_inputs=(X[:2],))
    return file


@pytest.mark.parametrize("function", [OP, twice_sorted])
def test_the_functions_of_a_table_run(path: Path, function: Any) -> None:
    table = {"twice_sorted": function, "unused": print}
    for run in (jg.load(path, custom_ops=table), loader.load(path, custom_ops=table)):
        for rows in (X, X[:0], X[:1]):
            y, is_done = run(rows)
            np.testing.assert_array_equal(y, 2 * np.sort(rows + 1, axis=-1) - 2)
            assert bool(is_done)


def test_the_graph_names_the_op_and_is_read_back(path: Path) -> None:
    with zipfile.ZipFile(path) as file:
        text = next(file.read(name).decode() for name in file.namelist() if name.endswith(".jgir"))
        (call,) = json.loads(file.read("manifest.json"))["entries"]["forward"]["signature"]["calls"]
    assert "custom_call(%" in text and 'name="twice_sorted"' in text and "shapes=[[n, 3], []]" in text
    assert str(ir.parse(text)) == str(ir.parse(str(ir.parse(text))))
    assert call["op"] == "twice_sorted" and call["results"][0]["shape"] == ["n", 3]


def test_a_gradient_in_a_file_and_one_of_a_loaded_function(path: Path, tmp_path: Path) -> None:
    jg.save(slope, tmp_path / "slope.jg", example_inputs=(X[:2],))
    expected = slope(jg.asarray(X)).numpy()
    np.testing.assert_array_equal(expected, 6 * 2 * np.sort(X, axis=-1))
    np.testing.assert_array_equal(
        loader.load(tmp_path / "slope.jg", custom_ops={"twice_sorted": twice_sorted})(X), expected
    )
    known = jg.load(path, custom_ops={"twice_sorted": OP})
    np.testing.assert_array_equal(jg.grad(lambda x: known(x)[0].sum())(jg.asarray(X)), np.full_like(X, 3))
    unknown = jg.load(path, custom_ops={"twice_sorted": twice_sorted})
    with pytest.raises(jg.errors.UnsupportedOp, match="twice_sorted"):
        jg.grad(lambda x: unknown(x)[0].sum())(jg.asarray(X))
    jg.save(known, tmp_path / "again.jg", example_inputs=(X[:2],))
    again = loader.load(tmp_path / "again.jg", custom_ops={"twice_sorted": twice_sorted})
    np.testing.assert_array_equal(again(X)[0], known(X)[0])


@pytest.mark.parametrize("load", [jg.load, loader.load])
def test_what_the_table_lacks_is_named(path: Path, load: Any) -> None:
    for table in (None, {}, {"other": twice_sorted}):
        with pytest.raises(loader.LoadError, match=r"model.jg: it calls the custom op 'twice_sorted'.*custom_ops has"):
            load(path, custom_ops=table)
    with pytest.raises(loader.LoadError, match=r"custom_ops\['twice_sorted'\] is a int"):
        load(path, custom_ops={"twice_sorted": 3})


def test_a_custom_op_of_other_types_is_refused(path: Path) -> None:
    other = jg.custom_op("other", twice_sorted, lambda x, k: [x, ((), "int64")])
    with pytest.raises(loader.LoadError, match=r"gives \(f32\[n, 3\], i64\[\]\), and the file says"):
        jg.load(path, custom_ops={"twice_sorted": other})


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x, k: (x[1:], np.asarray(True)), r"float32\[4, 3\], not float32\[5, 3\]"),
        (lambda x, k: (x.astype(np.float64), np.asarray(True)), r"float64\[5, 3\], not float32"),
        (lambda x, k: (x, np.asarray([True])), r"result 1 .* bool\[1\], not bool\[\]"),
        (lambda x, k: x, "gives 1 results, not 2"),
        (lambda x, k: None, "gives 1 results, not 2"),
    ],
)
def test_a_result_of_another_type_is_an_error(path: Path, result: Any, message: str) -> None:
    run = loader.load(path, custom_ops={"twice_sorted": result})
    with pytest.raises(loader.JitgraphError, match=message):
        run(X)
    with pytest.raises((jg.ShapeError, jg.DTypeError, AttributeError)):
        jg.load(path, custom_ops={"twice_sorted": result})(X)


def test_what_the_function_raises_is_raised_with_the_line(path: Path) -> None:
    def fails(x: Any, k: Any) -> Any:
        raise KeyError("absent")

    with pytest.raises(KeyError, match="absent") as failure:
        loader.load(path, custom_ops={"twice_sorted": fails})(X)
    assert any("twice_sorted" in note and "test_custom_ops_in_files.py" in note for note in failure.value.__notes__)


def test_operands_are_the_function_s_own(path: Path) -> None:
    kept = []

    def keeps(x: Any, k: Any) -> Any:
        kept.append(x)
        x += 100
        return x, np.asarray(False)

    run = loader.load(path, custom_ops={"twice_sorted": keeps})
    run(X)
    before = kept[0].copy()
    run(X * 2)
    np.testing.assert_array_equal(kept[0], before)


def test_threads_call_at_once(path: Path) -> None:
    run = loader.load(path, custom_ops={"twice_sorted": twice_sorted})
    wrong: list[int] = []

    def many(number: int) -> None:
        rows = X + number
        expected = 2 * np.sort(rows + 1, axis=-1) - 2
        wrong.extend(number for _ in range(20) if not np.array_equal(run(rows)[0], expected))

    threads = [threading.Thread(target=many, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_ops_of_one_name_are_refused(tmp_path: Path) -> None:
    one, other = declared(), declared()
    with pytest.raises(jg.JitgraphError, match="two custom ops are called 'twice_sorted'"):
        jg.save(
            lambda x: one(other(x, jg.asarray(7))[0], jg.asarray(7))[0], tmp_path / "two.jg", example_inputs=(X[:2],)
        )


def test_in_loops_and_branches(tmp_path: Path) -> None:
    @jg.script
    def loops(x: Any) -> Any:
        for _ in range(12):
            if x.sum() < 1000:
                x = OP(x, jg.asarray(7))[0]
        return x

    jg.save(loops, tmp_path / "loops.jg", example_inputs=(X,))
    for load in (jg.load, loader.load):
        np.testing.assert_array_equal(
            load(tmp_path / "loops.jg", custom_ops={"twice_sorted": OP.custom_op._impl})(X), loops(X)
        )


POINTER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def test_function_pointers(path: Path) -> None:
    def fill(inputs: int, outputs: int, sizes: int) -> int:
        rows, columns = (ctypes.c_int64 * 2).from_address(sizes)
        x, _ = (ctypes.c_void_p * 2).from_address(inputs)
        y, flag = (ctypes.c_void_p * 2).from_address(outputs)
        ctypes.c_uint8.from_address(flag).value = 4
        source, target = ((ctypes.c_float * (rows * columns)).from_address(at) for at in (x, y))
        target[:] = [2 * value for value in source]
        return 0 if rows < 5 else 12

    pointer = POINTER(fill)
    for load in (jg.load, loader.load):
        run = load(path, custom_ops={"twice_sorted": pointer})
        y, flag = run(X[:4])
        np.testing.assert_array_equal(y, 2 * (X[:4] + 1) - 2)
        assert np.asarray(flag).view(np.uint8) == 1
        with pytest.raises(jg.JitgraphError, match=r"twice_sorted.*error code 12"):
            run(X)


def test_hostile_signatures_are_refused() -> None:
    spec = loader.ValueSpec("in0", "float32", ("n",))
    call = loader.CustomCall("op", (spec,), (spec,))
    whole = loader.Signature((spec,), (), dims=("n",), calls=(call,))
    assert loader.Signature.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    for changes in (
        {"op": "no name"},
        {"results": ()},
        {"operands": (loader.ValueSpec("in0", "float31", (2,)),)},
        {"operands": (loader.ValueSpec("in0", "float32", (-1,)),)},
        {"operands": (loader.ValueSpec("in0", "float32", ("m",)),)},
        {"results": (loader.ValueSpec("in0", "float32", (1,) * 65),)},
    ):
        with pytest.raises(loader.LoadError):
            whole.but_with(calls=(call.but_with(**changes),))
    source: dict[str, Any] = json.loads(json.dumps(whole.to_json()))
    for calls in (3, [3], [{}], [{"op": 1, "location": "", "operands": [], "results": []}]):
        with pytest.raises(loader.LoadError):
            loader.Signature.from_json({**source, "calls": calls})


def test_the_written_loader_takes_the_table(path: Path, written: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy as np\n"
        f"sys.path.insert(0, {str(written)!r})\n"
        "import loader\n"
        "table = {'twice_sorted': lambda x, k: (2 * np.sort(x, axis=-1), np.asarray(True))}\n"
        f"print(loader.load({str(path)!r}, custom_ops=table)(np.ones((2, 3), np.float32))[0].sum())\n"
        f"assert not [name for name in sys.modules if name.startswith('jitgraph')]\n"
    )
    done = subprocess.run([sys.executable, "-I", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("12.0\n", 0), done.stderr


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")
@pytest.mark.parametrize("sanitizers", [(), SANITIZED])
def test_the_c_loader_calls_registered_functions(
    path: Path, written: Path, tmp_path: Path, sanitizers: tuple[str, ...]
) -> None:
    program = tmp_path / "custom_ops"
    options = sanitizers or ("-O2",)
    compiled((*options, f"-I{written}", HERE / "custom_ops.c", written / "loader.c", "-lpthread", "-o", program))
    lines = execute(program, path).splitlines()
    types = "float32[2], int64[0] -> float32[2], bool[0]"
    place = "  at tests/runtime/test_custom_ops_in_files.py:"
    assert lines[:3] == [
        f"op twice_sorted: {types}",
        "beyond: 1",
        f"missing 5: forward: the custom op 'twice_sorted' ({types}) is not registered",
    ]
    assert lines[3].startswith(place)
    assert lines[4:9] == [
        "unknown 2: the model calls no custom op 'unknown'",
        "no function 2: the argument 'function' is NULL",
        f"other types 2: the custom op 'twice_sorted' is {types}, not float64[2] -> float64[2]",
        "registered 0",
        f"failed 5: forward: the custom op 'twice_sorted' ({types}) returned an error code: 17",
    ]
    assert lines[9].startswith(place)
    expected = (2 * np.sort(X + 1, axis=-1) - 2).ravel()
    assert lines[10:] == ["registered 0", "ran 0: " + " ".join(f"{v:g}" for v in expected), "threads: 0 wrong"]


def test_entries_of_one_file_share_the_table(tmp_path: Path) -> None:
    weight = jg.asarray(np.ones(3, np.float32))
    once = jg.trace(lambda x: OP(x * weight, jg.asarray(7))[0])
    twice = jg.trace(lambda x: OP(OP(x * weight, jg.asarray(7))[0], jg.asarray(7))[0])
    jg.save({"once": once, "twice": twice}, tmp_path / "both.jg", example_inputs={"once": (X,), "twice": (X,)})
    for load in (jg.load, loader.load):
        file = load(tmp_path / "both.jg", custom_ops={"twice_sorted": twice_sorted})
        np.testing.assert_array_equal(file.once(X), once(X))
        np.testing.assert_array_equal(file.twice(X), twice(X))
    other = declared()
    with pytest.raises(jg.JitgraphError, match="two custom ops are called"):
        jg.save(
            {"once": once, "twice": jg.trace(lambda x: other(x * weight, jg.asarray(7))[0])},
            tmp_path / "mixed.jg",
            example_inputs={"once": (X,), "twice": (X,)},
        )
