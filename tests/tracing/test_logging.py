"""Loggers in traced functions: what would log is refused, with the way out, and what logs nothing is no trouble."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import jitgraph as jg

X = jg.ones(2)
logger = logging.getLogger("tests.tracing.logging")


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(logging.NOTSET)


def debugging(x: Any) -> Any:
    logger.debug("shape %s", x.shape)
    logger.info("x")
    logger.log(logging.WARNING, "x")
    return x + 1


def asking(x: Any) -> Any:
    return x + 1 if logger.isEnabledFor(logging.INFO) else x + 2


def test_a_logger_that_is_silent_at_all_times() -> None:
    traced = jg.trace(debugging)
    for _ in range(3):
        assert traced(X).tolist() == [2.0, 2.0]
    assert traced.cache_info().misses == 1


@pytest.mark.parametrize("method", ["error", "critical", "exception"])
def test_what_would_log_is_refused(method: str) -> None:
    def logging_function(x: Any) -> Any:
        getattr(logger, method)("x")
        return x + 1

    with pytest.raises(jg.TraceError, match=rf"logger\.{method} in a traced function") as caught:
        jg.trace(logging_function)(X)
    assert "jg.debug.print" in str(caught.value) and "test_logging.py" in str(caught.value)


def test_a_level_that_changes_is_seen_at_the_next_call() -> None:
    traced = jg.trace(debugging)
    traced(X)
    logger.setLevel(logging.INFO)
    with pytest.raises(jg.TraceError, match=r"logger\.info in a traced function"):
        traced(X)
    logger.setLevel(logging.ERROR)
    assert traced(X).tolist() == [2.0, 2.0]


def test_a_logger_may_be_asked() -> None:
    traced = jg.trace(asking)
    assert traced(X).tolist() == [3.0, 3.0]
    logger.setLevel(logging.INFO)
    assert traced(X).tolist() == [2.0, 2.0]
    assert "but now it is True, not False" in traced.ledger[-1].reason


@pytest.mark.parametrize(
    "use", [lambda: logger.setLevel(10), lambda: logger.addFilter(print), lambda: logging.LoggerAdapter(logger, {})]
)
def test_a_logger_that_other_code_is_given_is_refused(use: Any) -> None:
    def using(x: Any) -> Any:
        use()
        return x

    with pytest.raises(jg.TraceError, match=r"jg\.debug\.print"):
        jg.trace(using)(X)


@pytest.mark.parametrize("function", [logging.info, logging.getLogger])
def test_functions_of_the_module_are_refused(function: Any) -> None:
    with pytest.raises(jg.TraceError, match=r"jg\.debug\.print"):
        jg.trace(lambda x: (function("name"), x)[1])(X)
