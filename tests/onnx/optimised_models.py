"""Models as ONNX Runtime and its optimiser for transformers write them: they load, and equal the models before.

    python -m tests.onnx.optimised_models [--only PATTERN]

The models are those that PyTorch exports (``tests.onnx.torch_models``), as float32 and quantised, statically and
dynamically. ONNX Runtime saves each as it would run it. Exits with 1 where one does not load or differs by 1e-4.
Needs PyTorch, transformers and ONNX Runtime.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jitgraph as jg
from tests.onnx.shipped_models import distance_of
from tests.onnx.torch_models import NAMES, Exported, made

PLAIN = ("mlp", "cnn", "residual_network", "u_net", "lstm_tagger", "detector", "dynamic_tokens", "legacy_cnn")
TEXTS = {"hf_bert": "bert", "hf_gpt2": "gpt2", "hf_roberta": "bert", "hf_llama": "gpt2", "hf_vit": "vit"}
"""Models for ONNX Runtime's optimiser of transformers, and the kind that it is told."""
CLOSE = {"static": 5e-2, "operators": 5e-2}
"""Where activations are quantised a number halfway may be rounded to either side, else 1e-4."""


def variants(name: str, folder: Path) -> Iterator[tuple[str, Any, Callable[[], str]]]:
    """Ways to write a model: what each is, the model of PyTorch, and the path of the file."""
    exported = made(name)
    path = folder / f"{name}.onnx"
    path.write_bytes(exported.file)
    for level in ("extended", "all"):
        yield level, exported, lambda level=level: _saved_by_onnx_runtime(path, level)
    if name in TEXTS:
        yield "transformers", exported, lambda: _by_the_optimiser(path, TEXTS[name])
    for how in (_dynamic, _static, _operators):
        yield how.__name__.strip("_"), exported, lambda how=how: _saved_by_onnx_runtime(how(path, exported), "extended")


def _saved_by_onnx_runtime(path: Path, level: str) -> str:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = {
        "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
        "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    }[level]
    options.optimized_model_filepath = f"{path}.{level}"
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return options.optimized_model_filepath


def _by_the_optimiser(path: Path, kind: str) -> str:
    from onnxruntime.transformers import optimizer

    result = optimizer.optimize_model(str(path), kind, num_heads=2, hidden_size=16, opt_level=1)
    result.save_model_to_file(f"{path}.{kind}")
    return f"{path}.{kind}"


def _dynamic(path: Path, exported: Exported) -> Path:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(path), f"{path}.dynamic")
    return Path(f"{path}.dynamic")


class _Reader:
    """The arguments of a model once, as the quantisation reads them."""

    def __init__(self, path: Path, exported: Exported) -> None:
        self._rows = iter([dict(zip(_inputs(path), [a.detach().numpy() for a in exported.args], strict=True))])

    def get_next(self) -> Any:
        return next(self._rows, None)


def _static(path: Path, exported: Exported) -> Path:
    from onnxruntime.quantization import QuantFormat, quantize_static

    quantize_static(str(path), f"{path}.static", _Reader(path, exported), QuantFormat.QDQ)
    return Path(f"{path}.static")


def _operators(path: Path, exported: Exported) -> Path:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(str(path), f"{path}.operators", _Reader(path, exported), QuantFormat.QOperator, **kinds)
    return Path(f"{path}.operators")


def _inputs(path: Path | str) -> list[str]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return [each.name for each in onnxruntime.InferenceSession(str(path), options).get_inputs()]


def outcome(path: str, exported: Exported, close: float) -> str:
    """What comes of a file beside ONNX Runtime: the difference, or why it does not load; empty where all is well."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # threads quantise their rows alone
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    arrays = [arg.detach().numpy() for arg in exported.args]
    expected = session.run(None, dict(zip([each.name for each in session.get_inputs()], arrays, strict=True)))
    module = jg.onnx.load(path)
    with jg.no_grad():
        distances = [distance_of(run(*arrays), expected) for run in (module.forward, module)]
    return "" if max(distances) <= close else f"differs by {max(distances):.0e}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="a pattern of names")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    short = count = 0
    for name in [name for name in (*PLAIN, *TEXTS) if name in NAMES and re.search(args.only, name)]:
        with tempfile.TemporaryDirectory() as folder:
            for what, exported, written in variants(name, Path(folder)):
                try:
                    path = written()
                except Exception as error:
                    print(f"{name} {what}: is not written, {type(error).__name__}: {str(error)[:120]}", flush=True)
                    continue
                count += 1
                try:
                    text = outcome(path, exported, CLOSE.get(what, 1e-4))
                except Exception as error:
                    if isinstance(error, jg.UnsupportedOp) and "nchwc" in str(error):
                        print(f"{name} {what}: refused, its weights lie in blocks", flush=True)
                        continue
                    text = " ".join([*traceback.format_exception_only(error)]).replace("\n", " ")[:400]
                short += bool(text)
                print(f"{name} {what}: {text or 'equal'}", flush=True)
    print(f"{count} models, of which {short} fall short")
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
