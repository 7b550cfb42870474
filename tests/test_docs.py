"""What the documents name exists."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

import jitgraph
from jitgraph.runtime.cpython.frames import SUPPORTED
from tests import ROOT

TOUR = re.findall(r"`(jitgraph/[\w/]+\.py)`: `([\w.]+)`", (ROOT / "docs" / "tour.md").read_text())


def defined(tree: ast.AST) -> dict[str, ast.AST]:
    """Functions, classes and assigned names directly inside a module or class."""
    results: dict[str, ast.AST] = {}
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            results[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            results[node.target.id] = node
        elif isinstance(node, ast.Assign):
            results.update((target.id, node) for target in node.targets if isinstance(target, ast.Name))
    return results


@pytest.mark.parametrize(("file", "symbol"), TOUR, ids=[f"{f}:{s}" for f, s in TOUR])
def test_the_tour_names_what_exists(file: str, symbol: str) -> None:
    location: ast.AST = ast.parse((ROOT / file).read_text())
    for name in symbol.split("."):
        names = defined(location)
        assert name in names, f"docs/tour.md: {file} has no {symbol}"
        location = names[name]


def test_the_tour_is_short_and_in_order() -> None:
    text = (ROOT / "docs" / "tour.md").read_text()
    steps = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) <= 12
    assert len(TOUR) >= len(steps)


DOCUMENTS = [p.relative_to(ROOT).as_posix() for p in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")))]


def files_in(text: str) -> list[str]:
    return re.findall(r"`((?:jitgraph|tests|bench|docs|examples)/[\w./]+\.\w+)`", text)


def links_in(text: str) -> list[str]:
    return re.findall(r"\]\((?!https?:)([^)#]+)\)", text)


def targets_in(text: str) -> list[str]:
    return re.findall(r"(?:`|^ {4})make ([\w-]+)", text, re.MULTILINE)


def test_names_in_documents_are_found() -> None:
    texts = [(ROOT / document).read_text() for document in DOCUMENTS]
    for actual, least in ((files_in, 50), (links_in, 10), (targets_in, 5)):
        assert sum(len(actual(text)) for text in texts) >= least, actual.__name__


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_named_in_documents_exist(document: str) -> None:
    path = ROOT / document
    for name in files_in(path.read_text()):
        assert (ROOT / name).exists(), f"{document} names {name}"
    for name in links_in(path.read_text()):
        assert (path.parent / name).exists(), f"{document} points to {name}"


def test_files_named_in_prose_exist() -> None:
    """Also by the end of a path alone; a loader.py is what a user of saved files gets."""
    files = {
        path.relative_to(ROOT).as_posix()
        for top in ("jitgraph", "jitgraph_testing", "tests", "bench", "examples")
        for path in (ROOT / top).rglob("*.py")
    }
    gone = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "jitgraph").rglob("*.py"))
        if path.name != "CHANGELOG.md"
        for name in re.findall(r"`+([\w/]+\.py)`+", path.read_text())
        if name != "loader.py" and not any(file == name or file.endswith(f"/{name}") for file in files)
    ]
    assert not gone, "\n".join(gone)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_targets_of_make_in_documents_exist(document: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in targets_in((ROOT / document).read_text()):
        assert name in targets, f"{document} names make {name}"


def test_python_versions_are_those_that_the_tests_run_on() -> None:
    """One range: what pip allows, what tracing knows, what `make nightly` tries beside the oldest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    last = SUPPORTED[-1]
    assert project["requires-python"] == f">={SUPPORTED[0][0]}.{SUPPORTED[0][1]},<{last[0]}.{last[1] + 1}"
    assert [c for c in project["classifiers"] if re.search(r":: \d\.\d", c)] == [
        f"Programming Language :: Python :: {major}.{minor}" for major, minor in SUPPORTED
    ]
    (others,) = re.findall(r"^OTHER_PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert others.split() == [f"{major}.{minor}" for major, minor in SUPPORTED[1:]]


def test_the_version_is_written_once_for_users() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == jitgraph.__version__


def test_the_readme_counts_the_cases_of_its_tables() -> None:
    readme = (ROOT / "README.md").read_text()
    for page, before, after in (("coverage", r"\) compares ", " calls"), ("models", r"\) ", " layers")):
        cases = re.search(r"^(\d+) cases\b", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE)
        told = re.search(rf"docs/{page}\.md{before}(\d+){after}", readme)
        assert cases and told and told[1] == cases[1], f"docs/{page}.md has {cases and cases[1]} cases"
