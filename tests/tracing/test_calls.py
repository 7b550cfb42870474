"""How traced functions are called and passed on: names of arguments, depth of nesting, pickles and processes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

NAMES = ("self", "args", "kwargs", "named", "fn", "f", "function", "cls", "values", "instance", "entry", "x", "index")


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_may_have_any_name(name: str, tmp_path: Path) -> None:
    """Wrappers take what they are given by position alone, so that no name of the user's meets one of theirs."""
    namespace: dict[str, Any] = {}
    exec(f"def plain({name}):\n    return ({name} * 3).sum()", namespace)
    plain = namespace["plain"]
    inputs = {name: jg.asarray(np.ones(2, np.float32))}
    assert float(jg.trace(plain)(**inputs)) == 6
    assert float(jg.trace(plain).lower(**inputs).compile()(**inputs)) == 6
    assert "plain" in str(jg.explain(plain, **inputs))

    class Net(jg.nn.Module):
        def forward(own, *arguments: Any, **options: Any) -> Any:  # noqa: N805 - the name is the user's
            return plain(*arguments, **options)

    class Owner:
        @jg.trace
        def method(own, **options: Any) -> Any:  # noqa: N805
            return plain(**options)

    assert float(Net()(**inputs)) == 6
    assert float(Owner().method(**inputs)) == 6
    both = jg.value_and_grad(lambda w, **options: plain(**options) * w)
    value, gradient = both(jg.asarray(2.0), **inputs)
    assert (float(value), float(gradient)) == (12, 6)
    path = str(tmp_path / "model.jg")
    jg.save(jg.trace(plain), path, example_inputs=list(inputs.values()))
    assert float(jg.load(path)(**inputs)) == 6


class Nested:
    """An object whose calls nest ``depth`` deep."""

    depth = 0

    def __call__(self, most: int) -> None:
        self.depth += 1
        if self.depth < most:
            self(most)


def depth_of_objects(most: int) -> int:
    """How deeply calls of objects nest, ``most`` at the most, where tracing still finds room for its own calls in C.

    From 3.12 on Python counts what runs on the C stack apart, calls of objects too, against a limit that it is built
    with: 1,500 in CPython 3.12.1, of which such a call takes three, and 8,000 or more later.
    """
    nested, limit = Nested(), sys.getrecursionlimit()
    sys.setrecursionlimit(10 * limit)
    try:
        nested(most)
    except RecursionError:
        return nested.depth - 60
    finally:
        sys.setrecursionlimit(limit)
    return most


def test_traced_functions_nest_as_deeply_as_plain_ones() -> None:
    depth = depth_of_objects(sys.getrecursionlimit() * 3 // 4)
    namespace: dict[str, Any] = {"jg": jg}
    lines = ["@jg.trace\ndef f0(x):\n    return x + 1"]
    lines += [f"@jg.trace\ndef f{i}(x):\n    return f{i - 1}(x) * 1.0" for i in range(1, depth)]
    exec("\n".join(lines), namespace)
    limit = sys.getrecursionlimit()
    np.testing.assert_array_equal(namespace[f"f{depth - 1}"](jg.zeros(2)).numpy(), [1, 1])
    assert sys.getrecursionlimit() == limit


def test_a_traced_function_that_calls_itself_for_ever_raises_what_python_raises() -> None:
    @jg.trace
    def endless(x: Any) -> Any:
        return endless(x)

    limit = sys.getrecursionlimit()
    with pytest.raises(RecursionError):
        endless(jg.zeros(2))
    assert sys.getrecursionlimit() == limit


@jg.trace
def by_name(x: Any) -> Any:
    return x * 3


class Owner:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def method(self, x: Any) -> Any:
        return x + 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_decorated_function_is_pickled_by_its_name(protocol: int) -> None:
    assert pickle.loads(pickle.dumps(by_name, protocol)) is by_name
    assert pickle.loads(pickle.dumps(Owner.method, protocol)) is Owner.method
    assert copy.copy(by_name) is by_name
    assert copy.deepcopy(by_name) is by_name


PROGRAM = """
    import multiprocessing, sys
    import jitgraph as jg

    scale = 3

    @jg.trace
    def f(x):
        return x * scale

    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def outer(x):
        return f(x) + 1

    @jg.script
    def scripted(x):
        if x.sum() > 0:
            x = x * 2
        return x

    class Owner:
        @jg.trace
        def method(self, x):
            return x - 1

    def work(queue, function):
        queue.put(function(jg.ones(3)).numpy().tolist())

    CASES = [(f, 3.0), (outer, 4.0), (scripted, 2.0), (Owner().method, 0.0)]

    if __name__ == "__main__":
"""


def run(tmp_path: Path, main: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM) + textwrap.indent(textwrap.dedent(main), "    "))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_functions_of_the_main_program_go_to_other_processes(method: str, tmp_path: Path) -> None:
    main = f"""
        context = multiprocessing.get_context({method!r})
        for function, expected in CASES:
            queue = context.Queue()
            process = context.Process(target=work, args=(queue, function))
            process.start()
            assert queue.get(timeout=100) == [expected] * 3
            process.join()
        print("sound")
    """
    assert run(tmp_path, main) == "sound"


