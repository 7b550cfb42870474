"""docs/api.md lists the public names, the package has them and no others, and type checkers see the same."""

from __future__ import annotations

import pytest

import jitgraph as jg
from jitgraph import migration_hints, public_names
from tests.public_names import MODULES, PAGE, find, page, planned_names, planned_of

TEXT = PAGE.read_text()


def test_the_page_is_what_the_docstrings_say() -> None:
    assert page(planned_of(TEXT)) == TEXT, "python -m tests.public_names writes docs/api.md anew"


def test_each_name_has_a_sentence() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("- `") and ": " in line]
    assert len(rows) > 300
    assert not [row for row in rows if row.endswith("`: .")]


def test_the_package_shows_its_public_names_alone() -> None:
    assert [name for name in dir(jg) if not name.startswith("__")] == list(jg.__all__)
    space: dict[str, object] = {}
    exec("from jitgraph import *", space)
    assert set(space) - {"__builtins__"} == set(jg.__all__)
    assert set(MODULES) >= {name for name in jg.__all__ if isinstance(getattr(jg, name), type(jg))} - {"runtime"}


@pytest.mark.parametrize(
    "name", ["nn", "nn.functional", "nn.utils", "random", "special", "linalg", "optim", "data", "ir", "autograd"]
)
def test_completion_offers_names_that_are_not_loaded_yet(name: str) -> None:
    module = find(name)
    assert [listed for listed in dir(module) if not listed.startswith("__")] == sorted(module.__all__)


def test_type_checkers_see_the_same_names() -> None:
    """``jitgraph/public_names.py`` says where each name comes from; jitgraph/__init__.py has the constants itself."""
    seen = {name: value for name, value in vars(public_names).items() if not name.startswith("__") and name != "bool_"}
    assert set(seen) == set(jg.__all__) - {"e", "inf", "nan", "newaxis", "pi"}
    assert not [name for name, value in seen.items() if value is not getattr(jg, name)]


@pytest.mark.parametrize("name", planned_names(TEXT))
def test_planned_names_are_not_there_yet(name: str) -> None:
    """Where this fails, the name has come: take it from the planned ones, and from ``migration_hints``."""
    with pytest.raises(AttributeError):
        find(name)


def test_every_name_that_is_announced_is_planned() -> None:
    assert {*migration_hints.PLANNED} <= set(planned_names(TEXT))
