"""What `mkdocs build` adds to docs/: the pages of the project's root, and a reference written from the docstrings."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.public_names import MODULES, find, names_of  # noqa: E402

ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = {"": "jg", **{module: f"jg.{module}" for module in MODULES}, "runtime.loader": "loader"}


class Plain:
    """An annotation as it was written, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def on_config(config: Any) -> Any:
    pages = [{title: reference_path(title)} for title in PAGES.values()]
    config.nav = [*config.nav, {"API": [{"jg.Tensor": "reference/Tensor.md"}, *pages]}]
    return config


def on_files(files: Any, config: Any) -> Any:
    texts = {name: (ROOT / name).read_text() for name in ROOT_PAGES}
    texts["index.md"] = (ROOT / "README.md").read_text()
    texts["reference/Tensor.md"] = tensor_page()
    texts.update({reference_path(title): module_page(module, title) for module, title in PAGES.items()})
    for path, text in texts.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links between the root's pages and docs/, which stand beside one another on the site."""
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
        parts += entry(f"Tensor.{name}", inspect.getattr_static(tensor, name), depth=2)
    return "\n".join(parts) + "\n"


def entry(name: str, value: Any, depth: int = 2) -> Iterator[str]:
    """The heading of a name, how it is called, its docstring, and the methods that its class itself defines."""
    yield f"\n{'#' * depth} {name.replace('_', chr(92) + '_')}\n"
    if callable(value):
        yield f"```python\n{name}{signature(value)}\n```\n"
    documented = inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, property) or callable(value)
    yield prose(inspect.getdoc(value) or "") if documented else f"`{value!r}`"
    if inspect.isclass(value):
        for member, method in sorted(vars(value).items()):
            if not member.startswith("_") and inspect.getdoc(method) and callable(getattr(value, member)):
                yield from entry(f"{value.__name__}.{member}", getattr(value, member), depth + 1)


def signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [p.replace(annotation=plain(p.annotation)) for p in found.parameters.values() if p.name != "self"]
    text = str(found.replace(parameters=parameters, return_annotation=plain(found.return_annotation)))
    return text if len(text) < 80 else re.sub(r", (?=[*\w]+(?:: |=|,|\)|$))", ",\n    ", text)


def plain(annotation: Any) -> Any:
    return Plain(annotation) if isinstance(annotation, str) else annotation


def prose(docstring: str) -> str:
    """A docstring as Markdown: names in code, all other signs as they stand."""
    lines = []
    for line in docstring.split("\n"):
        if line.startswith("    "):
            lines.append(line)
            continue
        parts = re.split(r"(``[^`]+``|`[^`]+`)", line)
        parts[::2] = [re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts[::2]]
        lines.append("".join(re.sub(r"^``(.*)``$", r"`\1`", part) for part in parts))
    return "\n".join(lines) + "\n"
