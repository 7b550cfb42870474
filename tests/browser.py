"""Pages in a headless browser, where one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--enable-logging=stderr",
    "--dump-dom",
)


def run_in_page(html: str, script: str, folder: Path) -> tuple[str, list[str]]:
    """What an expression of JavaScript gives as text once the page is loaded, and the lines on the page's console."""
    assert CHROMIUM is not None
    page = folder / "page.html"
    page.write_text(
        f"{html}<pre id='told'></pre><script>addEventListener('load', () => "
        f"{{ document.getElementById('told').textContent = String({script}) }})</script>"
    )
    ran = subprocess.run(
        [CHROMIUM, *_FLAGS, f"--user-data-dir={folder / 'profile'}", str(page)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = re.search(r"<pre id=.told.>(.*?)</pre>", ran.stdout, re.DOTALL)
    assert found is not None, ran.stdout[-2000:]
    return unescape(found[1]), re.findall(r"CONSOLE[^\n]*", ran.stderr)
