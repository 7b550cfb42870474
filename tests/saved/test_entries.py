"""Several functions in one file over one state, and arguments with a structure: containers, strings, numbers, None."""

from __future__ import annotations

import collections
import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader
from jitgraph.runtime.loader.structures import is_same
from jitgraph.saved.reading import reserved_names
from tests.graphs import needs_native

pytestmark = needs_native
Point = collections.namedtuple("Point", "x y")


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def bits(value: Any) -> bytes:
    return np.asarray(value.detach().numpy() if isinstance(value, jg.Tensor) else value).tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.jg"


def both(path: Path) -> tuple[Any, Any]:
    """What reads a file in Python."""
    return jg.load(path), loader.load(path)


class Counted(jg.nn.Module):
    """A linear layer that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = jg.nn.Linear(4, 3)
        self.register_buffer("calls", jg.asarray(0))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.layer(x)


# --- entries ----------------------------------------------------------------------------------------------------------


def test_entries_share_a_state_that_is_stored_once(path: Path) -> None:
    model = Counted()

    @jg.trace(dynamic_shapes={"rows": {0: "n"}})
    def scores(rows: Any) -> Any:
        return jg.softmax(rows @ model.layer.weight.T, axis=-1)

    def reset(scale: float = 1.0) -> Any:
        with jg.no_grad():
            model.layer.weight *= scale
        model.calls *= 0
        return model.calls

    jg.save(
        {"forward": model, "scores": scores, "reset": reset},
        path,
        state={"net": model},
        example_inputs={"forward": (normal(2, 4),), "scores": (normal(5, 4),), "reset": ()},
    )
    for loaded in both(path):
        assert sorted(loaded.state) == ["net.calls", "net.layer.bias", "net.layer.weight"]
        x = normal(2, 4, seed=1)
        first = bits(loaded(x))
        assert first == bits(loaded.forward(x)) == bits(model.layer(x))
        assert int(loaded.state["net.calls"]) == 2
        for rows in (normal(1, 4), normal(7, 4)):
            np.testing.assert_array_equal(loaded.scores(rows).shape, (len(rows), 3))
            assert bits(loaded.scores(rows)) == bits(scores(rows))
        assert int(loaded.reset(2.0)) == 0
        assert int(loaded.state["net.calls"]) == 0
        doubled = jg.nn.Linear(4, 3)
        doubled.load_state_dict({"weight": model.layer.weight * 2, "bias": model.layer.bias})
        assert bits(loaded(x)) == bits(doubled(x))
        with pytest.raises(AttributeError, match=r"there is no entry 'decode'; .* has forward, scores, reset"):
            _ = loaded.decode
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert names.count("weights.safetensors") == 1 and {"graph.jgir", "graph.scores.jgir"} <= set(names)
    assert path.stat().st_size < 500_000


def test_a_tensor_has_one_key_by_whichever_path_an_entry_reaches_it(path: Path) -> None:
    model, other = Counted(), jg.nn.Linear(4, 4)
    alias = model.layer.weight
    functions = {
        "a": lambda x: x @ model.layer.weight.T,
        "b": lambda x: other(x) @ alias.T,
    }
    examples = {"a": (normal(2, 4),), "b": (normal(2, 4),)}
    jg.save(functions, path, example_inputs=examples)
    loaded = jg.load(path)
    assert sorted(loaded.state) == ["model.layer.weight", "other.bias", "other.weight"]
    assert loaded is not loaded.b and loaded.name == "a" and list(loaded.entries) == ["a", "b"]
    assert loaded.b.state is loaded.state
    for name, function in functions.items():
        for each in both(path):
            assert bits(getattr(each, name)(normal(2, 4))) == bits(jg.trace(function)(normal(2, 4)))


def test_state_that_no_entry_uses_is_in_the_file(path: Path) -> None:
    model = Counted()
    jg.save(lambda x: x @ model.layer.weight.T, path, state=model, example_inputs=(normal(2, 4),))
    for loaded in both(path):
        assert bits(loaded.state["layer.bias"]) == bits(model.layer.bias)
    jg.save(jg.load(path), path)
    assert "calls" in loader.load(path).state


NAMES = {
    "no identifier": ("2nd", "cannot name an entry, which is called as"),
    "a hyphen": ("a-b", "cannot name an entry"),
    "a word of Python": ("class", "cannot name an entry"),
    "not ASCII": ("größe", "cannot name an entry"),
    "no text": (3, "3 cannot name an entry"),
    "an attribute": ("state", "models have an attribute of that name"),
    "a method of the loader": ("save_state", "models have an attribute"),
    "a hidden name": ("_run", "models have an attribute"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_name_that_cannot_be_called_is_refused(case: str, path: Path) -> None:
    name, message = NAMES[case]
    model = Counted()
    with pytest.raises(jg.JitgraphError, match=message):
        jg.save({name: model, "forward": model}, path, example_inputs={name: (normal(2, 4),), "forward": ()})
    assert not path.exists()


def test_every_attribute_of_models_is_a_reserved_name(path: Path) -> None:
    jg.save({"a": Counted()}, path, example_inputs={"a": (normal(2, 4),)})
    for model in both(path):
        assert {name for name in dir(model) if not name.startswith("_")} <= reserved_names()


def test_entries_that_share_nothing_are_refused(path: Path) -> None:
    model, copy = Counted(), Counted()
    examples = {"a": (normal(2, 4),), "b": (normal(2, 4),)}
    for state, message in ((None, "'a' uses no state of the other"), (model, "'b' uses nothing of the state")):
        with pytest.raises(jg.JitgraphError, match=message):
            jg.save({"a": model, "b": copy}, path, state=state, example_inputs=examples)
    with pytest.raises(jg.JitgraphError, match="has no tensors"):
        jg.save(model, path, state={}, example_inputs=(normal(2, 4),))
    with pytest.raises(
        jg.JitgraphError, match="the state has a builtin_function_or_method under 'f', which holds no tensors"
    ):
        jg.save(model, path, state={"m": model, "f": len}, example_inputs=(normal(2, 4),))
    with pytest.raises(jg.JitgraphError, match="each of several functions has example inputs of its own"):
        jg.save({"a": model, "b": model}, path, example_inputs=(normal(2, 4),))
    with pytest.raises(jg.JitgraphError, match="example_inputs has none for 'b'"):
        jg.save({"a": model, "b": model}, path, example_inputs={"a": (normal(2, 4),)})
    with pytest.raises(jg.JitgraphError, match="there is no function 'c'"):
        jg.save({"a": model}, path, example_inputs={"a": (normal(2, 4),), "c": ()})


def test_an_entry_that_changes_the_shape_or_dtype_of_state_is_refused(path: Path) -> None:
    import jitgraph.torch as torch

    seen = torch.tensor([1, 2])

    def keep(x: Any) -> Any:
        seen.data = x * 2
        return x

    functions = {"last": lambda x: x.sum() + seen.sum(), "keep": keep}
    for x in (torch.ones(5), torch.tensor([1, 2, 3])):
        with pytest.raises(
            jg.JitgraphError, match=r"keep cannot be saved: it changes the state 'seen' from i64\[2\] to"
        ):
            jg.save(functions, path, state={"seen": seen}, example_inputs={"last": (x,), "keep": (x,)})
    assert not path.exists()


def test_a_graph_is_as_large_as_it_was_however_often_it_is_saved(path: Path) -> None:
    model = Counted()
    examples = {"forward": (normal(2, 4),), "twice": (normal(2, 4),)}
    functions = {"forward": model, "twice": lambda x: model(model(x) @ jg.ones((3, 4)))}
    jg.save(functions, path, state=model, example_inputs=examples)
    first = [len(each.graph.nodes) for each in jg.load(path).entries.values()]
    for _ in range(3):
        jg.save(dict(jg.load(path).entries), path, example_inputs=examples)
    again = jg.load(path)
    assert [len(each.graph.nodes) for each in again.entries.values()] == first
    assert not any("call(" in str(each.graph) for each in again.entries.values())
    jg.save(again, path)  # as it is, all entries
    before = path.read_bytes()
    jg.save(jg.load(path), path)
    assert path.read_bytes() == before and loader.load(path).entries == ("forward", "twice")


# --- arguments with a structure ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


def structured(batch: Any, pair: Any, point: Any, *rest: Any, mode: str = "sum", depth: int = 2, **more: Any) -> Any:
    total = batch["image"] * pair.left + point.x * point.y[0]
    for each in rest:
        total = total + each
    for _ in range(depth):
        total = total * more["factor"]
    if batch["mask"] is not None:
        total = jg.where(batch["mask"], total, 0.0)
    return {"sum": total.sum(), "mean": total.mean()}[mode]


def test_containers_of_every_kind_go_in(path: Path) -> None:
    batch = {"image": normal(3, 2), "mask": np.array([[True, False]] * 3), "flags": [True, (None, "left")]}
    point = Point(normal(2, seed=2), [normal(seed=3)])
    args = (batch, Pair(normal(2, seed=1), 0.5), point, normal(2, seed=4), normal(seed=5))

    def f(batch: Any, pair: Any, point: Any, *rest: Any) -> Any:
        return structured(batch, pair, point, *rest, factor=1.5)

    jg.save(f, path, example_inputs=args)
    expected = bits(jg.trace(f)(*args))
    flat = [batch["image"], batch["mask"], args[1].left, args[1].right, point.x, *point.y, *args[3:]]
    in_jitgraph, in_loader = both(path)
    for loaded in (in_jitgraph, in_loader):
        assert bits(loaded(*args)) == expected
        assert bits(loaded(batch, {"left": args[1].left, "right": 0.5}, tuple(point), *args[3:])) == expected
        names = [spec.name for spec in loaded.inputs]
        assert names[:4] == ["batch.image", "batch.mask", "pair.left", "pair.right"]
        assert names[4:] == ["point.x", "point.y.0", "rest_0", "rest_1"]
    assert bits(in_jitgraph.run_flat(*flat)) == bits(in_loader.run_flat("forward", *flat)) == expected
    for run, given in ((in_jitgraph.run_flat, flat[1:]), (in_loader.run_flat, ["forward", *flat, 1])):
        with pytest.raises(jg.ArgumentError, match="takes 8 inputs, got"):
            run(*given)


WRONG = {
    "another key": (lambda b: ({**b, "more": 1},), "is a dict with the keys 'x', 'mode', 'pair', 'none' in the file"),
    "no dict": (lambda b: ([1, 2],), "batch is a dict with the keys .* in the file, got a list of 2"),
    "a missing key": (lambda b: ({"x": b["x"]},), "got a dict with the keys 'x'"),
    "an unknown string": (lambda b: ({**b, "mode": "median"},), r"batch\['mode'\] is 'max' in the file, got 'median'"),
    "no string": (lambda b: ({**b, "mode": None},), r"batch\['mode'\] is 'max' in the file, got None"),
    "a bool for an int": (
        lambda b: ({**b, "pair": (b["x"], True)},),
        r"batch\['pair'\]\[1\] is 1 in the file, got True",
    ),
    "a float for an int": (lambda b: ({**b, "pair": (b["x"], 1.0)},), r"is 1 in the file, got 1.0"),
    "a longer tuple": (lambda b: ({**b, "pair": (b["x"], 1, 2)},), "is a tuple of 2 in the file, got a tuple of 3"),
    "something for None": (
        lambda b: ({**b, "none": b["x"]},),
        r"batch\['none'\] is None in the file, got a (ndarray|Tensor)",
    ),
    "None for a tensor": (lambda b: ({**b, "x": None},), r"batch\['x'\] is a tensor in the file, got None"),
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_of_another_structure_or_value_are_refused(case: str, path_of_structured: Path) -> None:
    change, message = WRONG[case]
    for f in both(path_of_structured):
        assert float(f(batch())) == 3.0
        with pytest.raises(jg.ArgumentError, match=message):
            f(*change(batch()))


def batch() -> dict[str, Any]:
    x = np.arange(4, dtype=np.float32)
    return {"x": x, "mode": "max", "pair": (x, 1), "none": None}


@pytest.fixture(scope="module")
def path_of_structured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = tmp_path_factory.mktemp("structured") / "m.jg"
    jg.save(lambda batch: getattr(batch["x"], batch["mode"])() * batch["pair"][1], result, example_inputs=(batch(),))
    return result


def test_values_choose_a_specialisation(path: Path) -> None:
    def f(x: Any, mode: str = "sum", scale: Any = None, *, flag: bool = False) -> Any:
        y = x.sum() if mode == "sum" else x.max()
        y = y if scale is None else y * scale
        return -y if flag else y

    x, scale = normal(4), jg.asarray(2.0)
    examples = [(x,), (x, "max"), (x, "max", scale)]
    jg.save(f, path, example_inputs=examples)
    for each in both(path):
        for args in examples:
            assert bits(each(*args)) == bits(jg.trace(f)(*args))
        assert bits(each(x, mode="max")) == bits(jg.trace(f)(x, "max"))
        for args in ((x, "min"), (x, "sum", scale), (x, b"max"), (x, True)):
            with pytest.raises(jg.ArgumentError, match="no specialisation fits: forward: "):
                each(*args)
        with pytest.raises(jg.ArgumentError, match="flag is False in the file, got True"):
            each(x, flag=True)
    assert loader.load(path).entries == ("forward",)
    with pytest.raises(jg.JitgraphError, match="two examples of 'forward' differ in no string, number, None or key"):
        jg.save(f, path, example_inputs=[(x, "max"), (normal(9), "max")])


def test_values_are_the_same_by_type_too() -> None:
    same = [(1, 1), ("a", "a"), (0.5, 0.5), (True, True), (-0.0, -0.0)]
    other = [(1, True), (1, 1.0), (0.0, -0.0), ("1", 1), (np.int64(1), 1), (float("nan"), 0.5)]
    assert all(is_same(a, b) for a, b in same) and not any(is_same(a, b) for a, b in other)


def test_an_argument_that_had_a_default_or_the_only_value_may_be_left_out(path: Path) -> None:
    jg.save(lambda x, n, mode="a": x * n if mode == "a" else x, path, example_inputs=(normal(2), 3))
    for f in both(path):
        assert bits(f(normal(2))) == bits(f(normal(2), 3, "a")) == bits(f(normal(2), n=3)) == bits(normal(2) * 3)


def test_what_may_be_left_out_comes_last(path: Path) -> None:
    def f(mode: str, x: Any, *, flip: bool = False, y: Any, rate: float = 0.5) -> Any:
        return (x * rate + y) if mode == "a" and not flip else x

    x, y = normal(2), normal(2, seed=1)
    jg.save(lambda mode, x, flip, y: f(mode, x, flip=flip, y=y), path, example_inputs=("a", x, False, y))
    for each in both(path):
        assert (
            bits(each("a", x, False, y)) == bits(each(mode="a", x=x, flip=False, y=y)) == bits(x * np.float32(0.5) + y)
        )
        with pytest.raises((TypeError, jg.ArgumentError), match="missing"):
            each(x=x, y=y)
        with pytest.raises(jg.ArgumentError, match="mode is 'a' in the file, got 'b'"):
            each("b", x, False, y)
    jg.save(lambda a, x: (a * 2, x * a), path, example_inputs=(2.0, np.ones(2)))  # a number of the result pins a
    for each in both(path):
        assert each(2.0, np.ones(2))[0] == 4.0
        with pytest.raises(jg.ArgumentError, match=r"a is 2.0 in the file, got 5.0"):
            each(5.0, np.ones(2))


def test_what_a_file_cannot_compare_is_refused(path: Path) -> None:
    for value, message in ((float("inf"), "which a file cannot compare"), (jg.relu, "which a file cannot compare")):
        with pytest.raises(jg.JitgraphError, match=message):
            jg.save(
                jg.trace(lambda x, d: x, static_argnames=("d",)) if isinstance(value, float) else lambda x, d: x,
                path,
                example_inputs=(normal(2), value if isinstance(value, float) else {"f": value}),
            )
    with pytest.raises(jg.JitgraphError, match="is a dict with the key 3, and in a file keys are names"):
        jg.save(lambda d: d[3], path, example_inputs=({3: normal(2)},))


def test_sizes_with_names_in_containers(path: Path) -> None:
    spec = jg.TensorSpec(("n", 2), jg.float32)
    jg.save(lambda d: d["x"][0] + d["x"][1], path, example_inputs=({"x": [spec, spec]},))
    for f in both(path):
        for n in (1, 5):
            assert bits(f({"x": [normal(n, 2), normal(n, 2)]})) == bits(normal(n, 2) * 2)
        with pytest.raises(jg.JitgraphError, match="5"):
            f({"x": [normal(5, 2), normal(4, 2)]})


def test_gradients_flow_into_containers_of_a_loaded_function(path: Path) -> None:
    jg.save(lambda d: (d["w"] * d["x"][0]).sum(), path, example_inputs=({"w": normal(3), "x": [normal(3)]},))
    gradient = jg.grad(jg.load(path))({"w": jg.asarray(normal(3)), "x": [jg.asarray(normal(3, seed=1))]})
    assert bits(gradient["w"]) == bits(normal(3, seed=1))


HOSTILE: dict[str, Any] = {
    "an input twice": [{"name": "d", "structure": {"list": [0, 0]}}],
    "no structure": [{"name": "d"}],
    "too few inputs": [{"name": "d", "structure": 0}],
    "too many": [{"name": "d", "structure": {"list": [0, 1, 2]}}],
    "a strange kind": [{"name": "d", "structure": {"set": [0, 1]}}],
    "two kinds": [{"name": "d", "structure": {"list": [0], "tuple": [1]}}],
    "fields of a list": [{"name": "d", "structure": {"list": [0, 1], "fields": ["a", "b"]}}],
    "too few fields": [{"name": "d", "structure": {"tuple": [0, 1], "fields": ["a"]}}],
    "a field that is no text": [{"name": "d", "structure": {"tuple": [0, 1], "fields": ["a", 1]}}],
    "a list as a value": [{"name": "d", "structure": {"list": [0, 1, {"value": [1]}]}}],
    "None as a value": [{"name": "d", "structure": {"list": [0, 1, {"value": None}]}}],
    "optional with inputs": [{"name": "d", "structure": {"list": [0, 1]}, "optional": True}],
    "optional no bool": [{"name": "d", "structure": {"list": [0, 1]}, "optional": 1}],
    "one name twice": [{"name": "d", "structure": 0}, {"name": "d", "structure": 1}],
    "too deep": [{"name": "d", "structure": json.loads('{"list":[' * 80 + "0,1" + "]}" * 80)}],
    "a bool as an input": [{"name": "d", "structure": {"list": [False, True]}}],
    "no list": {"d": 0},
}


@pytest.fixture(scope="module")
def plain_entry(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    result = tmp_path_factory.mktemp("hostile") / "m.jg"
    jg.save(lambda d: d["a"] + d["b"], result, example_inputs=({"a": normal(2), "b": normal(2)},))
    return result, rewritten


def rewritten(source: Path, target: Path, change: Any) -> None:
    """A copy of a file with another manifest."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("case", HOSTILE)
