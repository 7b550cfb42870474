"""A signal handler that raises ends native code wherever it is, soon, and nothing is half written."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import jitgraph as jg
from jitgraph.runtime import forks
from tests.processes import in_child

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")

STOPPED = """
import os, signal, sys, threading, time
import numpy as np

class Stop(Exception):
    pass

def stop(*_):
    raise Stop

signal.signal(signal.SIGALRM, stop)
lost = []  # what a handler raised inside the finaliser of a lease, where Python itself drops it

def note_lost(unraisable):
    if unraisable.exc_type is Stop and unraisable.object.__name__ == "end":
        lost.append(unraisable)
    else:
        sys.__unraisablehook__(unraisable)

sys.unraisablehook = note_lost

def stopped(call, *arguments, after=1.5, again=2.0):
    "The first signal that is not handled inside a finaliser ends the call, and soon."
    handled = []
    lost.clear()
    def noting(*_):
        handled.append(time.monotonic())
        raise Stop
    signal.signal(signal.SIGALRM, noting)
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, after, again)
    try:
        call(*arguments)
    except Stop:
        late = time.monotonic() - start - after - again * len(lost)
        assert len(handled) == 1 + len(lost), (handled, lost)
        assert late < 5, f"late by {late:.1f} s"
        print("stopped")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
"""

PROLOGUE = f"""{STOPPED}
import jitgraph as jg
one = jg.asarray(1.0)
state = jg.asarray(np.zeros(4, np.float32))
"""

ENDLESS = """
@jg.script
def endless(x):
    while x >= 0:
        x = x * 1.0
    return x
"""

PATHS = {
    # late enough to be in native code: CPython 3.11 loses what a handler raises while ``compile`` parses
    "first call": ENDLESS + "stopped(endless, one, after=2.0)",
    "warm call": ENDLESS + "endless(jg.asarray(-1.0)); stopped(endless, one); stopped(endless, one)",
    "long bodies": """
@jg.script
def endless(x):
    while x.sum() >= 0:
        x = jg.tanh(x @ x) * 0 + 1
    return x
stopped(endless, jg.ones((64, 64)))
""",
    "a branch in the loop": """
@jg.script
def endless(x):
    while x >= 0:
        if x > 5:
            x = x - 3
        else:
            x = x + 1
    return x
stopped(endless, one)
""",
    "nested loops": """
@jg.script
def endless(x):
    while x >= 0:
        y = x * 0
        while y < 10:
            y = y + 1
        x = x + y * 0
    return x
stopped(endless, one)
""",
    "state that is donated": """
@jg.script
def endless(x):
    state[0] += 1
    while x >= 0:
        x = x * 1.0
    state[1] += 1
    return x
endless(jg.asarray(-1.0))
endless(jg.asarray(-1.0))
stopped(endless, one)
assert state.numpy().tolist() == [2, 2, 0, 0], state
endless(jg.asarray(-1.0))
assert state.numpy().tolist() == [3, 3, 0, 0], state
""",
    "a bounded pool": """
@jg.trace(threads=2)
def endless(x):
    return jg.while_loop(lambda x: x.sum() >= 0, lambda x: jg.exp(x * 0), x)
stopped(endless, jg.ones((500, 500)))
""",
    "jg.load": ENDLESS
    + """
jg.save(endless, "model.jg", example_inputs=[one])
stopped(jg.load("model.jg"), one)
""",
    "a long scan": """
def steps(x, xs):
    return jg.scan(lambda c, e: (c + e, None), x, xs)[0]
total = jg.trace(lambda x: jg.while_loop(lambda x: x >= 0, lambda x: steps(x, jg.zeros(100_000)), x))
stopped(total, one)
""",
    # a sort ends by itself, sooner on a fast machine: the signal comes after a third of the time that the last took
    "a sort": """
sort = jg.trace(jg.sort)
x = jg.asarray(np.random.default_rng(0).standard_normal(20_000_000))
sort(x)
start = time.monotonic()
sort(x)
stopped(sort, x, after=(time.monotonic() - start) / 3)
""",
    "sorts of several rows": """
rows = jg.trace(lambda x: jg.sort(x, axis=1))
x = jg.asarray(np.random.default_rng(0).standard_normal((4, 8_000_000)))
rows(x)
start = time.monotonic()
rows(x)
stopped(rows, x, after=(time.monotonic() - start) / 3)
""",
    "eager": """
def endless(x):
    while x >= 0:
        x = x * 1.0
