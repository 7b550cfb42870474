"""What `make docs` asks of the site, and of its table of contents."""

from __future__ import annotations

import re

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
