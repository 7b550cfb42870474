"""Where there is no Linux on x86-64: import, eager calls and the interpreter work, and native code says what it lacks.

Each system is played in a process of its own: what Python says of the system is replaced, and what the system does not
have is taken away, before jitgraph is imported. Only the processor's own arithmetic cannot be played.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader
from tests import ROOT

MODULES = """argparse array ast atexit bisect dis enum fractions gc hashlib heapq inspect json keyword linecache math
random reprlib secrets shutil subprocess sysconfig tempfile threading traceback uuid warnings zipfile numpy numpy.random
numpy.typing ml_dtypes"""  # they need what the real system has, and so are imported before another one is played

PLAY = """
import ctypes, importlib, mmap, os, platform, signal, sys
for module in MODULES.split():
    importlib.import_module(module)
importlib.import_module("sysconfig").get_config_vars()

def play(system, name, machine, lacking):
    sys.platform, platform.system, platform.machine = system, lambda: name, lambda: machine
    for owner, attributes in lacking.items():
        for attribute in attributes:
            delattr(owner, attribute)
    def no_proc(event, arguments):
        if event == "open" and str(arguments[0]).startswith("/proc"):
            raise FileNotFoundError(2, "there is no such file")
    sys.addaudithook(no_proc)

LINUX_ONLY = {os: ["O_TMPFILE", "O_PATH", "sched_getaffinity"]}
UNIX_ONLY = {
    os: ["fork", "register_at_fork", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "getloadavg", "getuid"],
    signal: ["setitimer", "SIGALRM", "pthread_kill"],
    mmap: ["MAP_PRIVATE", "MAP_ANONYMOUS", "PROT_READ", "PROT_WRITE", "PROT_EXEC"],
}

def nothing_by_no_name(name, *rest, real=ctypes.CDLL, **options):
    if name is None:
        raise TypeError("LoadLibrary() argument 1 must be str, not None")
    return real(name, *rest, **options)

def windows(machine):
    both = {owner: LINUX_ONLY.get(owner, []) + names for owner, names in UNIX_ONLY.items()}
    play("win32", "Windows", machine, both)
    sys.modules["fcntl"] = sys.modules["resource"] = None
    ctypes.CDLL = nothing_by_no_name  # CPython's own functions are found by the name of its library
"""

SYSTEMS = {
    "Linux on arm64": 'play("linux", "Linux", "aarch64", {})',
    "macOS on arm64": 'play("darwin", "Darwin", "arm64", LINUX_ONLY)',
    "macOS on x86-64": 'play("darwin", "Darwin", "x86_64", LINUX_ONLY)',
    "Windows on x86-64": 'windows("AMD64")',
    "Windows on arm64": 'windows("ARM64")',
    "Linux without `/proc`": 'play("linux", "Linux", "x86_64", {})',
    "Linux that forbids executable memory": "assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0",
}
"""Python code that plays each; the last is real: PR_SET_MDWE of Linux 6.3."""

LACKING = {
    "Linux on arm64": "native code needs 64-bit Linux on x86-64, and this is Linux on aarch64, 64 bits",
    "macOS on arm64": "native code needs 64-bit Linux on x86-64, and this is Darwin on arm64, 64 bits",
    "macOS on x86-64": "native code needs 64-bit Linux on x86-64, and this is Darwin on x86_64, 64 bits",
    "Windows on x86-64": "native code needs 64-bit Linux on x86-64, and this is Windows on AMD64, 64 bits",
    "Windows on arm64": "native code needs 64-bit Linux on x86-64, and this is Windows on ARM64, 64 bits",
    "Linux without `/proc`": "a processor of x86-64-v3 or better, by the flags in /proc/cpuinfo",
    "Linux that forbids executable memory": "the system does not let memory be executable: Permission denied",
}

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("JITGRAPH_")}
ENVIRONMENT["JITGRAPH_CACHE_DIR"] = "off"

EACH_SYSTEM = pytest.mark.parametrize("system", SYSTEMS)


def output_on(system: str, code: str, **environment: str) -> str:
    """What ``code`` prints in a process that takes itself to be on ``system``."""
    if "refuses" in system and not can_refuse():
        pytest.skip("this kernel cannot refuse a process executable memory")
    done = run(f"MODULES = {MODULES!r}\n{PLAY}\n{SYSTEMS[system]}\n{code}", **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def can_refuse() -> bool:
    """Whether this kernel knows PR_SET_MDWE."""
    return run(f"import ctypes\n{SYSTEMS['Linux that forbids executable memory']}").returncode == 0


@functools.cache
def output_here(code: str, **environment: str) -> str:
    done = run(code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """From a file, as scripts need their source."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(code)
        command = [sys.executable, "-W", "error", str(program)]
        path = os.pathsep.join([str(Path(jg.__file__).parent.parent), *sys.path[1:]])
        return subprocess.run(
            command, capture_output=True, text=True, env={**ENVIRONMENT, "PYTHONPATH": path, **environment}
        )


