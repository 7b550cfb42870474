"""What `make docs` asks of the site, and of its table of contents."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests import ROOT
from tests.guide.site import fetched


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://cdn.example/x.js"></script>',
        "<img alt='' src=//host.example/x.png>",
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<link href="//fonts.example" rel="preconnect">',
        "@import 'https://a.example/b.css';",
        "body { background: url(https://a.example/b.png) }",
    ],
)
def test_what_would_be_fetched_is_found(text: str) -> None:
    assert fetched(text)


@pytest.mark.parametrize(
    "text",
    [
        '<a href="https://a.example/">a link to follow</a>',
        '<script src="assets/x.js"></script>',
        '<link rel="stylesheet" href="assets/x.css">',
        '<link rel="canonical" href="https://a.example/">',
        "url(data:image/png;base64,AAAA)",
    ],
)
def test_what_is_not_fetched_is_not(text: str) -> None:
    assert not fetched(text)


def test_each_page_is_in_the_table_of_contents() -> None:
    listed = set(re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= listed
    assert listed - pages == {"index.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}  # made from the root's


def test_the_reference_has_a_place_for_each_public_name() -> None:
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("site_hook", ROOT / "packaging" / "site_hook.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    pages = {title: hook.module_page(module, title) for module, title in hook.PAGES.items()}
    pages["Tensor"] = hook.tensor_page()
    missing = []
    for name, position in hook.links().items():
        title = Path(position.partition("#")[0]).stem.replace("_", ".")
        title = next(known for known in pages if known.replace("_", ".") == title)
        value = hook.find(name.removeprefix("jg.")) if title.startswith("jg") else None
        if not isinstance(value, ModuleType) and name != "jg.Tensor" and f"{{ #{name} }}" not in pages[title]:
            missing.append(name)
    assert missing == []
    assert "until its family is loaded" not in pages["Tensor"]
    assert "Tensor.movedim(source: " in pages["Tensor"], "without the tensor itself"
    assert "[`functional.avg_pool1d`](jg_nn_functional.md#jg.nn.functional.avg_pool1d)" in pages["jg.nn"]
    assert "AvgPool1d.function" not in pages["jg.nn"] and "-> None\n" not in pages["jg.optim"].partition("## jg")[0]
    for text in pages.values():
        assert "ForwardRef" not in text and not re.search(r"`[\w.]+`\. of ", text)
