"""Which of PyTorch's samples agree and which do not: reasons, and the record that tests compare with."""

from __future__ import annotations

import fnmatch
import functools
import json
import tomllib
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("differences.json")
Results = dict[str, dict[str, dict[str, Any]]]


@functools.cache
def _reasons() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text())
    return tables


def reason(job: str, variant: str, text: str) -> str | None:
    """Why a variant of an op differs on purpose ("add float32", "out", "raises: ..."), if it does."""
    op = job.rpartition(" ")[0]
    for pattern, text_of in _reasons()["ops"].items():
        if fnmatch.fnmatchcase(op, pattern):
            return text_of
    for pattern, text_of in _reasons()["variants"].items():
        if any(fnmatch.fnmatchcase(f"{name} {variant}", pattern) for name in (op, job)):
            return text_of
    for pattern, text_of in _reasons()["texts"].items():
        if fnmatch.fnmatchcase(f"{op} {variant} {text}", pattern):
            return text_of
    return None


def reasons(job: str, variant: str, result: dict[str, Any]) -> list[str | None]:
    """For each of the differences of a variant the reason, or None."""
    return [reason(job, variant, text) for text in result["texts"]]


def is_designed(job: str, variant: str, result: dict[str, Any]) -> bool:
    """Whether a variant does not pass and all its differences have a reason."""
    return result["status"] != "passed" and None not in reasons(job, variant, result)


def recorded() -> Results:
    """The results of all variants that were recorded, by op, dtype and variant; how many samples passed is not."""
    results: Results = {}
    for job, of in json.loads(RECORD.read_text()).items():
        results[job] = {name: {"status": "passed", "texts": []} for name in of["passed"].split()}
        for variant, (passed, total, *texts) in of.get("other", {}).items():
            status = texts[0].partition(":")[0]
            results[job][variant] = {"status": status, "passed": passed, "total": total, "texts": texts}
    return results


def write(results: Results) -> Results:
    """Put results into the record, where those of the same op, dtype and variant are replaced; gives all of them."""
    everything = recorded() if RECORD.exists() else {}
    for job, of in results.items():
        everything.setdefault(job, {}).update(of)
    lines = []
    for job, of in sorted(everything.items()):
        entry: dict[str, Any] = {"passed": " ".join(name for name, r in of.items() if r["status"] == "passed")}
        other = {name: [r["passed"], r["total"], *r["texts"]] for name, r in of.items() if r["status"] != "passed"}
        if other:
            entry["other"] = other
        lines.append(f" {json.dumps(job)}: {json.dumps(entry, ensure_ascii=False)}")
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return everything


def regressions(results: Results) -> list[str]:
    """The variants that passed when the record was written, and do not pass now."""
    record = recorded()
    return [
        f"{job} {variant}: {'; '.join(r['texts'])}"
        for job, of in results.items()
        for variant, r in of.items()
        if r["status"] != "passed" and record.get(job, {}).get(variant, {}).get("status") == "passed"
    ]
