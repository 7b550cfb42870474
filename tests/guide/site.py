"""``python -m tests.guide.site FOLDER``: a built site fetches nothing from elsewhere when it is read."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

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
            yield from (f"{path.relative_to(folder)} fetches {found}" for found in fetched(path.read_text()))


def main() -> int:
    folder = Path(sys.argv[1])
    pages = len(list(folder.rglob("*.html")))
    found = list(findings(folder))
    print(*found, f"{pages} pages, {len(found)} of their parts from elsewhere", sep="\n")
    return int(bool(found) or pages < 40)


if __name__ == "__main__":
    sys.exit(main())