def test_functions_of_the_main_program_go_by_value_where_cloudpickle_takes_them(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    main = """
        import cloudpickle, subprocess
        receiver = "import sys, pickle, jitgraph as jg; f = pickle.load(sys.stdin.buffer); print(f(jg.ones(1)).numpy())"
        for function, expected in CASES:
            data = cloudpickle.dumps(function)
            done = subprocess.run([sys.executable, "-c", receiver], input=data, capture_output=True)
            assert done.stdout.decode().strip() == f"[{expected:g}.]", done.stderr.decode()
        print("sound")
    """
    assert run(tmp_path, main) == "sound"


def test_joblib(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    main = """
        import joblib
        for function, expected in CASES:
            results = joblib.Parallel(n_jobs=2)(joblib.delayed(function)(jg.ones(2)) for _ in range(3))
            assert all(result.numpy().tolist() == [expected] * 2 for result in results), results
        print("sound")
    """
    assert run(tmp_path, main) == "sound"


def _root(x: Any) -> Any:
    return jg.sqrt(jg.abs(x)) + 1


@pytest.mark.parametrize("outer", [jg.trace, jg.script, lambda f: jg.trace(f, dynamic_shapes={"x": {0: "rows"}})])
@pytest.mark.parametrize("inner", [jg.trace, jg.script])
def test_a_traced_function_that_has_been_called_is_traced_again(inner: Any, outer: Any) -> None:
    first = inner(_root)
    first(jg.ones(3))
    assert first.restore() is not None
    first.label = "mine"
    second = outer(first)
    assert getattr(second, "label", "mine") == "mine"
    for size in (3, 4):
        np.testing.assert_array_equal(second(jg.ones(size)).numpy(), np.full(size, 2, np.float32))
        np.testing.assert_array_equal(first(jg.ones(size)).numpy(), np.full(size, 2, np.float32))
    assert second.cache_info().misses <= 2 and len(second.ledger) == second.cache_info().misses
    assert second.restore().__wrapped__ is second.__wrapped__ and first.restore().__wrapped__ is first.__wrapped__


def test_attributes_of_a_callable_object_hide_none_of_a_traced_function() -> None:
    class Scaled:
        def __init__(self) -> None:
            self.factor = 3
            for name in dir(jg.trace(_root)):
                if not name.startswith("__"):
                    setattr(self, name, "the object's own")

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    traced = jg.trace(Scaled())
    np.testing.assert_array_equal(traced(jg.ones(2)).numpy(), [3, 3])
    assert traced.cache_info().misses == 1 and traced.factor == 3
    assert "mul" in str(traced.lower(jg.ones(2)).graph)
    traced.cache_clear()
    np.testing.assert_array_equal(traced(jg.ones(2)).numpy(), [3, 3])
