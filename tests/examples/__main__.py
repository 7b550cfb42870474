"""``python -m tests.examples`` runs every example in full and writes docs/examples.md from their output (minutes)."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests import ROOT

HEAD = """# Examples

Each example is one file to copy from, with a traced training step, and data that comes with a package or is generated.
They need `pip install -e '.[examples]'`; `--quick` shortens them, as the tests do. `python -m tests.examples` runs them
all and writes this page with their output.
"""
ORDER = (
    *("cnn", "vae", "gpt", "language_model", "sentence_encoder", "diffusion", "neural_ode", "pinn", "kalman"),
    *("gaussian_process", "dqn", "digits", "torchscript_to_c"),
)


def section(name: str) -> str:
    path = ROOT / "examples" / f"{name}.py"
    about = ast.get_docstring(ast.parse(path.read_text()))
    print(name, flush=True)
    done = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())
    return f"\n## {name}\n\n`examples/{name}.py`\n\n{about}\n\n```text\n{printed}\n```\n"


if __name__ == "__main__":
    assert set(ORDER) == {path.stem for path in (ROOT / "examples").glob("*.py")}
    (ROOT / "docs" / "examples.md").write_text(HEAD + "".join(map(section, ORDER)))
