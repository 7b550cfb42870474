"""The results as a summary and as a table."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from tests.torch.opinfo import differences

Results = dict[str, dict[str, dict[str, Any]]]
HEADING = """# PyTorch's samples on `jitgraph.torch`

Written by `python -m tests.torch.opinfo --record --table`. An op is called with the samples of PyTorch's own tests,
here and in PyTorch; values, shapes, dtypes, types of errors and the sharing of memory are compared. A variant passes
if all its samples do; "by design" are those of whose differences each has a reason in
`tests/torch/opinfo/reasons.toml`.
"""
STATUSES = ("passed", "by design", "differs", "missing", "raises", "slow", "crashed")
_LONGEST = 160


def _counted(pairs: Iterable[tuple[str, str]]) -> str:
    """Lines of counts of statuses, by what comes first in each pair."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row, status in pairs:
        counts[row][status] += 1
    width = max((len(row) for row in counts), default=0) + 1
    lines = [" " * width + "".join(f"{status:>10}" for status in STATUSES) + "   share"]
    for row, counter in counts.items():
        share = counter["passed"] / max(1, counter.total() - counter["by design"])
        lines.append(f"{row:{width}}" + "".join(f"{counter[status]:10}" for status in STATUSES) + f"{share:8.1%}")
    return "\n".join(lines)


def _statuses(results: Results) -> list[tuple[str, str, str]]:
    """Dtype, variant and status of each result."""
    return [
        (job.rpartition(" ")[2], variant, "by design" if differences.is_designed(job, variant, r) else r["status"])
        for job, of in results.items()
        for variant, r in of.items()
    ]


def summary(results: Results) -> str:
    """Counts of variants by status: of each kind, and of all."""
    statuses = _statuses(results)
    return _counted([(variant, status) for _, variant, status in statuses] + [("all", s) for _, _, s in statuses])


def table(results: Results) -> str:
    """A page of Markdown: counts by kind and by dtype, then what of each entry does not pass, with the reason."""
    entries: dict[str, dict[str, dict[str, dict[str, Any]]]] = collections.defaultdict(dict)
    for job in sorted(results):
        op, _, dtype = job.rpartition(" ")
        entries[op][dtype] = results[job]
    by_dtype = _counted((dtype, status) for dtype, _, status in _statuses(results))
    lines = [HEADING, f"{len(entries)} entries were tried, and {len(results)} pairs of an entry and a dtype.", ""]
    lines += ["```", summary(results), "", by_dtype, "```", ""]
    lines += ["| entry | dtypes | what does not pass |", "|---|---|---|"]
    for op, of in entries.items():
        lines.append(f"| {op.replace('_', chr(92) + '_')} | {', '.join(of)} | {'; '.join(_others(op, of))} |")
    return "\n".join(lines) + "\n"


def _others(op: str, of: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """What does not pass, each difference once, with the variants and dtypes that show it."""
    where: dict[str, dict[str, list[str]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for dtype, variants in of.items():
        for variant, result in variants.items():
            for text in result["texts"]:
                said = differences.reason(f"{op} {dtype}", variant, text) or _escaped(text)
                if dtype not in where[said][variant]:
                    where[said][variant].append(dtype)
    lines = []
    for said, variants_of in where.items():
        by_dtypes: dict[tuple[str, ...], list[str]] = collections.defaultdict(list)
        for variant, dtypes in variants_of.items():
            by_dtypes[tuple(dtypes)].append(variant)
        places = "; ".join(
            ", ".join(variants) + ("" if list(dtypes) == list(of) else f" of {', '.join(dtypes)}")
            for dtypes, variants in by_dtypes.items()
        )
        lines.append(f"{places}: {said}")
    return lines


def _escaped(text: str) -> str:
    return text[:_LONGEST].replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
