"""Options and profiles of the whole test run."""

from __future__ import annotations

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
