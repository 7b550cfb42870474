"""Python in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from tests import ROOT

FORKS = ("-W", "ignore::DeprecationWarning")  # Python 3.12 warns of forks beside threads


def in_child(code: str, *options: str, timeout: float = 120) -> str:
    """What ``code`` prints in a new Python with these options; it must end well and say nothing to stderr."""
    command = [sys.executable, *options, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-4000:]}"
    assert not done.stderr, done.stderr[-4000:]
    return done.stdout
