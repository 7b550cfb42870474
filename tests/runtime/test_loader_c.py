"""The C loader: the same results as loader.py bit for bit, the same files refused, under sanitizers."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import artifact
from jitgraph.runtime import loader
from tests import ROOT
from tests.runtime import test_loader as python_tests
from tests.runtime.handwritten import ENTRY, SCALE, SCALE_SIGNATURE, buffer, image, spec

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")

HERE = Path(__file__).parent / "c"
STRICT = ("gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ENVIRONMENT = {
    **os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1", "JITGRAPH_NUM_THREADS": "2",
    "JITGRAPH_TARGET_CPU": "",
}  # fmt: skip


class Programs(NamedTuple):
    """The test program, as users build it and with sanitizers, and the one that prints the structures."""

    plain: Path
    sanitized: Path
    layout: Path
    object: Path


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, written: Path) -> Programs:
    folder = tmp_path_factory.mktemp("programs")
    run, source, header = str(HERE / "run.c"), str(written / "loader.c"), f"-I{written}"
    actual = Programs(folder / "plain", folder / "sanitized", folder / "layout", folder / "loader.o")
    commands = [
        ("-O2", "-c", source, "-o", actual.object),
        (*SANITIZED, header, run, source, "-lpthread", "-o", actual.sanitized),
        (header, str(HERE / "layout.c"), "-lpthread", "-o", actual.layout),
    ]
    with ThreadPoolExecutor() as executor:
        list(executor.map(compiled, commands))
    compiled((header, run, actual.object, "-lpthread", "-o", actual.plain))
    return actual


def compiled(words: Sequence[object]) -> None:
    done = subprocess.run([*STRICT, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def execute(program: Path, *words: object, **environment: str) -> str:
    """What the program prints; it must end well, so that a report of a sanitizer is a failure."""
    done = subprocess.run(
        [program, *map(str, words)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        env={**ENVIRONMENT, **environment},
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-500:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_structures_are_those_of_the_python_loader(programs: Programs) -> None:
    actual = {tuple(line.split()[:2]): int(line.split()[2]) for line in execute(programs.layout).splitlines()}
    expected: dict[tuple[str, ...], int] = {}
    structures: dict[str, type[ctypes.Structure]] = {
        "jg_host": loader.Host, "jg_error_record": loader.ErrorRecord, "jg_block": loader.Block,
        "jg_call": loader.Call, "jg_pool": loader.PoolState,
    }  # fmt: skip
    for name, structure in structures.items():
        expected[name, "-"] = ctypes.sizeof(structure)
        expected.update({(name, field[0]): getattr(structure, field[0]).offset for field in structure._fields_})
    assert actual == expected


def test_the_file_can_be_mapped(tmp_path: Path, written: Path) -> None:
    program, path = tmp_path / "mapped", tmp_path / "model.jg"
    compiled(("-DJG_MAP_FILE", f"-I{written}", HERE / "run.c", written / "loader.c", "-lpthread", "-o", program))
    jg.save(lambda x: x + 1, path, example_inputs=(np.ones(3, np.float32),))
    assert execute(program, "check", path).startswith("0 ")


def test_the_loader_needs_libc_alone(programs: Programs) -> None:
    assert programs.object.stat().st_size < 154_000
    if shutil.which("ldd"):
        text = subprocess.run(["ldd", programs.plain], capture_output=True, text=True, check=True).stdout
        assert set(re.findall(r"lib\w+(?=[.-])", text)) <= {"libc", "libpthread"}


# --- results --------------------------------------------------------------------------------------------------------


class Case:
    """A model in a file, with both loaders beside each other."""

    def __init__(self, programs: Programs, folder: Path, path: Path | None = None) -> None:
        self.programs = programs
        self.folder = folder
        self.path = path or folder / "model.jg"
        self.count = 0

    def save(self, function: Any, *examples: Any) -> Case:
        jg.save(function, self.path, example_inputs=examples)
        return self

    def given(self, arrays: Sequence[Any]) -> Iterator[object]:
        """The words of the command for these inputs."""
        for array in arrays:
            self.count += 1
            file = self.folder / f"in{self.count}"
            file.write_bytes(np.ascontiguousarray(array).tobytes())
            yield from ("in", file, loader_name(array.dtype), ",".join(map(str, array.shape)) or "-")

    def run(
        self, *arrays: Any, repeat: int = 1, program: str = "plain", extra: Sequence[object] = (), **env: str
    ) -> list[Any]:
        """The outputs in C, the last of ``repeat`` runs."""
        words = [*self.given(arrays), *extra, "run", self.folder / "out", repeat]
        text = execute(getattr(self.programs, program), self.path, *words, **env)
        results = []
        for index, line in enumerate(re.findall(r"^output (.*)$", text, re.MULTILINE)):
            dtype, *shape = line.split()
            data = (self.folder / f"out.{index}").read_bytes()
            results.append(np.frombuffer(data, loader.dtype_named(dtype)).reshape([int(size) for size in shape]))
        assert results, text
        return results

    def error(self, *arrays: Any, extra: Sequence[object] = (), program: str = "sanitized") -> str:
        """The line with status, kind and message of the failure in C."""
        words = [*self.given(arrays), *extra, "run", self.folder / "out", 1]
        return execute(getattr(self.programs, program), self.path, *words)

    def compare(self, *arrays: Any, program: str = "plain") -> None:
        """Both loaders give the same bits."""
        here = leaves(loader.load(self.path)(*arrays))
        there = self.run(*arrays, program=program)
        assert [same(a) for a in there] == [same(a) for a in here]


def loader_name(dtype: Any) -> str:
    return str(np.dtype(dtype).name)


def same(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.name, array.shape, array.tobytes()


def leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        result = tuple(result.values())
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, tuple | list) else [result]


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def case(programs: Programs, tmp_path: Path) -> Case:
    return Case(programs, tmp_path)


def test_a_named_batch(case: Case) -> None:
    w, v = jg.asarray(normal(784, 128)), jg.asarray(normal(128, 10, seed=1))

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def mlp(x: jg.Tensor) -> jg.Tensor:
        return jg.softmax(jg.tanh(x @ w) @ v)

    case.save(mlp, normal(4, 784))
    for batch in (1, 7, 100, 0):
        case.compare(normal(batch, 784, seed=batch))
    case.compare(normal(33, 784), program="sanitized")
    assert "input x float32 batch=-1 784=784" in execute(case.programs.plain, case.path, "show")
    message = r"2 - .*input 0 \(x\): expected x: float32\[batch, 784\], whose axis 1 is 784, got float32\[3, 783\]"
    assert re.match(message, case.error(normal(3, 783)))
    assert "expected x: float32[batch, 784], got float64[3, 784]" in case.error(normal(3, 784).astype(float))
    assert "of rank 1 in float32[784]" in case.error(normal(784))
    assert "takes 1 inputs and gives 1 outputs, got 0 and 1; the inputs: x" in case.error()
    assert "the argument x: float32[batch, 784] is missing" in case.error(extra=["default"])
    for sizes, message in ((f"{2**62},784", "leaves 64 bits"), ("0,-3", "negative size"), ("1,2", "whose axis 1")):
        (case.folder / "empty").write_bytes(b"\0" * 8)
        assert message in case.error(extra=["in", case.folder / "empty", "float32", sizes])


def test_several_outputs_and_dtypes(case: Case) -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}, "y": {0: "m"}})
    def f(x: jg.Tensor, k: jg.Tensor, mask: jg.Tensor, y: jg.Tensor) -> object:
        half = y.astype(jg.float16) * 2 + 1
        return {
            "b": [x > 0, (half, jg.where(mask, k, -k))], "s": x.sum(), "k": k // 3, "w": y.astype(jg.bfloat16) * 3,
            "z": jg.concat([x, y])[::2],
        }  # fmt: skip

    k, mask = np.arange(-3, 4), np.array([1, 0, 0, 1, 1, 0, 1], bool)
    case.save(f, normal(5), k, mask, normal(4))
    for program in ("plain", "sanitized"):
        case.compare(normal(9, seed=1), k, mask, normal(3, seed=2), program=program)
    case.compare(normal(0), k, mask, normal(3))
    case.count = 0
    words = list(case.given([normal(2), k, mask, normal(3)]))
    Path(case.folder / "in3").write_bytes(b"\1\0\2\0\0\0\0")
    assert "a bool that is neither 0 nor 1" in execute(case.programs.sanitized, case.path, *words, "run", "o", 1)


def test_zero_dimensions(case: Case) -> None:
    case.save(lambda x, y: (x * y, jg.exp(x)), np.float64(1.5), np.array(2.0))
    case.compare(np.array(0.25), np.array(-3.0), program="sanitized")


def test_failed_checks(case: Case) -> None:
    @jg.trace
    def pick(table: jg.Tensor, at: jg.Tensor) -> jg.Tensor:
        return table[at] + 1

    case.save(pick, normal(5, 3), np.array([0, 1]))
    case.compare(normal(5, 3), np.array([4, -5]), program="sanitized")
    bad = (normal(5, 3), np.array([0, 7]))
    with pytest.raises(IndexError) as caught:
        loader.load(case.path)(*bad)
    assert case.error(*bad) == f"3 IndexError {caught.value}\n"
    assert "7" in str(caught.value) and "test_loader_c.py" in str(caught.value)


ODD = {
    "load": "the argument 'path' is NULL",
    "load unheard": "",
    "no model": "the argument 'model' is NULL",
    "no inputs": "the argument 'inputs' is NULL",
    "no outputs": "the argument 'outputs' is NULL",
    "many inputs": f"takes 1 inputs and gives 1 outputs, got {2**64 - 1} and 1",
    "many outputs": f"got 1 and {2**64 - 1}",
    "unheard": "",
    "no data": "the argument x: float32[n, 4] is missing",
    "huge rank": f"the rank {2**31 - 1}",
    "negative rank": "the rank -1",
    "no dtype": "the dtype -1",
    "negative size": "negative size",
    "huge size": "leaves 64 bits",
    "no room": "but has room for 0",
    "get of no model": "the argument 'model' is NULL",
    "get of no key": "the argument 'key' is NULL",
    "get to nowhere": "the argument 'value' is NULL",
    "set of no model": "the argument 'model' is NULL",
    "set of no key": "the argument 'key' is NULL",
    "set to nothing": "the argument 'value' is NULL",
    "set to no data": "must have that dtype, shape and data",
    "set to a negative rank": "must have that dtype, shape and data",
}


def test_null_and_senseless_numbers_are_refused(case: Case) -> None:
    """Whatever a caller gives; and what comes after it runs as before."""
    w = jg.asarray(normal(4, 3))
    case.save(jg.trace(lambda x: x @ w, dynamic_shapes={"x": {0: "n"}}), normal(2, 4))
    words = [*case.given([normal(5, 4)]), "odd", "run", case.folder / "out", 1]
    lines = execute(case.programs.sanitized, case.path, *words).splitlines()
    actual = dict(line.split(": ", 1) for line in lines[: len(ODD)])
    assert list(actual) == list(ODD)
    for what, message in ODD.items():
        assert actual[what].startswith("2 "), (what, actual[what])
        assert message in actual[what], (what, actual[what])
    assert lines[len(ODD) :] == ["what is inside nothing: nothing", "output float32 5 3"]
    x = normal(5, 4)
    assert (case.folder / "out.0").read_bytes() == loader.load(case.path)(x).tobytes()


def test_failures_after_success(case: Case) -> None:
    case.save(lambda x, at: (x[at], x * 2), normal(6), np.array([1, 2]))
    run = ["run", case.folder / "out", 2]
    good = [*case.given([normal(6), np.array([5, 0])]), *run]
    for bad in ([normal(5), np.array([1, 2])], [normal(6), np.array([6, 0])]):
        text = execute(case.programs.sanitized, case.path, *good, "again", *case.given(bad), *run)
        assert re.search("^[23] ", text, re.MULTILINE)


def test_outputs_in_given_memory(case: Case) -> None:
    case.save(lambda x: (x + 1, x.sum()), normal(100))
    x = normal(100, seed=3)
    for room, offset in ((400, 0), (400, 4), (500, 64), (401, 1)):
        total = case.run(x, extra=("given", room, offset), program="sanitized")
        assert same(total[0]) == same(x + 1)
    assert "needs 400 bytes, but has room for 399" in case.error(x, extra=("given", 399, 0))


def test_a_training_step_goes_on(case: Case) -> None:
    weight = jg.nn.Parameter(jg.asarray(normal(4, 3)))
    optimizer = jg.optim.SGD([weight], lr=0.1, momentum=0.9)
    x, y = normal(8, 4, seed=1), normal(8, 3, seed=2)

    @jg.trace
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = ((x @ weight - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    case.save(step, x, y)
    model = loader.load(case.path)
    losses = [model(x, y) for _ in range(5)]
    defaults = ["default"] * (len(model.inputs) - 2)
    assert defaults
    key = next(iter(model.state))
    for program in ("plain", "sanitized"):
        got = ("get", key, case.folder / "state")
        words = [*case.given([x, y]), *defaults, "run", case.folder / "out", 5, *got]
        execute(getattr(case.programs, program), case.path, *words)
        assert (case.folder / "out.0").read_bytes() == losses[-1].tobytes()
        assert (case.folder / "state").read_bytes() == model.state[key].tobytes()
    # The state goes back to where it was, and the first loss comes again.
    for name, array in loader.load(case.path).state.items():
        (case.folder / name).write_bytes(array.tobytes())
    words = [*case.given([x, y]), *defaults, "run", case.folder / "out", 3]
    for name, array in loader.load(case.path).state.items():
        words += ["set", name, case.folder / name, loader_name(array.dtype), ",".join(map(str, array.shape)) or "-"]
    execute(case.programs.sanitized, case.path, *words, "run", case.folder / "out", 1)
    assert (case.folder / "out.0").read_bytes() == losses[0].tobytes()


def test_the_portable_level_and_environment(case: Case) -> None:
    case.save(lambda x: jg.exp(x) * 2, normal(50))
    x = normal(50, seed=1)
    actual = case.run(x, JITGRAPH_TARGET_CPU="x86-64-v3")
    assert same(actual[0]) == same(loader.load(case.path, level="x86-64-v3")(x))
    assert "does not run 'x86-64-v7'" in execute(case.programs.sanitized, case.path, JITGRAPH_TARGET_CPU="x86-64-v7")
    assert "JITGRAPH_NUM_THREADS='0'" in execute(case.programs.sanitized, case.path, JITGRAPH_NUM_THREADS="0")


def test_threads_and_forks(case: Case) -> None:
    case.save(lambda x, y: (jg.tanh(x @ y), x.sum(axis=0)), normal(300, 300), normal(300, 300, seed=1))
    x, y = normal(300, 300, seed=2), normal(300, 300, seed=3)
    reference = [same(array) for array in leaves(loader.load(case.path)(x, y))]
    for threads, program in (("1", "plain"), ("3", "plain"), ("2", "sanitized")):
        actual = case.run(x, y, program=program, JITGRAPH_NUM_THREADS=threads)
        assert [same(array) for array in actual] == reference
    words = [*case.given([x, y]), "run", case.folder / "out", 1, "threads", 4, 10, "fork"]
    assert "child 0" in execute(case.programs.plain, case.path, *words, JITGRAPH_NUM_THREADS="3")
    execute(case.programs.sanitized, case.path, *words[:-1], JITGRAPH_NUM_THREADS="3")


# --- hand-written entries: several in a file, state, checks ---------------------------------------------------------


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good_c") / "model.jg"
    saved = artifact.SavedEntry(SCALE_SIGNATURE, "graph @scale", {"x86-64-v2": image(SCALE, runtime=True)})
    entries = {"forward": saved}
    artifact.write_artifact(path, entries=entries, weights=python_tests.WEIGHTS, metadata={"by": "test"})
    return path


def test_state_changes_after_success_only(good: Path, programs: Programs, tmp_path: Path) -> None:
    case = Case(programs, tmp_path, good)
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    assert same(case.run(x, repeat=3, program="sanitized")[0]) == same(x * np.float32(4.5))
    (tmp_path / "seven").write_bytes(np.float32(7).tobytes())
    words = ["set", "layer.s", tmp_path / "seven", "float32", "-"]
    for _ in range(2):
        assert case.error(x, extra=words) == "3 IndexError index 41 is out of range for size 42\n  at model.py:3\n"
    shown = execute(programs.sanitized, good, "show").splitlines()
    assert shown[:4] == ["target x86-64-v2", "metadata {", '  "by": "test"', " }"]
    assert shown[4:7] == ["entry forward", "input x float32 n=-1", "output y float32 n=-1"]
    assert {*shown[7:]} == {f"state {key}" for key in python_tests.WEIGHTS}
    wrong = ["set", "layer.s", tmp_path / "seven", "int32", "-"]
    assert "the state 'layer.s' is float32[]" in execute(programs.sanitized, good, *wrong)
    assert "no state 'x'" in execute(programs.sanitized, good, "get", "x", tmp_path / "y")


def copies(count: int, width: int) -> str:
    """IR of an entry that copies its first ``count`` inputs, elements of ``width`` bits, to the outputs."""
    lines = "".join(
        f"{buffer(f'%a{i}', i)}{buffer(f'%b{i}', count + i)}  %v{i} = load i{width}, ptr %a{i}\n"
        f"  store i{width} %v{i}, ptr %b{i}\n"
        for i in range(count)
    )
    return f"{ENTRY} {{\n{lines}  ret i32 0\n}}\n"


def write_entry(path: Path, data: bytes, inputs: Sequence[Any], outputs: Sequence[Any], **rest: Any) -> None:
    signature = loader.Signature(tuple(inputs), tuple(outputs), **rest)
    entries = {"main": artifact.SavedEntry(signature, "", {"x86-64-v2": data})}
    artifact.write_artifact(path, entries=entries, weights={}, metadata={})


FLOATS = (
    0.1, -0.0, 1 / 3, 65504.0, 65519.9, 65520.0, -1e300, 6e-8, 2.0**-25, 2.0**-25 * 1.001, -(2.0**-14), 6.1e-5,
    2.0**-24 * 1.5, 1.00048828125, 1.00146484375, 3, True, 0.333251953125, 3.3895314e38,
)  # fmt: skip


DEFAULTS: dict[str, tuple[Any, ...]] = {
    "float16": FLOATS,
    "bfloat16": FLOATS,
    "float32": FLOATS,
    "float64": FLOATS,
    "int8": (-128, 127, True),
    "uint8": (0, 255),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (2**63 - 1,),
    "bool": (True, False),
}


@pytest.mark.parametrize("dtype", DEFAULTS)
def test_defaults(case: Case, dtype: str) -> None:
    values = DEFAULTS[dtype]
    wanted = loader.dtype_named(dtype)
    inputs = [spec(f"x{i}", dtype, default=value) for i, value in enumerate(values)]
    outputs = [spec(f"y{i}", dtype) for i in range(len(values))]
    write_entry(case.path, image(copies(len(values), 8 * wanted.itemsize)), inputs, outputs)
    with np.errstate(all="ignore"):
        expected = [np.asarray(value).astype(wanted).tobytes() for value in values]
    assert [array.tobytes() for array in case.run(extra=["default"] * len(values))] == expected


def test_defaults_that_do_not_fit(programs: Programs, tmp_path: Path) -> None:
    data = image(copies(0, 8))
    pairs = [("int8", 128), ("uint8", -1), ("uint16", 65536), ("bool", 1), ("int32", 1.0), ("int64", 2**63)]
    for dtype, value in pairs:
        write_entry(tmp_path / f"{dtype}.jg", data, [spec("x", dtype, default=value)], [])
    text = execute(programs.sanitized, "check", *(tmp_path / f"{dtype}.jg" for dtype, _ in pairs))
    assert re.findall(r"'x' has a default that (\w+) cannot hold", text) == [dtype for dtype, _ in pairs]


EXPRESSIONS = (
    "n", "2*n + 1", "(n + 1)//2", "n % 4", "-n + 20", "-(-n // 2)", "-n % 4", "n*n*m - 3", "100 + n // -2", "5 ",
    "((m + n + 1) // 2)", "n - -m", "n*(m + 1) % (n - 2)",
)  # fmt: skip


def test_sizes_are_evaluated_as_in_python(case: Case) -> None:
    outputs = [spec(f"y{i}", "bool", text) for i, text in enumerate(EXPRESSIONS)]
    inputs = [spec("x", "bool", "n", "m")]
    data = image(f"{ENTRY} {{ ret i32 0 }}")
    write_entry(case.path, data, inputs, outputs, dims=("n", "m"), constraints=("n >= 1", "m % 2 == 1", "n*m != 6"))
    for n, m in ((7, 3), (4, 1), (1, 5)):
        actual = case.run(np.zeros((n, m), bool), program="sanitized")
        sizes = [loader.Expression(text).evaluate({"n": n, "m": m}) for text in EXPRESSIONS]
        assert [array.shape for array in actual] == [(size,) for size in sizes]
    message = r"must satisfy m % 2 == 1 \(m is 2 by x.shape\[1\]\)"
    assert re.search(message, case.error(np.zeros((3, 2), bool)))
    assert "must satisfy n >= 1 (n is 0 by" in case.error(np.zeros((0, 1), bool))
    for text, message in (
        ("n*n*n*n*n*n*n*n", "leaves 64 bits"), ("n - 301", "negative"), ("n // (n - 300)", "divides by zero"),
        ("n*n*n*n*n*n", "cannot allocate"),
    ):  # fmt: skip
        write_entry(case.path, data, [spec("x", "bool", "n")], [spec("y", "bool", text)], dims=("n",))
        assert message in case.error(np.zeros(300, bool))


def test_several_entries(case: Case) -> None:
    one = loader.Signature((), (spec("y", "int32"),), (loader.StateSpec("s", "int32", (), key="k"),))
    ir = f"{ENTRY} {{\n{buffer('%s', 0)}{buffer('%y', 1)}  %v = load i32, ptr %s\n  %w = add i32 %v, STEP\n"
    ir += "  store i32 %w, ptr %y\n  ret i32 0\n}\n"
    state = loader.Signature((), (spec("t", "int32"),), one.state, writes=((0, 0),))
    entries = {
        "peek": artifact.SavedEntry(one, "", {"x86-64-v2": image(ir.replace("STEP", "0"))}),
        "forward": artifact.SavedEntry(state, "", {"x86-64-v2": image(ir.replace("STEP", "3"))}),
    }
    artifact.write_artifact(case.path, entries=entries, weights={"k": np.array(5, np.int32)}, metadata={})
    words = ["run", case.folder / "a", 4, "entry", "peek", "run", case.folder / "b", 1, "get", "k", case.folder / "c"]
    execute(case.programs.sanitized, case.path, *words)
    for name in ("b.0", "c"):
        assert (case.folder / name).read_bytes() == np.int32(17).tobytes()
    assert not (case.folder / "a.0").exists()
    assert "no entry 'other'" in execute(case.programs.sanitized, case.path, "entry", "other", "run", "x", 1)


# --- hostile files --------------------------------------------------------------------------------------------------

WORDS = {
    "manifest a list": "not a JSON object but an array",
    "manifest with NaN": "not sound JSON: an unknown value at byte 6",
    "manifest with a long int": "names the format None",
    "other format": "names the format onnx",
    "version a bool": "'version' is a boolean, expected an integer",
    "native a number": "'x86-64-v2' is an integer, expected a string",
    "tensor a list": "not a JSON object but an array",
    "unknown dim": "unknown dims 'm'",
    "unbound dim": "no input has the bare size 'm'",
    "constraint of code": "is not a constraint",
    "prints a text": "'prints' is a string, expected an array",
    "print texts a number": "'texts' holds an integer, not a string",
    "print flush a number": "'flush' is an integer",
    "print operand dim": "unknown dims 'm'",
    "write of another type": "writes: .* cannot share memory",
}
"""What the C loader says where its words are not those of loader.py."""


@pytest.fixture(scope="session")
def verdicts(good: Path, programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """``STATUS MESSAGE`` for each hostile file of the tests of loader.py, all read by one process."""
    folder = tmp_path_factory.mktemp("hostile")
    files: dict[str, Path] = {}
    for case, (edit, _) in python_tests.HOSTILE.items():
        parts = python_tests.parts_of(good)
        edit(parts)
        own_hashes = case in ("no manifest", "missing member", "no members") or case.startswith("manifest ")
        files[case] = python_tests.written(folder / f"{len(files)}.jg", parts, rehash=not own_hashes)
    for case, (change, _) in python_tests.ZIPS.items():
        files[case] = python_tests.zip_changed(good, folder / f"{len(files)}.jg", change)
    lines = execute(programs.sanitized, "check", *files.values()).splitlines()
    return dict(zip(files, lines, strict=True))


@pytest.mark.parametrize("case", [*python_tests.HOSTILE, *python_tests.ZIPS])
def test_hostile_files(case: str, verdicts: dict[str, str]) -> None:
    message = {**python_tests.HOSTILE, **python_tests.ZIPS}[case][1]
    assert verdicts[case].startswith("1 ")
    assert re.search(WORDS.get(case, message), verdicts[case])


def test_damage_is_found_wherever_python_finds_it(good: Path, programs: Programs, tmp_path: Path) -> None:
    """Any byte changed: in the file as it is, and in the manifest and the weights with their hashes put right."""
    rng = np.random.default_rng(5)
    full, parts = good.read_bytes(), python_tests.parts_of(good)

    def changed(data: bytes) -> bytes:
        mutable = bytearray(data)
        for _ in range(int(rng.integers(1, 3))):
            mutable[int(rng.integers(len(data)))] = int(rng.choice([*range(256), *b'0123456789"-[]{}n,']))
        return bytes(mutable)

    files = [tmp_path / f"{i}.jg" for i in range(600)]
    for i, path in enumerate(files):
        name = ("manifest.json", "weights.safetensors", None)[i % 3]
        if name is None:
            path.write_bytes(changed(full) if i % 6 == 2 else full[: int(rng.integers(len(full)))])
        else:
            python_tests.written(path, {**parts, name: changed(parts[name])}, rehash=name != "manifest.json")
    lines = execute(programs.sanitized, "check", *files).splitlines()
    for path, line in zip(files, lines, strict=True):
        try:
            loader.load(path)
        except loader.LoadError as error:
            assert line.startswith("1 "), (error, line)
        else:
            assert line.startswith("0 "), line


def test_zip64(good: Path, programs: Programs, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.jg" for name in ("members", "directory", "outside")]
    with zipfile.ZipFile(paths[0], "w") as archive:
        for name, content in python_tests.parts_of(good).items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content)
    data = paths[0].read_bytes()
    count, size, start = struct.unpack_from("<HLL", data, len(data) - 12)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    for path, where in zip(paths[1:], (len(data) - 22, 2**64 - 1), strict=True):
        path.write_bytes(data[:-22] + record + struct.pack("<4sLQL", b"PK\6\7", 0, where, 1) + end)
    lines = execute(programs.sanitized, "check", *paths, tmp_path, tmp_path / "none").splitlines()
    assert [line[0] for line in lines] == ["0", "0", "1", "1", "1"]
    assert "outside the file" in lines[2] and "cannot be opened" in lines[3] and "cannot be opened" in lines[4]


def test_the_example_of_the_documentation(programs: Programs, tmp_path: Path, written: Path) -> None:
    text = (ROOT / "docs" / "c_loader.md").read_text()
    (tmp_path / "predict.c").write_text(re.findall(r"```c\n(.*?)```", text, re.DOTALL)[0])
    compiled((f"-I{written}", tmp_path / "predict.c", programs.object, "-lpthread", "-o", tmp_path / "predict"))
    w = jg.asarray(normal(784, 10))

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def predict(x: jg.Tensor) -> jg.Tensor:
        return jg.softmax(x @ w)

    jg.save(predict, tmp_path / "model.jg", example_inputs=(jg.zeros((4, 784)),))
    done = subprocess.run(["./predict"], cwd=tmp_path, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout == "0.100000\n" * 7
