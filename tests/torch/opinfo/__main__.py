"""``python -m tests.torch.opinfo [NAME ...]``: PyTorch's samples on ``jitgraph.torch``, by op, dtype and variant."""

from __future__ import annotations

import argparse
import collections
import fnmatch
import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.torch.opinfo import differences, modules, optimizers, report, variants
from tests.torch.opinfo.translation import DTYPES, Translator
from tests.torch.opinfo.workers import Record, in_workers

DEFAULT_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)


def key_of(op: Any) -> str:
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else str(op.name)


def dtypes_of(op: Any, names: list[str] | None) -> list[torch.dtype]:
    """The dtypes that are asked for and that the op takes; without any, the first of the default ones."""
    supported = [dtype for dtype in op.supported_dtypes("cpu") if dtype in DTYPES]
    if names is None:
        return [dtype for dtype in DEFAULT_DTYPES if dtype in supported][:1] or supported[:1]
    return [dtype for dtype in (getattr(torch, name) for name in names) if dtype in supported]


def op_jobs(arguments: argparse.Namespace, translator: Translator) -> Iterator[tuple[str, Callable[..., None]]]:
    wanted = arguments.variants.split(",") if arguments.variants else list(variants.VARIANTS)
    dtypes = arguments.dtype.split(",") if arguments.dtype else None
    for i, op in enumerate(op_db):
        key = key_of(op)
        if arguments.names and not any(
            fnmatch.fnmatchcase(op.name, n) or fnmatch.fnmatchcase(key, n) for n in arguments.names
        ):
            continue
        if arguments.part and i % arguments.part[1] != arguments.part[0]:
            continue
        for dtype in dtypes_of(op, dtypes):

            def job(record: Callable[[Record], None], op: Any = op, dtype: torch.dtype = dtype) -> None:
                _run_op(record, op, dtype, wanted, translator, arguments)

            yield f"{key} {str(dtype).removeprefix('torch.')}", job


def _run_op(
    record: Callable[[Record], None], op: Any, dtype: torch.dtype, wanted: list[str], to: Translator, arguments: Any
) -> None:
    warnings.simplefilter("ignore")
    case = variants.Case(op, dtype, to, None if arguments.all else arguments.samples)
    case.find_random()
    for variant in wanted:
        record({"variant": variant, "status": "started"})
        result = variants.run(case, variant, arguments.sample_seconds)
        record({"variant": variant, **(result or {"status": "none"})})


def jobs_of(arguments: argparse.Namespace, to: Translator) -> Iterator[tuple[str, Callable[..., None]]]:
    if "ops" in arguments.what:
        yield from op_jobs(arguments, to)
    if "modules" in arguments.what:
        yield from modules.jobs(arguments, to)
    if "optimizers" in arguments.what:
        yield from optimizers.jobs(arguments, to)


def collect(arguments: argparse.Namespace, progress: bool = True) -> dict[str, dict[str, Record]]:
    """The results by job ("add float32") and variant."""
    torch.set_num_threads(1)
    to = Translator(importlib.import_module(arguments.module))
    results: dict[str, dict[str, Record]] = collections.defaultdict(dict)
    current: dict[str, str] = {}
    written = time.monotonic()
    for name, values in in_workers(jobs_of(arguments, to), arguments.jobs, arguments.seconds):
        variant = values.pop("variant", None)
        if values.get("status") == "started":
            current[name] = variant
            continue
        if variant is None:  # the worker ended within a variant
            variant = current.get(name, "forward")
            texts = [f"{values['status']}: {values.pop('text')}"]
            values = {"passed": 0, "total": 1, "texts": texts, **values}
        if values.get("status") == "none" or "skipped" in values:
            continue
        results[name][variant] = values
        if arguments.json and time.monotonic() - written > 20:
            written = time.monotonic()
            _dump(results, arguments.json)
        if progress and values["status"] != "passed":
            print(
                f"{name} {variant} ({values['passed']}/{values['total']}): {' ## '.join(values['texts'])}",
                flush=True,
            )
    return dict(results)


def _dump(results: Any, path: str) -> None:
    with open(path, "w") as file:
        json.dump(results, file, indent=1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torch.opinfo", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="ops, modules or optimisers by name or pattern; all without any"
    )
    parser.add_argument("--what", default="ops", help="ops, modules, optimizers, or several with commas (default: ops)")
    parser.add_argument("--variants", help=f"of {','.join(variants.VARIANTS)}; all without it")
    parser.add_argument("--dtype", help="dtypes with commas; without it one for each op, float32 where it can be")
    parser.add_argument("--samples", type=int, default=6, help="samples of each variant at most (default: 6)")
    parser.add_argument("--all", action="store_true", help="all samples")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes at a time (default: 1)")
    parser.add_argument("--seconds", type=float, default=120, help="time limit of an op (default: 120)")
    parser.add_argument("--sample-seconds", type=float, default=20, help="time limit of a sample (default: 20)")
    parser.add_argument(
        "--part", type=lambda s: tuple(map(int, s.split("/"))), help="I/N: every N-th op from the I-th on"
    )
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("--table", help="write a table in Markdown to this file, with --record of all that is recorded")
    parser.add_argument("--check", action="store_true", help="fail only for what passes by differences.json")
    parser.add_argument("--record", action="store_true", help="put these results into differences.json")
    parser.add_argument("--results", nargs="*", metavar="JSON", help="take results from such files and run nothing")
    parser.add_argument(
        "--module", default="jitgraph.torch", help="the module under test (torch itself tries the harness)"
    )
    arguments = parser.parse_args()
    start = time.monotonic()
    if arguments.results is not None:
        results = {job: of for path in arguments.results for job, of in json.loads(Path(path).read_text()).items()}
    else:
        results = collect(arguments, progress=not arguments.check)
    print(report.summary(results))
    print(f"{time.monotonic() - start:.0f} s")
    if arguments.json:
        _dump(results, arguments.json)
    everything = differences.write(results) if arguments.record else results
    if arguments.table:
        Path(arguments.table).write_text(report.table(everything))
    if arguments.check:
        regressions = differences.regressions(results)
        print(*regressions, sep="\n")
        return 1 if regressions else 0
    return 0 if all(r["status"] == "passed" for of in results.values() for r in of.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
