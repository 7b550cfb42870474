"""What of PyTorch's samples is known to differ: the record that tests compare with."""

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
    """The variants that are known not to pass, by op, with the first sample's message."""
    record: dict[str, dict[str, str]] = json.loads(RECORD.read_text())
    return record


def of(results: Results) -> dict[str, dict[str, str]]:
    """The variants of the results that do not pass."""
    failures = {
        job: {variant: f"{r['status']}: {r['text']}" for variant, r in variants.items() if r["status"] != "passed"}
        for job, variants in results.items()
    }
    return {job: variants for job, variants in sorted(failures.items()) if variants}


def write(results: Results) -> None:
    RECORD.write_text(json.dumps(of(results), indent=1, ensure_ascii=False) + "\n")


def changes(results: Results) -> list[str]:
    """How the results depart from the record: what fails now, and what is recorded and passes."""
    record, lines = recorded(), []
    for job, variants in results.items():
        for variant, r in variants.items():
            known = record.get(job, {}).get(variant)
            if r["status"] != "passed" and known is None:
                lines.append(f"{job} {variant}: {r['status']}: {r['text']}")
            elif r["status"] == "passed" and known is not None:
                lines.append(f"{job} {variant} passes, and is recorded as differing ({known})")
    return lines
