"""``python -m tests.guide.site FOLDER``: a built site fetches nothing when it is read, and its search works."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.browser import CHROMIUM, open_page

FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\b(?:src|srcset)=[\"']?(?:https?:)?//[^\"'\s>]+"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|icon|modulepreload))[^>]*\bhref=[\"']?(?:https?:)?//[^\"'\s>]+"
    r"|(?:@import|url\()\s*[\"']?(?:https?:)?//[^\"'\s)]+",
    re.IGNORECASE,
)


def fetched(text: str) -> list[str]:
    """What a page or style sheet would load from another host; links that a reader follows are none of these."""
    return FETCHED.findall(text)


def findings(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css"):
            yield from (f"{path.relative_to(folder)} fetches {actual}" for actual in fetched(path.read_text()))


def search(folder: Path, query: str) -> Iterator[str]:
    """What is wrong with the search, where the site is read from a folder in a browser that is installed."""
    if CHROMIUM is None:
        return
    with tempfile.TemporaryDirectory() as profile:
        shown, console = open_page(f"{(folder / 'index.html').resolve().as_uri()}?q={query}", Path(profile), seconds=30)
    yield from (f"the console says {line}" for line in console)
    if f"<h2>jg.nn.<mark>{query}</" not in shown:
        yield f"the search for {query} does not find jg.nn.{query}"


def main() -> int:
    folder = Path(sys.argv[1])
    pages = len(list(folder.rglob("*.html")))
    results = [*findings(folder), *search(folder, "LSTM")]
    print(*results, f"{pages} pages, {len(results)} findings", sep="\n")
    return int(bool(results) or pages < 40)


if __name__ == "__main__":
    sys.exit(main())
