"""The command line: ``jitgraph COMMAND``, which ``python -m jitgraph COMMAND`` is too.

It needs typer and rich (``pip install jitgraph[cli]``), which are imported when a command runs; ``loader DIR`` runs
without them, so that a model can go where nothing is installed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from jitgraph.cli.failures import FAILS, INTERRUPTED, reason_of

_NEEDED = "the command line needs typer and rich: pip install 'jitgraph[cli]'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0: right, 1: something differs or fails, 2: the command line itself is wrong, 130: interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if sys.stdout is not None and sys.stderr is not None:
            return _main(words)
        nowhere = io.StringIO()  # whoever started the process closed one
        with redirect_stdout(sys.stdout or nowhere), redirect_stderr(sys.stderr or nowhere):
            return _main(words)
    except KeyboardInterrupt:
        return INTERRUPTED


def _main(words: list[str]) -> int:
    try:
        from jitgraph.cli import application
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "jitgraph":
            raise
        if len(words) == 2 and words[0] == "loader" and not words[1].startswith("-"):
            return _loader(Path(words[1]))
        print(f"jitgraph: {_NEEDED} ({error.name} is not installed)", file=sys.stderr)
        return FAILS
    return application.run(words)


def _loader(folder: Path) -> int:
    from jitgraph.standalone import write_loaders

    try:
        for path in write_loaders(folder):
            print(path)
    except OSError as error:
        print(f"jitgraph loader: {reason_of(error, folder)}", file=sys.stderr)
        return FAILS
    return 0
