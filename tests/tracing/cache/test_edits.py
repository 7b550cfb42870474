"""A trace of yesterday is taken where nothing that it rests on has changed, and never where something has."""

from __future__ import annotations

from pathlib import Path

import pytest

import jitgraph as jg
from tests.tracing.cache.worlds import outcome, require_fresh

MAIN = """\
import enum, functools
from types import SimpleNamespace
import jitgraph as jg
import helper

RATE = 2.0
PAIR = (3, "a")
TABLE = {"k": 1, "inner": {"m": 2.0}}
LOG = []
WEIGHT = jg.asarray([1.0, 2.0])


class Color(enum.Enum):
    RED = 1
    BLUE = 2


CHOICE = Color.RED


class Base:
    factor = 3.0

    @property
    def twice(self):
        return self.factor * 2


class Box(Base):
    def __init__(self):
        self.value = 4.0

    def scaled(self, x):
        return x * self.value * self.twice


BOX = Box()
OTHER = BOX


def decorated(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args) + 1.0
    return call


@decorated
def own(x, power=2, *, shift=0.5):
    return x ** power + shift


def make(c):
    def program(x, mode="a"):
        LOG.append(len(LOG))
        TABLE["k"] += 1
        y = own(x) * RATE + helper.far(x) * c + BOX.scaled(x) + WEIGHT
        if PAIR[1] == "a" and CHOICE is Color.RED and CHOICE.value == 1 and OTHER is BOX and mode == "a":
            y = y - PAIR[0]
        return {"y": y, "n": TABLE["inner"]["m"]}
    return program


program = make(5.0)
"""
HELPER = """\
SCALE = 7.0


def near(x):
    return x - SCALE


def far(x):
    return near(x) * 2
"""
FILES = {"helper": HELPER, "main": MAIN}

EDITS: dict[str, tuple[str, str, str]] = {
    "the function": ("main", "y = y - PAIR[0]", "y = y - PAIR[0] - 1"),
    "helper": ("main", "x ** power + shift", "x ** power - shift"),
    "a decorator": ("main", "function(*args) + 1.0", "function(*args) + 2.0"),
    "a helper in another file": ("helper", "x - SCALE", "x + SCALE"),
    "its global": ("helper", "SCALE = 7.0", "SCALE = 8.0"),
    "which helper": ("helper", "near(x) * 2", "near(x) * 3"),
    "a global": ("main", "RATE = 2.0", "RATE = 2.5"),
    "the type of a global": ("main", "RATE = 2.0", "RATE = 2"),
    "a tuple": ("main", 'PAIR = (3, "a")', 'PAIR = (4, "a")'),
    "an element of a tuple": ("main", 'PAIR = (3, "a")', 'PAIR = (3, "b")'),
    "a dict": ("main", '"m": 2.0', '"m": 3.0'),
    "an enum": ("main", "CHOICE = Color.RED", "CHOICE = Color.BLUE"),
    "the value of an enum": ("main", "    RED = 1", "    RED = 9"),
    "a class attribute": ("main", "factor = 3.0", "factor = 4.0"),
    "an attribute of the nearer class": ("main", "class Box(Base):", "class Box(Base):\n    factor = 9.0\n"),
    "a property": ("main", "self.factor * 2", "self.factor * 5"),
    "a method": ("main", "x * self.value * self.twice", "x + self.value * self.twice"),
    "an attribute": ("main", "self.value = 4.0", "self.value = 4.5"),
    "which object": ("main", "OTHER = BOX", "OTHER = Box()"),
    "a default": ("main", "power=2", "power=3"),
    "a default by name": ("main", "shift=0.5", "shift=0.25"),
    "a variable of a closure": ("main", "make(5.0)", "make(6.0)"),
    "a base": ("main", "class Box(Base):", "class Box(SimpleNamespace):\n    twice = 4.0\n"),
    "the line": ("main", "import enum", "\nimport enum"),
}