stopped(endless, one)
""",
    "interpreted": ENDLESS
    + """
os.environ["JITGRAPH_INTERPRET"] = "1"
stopped(endless, one)
""",
    "handlers that return": ENDLESS
    + """
endless(jg.asarray(-1.0))
ticks = []
def tick(*_):
    ticks.append(1)
    if len(ticks) == 10:
        raise Stop
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
try:
    endless(one)
except Stop:
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(ticks) == 10
    print("stopped")
""",
    "a handler that runs native code": ENDLESS
    + """
def nested(*_):
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    try:
        endless(one)
    except Stop:
        print("inner", end=" ")
    raise KeyError("outer")
endless(jg.asarray(-1.0))
signal.signal(signal.SIGALRM, nested)
signal.setitimer(signal.ITIMER_REAL, 0.4)
try:
    endless(one)
except KeyError:
    print("stopped")
""",
    "other threads that poll": ENDLESS
    + """
def background():
    try:
        many(one)
    except Stop:
        os._exit(3)
@jg.script
def many(x):
    n = 0 * x
    while n < 2e9:
        n = n + 1
    return n
threads = [threading.Thread(target=background, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
stopped(endless, one, after=1.0)
sys.stdout.flush()
os._exit(0)
""",
    "Ctrl-C": ENDLESS
    + """
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    endless(one)
except KeyboardInterrupt:
    print("stopped")
""",
}
EXPECTED = {"warm call": "stopped\nstopped\n", "a handler that runs native code": "inner stopped\n"}


@pytest.mark.parametrize("path", PATHS)
def test_a_handler_that_raises_ends_the_call(path: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROLOGUE + textwrap.dedent(PATHS[path]))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert done.stdout == EXPECTED.get(path, "stopped\n")


def test_a_handler_that_raises_ends_a_call_of_the_standalone_loader(tmp_path: Path, written: Path) -> None:
    @jg.script
    def endless(x: Any) -> Any:
        while x >= 0:
            x = x * 1.0
        return x

    path = tmp_path / "model.jg"
    jg.save(endless, path, example_inputs=[jg.asarray(1.0)])
    alone = f"""{STOPPED}
sys.path.insert(0, {str(written)!r})
import loader
stopped(loader.load({str(path)!r}), np.array(1.0, np.float32))
assert "jitgraph" not in sys.modules
"""
    assert in_child(alone, "-I", timeout=60) == "stopped\n"


RECORDINGS = """
import gc, random, signal, sys
from jitgraph.runtime import shared
from jitgraph.tracing.capture import capture, events

class Stop(Exception):
    pass

armed = False
def stop(*_):
    global armed
    if armed:
        armed = False
        raise Stop

def traced():
    return capture

signal.signal(signal.SIGALRM, stop)
after = random.Random(0)
for _ in range(400):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, after.uniform(5e-5, 2e-3))
        while True:
            capture.Capture([]).call(traced)
    except Stop:
        pass
    assert sys.gettrace() is None, "a trace function stays"
    assert gc.isenabled() and not shared.PAUSED._inside, "the collector stays paused"
    assert events.OWN.watched is None, "the thread is still listened to"
"""


def test_a_handler_that_raises_at_any_moment_of_a_recording_leaves_nothing_behind(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(RECORDINGS)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


COMPILATIONS = """
import gc, os, random, signal, sys, threading, time
import numpy as np
import jitgraph as jg
from jitgraph.runtime import shared
from jitgraph.tracing.capture import events

TIMES = int(os.environ.get("INTERRUPTED_COMPILATIONS", 6))
signal.signal(signal.SIGINT, signal.default_int_handler)

def unraisable(found):  # Python drops what a signal handler raises in a finaliser, and reports it
    if not isinstance(found.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(found)

sys.unraisablehook = unraisable
numbers = np.random.default_rng(0).standard_normal((2, 24, 24)).astype(np.float32)
x, w = map(jg.asarray, numbers)
state = jg.zeros(3)

def variant(k):
    factor = 1 + k / 1000
    def step(x):
        y = jg.tanh((x @ w) * factor) + jg.softmax(x, axis=-1)
        last, sines = jg.scan(lambda c, e: (c * 0.5 + e, jg.sin(c)), jg.zeros(24), jg.sort(y, axis=-1))
        state[k % 3] += 1
        return y.sum() + last, sines
    return step

class Alarm:
    "SIGINT after a while, as a user sends it; ``late`` is how long the program ran on."
    def __init__(self, seconds):
        self.sent, self.late = 0.0, 0.0
        self.wanted = threading.Event()
        self.thread = threading.Thread(target=self.send, args=(seconds,), daemon=True)
    def send(self, seconds):
        if not self.wanted.wait(seconds):
            self.sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
    def __enter__(self):
        self.thread.start()
    def __exit__(self, kind, error, trace):
        try:
            self.wanted.set()
            self.thread.join()
            time.sleep(0.001)  # where the signal came behind the call, it is raised here
        except KeyboardInterrupt:
            pass
        assert not self.sent or time.monotonic() - self.sent < 30, "late"
        return kind is KeyboardInterrupt

begin = time.monotonic()
jg.trace(variant(0))(x)
jg.trace(variant(1))(x)
whole = (time.monotonic() - begin) / 2
moments = random.Random(os.environ.get("INTERRUPTED_SEED", "0"))
cut = 0
for k in range(2, TIMES + 2):
    traced, before, results = jg.trace(variant(k)), state.numpy().sum(), None
    with Alarm(moments.uniform(0, whole)):
        results = traced(x)
    cut += results is None
    assert sys.gettrace() is None, "a trace function stays"
    assert gc.isenabled() and not shared.PAUSED._inside, "the collector stays paused"
    assert events.OWN.watched is None, "the thread is still listened to"
    steps = state.numpy().sum() - before
    assert steps in ((0, 1) if results is None else (1,)), f"state is half written: {steps}"
    for got, expected in zip(traced(x), variant(k)(x), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    assert state.numpy().sum() - before == steps + 2
assert cut, "no signal arrived within a call"
folder = os.environ["JITGRAPH_CACHE_DIR"]
assert not [name for name in os.listdir(folder) if name.endswith(".part")], os.listdir(folder)
print("well")
"""

LARGE = {
    "a chain of 20,000 products": """
def program(x):
    for _ in range(20_000):
        x = x @ x
    return x
""",
    "11,175 products of pairs": """
def program(x):
    return sum(x[i % 8] * x[j % 8] for i in range(150) for j in range(i + 1, 150))
""",
    "2,000 concatenated arrays": "program = lambda x: jg.concat([x * (i + 1) for i in range(2000)])",
    "1,000 outputs": "program = lambda x: [jg.sin(x * (i + 1)) for i in range(1000)]",
    "a loop of 4,000 ops": """
def body(c, _):
    for i in range(2000):
        c = c * 1.001 + jg.sin(c + i)
    return c, None
program = lambda x: jg.scan(body, x.sum(), None, length=10)[0]
""",
}

INTERRUPTED = """
import os, signal, sys, threading, time
import jitgraph as jg
signal.signal(signal.SIGINT, signal.default_int_handler)
{program}
x = jg.ones((8, 8))
jg.trace(lambda x: jg.sin(x) @ x)(x)
timer = threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT))
timer.daemon = True
timer.start()
try:
    jg.trace(program)(x)
    timer.join()
    time.sleep(1)
except KeyboardInterrupt:
    print("interrupted")
assert jg.trace(lambda x: x * 2 + 1)(jg.ones(3)).tolist() == [3, 3, 3]
"""


def test_ctrl_c_at_any_moment_of_a_compilation_leaves_the_session_usable(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    assert in_child(COMPILATIONS, timeout=600) == "well\n"


@pytest.mark.parametrize(("program", "after"), [(name, 0.3 + 0.6 * k) for k, name in enumerate(LARGE)])
def test_ctrl_c_ends_a_large_compilation(program: str, after: float, tmp_path: Path, monkeypatch: Any) -> None:
    """The time limit of the process is a guard against one that hangs: a whole compilation may take longer."""
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    code = INTERRUPTED.format(program=LARGE[program]).replace("sys.argv[1]", repr(after))
    assert in_child(code, timeout=60) == "interrupted\n"


def test_no_python_runs_where_an_object_is_forgotten() -> None:
    """Where a handler runs in a callback of a weak reference, what it raises is printed, and lost."""
    living, ran = forks.Living(), []

    class Member:
        pass

    living.add(member := Member())
    assert living.members() == [member]
    sys.setprofile(lambda frame, event, _: ran.append((frame.f_code.co_name, event)))
    try:
        del member
    finally:
        sys.setprofile(None)
    assert living.members() == []
    assert not [each for each in ran if each[1] == "call"]