def test_malformed_arguments_are_refused_by_all(case: str, plain_entry: Any, path: Path, c_reader: Any) -> None:
    source, rewrite = plain_entry
    rewrite(source, path, lambda m: m["entries"]["forward"]["signature"].__setitem__("arguments", HOSTILE[case]))
    for read in (jg.load, loader.load):
        with pytest.raises(jg.LoadError):
            read(path)
    if c_reader is not None:
        with pytest.raises(c_reader.error, match=r"argument|structure|input|array|integer|fields|lacks|names"):
            c_reader.load(path)


@pytest.mark.parametrize("of", ["nothing", "forward", 3])
def test_a_specialisation_of_no_entry_is_refused(of: Any, plain_entry: Any, path: Path, c_reader: Any) -> None:
    source, rewrite = plain_entry
    rewrite(source, path, lambda m: m["entries"]["forward"].__setitem__("of", of))
    for read in (jg.load, loader.load):
        with pytest.raises(jg.LoadError, match=r"specialisation|'of' is 3"):
            read(path)
    if c_reader is not None:
        with pytest.raises(c_reader.error, match=r"specialisation|'of' is"):
            c_reader.load(path)


class CReader:
    def __init__(self, folder: Path) -> None:
        from tests.runtime.c_library import CError, Library

        self.error, self._library = CError, Library(folder)

    def load(self, path: Path) -> Any:
        return self._library.load(path)


@pytest.fixture(scope="module")
def c_reader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import shutil

    return CReader(tmp_path_factory.mktemp("reader")) if shutil.which("gcc") else None


def test_only_files_with_structured_arguments_have_the_newer_version(path: Path) -> None:
    jg.save(lambda x: x + 1, path, example_inputs=(normal(2),))
    assert manifest_of(path)["version"] == 1
    jg.save(lambda x: x[0] + 1, path, example_inputs=([normal(2)],))
    assert manifest_of(path)["version"] == 2


def manifest_of(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json"))
