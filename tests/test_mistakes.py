"""Mistakes of users, across the package: each is an error that says what is wrong and the way out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

PORTABLE = "x86-64-v3"


class Box:
    """A container that registers in the way of JAX, without names."""


jg.tree.register(Box, lambda box: ((1,), "tag"), lambda kind, steps, children, data: kind())  # type: ignore[arg-type,return-value]


def ones(*shape: int) -> Any:
    return jg.ones(shape)


def sgd() -> jg.optim.SGD:
    return jg.optim.SGD([jg.nn.Parameter(ones(2))], lr=0.1)


MISTAKES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: jg.stack([ones(2, 3), ones(3, 2)]), jg.ShapeError, r"stack takes .* one shape, not \(2, 3\), \(3, 2\)"),
    (lambda: jg.stack([ones(2), ones(2, 2)], axis=-1), jg.ShapeError, r"one shape, not \(2\), \(2, 2\)"),
    (lambda: jg.trace(lambda x: jg.stack([x, x[1:]]))(ones(3)), jg.ShapeError, r"one shape, not \(3\), \(2\)"),
    (lambda: jg.atan2(ones(2), "b"), jg.DTypeError, "a tensor, an array or a number, got str"),  # type: ignore[arg-type]
    (lambda: jg.matmul(None, ones(2)), jg.DTypeError, "a tensor, an array or a number, got NoneType"),  # type: ignore[arg-type]
    (lambda: jg.nn.functional.gelu(None), jg.DTypeError, "without `return` gives None"),  # type: ignore[arg-type]
    (lambda: jg.nn.functional.mse_loss(ones(2), None), jg.DTypeError, "got NoneType"),  # type: ignore[arg-type]
    (lambda: jg.nn.Linear(2, 3)(None), jg.DTypeError, "without `return` gives None"),
    (lambda: jg.nn.BatchNorm1d(3)(None), jg.DTypeError, "got NoneType"),
    (lambda: jg.nn.InstanceNorm2d(3)(None), jg.DTypeError, "got NoneType"),
    (lambda: jg.nn.functional.linear(ones(2), None), jg.DTypeError, "got NoneType"),  # type: ignore[arg-type]
    (lambda: jg.special.gammainc("a", ones(2)), jg.DTypeError, "got str"),  # type: ignore[arg-type]
    (lambda: jg.vjp(lambda x: 3, ones(2)), jg.JitgraphError, "vjp needs a function whose results are tensors, not int"),
    (lambda: jg.jvp(lambda x: (x, "a"), ones(2), ones(2)), jg.JitgraphError, "jvp needs .* not str"),
    (lambda: jg.grad(jg.sum, argnums="x")(ones(2)), jg.JitgraphError, "an int or a tuple of ints, not 'x'"),  # type: ignore[arg-type]
    (lambda: jg.grad(jg.sum, ones(2)), jg.JitgraphError, r"argnums is an int[\s\S]*jg.grad\(f\)\(x\)"),  # type: ignore[arg-type]
    (lambda: jg.value_and_grad(jg.sum, ones(2)), jg.JitgraphError, "argnums is an int"),  # type: ignore[arg-type]
    (lambda: jg.jacobian(jg.exp, ones(2)), jg.JitgraphError, "argnums is an int"),  # type: ignore[arg-type]
    (lambda: jg.jacfwd(jg.exp, ones(2)), jg.JitgraphError, "argnums is an int"),  # type: ignore[arg-type]
    (lambda: jg.hessian(jg.sum, ones(2)), jg.JitgraphError, "argnums is an int"),  # type: ignore[arg-type]
    (lambda: jg.vmap(jg.exp, ones(2)), jg.JitgraphError, r"not the arguments[\s\S]*jg.vmap\(f\)\(x\)"),
    (lambda: jg.sum(ones(2)).backward(), jg.JitgraphError, r"depends on nothing[\s\S]*requires_grad_\(\)"),
    (lambda: jg.optim.Adam([]), jg.JitgraphError, "jg.nn.ModuleList"),
    (lambda: jg.nn.Dropout(1.5), jg.JitgraphError, "p=1.5 is not a probability"),
    (lambda: jg.random.bernoulli(-0.1, (2,)), jg.JitgraphError, "p=-0.1 is not a probability"),
    (lambda: jg.random.bernoulli(float("nan"), (2,)), jg.JitgraphError, "p=nan is not a probability"),
    (lambda: jg.TensorSpec((2, "3n")), jg.ArgumentError, "'3n' in a TensorSpec is neither a size nor a name"),
    (lambda: jg.trace(jg.sum)(jg.TensorSpec((2,))), jg.TraceError, r"called with a TensorSpec[\s\S]*f\.lower\(spec\)"),
    (lambda: jg.TensorSpec(2), jg.ArgumentError, "the shape of a TensorSpec is a tuple, not 2"),  # type: ignore[arg-type]
    (lambda: jg.TensorSpec((2,), "f99"), jg.DTypeError, "'f99' is not a dtype"),
    (lambda: jg.pad(ones(2), ((1,),)), jg.ShapeError, r"\(before, after\) for each axis, not \(\(1,\),\)"),  # type: ignore[arg-type]
    (lambda: sgd().load_state_dict({"0.weight": 1}), jg.JitgraphError, r"no 'state'[\s\S]*not a model's"),
    (lambda: jg.optim.lr_scheduler.StepLR(3, 1), jg.JitgraphError, "takes an optimiser first, not a int"),  # type: ignore[arg-type]
    (lambda: jg.optim.Adam([ones(2)], betas=(1.0, 0.9)), jg.JitgraphError, "beta1 is 1.0; it must lie between"),
    (lambda: jg.optim.Adam([{"params": [ones(2)], "betas": (0.9, -1)}]), jg.JitgraphError, "beta2 is -1.0"),
    (lambda: jg.optim.RMSprop([ones(2)], eps=-1e-8), jg.JitgraphError, "eps is -1e-08; it must not be negative"),
    (lambda: jg.optim.SGD([ones(2)], weight_decay=-1.0), jg.JitgraphError, "weight_decay is -1.0"),
    (lambda: jg.trace(len, threads="2"), jg.TraceError, "threads='2'; a number of at least one"),  # type: ignore[arg-type]
    (lambda: jg.optim.SGD(iter([]), lr=0.1), jg.JitgraphError, r"call model\.parameters\(\) again"),
    (lambda: jg.tree.flatten(Box()), jg.JitgraphError, r"take_apart of Box gave[\s\S]*\(steps, children, data\)"),
    (lambda: jg.debug.print("{} {}", ones(2)), TypeError, "argument 1; given are 1 by position, and by name none"),
    (lambda: jg.debug.print("{a}", b=1), TypeError, "argument 'a'; given are 0 by position, and by name b"),
    (
        lambda: jg.trace(lambda x: jg.debug.print("{} {}", x) or x)(ones(2)),  # type: ignore[func-returns-value]
        TypeError,
        "mentions the argument 1",
    ),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_is_named(number: int) -> None:
    call, error, message = MISTAKES[number]
    with pytest.raises(error, match=message):
        call()


def test_a_save_names_the_folder_that_is_missing(tmp_path: Path) -> None:
    f = jg.trace(lambda x: x + 1)
    with pytest.raises(FileNotFoundError, match="no such folder to save in") as caught:
        jg.save(f, tmp_path / "absent" / "f.jg", example_inputs=(ones(2),))
    assert caught.value.filename == str(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="a folder stands where the file is to be"):
        jg.save(f, tmp_path, example_inputs=(ones(2),))


def test_a_loaded_function_takes_no_lists_and_no_bytes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "f.jg"
    jg.save(
        jg.trace(lambda x: x + 1, dynamic_shapes={"x": {0: "n"}}), path, example_inputs=(ones(2),), targets=PORTABLE
    )
    assert jg.runtime.loader.load(path).target == PORTABLE
    f = jg.load(path)
    for inputs, kind in (([1.0, 2.0], "list"), ((ones(2),), "tuple"), ("abc", "str")):
        with pytest.raises(
            jg.ArgumentError, match=rf"takes x: float32\[n\], not a {kind}\n  hint: jg\.asarray\(data\)"
        ):
            f(inputs)
    assert np.array_equal(f(x=np.ones(3, np.float32)), [2, 2, 2])
    for load in (jg.load, jg.runtime.loader.load):
        with pytest.raises(TypeError, match="the path of a file, not what is in it"):
            load(path.read_bytes())


def test_a_misspelt_flag_is_warned_of() -> None:
    def warnings_with(**flags: str) -> str:
        command = [sys.executable, "-c", "import jitgraph; jitgraph.zeros(2)"]
        return subprocess.run(command, capture_output=True, text=True, env=flags, check=True).stderr

    assert "UserWarning: JITGRAPH_VERIFI is no flag of jitgraph" in (said := warnings_with(JITGRAPH_VERIFI="1"))
    assert "hint: write JITGRAPH_VERIFY" in said
    assert "flags: JITGRAPH_LOG, " in warnings_with(JITGRAPH_WHAT="1")
    assert warnings_with(JITGRAPH_VERIFY="1", JITGRAPH_LOG="graph") == ""


def test_no_private_name_is_proposed_beside_a_hint() -> None:
    program = "import jitgraph as jg\njg.ones(2).numel()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.stderr.endswith("a Tensor has no attribute 'numel'\n  hint: write x.size\n")
