"""Unsound ONNX models, of hand and of chance, are refused with a LoadError or UnsupportedOp, and allocate little."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import jitgraph as jg

pytest.importorskip("onnx")
from onnx import helper

from tests.onnx.test_load import branches, classifier, info, model_of

COUNT = int(os.environ.get("HOSTILE_ONNX_MODELS", "60"))


def broken(change: Callable[[Any], Any]) -> Any:
    model = classifier()
    change(model)
    return model


def set_dims(model: Any) -> None:
    model.graph.initializer[0].dims[:] = [1 << 40, 1 << 40]


def recursive_functions() -> Any:
    function = helper.make_function(
        "own", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="own")], [helper.make_opsetid("own", 1)]
    )
    nodes = [helper.make_node("F", ["x"], ["y"], domain="own")]
    return model_of(nodes, [info("x", [1])], [info("y", [1])], functions=[function])


def doubling_functions() -> Any:
    """Functions each of which calls the one before twice: 2 to the 35 nodes."""
    functions = []
    for i in range(35):
        inner = "Identity" if i == 0 else f"F{i - 1}"
        domain = "" if i == 0 else "own"
        nodes = [
            helper.make_node(inner, ["a"], ["m"], domain=domain),
            helper.make_node(inner, ["m"], ["b"], domain=domain),
        ]
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], nodes, opsets))
    return model_of(
        [helper.make_node("F34", ["x"], ["y"], domain="own")], [info("x", [1])], [info("y", [1])], functions=functions
    )


def cyclic() -> Any:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Add", ["x", "a"], ["b"])]
    return model_of(nodes, [info("x", [1])], [info("b", [1])])


MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "no model": (lambda: b"\xff\xfe\x00nothing", "no ONNX model"),
    "no graph": (lambda: broken(lambda m: m.ClearField("graph")), "no graph"),
    "no operator set": (lambda: broken(lambda m: m.ClearField("opset_import")), "operator sets"),
    "a huge shape": (lambda: broken(set_dims), "has the shape"),
    "too little data": (
        lambda: broken(lambda m: setattr(m.graph.initializer[0], "raw_data", b"1234")),
        "cannot be read",
    ),
    "a dtype that is none": (lambda: broken(lambda m: setattr(m.graph.initializer[0], "data_type", 99)), "dtype"),
    "a name that is nowhere": (lambda: broken(lambda m: m.graph.node[0].input.__setitem__(0, "q")), "nowhere computed"),
    "a name twice": (lambda: broken(lambda m: m.graph.node[1].output.__setitem__(0, "shape")), "there is already"),
    "an output that is nowhere": (
        lambda: broken(lambda m: setattr(m.graph.output[0], "name", "q")),
        "does not compute",
    ),
    "an attribute that is none": (
        lambda: broken(lambda m: m.graph.node[1].attribute.append(helper.make_attribute("odd", 1))),
        "which the operator lacks",
    ),
    "an attribute of another kind": (
        lambda: broken(lambda m: m.graph.node[1].attribute[0].CopyFrom(helper.make_attribute("axis", "zero"))),
        "not of the kind INT",
    ),
    "too many operands": (lambda: broken(lambda m: m.graph.node[0].input.append("x")), "operands"),
    "a function that calls itself": (recursive_functions, "call each other"),
    "functions that double": (doubling_functions, "more than 100000 nodes"),
    "a cycle": (cyclic, "computed later"),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_unsound_model_is_refused(name: str) -> None:
    make, message = MODELS[name]
    with pytest.raises(jg.LoadError, match=message):
        jg.onnx.load(make())


def mutated(text: bytes, rng: random.Random) -> bytes:
    own = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        match rng.randrange(3):
            case 0:
                own[rng.randrange(len(own))] = rng.randrange(256)
            case 1:
                start = rng.randrange(len(own))
                del own[start : start + rng.randint(1, 8)]
            case _:
                start = rng.randrange(len(own))
                own[start:start] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
    return bytes(own)


def test_mutated_models_load_or_are_refused() -> None:
    rng = random.Random(COUNT)
    texts = [classifier().SerializeToString(), branches().SerializeToString()]
    outcomes = {"loaded": 0, "refused": 0}
    tracemalloc.start()
    for _ in range(COUNT):
        try:
            jg.onnx.load(mutated(rng.choice(texts), rng))
            outcomes["loaded"] += 1
        except (jg.LoadError, jg.UnsupportedOp):
            outcomes["refused"] += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 30
    assert outcomes["refused"] > COUNT // 4, outcomes
