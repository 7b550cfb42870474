"""The results as a summary and as a table."""

from __future__ import annotations

import collections
from typing import Any

from tests.torch.opinfo import differences

Results = dict[str, dict[str, dict[str, Any]]]
HEADING = """# PyTorch's samples on `jitgraph.torch`

Written by `python -m tests.torch.opinfo --table`. An op is called with the samples of PyTorch's own tests, here and in
PyTorch; values, shapes, dtypes, types of errors and the sharing of memory are compared. Behind a variant that does not
pass: how many of its samples do, and what the first other one shows.
"""
STATUSES = ("passed", "by design", "differs", "missing", "raises", "slow", "crashed")


def summary(results: Results) -> str:
    """Counts of variants by status; "by design" are those whose difference has a reason in ``reasons.toml``."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for job, of in results.items():
        for variant, result in of.items():
            designed = result["status"] != "passed" and differences.reason(job, variant) is not None
            status = "by design" if designed else result["status"]
            counts[variant][status] += 1
            counts["all"][status] += 1
    lines = [f"{'':10}" + "".join(f"{status:>10}" for status in STATUSES) + "   share"]
    for variant, counter in counts.items():
        if variant != "all":
            lines.append(_line(variant, counter))
    if counts:
        lines.append(_line("all", counts["all"]))
    return "\n".join(lines)


def _line(variant: str, counter: collections.Counter[str]) -> str:
    share = counter["passed"] / max(1, counter.total() - counter["by design"])
    return f"{variant:10}" + "".join(f"{counter[status]:10}" for status in STATUSES) + f"{share:8.1%}"


def table(results: Results) -> str:
    """A page of Markdown: counts, then each op with its variants that pass, and the reason where one does not."""
    lines = [HEADING, f"{len(results)} of PyTorch's entries were tried.", "", "```", summary(results), "```", ""]
    lines += ["| op | passes | does not |", "|---|---|---|"]
    for name in sorted(results):
        reasons = {variant: differences.reason(name, variant) for variant in results[name]}
        passes = ", ".join(variant for variant, r in results[name].items() if r["status"] == "passed")
        fails = "; ".join(
            f"{variant} {r['passed']}/{r['total']} ({_escaped(reasons[variant] or r['status'] + ': ' + r['text'])})"
            for variant, r in results[name].items()
            if r["status"] != "passed"
        )
        lines.append(f"| {name.replace('_', chr(92) + '_')} | {passes} | {fails} |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text[:120].replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
