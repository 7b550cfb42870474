"""docs/api.md lists the public names, the package has them and no others, and type checkers see the same."""

from __future__ import annotations

import ast
import importlib
from typing import Any

import pytest

import jitgraph as jg
from jitgraph.migration_hints import foreign_names
from jitgraph.runtime import stubs
from tests import ROOT
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


STUBS = [".".join(path.parent.relative_to(ROOT).parts) for path in sorted((ROOT / "jitgraph").rglob("__init__.pyi"))]


def is_adapted(shown: Any, value: Any, package: str, module: str) -> bool:
    """Whether what a package of PyTorch's names shows is an adapter of what its stub names: a subclass, a wrapper."""
    to_pytorch = package.startswith("jitgraph.torch") and not package.startswith("jitgraph.torch.aten_ops")
    if not to_pytorch or module.removeprefix("jitgraph.torch").startswith((".functions", ".nn", ".optim", ".methods")):
        return False
    return issubclass(shown, value) if isinstance(shown, type) else getattr(shown, "__wrapped__", None) is value


@pytest.mark.parametrize("package", STUBS)
def test_a_stub_says_where_each_name_is(package: str) -> None:
    """The package, to which nobody wrote, has what its stub's imports name, and no module of it hides one."""
    stub, owner = stubs.of(package), importlib.import_module(package)
    assert list(owner.__all__) == stub.names
    for name, (module, original) in stub.homes.items():
        home: Any = importlib.import_module(module)
        value = importlib.import_module(f"{package}.{name}") if module == package else getattr(home, original)
        shown = getattr(owner, name)
        assert shown is value or is_adapted(shown, value, package, module), name
        folder = ROOT.joinpath(*package.split("."))
        assert module == package or not [p for p in (folder / f"{name}.py", folder / name) if p.exists()], name


def test_a_stub_reads_as_python_does() -> None:
    """What the reader of lines finds in the stubs is what a parser of Python finds."""
    for package in STUBS:
        tree = ast.parse(ROOT.joinpath(*package.split("."), "__init__.pyi").read_text())
        actual: dict[str, Any] = {}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                actual |= stubs.of(str(node.module)).homes
            elif isinstance(node, ast.ImportFrom):
                actual |= {alias.asname: (node.module, alias.name) for alias in node.names if alias.asname}
            if isinstance(node, ast.Assign):
                name, original = ast.unparse(node.targets[0]), ast.unparse(node.value)
                (module,) = [
                    other.module
                    for other in tree.body
                    if isinstance(other, ast.ImportFrom)
                    for alias in other.names
                    if alias.name == original
                ]
                actual[name] = (module, original)
        assert stubs.of(package).homes == actual


def test_internal_modules_are_found_but_not_shown() -> None:
    assert jg.compiler.__name__ == "jitgraph.compiler" and jg.nn.hooks.__name__ == "jitgraph.nn.hooks"  # type: ignore[attr-defined]
    assert "compiler" not in dir(jg) and "hooks" not in dir(jg.nn)


def test_planned_names_are_not_there_yet() -> None:
    """Where this fails, the name has come: take it from the planned ones, and from ``migration_hints``."""
    for name in planned_names(TEXT):
        with pytest.raises(AttributeError):
            find(name)


def test_every_name_that_is_announced_is_planned() -> None:
    assert {*foreign_names()["planned"]} <= set(planned_names(TEXT))
