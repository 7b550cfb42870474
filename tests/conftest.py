"""Options and profiles of the whole test run."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

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
    parser.addoption("--coverage-table", action="store_true", help="print what was tried of every op, not of families")


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
    """Collections of cycles leave out the tests themselves: many tests collect, and would walk through all of them."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its counts over."""
    for name in ("coverage_table", "capture.table"):
        if name in sys.modules and hasattr(session.config, "workeroutput"):
            session.config.workeroutput[name] = sys.modules[name].dump()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    found = getattr(node, "workeroutput", {}).get("coverage_table", ())
    if found:
        from tests import coverage_table

        coverage_table.merge(found)
    if programs := getattr(node, "workeroutput", {}).get("capture.table"):
        from tests.capture import table

        table.outcomes.update(programs)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
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


_SAMPLED = (
    *("tests/eager/test_op_eager.py", "tests/eager/test_eager_bits.py", "tests/codegen/cpu/test_native.py"),
    *("tests/codegen/lower/test_select.py", "tests/ops/test_gradients.py", "tests/ops/test_empty.py"),
    *("tests/tracing/capture/test_capture_rules.py", "tests/codegen/cuda/test_op_loop.py"),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every n-th case of the longest loops over the ops where EAGER_SAMPLE is n; ``make nightly`` runs them all."""
    step = int(os.environ.get("EAGER_SAMPLE", "1"))
    loops = [item for item in items if item.nodeid.startswith(_SAMPLED)]
    left_out = {id(item) for number, item in enumerate(loops) if number % step}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]
