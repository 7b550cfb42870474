"""Archives of TorchScript, from the file to the first result, beside ``torch.jit.load``; and what imports take.

    python -m bench torch_files

The archives are those of the tests. Each time is processor time of a new process from behind its imports, the least of
several in turns: loading; loading and a first eager call; loading and a first compiled call, whose code an earlier
process left in the cache. Without PyTorch its columns are left out.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
ARCHIVES = ROOT / "tests" / "torch" / "jit" / "archives"
NAMES = ("mlp_traced", "conv_net", "scripted_lstm", "quantised_dynamic", "vad")
ROUNDS = 5

IMPORTS = {
    "jitgraph": "import jitgraph",
    "jitgraph.torch": "import jitgraph; import jitgraph.torch",
    "with jit.load": "import jitgraph.torch; jitgraph.torch.jit.load",
    "torch": "import torch",
}
ARGUMENTS = """
import sys
sys.path.insert(0, {root!r})
from tests.torch.jit.records import records
args, _ = records()[{name!r}]
"""
CLOCK = "import time\nstart = time.process_time()\n{code}\nprint(time.process_time() - start)\n"
OURS = "import jitgraph as jg\nfrom jitgraph.torch import jit\njit.load, jg.asarray([1.0])\n"
CALLS = {
    "load": "module = jit.load({path!r})",
    "eager call": "module = jit.load({path!r})\nwith jg.no_grad(): module(*args)",
    "compiled call": "module = jit.load({path!r})\nwith jg.no_grad(): jg.trace(module)(*args)",
}
THEIRS = "import torch\nargs = [torch.from_numpy(a) if hasattr(a, 'dtype') else a for a in args]\n"
THEIR_CALLS = {
    "load": "module = torch.jit.load({path!r})",
    "call": "module = torch.jit.load({path!r})\nwith torch.no_grad(): module(*args)",
}


def seconds(code: str) -> float:
    """The processor time of a process that runs ``code``, or of the part of it that it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, check=True, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(done.stdout or whole)


def least(codes: dict[str, str]) -> dict[str, float]:
    """The least milliseconds of each of several codes, which take turns."""
    for code in codes.values():
        seconds(code)
    return {
        name: 1e3 * value
        for name, value in zip(
            codes, np.min([[seconds(code) for code in codes.values()] for _ in range(ROUNDS)], axis=0), strict=True
        )
    }


def main() -> None:
    has_torch = importlib.util.find_spec("torch") is not None
    imports = least({name: code for name, code in IMPORTS.items() if has_torch or name != "torch"})
    print("imports: " + ", ".join(f"{name} {value:.0f} ms" for name, value in imports.items()))
    print(f"jitgraph.torch on top of jitgraph: {imports['jitgraph.torch'] - imports['jitgraph']:.0f} ms")
    for name in NAMES:
        path = str(ARCHIVES / f"{name}.pt")
        start = ARGUMENTS.format(root=str(ROOT), name=name)
        codes = {what: start + OURS + CLOCK.format(code=code.format(path=path)) for what, code in CALLS.items()}
        if has_torch:
            codes |= {
                f"PyTorch's {what}": start + THEIRS + CLOCK.format(code=code.format(path=path))
                for what, code in THEIR_CALLS.items()
            }
        shown = [f"{what} {value:.1f}" for what, value in least(codes).items()]
        print(f"{name}: {', '.join(shown)} ms", flush=True)


if __name__ == "__main__":
    main()
