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


def reason(job: str, variant: str) -> str | None:
    """Why a variant of an op differs on purpose ("add float32", "out"), if it does."""
    op = job.rpartition(" ")[0]
    for pattern, text in _reasons()["ops"].items():
        if fnmatch.fnmatchcase(op, pattern):
            return text
    for pattern, text in _reasons()["variants"].items():
        if fnmatch.fnmatchcase(f"{op} {variant}", pattern):
            return text
    return None


def recorded() -> dict[str, dict[str, str]]:
    """The variants that were tried, by op: "" where all samples passed, else the first other one's message."""
    record: dict[str, dict[str, str]] = json.loads(RECORD.read_text())
    return record


def write(results: Results) -> None:
    """Make the results the record."""
    record = {
        job: {variant: "" if r["status"] == "passed" else f"{r['status']}: {r['text']}" for variant, r in of.items()}
        for job, of in sorted(results.items())
    }
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def regressions(results: Results) -> list[str]:
    """The variants that passed when the record was written, and do not pass now."""
    record = recorded()
    return [
        f"{job} {variant}: {r['status']}: {r['text']}"
        for job, of in results.items()
        for variant, r in of.items()
        if r["status"] != "passed" and record.get(job, {}).get(variant) == ""
    ]
