"""Options and profiles of the whole test run."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import zlib
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.freezing import freeze

# The generators of the test modules, each with its state once the tests were collected.
_generator_states: dict[np.random.Generator, Any] = {}

# The same examples in every run, so that a red run is red again; deadlines would time the machine, not the code.
settings.register_profile(
    "jitgraph",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("jitgraph")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the expected graphs in tests/golden")
    parser.addoption("--sample", type=int, default=0, metavar="N", help="one test in N, of each file one at least")
    parser.addoption("--but-sample", type=int, default=0, metavar="N", help="what --sample N leaves out")
    parser.addoption("--loops", type=int, default=1, metavar="N", help="every N-th case of the longest loops over ops")
    parser.addoption("--coverage-table", action="store_true", help="print what was tried of every op, not of families")
    parser.addoption("--public-calls", action="store_true", help="fail where a public function is called by no test")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--public-calls"):
        from tests import public_calls

        public_calls.watch()


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the standalone loaders as users get them, and nothing else."""
    from jitgraph.standalone import write_loaders

    folder = tmp_path_factory.mktemp("written")
    write_loaders(folder)
    return folder


@pytest.fixture(scope="session")
def written_loader(written: Path) -> Any:
    """The written ``loader.py``, run beside the package; its errors are its own classes.

    Its code goes by a name that traces do not follow: the hook by which it outlives a fork runs in later tests, too.
    """
    module = ModuleType("written_loader")
    sys.modules[module.__name__] = module
    exec(compile((written / "loader.py").read_text(), "<jitgraph loader.py>", "exec"), vars(module))
    return module


@pytest.fixture(scope="session")
def c_library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The C loader, compiled once; None where there is no compiler."""
    if shutil.which("gcc") is None:
        return None
    from tests.runtime.c_library import Library

    return Library(tmp_path_factory.mktemp("library"))


def pytest_collection_finish() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("tests."):
            generators = [value for value in vars(module).values() if isinstance(value, np.random.Generator)]
            _generator_states.update((generator, generator.bit_generator.state) for generator in generators)
    freeze()


def pytest_runtest_setup() -> None:
    """The random numbers of a test are the same whichever tests ran before it."""
    for generator, state in _generator_states.items():
        generator.bit_generator.state = state


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """What a file of tests has left in caches, compiled graphs above all, is frozen behind it."""
    result = yield
    if nextitem is not None and nextitem.path != item.path:
        freeze()
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its counts over."""
    for name in ("coverage_table", "capture.table"):
        if name in sys.modules and hasattr(session.config, "workeroutput"):
            session.config.workeroutput[name] = sys.modules[name].dump()
    if session.config.getoption("--public-calls"):
        from tests import public_calls

        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["public_calls"] = public_calls.called()
        elif public_calls.never_called():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    actual = getattr(node, "workeroutput", {}).get("coverage_table", ())
    if actual:
        from tests import coverage_table

        coverage_table.merge(actual)
    if programs := getattr(node, "workeroutput", {}).get("capture.table"):
        from tests.capture import table

        table.outcomes.update(programs)
    if names := getattr(node, "workeroutput", {}).get("public_calls"):
        from tests import public_calls

        public_calls.merge(names)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for option, text in (("--sample", "one test in {}"), ("--but-sample", "all tests but one in {}")):
        if share := config.getoption(option):
            terminalreporter.write_line(f"{text.format(share)}, chosen by the commit: {commit()}")
    if config.getoption("--public-calls"):
        from tests import public_calls

        terminalreporter.section("public functions that no test called")
        terminalreporter.write_line(", ".join(public_calls.never_called()) or "none")
    programs = sys.modules.get("capture.table")
    if programs is not None and programs.outcomes:
        terminalreporter.section("random programs for capture")
        for line in programs.summary():
            terminalreporter.write_line(line)
    table = sys.modules.get("coverage_table")
    if table is None or not table.counts:
        return
    terminalreporter.section("samples of ops that came out right")
    lines = table.full()
    for line in lines if config.getoption("--coverage-table") else table.short():
        terminalreporter.write_line(line)
    cache = getattr(config, "cache", None)
    if cache is not None:
        file = cache.mkdir("jitgraph") / "coverage_table.txt"
        file.write_text("\n".join(lines) + "\n")
        terminalreporter.write_line(f"the table by op: {file.relative_to(config.rootpath)}")


_LOOPS = (
    *("tests/eager/test_op_eager.py", "tests/eager/test_eager_bits.py", "tests/codegen/cpu/test_native.py"),
    *("tests/codegen/lower/test_select.py", "tests/ops/test_gradients.py", "tests/ops/test_empty.py"),
    *("tests/tracing/capture/test_capture_rules.py", "tests/codegen/cuda/test_op_loop.py"),
    "tests/models/test_layers.py::test_a_trace_gives_the_same",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ``--loops`` (of parametrised tests) and ``--sample`` leave out, the same in each process."""
    loops = [item for item in items if item.nodeid.startswith(_LOOPS) and hasattr(item, "callspec")]
    left_out = {id(item) for number, item in enumerate(loops) if number % config.getoption("--loops")}
    if share := config.getoption("--sample") or config.getoption("--but-sample"):
        candidates = [item for item in items if id(item) not in left_out]
        chosen = sample(candidates, share, commit())
        left_out |= {id(item) for item in candidates if (id(item) in chosen) != bool(config.getoption("--sample"))}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


def sample(items: list[pytest.Item], share: int, seed: str) -> set[int]:
    """Ids of one in ``share`` of the items, and of at least one of each file, by a hash of ``seed`` and their names."""
    ranks = {id(item): zlib.crc32(f"{seed} {item.nodeid}".encode()) for item in items}
    files: dict[Path, list[int]] = {}
    for item in items:
        files.setdefault(item.path, []).append(id(item))
    return {
        chosen
        for members in files.values()
        for chosen in [x for x in members if ranks[x] % share == 0] or [min(members, key=ranks.__getitem__)]
    }


@functools.cache
def commit() -> str:
    """The commit that is checked out, which is the seed of the sample; the package's version where there is no git."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except FileNotFoundError:
        done = None
    if done is None or done.returncode != 0:
        from jitgraph import __version__

        return __version__
    return done.stdout.strip()
