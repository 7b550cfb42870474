"""How a command fails: with which exit code, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FAILS: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


class CommandError(Exception):
    """What is wrong with a command line, which ends with 2, or with what it asks for, which ends with 1.

    No JitgraphError, whose module needs NumPy: help and completion load neither.
    """

    def __init__(self, message: str, exit_code: int = FAILS) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def reason_of(error: OSError, path: Path) -> str:
    """Why a folder or file cannot be written."""
    what = "it is a file, not a folder" if isinstance(error, FileExistsError) else error.strerror or str(error)
    return f"{path} cannot be written: {what}"
