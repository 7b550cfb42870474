"""``python -m jitgraph loader DIR`` writes the standalone loaders into a folder: ``loader.py`` for Python with NumPy
alone, ``loader.c`` and ``loader.h`` for C."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jitgraph.standalone import write_loaders

PLANNED: Final = ("run", "info", "bench", "show", "export")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 on success, 1 where a file cannot be written or the command is not there yet."""
    parser = argparse.ArgumentParser(prog="python -m jitgraph", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="loader DIR")
    commands.add_parser("loader").add_argument("folder", metavar="DIR", type=Path)
    for name in PLANNED:
        commands.add_parser(name, add_help=False)
    args, rest = parser.parse_known_args(arguments)
    if args.command in PLANNED:
        print(f"python -m jitgraph {args.command} is planned for a later version", file=sys.stderr)
        return 1
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        for path in write_loaders(args.folder):
            print(path)
    except OSError as error:
        what = "it is a file, not a folder" if isinstance(error, FileExistsError) else error.strerror
        print(f"python -m jitgraph loader: {args.folder} cannot be written: {what}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
