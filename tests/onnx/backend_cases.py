"""The test cases of onnx's own backends, each with an outcome: right, wrong, refused by name, or an error.

python -m tests.onnx.backend_cases [--only PATTERN] [--sample N] [--kind KIND] [--show OUTCOME]
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import jitgraph as jg
from jitgraph.onnx import values
from jitgraph.onnx.loaded.module import load

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
RANDOM = re.compile(r"test_(bernoulli|training_dropout|randomuniform|random_uniform|random_normal|multinomial)")
"""Cases whose numbers are random: their dtypes and shapes are compared."""


class Outcome(NamedTuple):
    name: str
    kind: str
    """right, wrong, refused or error"""
    reason: str = ""


class Case(NamedTuple):
    name: str
    model: Any
    """A ModelProto, or a path."""
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


def cases(kind: str, pattern: str = "") -> Iterator[Case]:
    """The cases of a kind whose names have a pattern."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        listed = load_model_tests(kind=kind)
    for case in sorted(listed, key=lambda case: case.name):
        if not re.search(pattern, case.name):
            continue
        if case.model is not None:
            yield Case(case.name, case.model, [(_own(i), _own(o)) for i, o in case.data_sets], case.rtol, case.atol)
        elif case.model_dir is not None:
            folder = Path(case.model_dir)
            yield Case(case.name, folder / "model.onnx", _data_of(folder), case.rtol, case.atol)


def _data_of(folder: Path) -> list[tuple[list[Any], list[Any]]]:
    import onnx

    graph = onnx.load(folder / "model.onnx").graph
    given = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in given or len(graph.input) <= 1]
    result = []
    for data in sorted(folder.glob("test_data_set_*")):
        sides = []
        for side, entries in (("input", inputs), ("output", graph.output)):
            arrays = []
            for i, entry in enumerate(entries):
                path = data / f"{side}_{i}.pb"
                if path.exists():
                    arrays.append(_value(path.read_bytes(), entry.type))
            sides.append(arrays)
        result.append((sides[0], sides[1]))
    return result


def _value(text: bytes, kind: Any) -> Any:
    from onnx import OptionalProto, SequenceProto, TensorProto, numpy_helper

    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(SequenceProto.FromString(text))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(OptionalProto.FromString(text))
    return numpy_helper.to_array(TensorProto.FromString(text))


def outcome(case: Case, compiled: bool = False) -> Outcome:
    """What comes of a case, node by node or compiled."""
    try:
        model = load(case.model)
        for inputs, expected in case.data:
            own = inputs
            result = model(*own) if compiled else model.forward(*own)
            results = list(result) if len(model.outputs) > 1 else [result]
            reason = difference(results, expected, case)
            if reason:
                return Outcome(case.name, "wrong", reason)
    except (jg.UnsupportedOp, jg.LoadError) as error:
        return Outcome(case.name, "refused", " ".join(str(error).split())[:200])
    except Exception as error:  # whatever it is, it is reported
        if compiled and isinstance(error, jg.TraceError) and "depends on the elements of a tensor" in str(error):
            return Outcome(case.name, "refused", " ".join(str(error).split())[:200])
        notes = " ".join(getattr(error, "__notes__", ()))
        return Outcome(case.name, "error", f"{type(error).__name__}: {' '.join(str(error).split())[:250]} {notes}")
    return Outcome(case.name, "right")


def _own(value: Any) -> Any:
    from onnx import TensorProto, numpy_helper

    if isinstance(value, list | tuple):
        return [_own(each) for each in value]
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def difference(results: list[Any], expected: list[Any], case: Case) -> str:
    """How results differ from the expected ones; empty where they do not."""
    if len(results) != len(expected):
        return f"{len(results)} results for {len(expected)}"
    for i, (own, other) in enumerate(zip(results, expected, strict=True)):
        if isinstance(other, list | tuple):
            if not isinstance(own, list):
                return f"output {i} is no sequence"
            reason = difference(own, list(other), case)
            if reason:
                return reason
            continue
        if other is None or own is None:
            if other is not own:
                return f"output {i}: {own} is not {other}"
            continue
        reason = _array_difference(own, np.asarray(other), case)
        if reason:
            return f"output {i}: {reason}"
    return ""


def _array_difference(own: Any, other: Any, case: Case) -> str:
    array = own if isinstance(own, np.ndarray) else np.asarray(own.detach().numpy())
    if array.shape != other.shape:
        return f"shape {array.shape} for {other.shape}"
    if other.dtype.kind in "OUST":
        return "" if [str(x) for x in array.flat] == [_text(x) for x in other.flat] else f"{array} for {other}"
    if array.dtype != other.dtype:
        return f"{array.dtype} for {other.dtype}"
    if RANDOM.match(case.name):
        return ""
    if other.dtype.kind in "iub" and other.dtype not in values.STORED:
        return "" if np.array_equal(array, other) else f"{array.reshape(-1)[:8]} for {other.reshape(-1)[:8]}"
    wide = np.complex128 if other.dtype.kind == "c" else np.float64
    a, b = array.astype(wide), other.astype(wide)
    if not b.size:
        return ""
    finite = np.abs(b[np.isfinite(b)])
    unit = float(ml_dtypes.finfo(other.dtype).eps) if other.dtype not in values.STORED and wide is np.float64 else 1e-7
    atol = max(case.atol, 2 * unit * float(finite.max(initial=0)))  # zeros are rounded sums of large numbers, too
    rtol = max(case.rtol, 2**-6) if other.dtype.name == "bfloat16" else case.rtol  # as onnx's own runner
    bad = ~np.isclose(a, b, rtol, atol, equal_nan=True)
    if not bad.any():
        return ""
    return f"{bad.sum()} of {bad.size} differ: {a[bad][:3]} for {b[bad][:3]}"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int, default=1, help="one case in so many")
    parser.add_argument("--offset", type=int, default=0, help="the first of the sample")
    parser.add_argument("--kind", default="all")
    parser.add_argument("--show", default="wrong,refused,error")
    parser.add_argument("--fail", default="", help="outcomes for which the exit status is 1")
    parser.add_argument("--compiled", action="store_true")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    for kind in KINDS if args.kind == "all" else [args.kind]:
        for i, case in enumerate(cases(kind, args.only)):
            if i % args.sample != args.offset:
                continue
            result = outcome(case, args.compiled)
            counts[result.kind] += 1
            if result.kind in args.show.split(","):
                print(result.kind, result.name, result.reason, flush=True)
    print(dict(counts))
    if any(counts[each] for each in args.fail.split(",")):
        raise SystemExit(1)


if __name__ == "__main__":
    os.environ.setdefault("JITGRAPH_NUM_THREADS", "1")
    main()
