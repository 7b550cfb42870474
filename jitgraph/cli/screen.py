"""What commands print: tables, JSON, progress, and errors of one line. Colours are the terminal's own sixteen.

rich is imported for what it draws alone: JSON, listings and errors do without.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

PATIENCE: Final = 1.0
"""Seconds before a progress bar appears."""

GOOD, BAD, FAINT, NAME = "green", "bold red", "dim", "cyan"


def console(*, stderr: bool = False) -> Console:
    """A console without markup or guesses at what to colour; NO_COLOR and files get plain text."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)


def clean(text: str) -> str:
    """The text without what would move a terminal's cursor: what a file calls things is not to be trusted."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def cell(text: Any, style: str = "") -> Text:
    """A cell of a table, or a line."""
    from rich.text import Text

    return text if isinstance(text, Text) else Text(clean(str(text)), style=style)


def line(text: str, style: str = "") -> None:
    """Print one line, wrapped at words."""
    console().print(cell(text, style))


def raw(text: str) -> None:
    """Print a listing as it is, never wrapped or coloured."""
    sys.stdout.write(clean(text))
    if not text.endswith("\n"):
        sys.stdout.write("\n")


def diff_line(text: str) -> None:
    """Print a line of a unified diff."""
    style = {"+": "green", "-": "red", "@": NAME}.get(text[:1], "")
    console().print(cell(text, style), soft_wrap=True)


def heading(text: str) -> None:
    """Print a title above a table."""
    console().print(cell(text, "bold"))


def table(
    rows: Sequence[Sequence[Any]], columns: Sequence[str] = (), *, styles: Sequence[str] = (), right: Sequence[int] = ()
) -> None:
    """Print rows in columns, long cells folded; without ``columns`` there is no head."""
    from rich.table import Table

    grid = Table(box=None, show_header=bool(columns), header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    for at in range(max(map(len, rows), default=len(columns))):
        title = columns[at] if at < len(columns) else ""
        style = styles[at] if at < len(styles) else ""
        grid.add_column(title, style=style, justify="right" if at in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(cell, row))
    screen = console()
    with screen.capture() as captured:
        screen.print(grid)
    sys.stdout.write("".join(f"{text.rstrip()}\n" for text in captured.get().splitlines()))


def as_json(data: Any) -> None:
    """Print data as JSON, with "nan", "inf" and "-inf" for numbers that JSON cannot write."""
    sys.stdout.write(json.dumps(_writable(data), indent=2, allow_nan=False) + "\n")


def _writable(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _writable(value) for key, value in data.items()}
    if hasattr(data, "_asdict"):
        return _writable(data._asdict())
    if isinstance(data, list | tuple):
        return list(map(_writable, data))
    if isinstance(data, float) and not math.isfinite(data):
        return "nan" if math.isnan(data) else "inf" if data > 0 else "-inf"
    return data


def one_line(text: str) -> str:
    """An error on one line: its parts, such as the user's line and the hint, behind semicolons."""
    return "; ".join(part for part in map(str.strip, clean(text).splitlines()) if part)


def error(command: str, text: str) -> None:
    """Print an error: one line of the standard error, as long as it is."""
    print(f"{command}: {one_line(text)}", file=sys.stderr)


@contextmanager
def progress(title: str, total: float = 1.0) -> Iterator[Callable[[float, str], None]]:
    """A bar on the standard error, once the block has taken a second; call what it gives with the work done so far."""
    if not sys.stderr.isatty():
        yield _nowhere
        return
    bar = _Bar(title, total)
    timer = threading.Timer(PATIENCE, bar.appear)
    timer.daemon = True
    timer.start()
    try:
        yield bar.advance
    finally:
        timer.cancel()
        timer.join()
        bar.vanish()


def _nowhere(done: float, text: str = "") -> None:
    """For a standard error that is no terminal."""


class _Bar:
    """A bar that is drawn from the moment on in which it appears, in the timer's thread."""

    def __init__(self, title: str, total: float) -> None:
        self._title, self._total = title, total
        self._done, self._text = 0.0, title
        self._shown: tuple[Progress, Any] | None = None
        self._lock = threading.Lock()

    def appear(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
        bar = Progress(*columns, console=console(stderr=True), transient=True)
        with self._lock:
            task = bar.add_task(self._text, total=self._total)
            bar.update(task, completed=self._done)
            bar.tasks[0].start_time = bar.get_time() - PATIENCE
            self._shown = bar, task
        bar.start()

    def advance(self, done: float, text: str = "") -> None:
        with self._lock:
            self._done, self._text = done, text or self._title
            if self._shown is not None:
                bar, task = self._shown
                bar.update(task, completed=done, description=self._text)

    def vanish(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()
