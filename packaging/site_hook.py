"""What `mkdocs build` adds to docs/: the pages of the project's root, and a reference written from the docstrings."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.public_names import MODULES, find, names_of  # noqa: E402

ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
TABLES = ("models.md", "coverage.md", "api.md", "accuracy.md", "CHANGELOG.md")  # name everything: found last
INTERNAL = ("applied", "called", "compiled_op", "gradient", "invocation", "specialised")  # what a profile is told
PAGES = {"": "jg", **{module: f"jg.{module}" for module in MODULES}, "runtime.loader": "loader"}


class Plain:
    """An annotation as it was written, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def on_config(config: Any) -> Any:
    pages = [{title: reference_path(title)} for title in PAGES.values()]
    at = next(number for number, part in enumerate(config.nav) if "Inside" in part)
    api = {"API": [{"jg.Tensor": "reference/Tensor.md"}, *pages]}
    config.nav = [*config.nav[:at], api, *config.nav[at:]]
    return config


def on_files(files: Any, config: Any) -> Any:
    texts = {name: (ROOT / name).read_text() for name in ROOT_PAGES}
    texts["index.md"] = (ROOT / "README.md").read_text()
    texts["reference/Tensor.md"] = tensor_page()
    texts.update({reference_path(title): module_page(module, title) for module, title in PAGES.items()})
    texts.update({f"assets/{path.name}": path.read_text() for path in (ROOT / "packaging" / "site").iterdir()})
    for path, text in texts.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links between the root's pages and docs/, which stand beside one another on the site."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation"]  # the tabs are all of it there
    if page.file.src_uri in TABLES:
        page.meta["search"] = {"boost": 0.1}
    if page.file.src_uri in ("index.md", *ROOT_PAGES):
        return re.sub(r"\]\(docs/", "](", markdown)
    return re.sub(r"\]\(((?:\.\./)*)\.\./([A-Z]+\.md)", r"](\1\2", markdown)


def reference_path(title: str) -> str:
    return f"reference/{title.replace('.', '_')}.md"


def module_page(module: str, title: str) -> str:
    owner = find(module) if module else sys.modules["jitgraph"]
    if module == "runtime.loader":
        owner = __import__("jitgraph.runtime.loader", fromlist=["load"])
    parts = [f"# {title}\n", prose(inspect.getdoc(owner) or "")]
    for name in names_of(module):
        value = getattr(owner, name)
        if isinstance(value, ModuleType):
            continue  # has a page of its own
        parts += entry(f"{title}.{name}", value)
    return "\n".join(parts) + "\n"


def tensor_page() -> str:
    tensor: Any = find("Tensor")
    parts = ["# jg.Tensor\n", prose(inspect.getdoc(tensor) or "")]
    for name in sorted(name for name in dir(tensor) if not name.startswith("_")):
        getattr(tensor, name, None)  # loads methods whose module is not there yet
        parts += entry(f"Tensor.{name}", inspect.getattr_static(tensor, name), depth=2, skipped=1)
    return "\n".join(parts) + "\n"


def entry(name: str, value: Any, depth: int = 2, skipped: int = 0) -> Iterator[str]:
    """The heading of a name, how it is called, its docstring, and the methods that its class itself defines.

    ``skipped`` is the number of first parameters that the object gives of which this is a method.
    """
    yield f"\n{'#' * depth} {name.replace('_', chr(92) + '_')} {{ #{name} }}\n"
    if callable(value):
        if called := signature(value, skipped):
            yield f"```python\n{name}{called}\n```\n"
        if inspect.isclass(value) and (inherited := bases(value)):
            yield prose(f"Extends {inherited}.")
    documented = inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, property) or callable(value)
    yield prose(inspect.getdoc(value) or "") if documented else f"`{value!r}`"
    if inspect.isclass(value):
        for member in sorted(vars(value)):
            if is_shown(value, member):
                yield from entry(f"{value.__name__}.{member}", getattr(value, member), depth + 1)


def is_shown(owner: type, member: str) -> bool:
    """Whether a class's page needs a method: one of its own, and ``forward`` alone of those that a base explains."""
    method = getattr(owner, member, None)  # some only say what to write instead
    if member.startswith("_") or not callable(method) or not inspect.getdoc(method) or member in INTERNAL:
        return False
    if not getattr(method, "__qualname__", "").startswith(f"{owner.__name__}."):
        return False  # a function that the class holds
    return member == "forward" or not any(hasattr(base, member) for base in owner.__bases__)


def bases(value: type) -> str:
    """The classes that a class extends, as code."""
    known = [base for base in value.__bases__ if base is not object and not base.__name__.startswith("_")]
    ours = ("jitgraph", "builtins")
    names = (
        base.__name__ if base.__module__.startswith(ours) else f"{base.__module__}.{base.__name__}" for base in known
    )
    return ", ".join(f"`{name}`" for name in names)


@cache
def links() -> dict[str, str]:
    """The place of each name in the reference."""
    tensor: Any = find("Tensor")
    found = {f"Tensor.{name}": "Tensor.md" for name in dir(tensor) if not name.startswith("_")}
    for module, title in PAGES.items():
        found |= {f"{title}.{name}": Path(reference_path(title)).name for name in names_of(module)}
    return {name: f"{page}#{name}" for name, page in found.items()} | {"jg.Tensor": "Tensor.md"}


def linked(code: str) -> str:
    """A name in code, as a link where the reference has a place for it."""
    name = code.strip("`").removesuffix("()")
    if "." in name or name[:1].isupper():
        for prefix in ("", "jg.", "jg.nn.", "jg.optim.", "jg.errors."):
            if prefix + name in links():
                return f"[{code}]({links()[prefix + name]})"
    return code


def signature(value: Any, skipped: int = 0) -> str:
    """How a value is called; empty for exceptions that take what Exception takes."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    given = list(found.parameters.values())[skipped if inspect.isfunction(value) else 0 :]
    parameters = [p.replace(annotation=plain(p.annotation)) for p in given if p.name != "self"]
    returned = inspect.Signature.empty if inspect.isclass(value) else plain(found.return_annotation)
    text = str(found.replace(parameters=parameters, return_annotation=returned))
    return text if len(text) < 80 else re.sub(r", (?=[*\w]+(?:: |=|,|\)|$))", ",\n    ", text)


def plain(annotation: Any) -> Any:
    text = getattr(annotation, "__forward_arg__", annotation)
    return Plain(text) if isinstance(text, str) else annotation


def prose(docstring: str) -> str:
    """A docstring as Markdown: names in code, all other signs as they stand."""
    lines = []
    for line in docstring.split("\n"):
        if line.startswith("    "):
            lines.append(line)
            continue
        parts = re.split(r"(``[^`]+``|`[^`]+`)", line)
        parts[::2] = [re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts[::2]]
        parts[1::2] = [linked(re.sub(r"^``(.*)``$", r"`\1`", part)) for part in parts[1::2]]
        lines.append("".join(parts))
    return "\n".join(lines) + "\n"
