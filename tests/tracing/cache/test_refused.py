"""What rests on one process alone is not kept, and the log says why; entries are data, whatever stands in them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jitgraph as jg
from jitgraph.runtime import disk_cache, loader
from jitgraph.tracing.cache.codec import checked
from tests.tracing.cache.worlds import outcome, require_fresh

HEAD = "class K: pass\nimport socket, sys, threading\nimport numpy as np\nimport jitgraph as jg\n"

BOUND = {  # program -> what the log says
    "set": ('N = {"a", "b"}\ndef program(x):\n    for n in N:\n        x = x * len(n)\n    return x', "set"),
    "a set that it makes": ("def program(x):\n    for n in {'a', 'b'}:\n        x = x * len(n)\n    return x", "order"),
    "a set added": ("N = {'a', 'b'}\ndef program(x):\n    m = []\n    m += N\n    return x * len(m[0])", "order"),
    "a set put in": ("N = {'a', 'b'}\ndef program(x):\n    m = []\n    m[:] = N\n    return x * len(m[0])", "order"),
    "a set in a list": ('N = [{"a", "b"}]\ndef program(x):\n    return x * len("".join(list(N[0])))', "order"),
    "a hash": ("def program(x):\n    return x * (hash('a') * 0 + 2)", "hash"),
    "an address": ("def program(x):\n    return x * (id(program) * 0 + 2)", "id"),
    "the text of an object": ("B = K()\ndef program(x):\n    return x * (len(f'{B}') * 0 + 2)", "address"),
    "the text by the operator": ("B = K()\ndef program(x):\n    return x * (len('%s' % B) * 0 + 2)", "address"),
    "a library": ("def program(x):\n    return x * (len(socket.gethostname()) * 0 + 2)", "process"),
    "a setting of Python": ("def program(x):\n    return x * (sys.getrecursionlimit() * 0 + 2)", "process"),
    "a method of a library": ("T = threading.local()\nT.a = 2\ndef program(x):\n    return x * T.a", "_local"),
    "the text of an array": ("A = np.ones(2)\ndef program(x):\n    return x * len(str(A))", "NumPy is set to print"),
    "memory that nobody wrote": ("def program(x):\n    return x * np.empty(1).size", "empty"),
    "code made of text": ("def program(x):\n    return x * eval('2')", "eval"),
    "a stream of its own": ("G = jg.random.Generator(1)\ndef program(x):\n    return x + jg.random.uniform((2,), "
                            "generator=G)", "Generator|Tensor"),
    "the hook of a gradient": ("W = jg.ones(2, requires_grad=True)\nW.register_hook(lambda g: g * 2)\n"
                               "def program(x):\n    (W * x).sum().backward()\n    return W.grad * 1", "hooks"),
}  # fmt: skip

Log = Callable[[], str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Log:
    monkeypatch.setenv("JITGRAPH_LOG", "cache")
    return lambda: capsys.readouterr().err


@pytest.mark.parametrize("what", BOUND)
def test_what_rests_on_one_process_is_not_kept(what: str, folder: Path, log: Log) -> None:
    text, why = BOUND[what]
    files = {"main": HEAD + text + "\n"}
    for _ in range(2):
        result = outcome(folder, files)
        assert not result.found
        said = next(line for line in log().splitlines() if "not kept" in line)
        assert any(word in said for word in why.split("|")), said


def test_hooks_of_other_tensors_keep_no_trace_from_the_disk(folder: Path) -> None:
    text = "W = jg.ones(2, requires_grad=True)\ndef program(x):\n    (W * x).sum().backward()\n    return W.grad * 1\n"
    other = jg.ones(2, requires_grad=True)
    other.register_hook(lambda gradient: gradient * 2)
    files = {"main": HEAD + text}
    first, second = outcome(folder, files), outcome(folder, files)
    assert second.found and second.result == first.result
    hooked = {"main": files["main"].replace("\ndef program", "\nW.register_hook(lambda g: g * 10)\ndef program")}
    assert outcome(folder, hooked).result == ("float32", [value * 10 for value in first.result[1]])


def test_what_cannot_be_guarded_is_not_kept(folder: Path, log: Log) -> None:
    text = "class K: pass\ndef program(x):\n    return x * (len(object.__subclasses__(K)) + 2)\n"
    with pytest.warns(RuntimeWarning, match="recorded anew"):
        assert not outcome(folder, {"main": text.replace("object", "type")}).found
    assert "not kept" in log()


def test_sets_of_numbers_and_questions_without_order_are_kept(folder: Path) -> None:
    text = 'N, S = {3, 1}, {"a", "b"}\ndef program(x):\n    return x * sum(N) * len(S) if "a" in S else x\n'
    assert not require_fresh(folder, {"main": text}).found
    assert require_fresh(folder, {"main": text}).found


PROGRAM = """\
import jitgraph as jg
LOG, W = [], {"w": jg.asarray([1.0, 2.0])}
def program(x, n=3):
    LOG.append(n)
    W["w"] += x
    return {"y": x * n, "w": W["w"], "log": LOG}
