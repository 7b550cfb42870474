"""A process that reads files: a line ``{"path", "sizes"}`` in, a line ``{"outcome", "detail", "called"}`` out.

``python -I reader.py FOLDER DRIVER MODEL...`` reads with the standalone ``loader.py`` in FOLDER, where nothing of
jitgraph is, for the CPU and for the GPU of a library in the place of CUDA's driver, and calls files whose code and
signature are those of one of the models. ``graph_reader.py`` reads with ``jg.load``.
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

MOST_MEMORY: Final = 1 << 30
MOST_ELEMENTS: Final = 1 << 20

Compared = Callable[[Any, Sequence[Any], Callable[[], Any]], str]
"""Calls a model with arguments; what is wrong with the result, or nothing."""


def contracts(loader: Any, path: str) -> list[Any]:
    """Of each entry its code, and what its signature says of the memory that the code touches."""
    artifact = loader.Artifact(path)
    results = []
    for name, signature in artifact.signatures().items():
        types = [(spec.dtype, spec.shape) for spec in (*signature.parameters, *signature.outputs)]
        order = (len(signature.inputs), len(signature.state), signature.dims, signature.writes)
        codes = artifact.device_codes(name, signature, artifact.weights())
        there = [(code.to_json(), bytes(artifact.read(code.host))) for code in codes]
        results.append((types, order, bytes(artifact.image(name, loader.cpu_levels())[1]), there))
    return results


def arguments(loader: Any, specs: Sequence[Any], sizes: Mapping[str, int]) -> list[Any] | None:
    """Arrays for the inputs at these sizes, "" being that of every other name; None where they would be large."""
    results = []
    rng = np.random.default_rng(0)
    for spec in specs:
        shape = []
        for size in spec.shape:
            expression = loader.Expression(str(size))
            named = {name: sizes.get(name, sizes[""]) for name in expression.names}
            shape.append(max(0, expression.evaluate(named)))
        if np.prod(shape, dtype=np.float64) > MOST_ELEMENTS:
            return None
        results.append((rng.random(shape) * 4).astype(loader.dtype_named(spec.dtype)))
    return results


def called(loader: Any, model: Any, rounds: Sequence[Mapping[str, int]], compared: Compared) -> tuple[str, str]:
    """What came of calls at these sizes; the last word, and for what must not be its detail."""
    word = "loaded"
    for sizes in rounds:
        try:
            inputs = arguments(loader, model.inputs, sizes)
        except loader.JitgraphError:
            continue  # a size that cannot be computed
        if inputs is None:
            word = "too large to call"
            continue
        try:
            if wrong := compared(model, inputs, lambda inputs=inputs: model(*inputs)):  # type: ignore[misc]
                return f"FAILED at the call: {wrong}", f"sizes {sizes}\n{model.graph}"
        except loader.JitgraphError:
            word = "refused at the call"
        except MemoryError:
            word = "wants too much memory"
        except BaseException as error:
            return f"FAILED at the call: {type(error).__name__}", f"sizes {sizes}\n{traceback.format_exc()}"
        else:
            word = "ran"
    return word, ""


def outcome(
    loader: Any,
    read: Callable[..., Any],
    compared: Compared,
    task: Mapping[str, Any],
    models: Sequence[Any] | None,
    **options: Any,
) -> dict[str, Any]:
    """What the reader made of the file; None for models lets any be called."""
    try:
        model = read(task["path"], **options)
        may_call = models is None or all(contract in models for contract in contracts(loader, task["path"]))
    except loader.LoadError:
        return {"outcome": "refused", "detail": "", "called": False}
    except BaseException as error:
        detail = traceback.format_exc()
        return {"outcome": f"FAILED at load: {type(error).__name__}", "detail": detail, "called": False}
    word, detail = called(loader, model, task["sizes"], compared) if may_call else ("loaded", "")
    return {"outcome": word, "detail": detail, "called": may_call}


def limit_memory() -> None:
    """At most a gigabyte more than now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_MEMORY, now + MOST_MEMORY))


def serve(
    loader: Any, read: Callable[..., Any], compared: Compared, models: Sequence[Any] | None, devices: Sequence[str] = ()
) -> None:
    """Answer line by line. Files are read for these devices as well, of which only failures are told."""
    limit_memory()
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        answer = outcome(loader, read, compared, task, models)
        for device in devices:
            there = outcome(loader, read, compared, task, models, device=device)
            if there["outcome"].startswith("FAILED"):
                answer = {**there, "outcome": f"{there['outcome']} on {device}"}
        print(json.dumps({**answer, "detail": answer["detail"][-4000:]}), flush=True)


def only_called(model: Any, argument: Sequence[Any], run: Callable[[], Any]) -> str:
    """The result alone cannot be told from a right one."""
    run()
    return ""


def main() -> None:
    warnings.simplefilter("error")
    folder, driver, *paths = sys.argv[1:]
    sys.path.insert(0, folder)
    import loader

    assert "jitgraph" not in sys.modules
    loader.CUDA_LIBRARY = driver
    known = [each for path in paths for each in contracts(loader, path)]
    serve(loader, loader.load, only_called, known, ["cuda"])


if __name__ == "__main__":
    main()
