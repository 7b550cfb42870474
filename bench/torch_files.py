"""Archives of TorchScript, from the file to the first result, beside ``torch.jit.load``; and what imports take.

    python -m bench torch_files

The archives are those of the tests. Each time is a process of its own less one that imports alone, processor time, the
least of several in turns: loading; loading and a first eager call; loading and a first compiled call, whose code an
earlier process left in the cache. Without PyTorch its columns are left out.
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
OURS = "import jitgraph as jg\nfrom jitgraph.torch import jit\nmodule = jit.load({path!r})\n"
CALLS = {
    "load": "",
    "eager call": "with jg.no_grad(): module(*args)\n",
    "compiled call": "with jg.no_grad(): jg.trace(module)(*args)\n",
}
THEIRS = "import torch\nmodule = torch.jit.load({path!r})\n"
THEIR_CALL = (
    "args = [torch.from_numpy(a) if hasattr(a, 'dtype') else a for a in args]\nwith torch.no_grad(): module(*args)\n"
)


def seconds(code: str) -> float:
    """The processor time of a process that runs ``code``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
        codes = {"-": start + "import jitgraph as jg\nfrom jitgraph.torch import jit\n"}
        codes |= {what: start + OURS.format(path=path) + call for what, call in CALLS.items()}
        if has_torch:
            codes["torch -"] = start + "import torch\n"
            codes["torch load"] = start + THEIRS.format(path=path)
            codes["torch call"] = codes["torch load"] + THEIR_CALL
        times = least(codes)
        shown = [f"{what} {times[what] - times['-']:.0f}" for what in CALLS]
        shown += [
            f"PyTorch's {what} {times[f'torch {what}'] - times['torch -']:.0f}"
            for what in ("load", "call")
            if has_torch
        ]
        print(f"{name}: {', '.join(shown)} ms", flush=True)


if __name__ == "__main__":
    main()
