"""Sizes that a model names stay free where they can: shapes, slices, pads and resizes are computed of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

pytest.importorskip("onnx")
from onnx import TensorProto, helper

from tests.onnx.test_load import info, model_of

RNG = np.random.default_rng(3)
node = helper.make_node


def image(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def equal_by_one_trace(model: Any, calls: list[tuple[Any, ...]]) -> None:
    """Compiled calls equal those node by node, and one trace serves them all."""
    module = jg.onnx.load(model)
    for args in calls:
        np.testing.assert_allclose(module(*args).detach().numpy(), module.forward(*args).detach().numpy(), 1e-5, 1e-6)
    assert module.traced.cache_info().misses == 1


def test_a_condition_on_a_rank_is_decided_when_a_model_is_compiled() -> None:
    """NumPy gives scalars for arrays of rank 0: they are host values as well."""
    shape = helper.make_graph([node("Identity", ["x"], ["same"])], "same", [], [info("same", None)])
    row = helper.make_graph([node("Unsqueeze", ["x", "zero"], ["row"])], "row", [], [info("row", None)])
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Size", ["sizes"], ["rank"]),
        node("Equal", ["rank", "two"], ["is_matrix"]),
        node("Not", ["is_matrix"], ["is_other"]),
        node("Cast", ["is_other"], ["condition"], to=TensorProto.BOOL),
        node("If", ["condition"], ["y"], then_branch=row, else_branch=shape),
    ]
    module = jg.onnx.load(
        model_of(nodes, [info("x", None)], [info("y", None)], zero=np.array([0]), two=np.array(2, np.int64))
    )
    assert module(image(3, 4)).shape == (3, 4)
    assert module(image(5)).shape == (1, 5)


def test_a_condition_on_a_named_size_is_decided_for_the_sizes_of_a_call() -> None:
    """Silero's models drop an axis where its size, of a chain of convolutions, is 1."""
    dropped = helper.make_graph([node("Squeeze", ["part", "one"], ["a"])], "dropped", [], [info("a", None)])
    whole = helper.make_graph([node("Identity", ["part"], ["b"])], "whole", [], [info("b", None)])
    nodes = [
        node("Slice", ["x", "zero", "large", "one", "two"], ["part"]),
        node("Shape", ["part"], ["sizes"]),
        node("Gather", ["sizes", "one"], ["n"]),
        node("Equal", ["n", "one"], ["condition"]),
        node("If", ["condition"], ["y"], then_branch=dropped, else_branch=whole),
    ]
    arrays = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "large": np.array([2**62])}
    module = jg.onnx.load(model_of(nodes, [info("x", ["batch", "n"])], [info("y", None)], **arrays))
    for rows, columns, shape in ((2, 2, (2,)), (3, 2, (3,)), (2, 6, (2, 3)), (2, 8, (2, 4))):
        assert module(image(rows, columns)).shape == shape


def test_a_comparison_with_a_number_holds_no_size(tmp_path: Path) -> None:
    """PyTorch's exporter writes Where(shape == -1, ones, shape) before Expand; files have the size free."""
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Equal", ["sizes", "minus"], ["is_same"]),
        node("Where", ["is_same", "ones", "sizes"], ["target"]),
        node("Expand", ["row", "target"], ["y"]),
    ]
    arrays = {"minus": np.array([-1, -1]), "ones": np.array([1, 1]), "row": image(1, 3)}
    model = model_of(nodes, [info("x", ["batch", 3])], [info("y", None)], **arrays)
    equal_by_one_trace(model, [(image(2, 3),), (image(5, 3),)])
    jg.save(jg.onnx.load(model), tmp_path / "model.jg", example_inputs=(image(2, 3),))
    assert jg.load(tmp_path / "model.jg")(image(7, 3)).shape == (7, 3)


@pytest.mark.parametrize("start", [-1, -2, 0, 3, -9, 2**62, -(2**62)])
def test_slices_backwards_along_a_named_size(start: int) -> None:
    for end, step in itertools.product((-(2**63), 0, -1, -3, 2, 2**62), (-1, -2)):
        arrays = {"s": np.array([start]), "e": np.array([end]), "a": np.array([0]), "t": np.array([step])}
        model = model_of(
            [node("Slice", ["x", "s", "e", "a", "t"], ["y"])], [info("x", ["n"])], [info("y", None)], **arrays
        )
        module = jg.onnx.load(model)
        for size in (7, 1):
            x = image(size)
            np.testing.assert_array_equal(module(x).numpy(), module.forward(x).numpy(), f"{start}:{end}:{step}")


MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")


