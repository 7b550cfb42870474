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


def open_page(address: str, profile: Path, seconds: int = 0) -> tuple[str, list[str]]:
    """The page as it stands so long after it was loaded, and the lines on its console; ``profile`` is a folder."""
    assert CHROMIUM is not None
    options = [f"--user-data-dir={profile}", *([f"--virtual-time-budget={seconds}000"] if seconds else [])]
    command = [CHROMIUM, *_FLAGS, *options, address]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return ran.stdout, re.findall(r"CONSOLE[^\n]*", ran.stderr)


def run_in_page(html: str, script: str, folder: Path) -> tuple[str, list[str]]:
    """What an expression of JavaScript gives as text once the page is loaded, and the lines on the page's console."""
    page = folder / "page.html"
    page.write_text(
        f"{html}<pre id='told'></pre><script>addEventListener('load', () => "
        f"{{ document.getElementById('told').textContent = String({script}) }})</script>"
    )
    shown, console = open_page(str(page), folder / "profile")
    matched = re.search(r"<pre id=.told.>(.*?)</pre>", shown, re.DOTALL)
    assert matched is not None, shown[-2000:]
    return unescape(matched[1]), console
