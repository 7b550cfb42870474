"""Every flag, read from the environment in one place; docs/flags.md lists each.

A flag is read when it is asked for, so a test or a user may set ``os.environ`` at any time before the call it concerns.
"""

from __future__ import annotations

import os
import warnings
from typing import Final

from jitgraph.errors import JitgraphError
from jitgraph.records import dataclass

PREFIX: Final = "JITGRAPH_"
LOG_TOPICS: Final = frozenset({"graph", "passes", "fusion", "memory", "llvm", "asm", "cache"})


@dataclass(frozen=True, slots=True)
class Flag:
    """One environment variable: its name and one line of meaning."""

    name: str
    meaning: str

    def raw(self) -> str | None:
        """The variable's value, which may be empty; None where it is not set."""
        return os.environ.get(self.name)

    def text(self) -> str:
        """The variable's value, or the empty string where it is not set."""
        return self.raw() or ""

    def is_on(self) -> bool:
        """True for 1, true, yes and on; JitgraphError for anything else that is not off."""
        value = self.text().strip().lower()
        if value in ("", "0", "false", "no", "off"):
            return False
        if value in ("1", "true", "yes", "on"):
            return True
        raise JitgraphError(f"{self.name}={value!r} is neither on nor off; set it to 1 or 0")


LOG: Final = Flag("JITGRAPH_LOG", "comma-separated topics to print: " + ", ".join(sorted(LOG_TOPICS)))
NUM_THREADS: Final = Flag("JITGRAPH_NUM_THREADS", "threads of the pool, the caller included; default: the CPUs allowed")
TARGET_CPU: Final = Flag("JITGRAPH_TARGET_CPU", "level to compile for, such as x86-64-v3; default: the host's level")
DISABLE_JIT: Final = Flag(
    "JITGRAPH_DISABLE_JIT", "1: decorators do nothing, so that pdb steps through plain eager code"
)
INTERPRET: Final = Flag("JITGRAPH_INTERPRET", "1: graphs run in the NumPy interpreter instead of native code")
VERIFY: Final = Flag("JITGRAPH_VERIFY", "1: the verifier runs after every pass, on schedules and on kernels")

DISPATCH: Final = Flag(
    "JITGRAPH_DISPATCH",
    "1: warm calls go past Python from the second one on; 0: never; default: once the code for that is at hand",
)
CACHE_DIR: Final = Flag(
    "JITGRAPH_CACHE_DIR",
    "folder of the compile cache; default: jitgraph in XDG_CACHE_HOME or ~/.cache; off, or empty: no such cache",
)
PYCUDA: Final = Flag("JITGRAPH_PYCUDA", "1: contexts and streams of GPUs are pycuda's; default: the driver's own")
CUDA: Final = Flag(
    "JITGRAPH_CUDA", "simulated: two simulated GPUs, slow, for tests, in a source checkout; default: this machine's own"
)
CUDA_ORDER: Final = Flag(
    "JITGRAPH_CUDA_ORDER",
    "free: sums on GPUs go in any order; tf32: and products of float32 in tf32; default: in order, with the CPU's bits",
)

FLAGS: Final[tuple[Flag, ...]] = (
    *(LOG, NUM_THREADS, TARGET_CPU, DISABLE_JIT, INTERPRET, VERIFY, DISPATCH, CACHE_DIR, PYCUDA, CUDA, CUDA_ORDER),
)


def cache_folder() -> str | None:
    """The folder of the compile cache, as an absolute path; None where it is turned off or there is no home folder."""
    setting = CACHE_DIR.raw()
    if setting is None:
        caches = os.environ.get("XDG_CACHE_HOME", "")
        folder = os.path.join(caches if os.path.isabs(caches) else os.path.join("~", ".cache"), "jitgraph")
    elif setting.strip().lower() in ("", "off"):
        return None
    else:
        folder = setting
    folder = os.path.expanduser(folder)
    if folder.startswith("~"):
        return None
    try:
        return os.path.abspath(folder)
    except OSError:  # the working directory is gone
        return None


def cuda_order() -> str:
    """ "free", "tf32", or the empty string for sums in order; JitgraphError for anything else."""
    order = CUDA_ORDER.text().strip().lower()
    if order not in ("", "free", "tf32"):
        raise JitgraphError(f"{CUDA_ORDER.name}={order!r} is neither free nor tf32; leave it out for sums in order")
    return order


def logs(topic: str) -> bool:
    """True where JITGRAPH_LOG names ``topic``; JitgraphError where it names a topic that does not exist."""
    assert topic in LOG_TOPICS, topic
    text = LOG.text()
    if not text:
        return False
    topics = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := topics - LOG_TOPICS:
        raise JitgraphError(f"JITGRAPH_LOG names {', '.join(sorted(unknown))}; topics: {', '.join(sorted(LOG_TOPICS))}")
    return topic in topics


def log(topic: str, text: str) -> None:
    """Print ``text`` to standard error where JITGRAPH_LOG names ``topic``."""
    if logs(topic):
        import sys

        print(f"[{topic}] {text}\n", end="", file=sys.stderr)  # at once: threads may print at the same time


def _warn_of_unknown() -> None:
    """A UserWarning for each variable that begins like a flag and is none: it would be misspelt and do nothing."""
    names = [flag.name for flag in FLAGS]
    for variable in sorted(os.environ):
        if variable.startswith(PREFIX) and variable not in names:
            close = [name for name in names if name[:12] == variable[:12]]
            hint = f"write {close[0]}" if close else f"flags: {', '.join(names)}"
            warnings.warn(f"{variable} is no flag of jitgraph, and does nothing\n  hint: {hint}", stacklevel=2)


_warn_of_unknown()