@pytest.mark.parametrize("mode", MODES)
def test_resizes_of_named_sizes(mode: str) -> None:
    ways = [("nearest", "round_prefer_floor"), ("nearest", "ceil"), ("linear", "floor")]
    for (how, nearest), factor in itertools.product(ways, (2.0, 3.0)):
        options = {"mode": how, "coordinate_transformation_mode": mode, "nearest_mode": nearest}
        nodes = [node("Resize", ["x", "", "scales"], ["y"], **options)]
        arrays = {"scales": np.array([1, 1, factor, factor], np.float32)}
        model = model_of(nodes, [info("x", ["b", 2, "h", "w"])], [info("y", None)], **arrays)
        equal_by_one_trace(model, [(image(1, 2, 4, 5),), (image(2, 2, 3, 7),)])


def test_a_resize_to_the_size_of_another() -> None:
    nodes = [
        node("Shape", ["z"], ["sizes"]),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel"),
    ]
    inputs = [info("x", ["b", 2, "h", "w"]), info("z", ["b", 2, "height", "width"])]
    calls = [(image(1, 2, 4, 5), image(1, 2, 9, 6)), (image(2, 2, 3, 7), image(2, 2, 5, 21))]
    equal_by_one_trace(model_of(nodes, inputs, [info("y", None)]), calls)


def test_a_pad_up_to_a_length() -> None:
    """Speech models fill their input to a number of samples."""
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "one"], ["n"]),
        node("Sub", ["most", "n"], ["rest"]),
        node("Concat", ["zeros", "rest"], ["pads"], axis=0),
        node("Pad", ["x", "pads", "fill"], ["y"]),
    ]
    arrays = {"one": np.array([1]), "most": np.array([9]), "zeros": np.array([0, 0, 0]), "fill": np.float32(2)}
    model = model_of(nodes, [info("x", ["b", "n"])], [info("y", None)], **arrays)
    equal_by_one_trace(model, [(image(1, 4),), (image(2, 7),)])
    y = jg.onnx.load(model)(image(1, 4)).detach().numpy()
    assert y.shape == (1, 9) and (y[0, 4:] == 2).all()


def test_frames_of_a_signal_of_any_length() -> None:
    nodes = [node("STFT", ["x", "step", "window"], ["y"])]
    arrays = {"step": np.array(3), "window": np.hanning(8).astype(np.float32)}
    model = model_of(nodes, [info("x", ["b", "n", 1])], [info("y", None)], **arrays)
    equal_by_one_trace(model, [(image(1, 20, 1),), (image(2, 33, 1),)])


def test_a_shape_that_goes_through_choices_and_functions_makes_a_model_run_node_by_node() -> None:
    same = helper.make_graph([node("Identity", ["shape"], ["a"])], "same", [], [info("a", None)])
    twice = helper.make_graph([node("Concat", ["shape", "shape"], ["b"], axis=0)], "twice", [], [info("b", None)])
    function = helper.make_function(
        "own",
        "Reshaped",
        ["data", "to"],
        ["result"],
        [node("Reshape", ["data", "to"], ["result"])],
        [helper.make_opsetid("", 21)],
    )
    nodes = [
        node("Size", ["shape"], ["rank"]),
        node("Equal", ["rank", "two"], ["condition"]),
        node("If", ["condition"], ["target"], then_branch=same, else_branch=twice),
        node("Reshaped", ["x", "target"], ["y"], domain="own"),
    ]
    inputs = [info("x", None), info("shape", None, TensorProto.INT64)]
    module = jg.onnx.load(model_of(nodes, inputs, [info("y", None)], functions=[function], two=np.array(2)))
    assert module.traced is None
    assert module(image(6), np.array([2, 3])).shape == (2, 3)


def test_the_occurrences_of_n_grams_are_counted_in_compiled_calls() -> None:
    attributes = {
        "max_gram_length": 2,
        "max_skip_count": 1,
        "min_gram_length": 1,
        "mode": "TF",
        "ngram_counts": [0, 2],
        "ngram_indexes": [1, 0, 2, 3],
        "pool_int64s": [4, 7, 4, 7, 7, 7],
    }
    nodes = [node("TfIdfVectorizer", ["x"], ["y"], **attributes)]
    module = jg.onnx.load(model_of(nodes, [info("x", ["b", 5], TensorProto.INT64)], [info("y", None)]))
    x = np.array([[4, 7, 7, 4, 1], [1, 1, 7, 1, 7]])
    expected = [[2, 2, 2, 1], [2, 0, 0, 1]]
    assert module(x).tolist() == module.forward(x).tolist() == expected


def test_the_size_of_an_image_behind_many_strides_is_held() -> None:
    """Loops over quotients of quotients take a multiple of the time to compile and to run; the batch stays free."""
    nodes, last = [], "x"
    for i in range(5):
        nodes.append(node("MaxPool", [last], [f"y{i}"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
        last = f"y{i}"
    module = jg.onnx.load(model_of(nodes, [info("x", ["b", 1, "h", "w"])], [info(last, None)]))
    for batch, height, misses in ((1, 40, 1), (3, 40, 1), (2, 90, 2)):
        x = image(batch, 1, height, 40)
        np.testing.assert_array_equal(module(x).numpy(), module.forward(x).numpy())
        assert module.traced.cache_info().misses == misses