"""
CALL = "[program(jg.asarray(X), n) for n in (3, 4, 5)]"


def entries(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The traces in the cache, by key."""
    for path in (folder / "cache").iterdir():
        content = path.read_bytes()[disk_cache.HEADER_BYTES :]
        if content.startswith(b'{"plan"'):
            yield path.name, json.loads(content)


def write(folder: Path, key: str, data: Any) -> None:
    content = json.dumps(data).encode() if not isinstance(data, bytes) else data
    (folder / "cache" / key).write_bytes(disk_cache.packed(key, content))


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in nested lists and dicts where a value stands."""
    for key in range(len(data)) if isinstance(data, list) else list(data):
        yield data, key
        if isinstance(data[key], list | dict):
            yield from places(data[key])


HOSTILE: tuple[Any, ...] = ("__import__('os').system('touch hostile')", -1, 1 << 70, None, [], {}, [[]], True, 1.5, "")


@pytest.mark.parametrize("part", ["plan", "keys", "graph", "donate", "vjp"])
@pytest.mark.parametrize("value", range(len(HOSTILE)))
def test_an_entry_with_anything_in_it_executes_nothing(
    part: str, value: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands where, the call gives its result or an error of jitgraph's; text never becomes code."""
    monkeypatch.chdir(folder)
    files = {"main": PROGRAM}
    outcome(folder, files, CALL)
    for key, data in list(entries(folder)):
        count = sum(1 for _ in places([data[part]]))
        for number in range(value, count, max(1, count // 5)):
            changed = json.loads(json.dumps(data))
            around = [changed[part]]
            for at, (owner, name) in enumerate(places(around)):
                if at == number:
                    owner[name] = HOSTILE[value]
                    break
            changed[part] = around[0]
            write(folder, key, changed)
            with contextlib.suppress(jg.JitgraphError):
                outcome(folder, files, CALL)
            assert not (folder / "hostile").exists()
        write(folder, key, data)


@pytest.mark.parametrize("how", ["cut", "extended", "damaged", "no JSON", "another's", "empty"])
def test_a_damaged_entry_counts_as_absent(how: str, folder: Path) -> None:
    files = {"main": PROGRAM}
    due = require_fresh(folder, files, CALL).result
    keys = [key for key, _ in entries(folder)]
    for key in keys:
        path = folder / "cache" / key
        data = path.read_bytes()
        match how:
            case "cut":
                path.write_bytes(data[:-9])
            case "extended":
                path.write_bytes(data + b" ")
            case "damaged":
                path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
            case "no JSON":
                write(folder, key, b'{"plan": [')
            case "another's":
                other = next(other for other in keys if other != key)
                path.write_bytes((folder / "cache" / other).read_bytes())
            case _:
                path.write_bytes(b"")
    again = require_fresh(folder, files, CALL)
    assert again.result == due
    assert require_fresh(folder, files, CALL).found, "they are kept anew"


def test_a_full_disk_and_a_folder_that_cannot_be_keep_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"main": PROGRAM}
    (folder / "file").write_text("")
    for position in (folder / "file" / "cache", Path("/proc/jitgraph")):
        monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(position))
        assert not require_fresh(folder, files, CALL).found

    def full(*_: Any) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(folder / "cache"))
    with monkeypatch.context() as patched:
        patched.setattr(disk_cache, "packed", full)
        assert not require_fresh(folder, files, CALL).found
    assert not require_fresh(folder, files, CALL).found and require_fresh(folder, files, CALL).found


@pytest.mark.parametrize(
    "text", ["n0 * 2 + 1", "math.sqrt(n1) >= (-2.5)", "same_float(n0, float('nan'))", "n_batch % 4 == 0"]
)
def test_arithmetic_is_an_expression(text: str) -> None:
    assert checked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "n0.real",
        "(lambda: 0)()",
        "[n0]",
        "x1",
        "k0",
        "math.__name__",
        "n0 if",
        "'a'",
        "n0\n",
        "c()",
    ],
)
def test_text_becomes_code_only_where_it_is_arithmetic(text: str) -> None:
    with pytest.raises(loader.LoadError):
        checked(text)
