"""``make lint`` checks the types that users see, by mypy --strict, in examples/*.py and the programs of README.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def readme_blocks() -> list[str]:
    """The blocks of Python in README.md that are whole programs: those that import what they use."""
    result = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in result if block.startswith("import ")]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        files = [*map(str, sorted((ROOT / "examples").glob("*.py")))]
        for number, block in enumerate(readme_blocks()):
            file = Path(folder, f"readme_{number}.py")
            file.write_text(block)
            files.append(str(file))
        options = ["--config-file", str(ROOT / "pyproject.toml"), "--no-warn-unused-ignores"]
        for code in ("no-untyped-def", "no-any-return"):  # the README is short, and a module may return anything
            options += ["--disable-error-code", code]
        environment = {**os.environ, "MYPYPATH": folder}
        # `python -m jitgraph loader .` puts it beside the program
        Path(folder, "loader.pyi").write_text("from jitgraph.runtime.loader import *\n")
        return subprocess.run([sys.executable, "-m", "mypy", *options, *files], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
