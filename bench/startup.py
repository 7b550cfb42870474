"""Time to import jitgraph, to call it eagerly once and to compile once, beside NumPy's import; in new processes."""

from __future__ import annotations

import numpy as np

from bench.timing import interleaved, run_python

STATEMENTS = {
    "python -c pass": "pass",
    "import numpy": "import numpy",
    "import jitgraph": "import jitgraph",
    "first eager call": "import jitgraph as jg; jg.asarray([1.0, 2.0]) + 1",
    "first compiled call": "import jitgraph as jg; jg.trace(lambda x: x + 1)(jg.asarray([1.0, 2.0]))",
}


def main() -> None:
    times = interleaved({name: lambda s=s: run_python("-c", s) for name, s in STATEMENTS.items()}, rounds=15)
    base = times["import numpy"]
    for name, values in times.items():
        beyond = 1e3 * float(np.median(values - base))
        print(f"{name:20} {1e3 * float(np.median(values)):6.0f} ms  ({beyond:+.0f} ms against importing NumPy)")


if __name__ == "__main__":
    main()
