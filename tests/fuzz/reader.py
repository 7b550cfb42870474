"""A process that reads files: a line ``{"path", "sizes"}`` in, a line ``{"outcome", "detail", "called"}`` out.

``python reader.py load`` reads with ``jg.load``. ``python reader.py loader MODEL...`` reads with the standalone
``loader.py``, and calls files whose code and signature are those of one of the models.
"""

from __future__ import annotations

import json
import resource
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

import jitgraph as jg
import jitgraph.saved
from jitgraph import ir
from jitgraph.ir.sizes import bind_sizes
from jitgraph.runtime import loader

MOST_MEMORY: Final = 1 << 30
MOST_ELEMENTS: Final = 1 << 20


def contracts(path: str) -> list[Any]:
    """Of each entry its code, and what its signature says of the memory that the code touches."""
    artifact = loader.Artifact(path)
    found = []
    for name, signature in artifact.signatures().items():
        types = [(spec.dtype, spec.shape) for spec in (*signature.parameters, *signature.outputs)]
        order = (len(signature.inputs), len(signature.state), signature.dims, signature.writes)
        found.append((types, order, bytes(artifact.image(name, loader.cpu_levels())[1])))
    return found


def arguments(specs: Sequence[loader.TensorSpec], sizes: Mapping[str, int]) -> list[Any] | None:
    """Arrays for the inputs at these sizes, "" being that of every other name; None where they would be large."""
    found = []
    rng = np.random.default_rng(0)
    for spec in specs:
        shape = []
        for size in spec.shape:
            expression = loader.Expression(str(size))
            named = {name: sizes.get(name, sizes[""]) for name in expression.names}
            shape.append(max(0, expression.evaluate(named)))
        if np.prod(shape, dtype=np.float64) > MOST_ELEMENTS:
            return None
        found.append((rng.random(shape) * 4).astype(loader.dtype_named(spec.dtype)))
    return found


def interpreted(model: Any, given: Sequence[Any]) -> Sequence[Any] | None:
    """What the graph's interpreter makes of the arguments: code that reads past a buffer gives something else."""
    if not isinstance(model, jg.saved.SavedModel):
        return None
    try:
        return ir.interpret(model.graph, [*given, *(np.array(value.numpy()) for value in model.state.values())])
    except Exception:  # what nobody uses may fail there alone
        return None


def breaks_conditions(model: Any, given: Sequence[Any]) -> bool:
    """Whether the sizes of the arguments break what the graph assumes of them."""
    if not isinstance(model, jg.saved.SavedModel):
        return False
    types = [value.type for value in model.graph.inputs]
    shapes = [value.shape for value in (*given, *model.state.values())]
    try:
        bind_sizes(types, shapes, model.graph.constraints)
    except jg.ShapeError:
        return True
    return False


def agree(structure: Any, result: Any, expected: Sequence[Any]) -> bool:
    """Whether the tensors of a result are those of the interpreter, but for rounding."""
    if isinstance(structure, int):
        found, wanted = np.asarray(result.detach().numpy()), expected[structure]
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            return False
        if wanted.dtype.kind in "biu":
            return bool(np.array_equal(found, wanted))
        with np.errstate(all="ignore"):
            a, b = found.astype(np.float64), wanted.astype(np.float64)
            scale = 1e-3 * max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)))
            return bool(np.allclose(a, b, rtol=1e-2, atol=scale, equal_nan=True))
    if structure is None or "value" in structure:
        return True
    ((kind, inner),) = structure.items()
    pairs = ((inner[key], result[key]) for key in inner) if kind == "dict" else zip(inner, result, strict=True)
    return all(agree(part, each, expected) for part, each in pairs)


def called(model: Any, rounds: Sequence[Mapping[str, int]]) -> tuple[str, str]:
    """What came of calls at these sizes; the last word, and for what must not be its detail."""
    word = "loaded"
    for sizes in rounds:
        try:
            given = arguments(model.inputs, sizes)
        except loader.JitgraphError:
            continue  # a size that cannot be computed
        if given is None:
            word = "too large to call"
            continue
        try:
            expected = interpreted(model, given)
            result = model(*given)
            if breaks_conditions(model, given):
                return "FAILED at the call: it ran at sizes that the graph forbids", f"sizes {sizes}\n{model.graph}"
            if expected is not None and not agree(model.signature.structure, result, expected):
                return "FAILED at the call: another result than the interpreter's", f"sizes {sizes}\n{model.graph}"
        except jg.JitgraphError:
            word = "refused at the call"
        except MemoryError:
            word = "wants too much memory"
        except BaseException as error:
            return f"FAILED at the call: {type(error).__name__}", f"sizes {sizes}\n{traceback.format_exc()}"
        else:
            word = "ran"
    return word, ""


def outcome(read: Callable[[str], Any], task: Mapping[str, Any], models: Sequence[Any] | None) -> dict[str, Any]:
    """What the reader made of the file."""
    try:
        model = read(task["path"])
        may_call = models is None or all(contract in models for contract in contracts(task["path"]))
    except loader.LoadError:
        return {"outcome": "refused", "detail": "", "called": False}
    except BaseException as error:
        detail = traceback.format_exc()
        return {"outcome": f"FAILED at load: {type(error).__name__}", "detail": detail, "called": False}
    word, detail = called(model, task["sizes"]) if may_call else ("loaded", "")
    return {"outcome": word, "detail": detail, "called": may_call}


def limit_memory() -> None:
    """At most a gigabyte more than now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_MEMORY, now + MOST_MEMORY))


def main() -> None:
    warnings.simplefilter("error")
    read: Callable[[str], Any] = jg.load if sys.argv[1] == "load" else loader.load
    if sys.argv[1] == "load":  # what is brought in on first use is there before the limit
        jg.trace(lambda x: jg.exp(x) @ x)(jg.ones((4, 4)))
    models = [contract for path in sys.argv[2:] for contract in contracts(path)] or None
    limit_memory()
    print("ready", flush=True)
    for line in sys.stdin:
        answer = outcome(read, json.loads(line), models)
        print(json.dumps({**answer, "detail": answer["detail"][-4000:]}), flush=True)


if __name__ == "__main__":
    main()
