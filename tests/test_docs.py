"""What the documents name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOUR = re.findall(r"`(jitgraph/[\w/]+\.py)`: `([\w.]+)`", (ROOT / "docs" / "tour.md").read_text())


def defined(tree: ast.AST) -> dict[str, ast.AST]:
    """Functions, classes and assigned names directly inside a module or class."""
    found: dict[str, ast.AST] = {}
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign):
            found.update((target.id, node) for target in node.targets if isinstance(target, ast.Name))
    return found


@pytest.mark.parametrize(("file", "symbol"), TOUR, ids=[f"{f}:{s}" for f, s in TOUR])
def test_the_tour_names_what_exists(file: str, symbol: str) -> None:
    place: ast.AST = ast.parse((ROOT / file).read_text())
    for name in symbol.split("."):
        names = defined(place)
        assert name in names, f"docs/tour.md: {file} has no {symbol}"
        place = names[name]


def test_the_tour_is_short_and_in_order() -> None:
    text = (ROOT / "docs" / "tour.md").read_text()
    steps = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) <= 12
    assert len(TOUR) >= len(steps)


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_files_named_in_documents_exist(document: str) -> None:
    path = ROOT / document
    for name in re.findall(r"`((?:jitgraph|tests|bench|docs|examples)/[\w./]+\.\w+)`", path.read_text()):
        assert (ROOT / name).exists(), f"{document} names {name}"
