"""Names are the field's: docs/glossary.md has the terms, and nothing public is named by a coined one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()

COINED = {
    "apart": "unfused, disjoint or separate",
    "crossed": "transposed",
    "doubt": "deferred error",
    "doubts": "deferred errors",
    "found": "the name of what was looked up",
    "further": "the subject of the module",
    "given": "the name of the argument",
    "held": "pinned, constant or live",
    "keep": "store, pin, save or materialise",
    "keeping": "row materialisation",
    "kept": "cached or saved",
    "made": "created, or the name of what was created",
    "more": "the subject of the module",
    "place": "location, position, slot, device or offset",
    "placed": "moved or located",
    "places": "locations, positions or offsets",
    "placing": "conversion",
    "planes": "decomposed complex numbers",
    "silence": "strip prints",
    "steady": "reachable",
    "ways": "lookup paths",
}
"""Words that say how a value came about, or that stand for a term of the field; what to say instead."""

TERMS = {"in_place": "inplace", "InPlace": "Inplace"}
"""Terms of the field in which such a word stands."""


def _words(name: str) -> set[str]:
    for term, plain in TERMS.items():
        name = name.replace(term, plain)
    return {word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)}


def _definitions(body: list[ast.stmt], owner: str = "") -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield owner + statement.name
        if isinstance(statement, ast.ClassDef):
            yield from _definitions(statement.body, f"{statement.name}.")


def _names() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "jitgraph").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield module, path.stem
        for name in _definitions(ast.parse(path.read_text()).body):
            if not name.rpartition(".")[2].startswith("_"):
                yield f"{module}.{name}", name.rpartition(".")[2]


def test_no_module_class_or_public_method_has_a_coined_name() -> None:
    coined = [f"{full}: {word}; say {COINED[word]}" for full, name in _names() for word in _words(name) & set(COINED)]
    assert not coined, "\n".join(coined)


def test_the_glossary_has_at_most_60_terms_in_order_each_with_its_source() -> None:
    rows = [line.strip("| ").split(" | ") for line in GLOSSARY.splitlines() if line.startswith("| ")][2:]
    terms = [row[0] for row in rows]
    assert all(len(row) == 3 and all(row) for row in rows)
    assert terms == sorted(terms, key=str.lower) and len(set(terms)) == len(terms) <= 60
    assert not [term for term in terms if set(term.lower().split()) & set(COINED)]


def test_words_are_told_apart_in_names() -> None:
    assert _words("KeptPlan") == {"kept", "plan"} and _words("sum_in_place") == {"sum", "inplace"}
    assert _words("LLVMPlaces2") == {"llvm", "places"}