EAGER = """
import numpy as np
import jitgraph as jg
x, w = (np.linspace(-1, 1, n, dtype=np.float32).reshape(shape) for n, shape in ((12, (3, 4)), (20, (4, 5))))
t, p = jg.asarray(x), jg.asarray(w, requires_grad=True)
print((t @ p).detach().numpy().tobytes().hex())
print(jg.sum(jg.asarray(np.linspace(0, 1, 70_000, dtype=np.float32))).numpy().tobytes().hex())
image = jg.asarray(np.linspace(-1, 1, 2 * 3 * 6 * 6, dtype=np.float32).reshape(2, 3, 6, 6))
kernel = jg.asarray(np.linspace(-1, 1, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3))
print(jg.nn.functional.conv2d(image, kernel, padding=1).numpy().tobytes().hex())
jg.sum((t @ p) * (t @ p)).backward()
print(p.grad.numpy().tobytes().hex())
jg.random.seed(3)
print(jg.random.normal((5,)).numpy().tobytes().hex())
"""

TRACED = """
import numpy as np
import jitgraph as jg
jg.random.seed(0)
model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.GELU(), jg.nn.Linear(8, 3))
optimizer = jg.optim.Adam(model.parameters(), lr=0.1)
@jg.trace
def step(x, y):
    loss = jg.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
@jg.script
def newton(x):
    while jg.max(jg.abs(x * x - 2)) > 1e-6:
        x = (x + 2 / x) / 2
    return x
x, y = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4), np.arange(6) % 3
for _ in range(3):
    print(step(x, y).item())
print(newton(jg.asarray(np.float64(1.0))).item(), newton(jg.asarray(np.float64(3.0))).item())
print(jg.grad(lambda x: jg.sum(jg.exp(x)))(jg.asarray([1.0, 2.0])).numpy().tolist())
print(jg.trace(lambda x: x @ x.T)(x).numpy().tobytes().hex())
"""


@EACH_SYSTEM
def test_eager_calls_have_the_bits_of_native_code(system: str) -> None:
    """Products, large sums and convolutions, which run compiled kernels here, are evaluated by NumPy there."""
    no_compiler = "\nimport sys\nassert 'llvmlite' not in sys.modules and 'jitgraph.codegen' not in sys.modules"
    assert output_on(system, EAGER + no_compiler) == output_here(EAGER)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with native code, saved here."""
    path = tmp_path_factory.mktemp("saved") / "model.jg"
    jg.save(jg.trace(lambda x: jg.tanh(x) * 2), path, example_inputs=(np.ones(3, np.float32),))
    return path


@EACH_SYSTEM
def test_traces_run_in_the_interpreter(system: str, model: Path) -> None:
    """Training steps, loops of scripts, gradients and saved files, with the results that the interpreter has here."""
    code = f"{TRACED}print(jg.load({str(model)!r})(x[0, :3]).numpy().tobytes().hex())\n"
    assert output_on(system, code, JITGRAPH_INTERPRET="1") == output_here(code, JITGRAPH_INTERPRET="1")


TELL = """
import numpy as np
import jitgraph as jg
def tell(what):
    try:
        what()
    except jg.JitgraphError as error:
        print(f"{type(error).__name__}: {error}".replace("\\n", "; "))
"""


@EACH_SYSTEM
def test_native_code_says_what_is_missing(system: str, model: Path, tmp_path: Path) -> None:
    code = (
        f"{TELL}x = np.ones(3, np.float32)\nf = jg.trace(lambda x: x + 1)\nfrom jitgraph.runtime import loader\n"
        f"tell(lambda: f(x))\ntell(lambda: jg.save(f, {str(tmp_path / 'new.jg')!r}, example_inputs=(x,)))\n"
        f"tell(lambda: jg.load({str(model)!r})(x))\ntell(lambda: loader.load({str(model)!r}))\n"
        f"tell(lambda: loader.load({str(model)!r}, level='x86-64-v2'))\n"
    )
    said = output_on(system, code).splitlines()
    assert len(said) == 5
    assert all(LACKING[system] in line for line in said), said
    assert all(line.startswith("CompileError: ") and "hint: set JITGRAPH_INTERPRET" in line for line in said[:3]), said
    assert all(line.startswith("LoadError: ") for line in said[3:]), said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("system", ["Linux on arm64", "macOS on arm64", "Windows on x86-64"])
def test_files_are_written_whole(system: str, tmp_path: Path) -> None:
    """Where a file that is open cannot take another's place, it is closed before."""
    path = tmp_path / "model.jg"
    path.write_bytes(b"old")
    closed = (
        "replace = os.replace\n"
        "def unless_open(part, target):\n"
        "    assert sys.platform != 'win32' or file.closed\n"
        "    replace(part, target)\n"
        "os.replace = unless_open\n"
    )
    output_on(
        system,
        f"from jitgraph.runtime import atomic_file\n{closed}with atomic_file.replacing({str(path)!r}) as file:\n"
        f"    file.write(b'new')\n    assert open({str(path)!r}, 'rb').read() == b'old'\n",
    )
    assert path.read_bytes() == b"new"
    assert [actual.name for actual in tmp_path.iterdir()] == ["model.jg"]


def test_this_machine_lacks_nothing() -> None:
    assert loader.lacking() == ""
    assert set(SYSTEMS) == set(LACKING)


def test_the_documented_table_names_each_system() -> None:
    table = (ROOT / "docs" / "platforms.md").read_text()
    for system in SYSTEMS:
        assert re.search(rf"^\| {re.escape(system)}[ ,|]", table, re.MULTILINE), system
