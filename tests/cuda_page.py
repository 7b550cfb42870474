"""docs/cuda.md: how GPUs are used, what is refused there, and static figures of kernels; this writes what is generated.

``python -m tests.cuda_page`` writes the list and the table anew between their marks; all else of the page is prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.errors import UnsupportedOp
from jitgraph.ops import OPS
from tests import ROOT
from tests.codegen.cuda.launched import code_of, schedule_of
from tests.op_loop import cases, samples_of
from tests.runtime.cuda.machines import machine

PAGE = ROOT / "docs" / "cuda.md"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _branch(x: Any) -> Any:
    return jg.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, x)


def _loop(x: Any) -> Any:
    return jg.while_loop(lambda x: x.sum() < 100, lambda x: x * 2, x)


def _scan(x: Any) -> Any:
    return jg.scan(lambda carry, row: (carry + row, carry), jg.zeros_like(x[0]), x)[0]


def _gradient_of_scan(x: Any) -> Any:
    return jg.grad(lambda x: jg.sum(jg.scan(lambda carry, row: (carry * row, carry), x[0], x)[0]))(x)


def _print(x: Any) -> Any:
    jg.debug.print("{}", x)
    return x + 1


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "jg.cond": _branch,
    "jg.while_loop": _loop,
    "jg.scan": _scan,
    "the gradient of jg.scan": _gradient_of_scan,
    "jg.debug.print, print": _print,
}
"""What works between launches, or with the host, in a traced function."""


def refused_programs() -> dict[str, str]:
    """What a GPU refuses in traced functions, and the reason."""
    results = {}
    with machine(must_end_clean=False):
        x = jg.asarray(X, device="cuda")
        for name, function in PROGRAMS.items():
            try:
                jg.trace(function)(x)
            except UnsupportedOp as error:
                results[name] = str(error).splitlines()[0]
    return results


def refused_ops(every: bool = True) -> dict[str, str]:
    """Ops of the table that a GPU refuses for some dtype, and the reason; without ``every``, those with regions, and
    those that Python evaluates, alone.

    The op loop (``tests/codegen/cuda/test_op_loop.py``) fails where it refuses one of the others.
    """
    results: dict[str, str] = {}
    for name, dtype in cases():
        if name in results or not (every or OPS[name].lowering == "host" or _has_regions(name, dtype)):
            continue
        try:
            code_of(schedule_of(samples_of(name, dtype).graph))
        except UnsupportedOp as error:
            results[name] = str(error).splitlines()[0]
    return results


def _has_regions(name: str, dtype: dtypes.DType) -> bool:
    samples = OPS[name].samples
    return samples is not None and any(sample.regions for sample in samples(dtype))


def refusals(every: bool = True) -> str:
    """The list of what is refused, as Markdown."""
    rows = [f"- op `{name}`: {reason}" for name, reason in refused_ops(every).items()]
    rows += [f"- {name}: {reason}" for name, reason in refused_programs().items()]
    return "\n".join(rows or ["Nothing of the op table."])


def part(text: str, name: str) -> str:
    """What stands between the marks of a generated part."""
    matched = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert matched, f"docs/cuda.md has no part {name!r}"
    return matched[1]


def replaced(text: str, name: str, new: str) -> str:
    """The page with a generated part written anew."""
    return text.replace(f"<!-- {name} -->\n{part(text, name)}\n", f"<!-- {name} -->\n{new}\n")


def main() -> None:
    from bench.cuda_static import table

    text = PAGE.read_text()
    text = replaced(text, "refused", refusals())
    PAGE.write_text(replaced(text, "figures", "\n".join(table())))


if __name__ == "__main__":
    main()