INSIDE = {  # what a class of the user's has or holds that a call asks of Python's own code
    "the members of an enum": ("class C(enum.Enum):\n    A = 2\n", "    B = 3\n", "len(C)"),
    "their order": (
        "class C(enum.Enum):\n    A = 2\n    B = 3\n",
        "class C(enum.Enum):\n    B = 3\n    A = 2\n",
        "next(iter(C)).value",
    ),
    "the value of a member": ("class C(enum.Enum):\n    A = 2\n", "class C(enum.Enum):\n    A = 3\n", "C['A'].value"),
    "a property of a class of its own": (
        "class P(property): pass\ndef f(s): return 2.0\ndef g(s): return 3.0\nclass B:\n    p = P(f)\nO = B()\n",
        "B.p = P(g)\n",
        "O.p",
    ),
    "the arguments of an exception": ("class E(Exception): pass\nHELD = E(2.0)\n", "HELD = E(3.0)\n", "HELD.args[0]"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_what_is_the_same_is_found(folder: Path) -> None:
    first = require_fresh(folder, FILES)
    assert not first.found
    assert all(require_fresh(folder, FILES).found for _ in range(3))


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_is_recorded(edit: str, folder: Path) -> None:
    name, before, after = EDITS[edit]
    assert FILES[name].count(before) == 1
    edited = {**FILES, name: FILES[name].replace(before, after)}
    require_fresh(folder, FILES)
    assert not require_fresh(folder, edited).found
    assert require_fresh(folder, edited).found, "the new one is kept beside the old one"
    assert require_fresh(folder, FILES).found


@pytest.mark.parametrize("what", INSIDE)
def test_no_call_is_served_what_another_inside_gave(what: str, folder: Path) -> None:
    before, more, requested = INSIDE[what]
    for text in before, before + more:
        lines = "\n" * (12 - text.count("\n"))
        require_fresh(folder, {"main": f"import enum\n{text}{lines}def program(x):\n    return x * {requested}\n"})


def test_numbers_that_each_call_reads_may_be_others(folder: Path) -> None:
    require_fresh(folder, FILES)
    counted = {**FILES, "main": MAIN.replace('"k": 1', '"k": 5').replace("[1.0, 2.0]", "[3.0, 4.0]")}
    assert require_fresh(folder, counted).found


@pytest.mark.parametrize(
    "call",
    [
        "program(jg.asarray(X).astype(jg.float64))",
        "program(jg.asarray(X[:1]))",
        "program(X)",
        "program(jg.asarray(X).requires_grad_())",
        "program(jg.asarray(X), 'b')",
        "program(jg.asarray(X), mode='b')",
        "program(2.5)",
    ],
)
def test_another_kind_of_argument_is_recorded(call: str, folder: Path) -> None:
    require_fresh(folder, FILES)
    assert not require_fresh(folder, FILES, call).found
    assert require_fresh(folder, FILES, call).found


def test_the_surroundings_and_options_are_part_of_the_key(folder: Path) -> None:
    def under(**options: object) -> bool:
        return outcome(folder, FILES, wrap=lambda f: jg.trace(f, **options)).found

    assert not under() and under()
    assert not under(fastmath=True) and under(fastmath=True)
    assert not under(dynamic_shapes={"x": {0: "n"}}) and under(dynamic_shapes={"x": {0: "n"}})
    assert not under(verify=True) and not under(verify=True), "what is to be verified is recorded"
    with jg.no_grad():
        assert not under() and under()


def test_sizes_that_vary_get_names_after_a_trace_was_found(folder: Path) -> None:
    text = {"main": "def program(x):\n    return x * 2.0 + x.shape[0]\n"}
    calls = "[program(jg.asarray(np.ones(n, np.float32))) for n in (4, 8, 16, 32)] and program.cache_info()[:2]"
    fresh = outcome(folder, text, calls).result
    assert fresh == outcome(folder, text, calls).result == [2, 2]


MADE = {
    "gradients": ("program = jg.value_and_grad(loss, argnums=0)", "program = jg.value_and_grad(loss, argnums=(0,))"),
    "a partial": ("program = functools.partial(loss, k=2)", "program = functools.partial(loss, k=3)"),
    "a method": ("program = Box(2).call", "program = Box(3).call"),
    "an object that is called": ("program = Box(2)", "program = Box(3)"),
    "a module": ("program = Net(jg.nn.ReLU())", "program = Net(jg.nn.GELU())"),
    "its flag": ("program = Net(jg.nn.Dropout())", "program = Net(jg.nn.Dropout()).eval()"),
    "a hook": (
        "program = Net(jg.nn.ReLU())",
        "program = Net(jg.nn.ReLU())\nHOOK = program.register_forward_hook(hook)",
    ),
}
HEAD = """\
import functools
import jitgraph as jg


def loss(x, w=jg.asarray([2.0, 3.0]), k=1.0):
    return (x * x * w * k).sum()


def hook(module, args, result):
    return result + 1


class Box:
    def __init__(self, k):
        self.k = k

    def call(self, x):
        return x * self.k

    def __call__(self, x):
        return x + self.k


class Net(jg.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


"""


@pytest.mark.parametrize("what", MADE)
def test_how_a_function_was_made_is_part_of_it(what: str, folder: Path) -> None:
    before, after = ({"main": f"{HEAD}{text}\n"} for text in MADE[what])
    random = "jg.random.seed(0) or program(jg.asarray(X))"
    require_fresh(folder, before, random)
    assert require_fresh(folder, before, random).found
    assert not require_fresh(folder, after, random).found
    assert require_fresh(folder, after, random).found and require_fresh(folder, before, random).found
