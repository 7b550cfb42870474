"""The programs of a page of the guide: what each block prints stands in the block of text behind it.

``python -m tests.guide.page docs/guide/NAME.md`` runs a page in this process and says where it differs; with
``--write`` the page gets what was printed. These blocks count:

- ``python`` runs, after those before it, as one module. ``text`` right behind it is what it prints; a block that ends
  in an error prints its class and message. ``...`` in a text stands for anything.
- a block with ``title="NAME"`` is written to that file of an empty folder, in which the page runs.
- ``console``: lines that begin with ``$ `` are commands, the others what they print.
- files in a folder beside the page, of the page's name, lie in the folder in which it runs.
- in a table whose last column is headed jitgraph, what stands there as code must run.

A page of docs/howto runs in a copy of the checkout, with these blocks as well:

- ``diff`` with ``title="PATH"``: hunks, with ``@@`` between them, whose context stands in that file exactly once.
- a block with the ``title`` of a file that is there: what the file has now, so that a page can show it.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
FAILED = "exit status"
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is (or ""), its text and where that stands in the page."""

    language: str
    title: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Difference:
    """A stretch of the page, and what should stand there."""

    start: int
    end: int
    wanted: str
    got: str


def blocks(page: str) -> list[Block]:
    return [Block(m[1], m[2] or "", m[3], m.start(3), m.end(3)) for m in BLOCK.finditer(page)]


def table_code(page: str) -> list[str]:
    """The code in the last column of the tables that is headed jitgraph."""
    actual, inside = [], False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[-1] == "jitgraph":
            inside = True
        elif inside and not cells[-1].startswith("---"):
            actual += CODE.findall(cells[-1])
    return actual


CHECKOUT = ("jitgraph", "jitgraph_testing", "tests", "docs", "packaging", "pyproject.toml", "README.md", "Makefile")


def copy_checkout(root: Path, folder: Path) -> None:
    """What a change to the project touches, to be edited freely; bytecode too, so that nothing is compiled again."""
    for name in CHECKOUT:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name)
        else:
            shutil.copy2(root / name, folder / name)


def patched(text: str, diff: str, name: str) -> str:
    """``text`` with the hunks of ``diff``; ValueError where a hunk's lines do not stand in it exactly once."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = [line or " " for line in hunk.splitlines()]
        old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        times = f"\n{text}".count(f"\n{old}")
        if times != 1:
            raise ValueError(f"{name} has these lines {times} times:\n{old}")
        text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
    return text


class Runner:
    """Runs the blocks of a page, one after another, in the current folder."""

    def __init__(self, name: str) -> None:
        self.module = types.ModuleType(name)
        self.file = Path(f"{name}.py").resolve()
        self.module.__file__ = str(self.file)
        self.source = ""
        sys.modules[name] = self.module
        sys.path.insert(0, os.getcwd())

    def python(self, text: str) -> str:
        """What the block prints; for a block that raises, with the error's class and message behind it."""
        offset = self.source.count("\n")
        self.source += text + "\n"
        self.file.write_text(self.source)
        linecache.checkcache(str(self.file))
        code = compile("\n" * offset + text, str(self.file), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(code, self.module.__dict__)
            except Exception as error:
                print(f"{type(error).__name__}: {error}")
        return printed.getvalue()

    def console(self, text: str) -> str:
        """The commands of a block, each with what it prints, and the exit status of one that fails."""
        out = ""
        for command in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
            done = subprocess.run(command, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            out += f"$ {command}\n{done.stdout}" + (f"{FAILED} {done.returncode}\n" if done.returncode else "")
        return out


def same(wanted: str, got: str) -> bool:
    """Whether this was printed, where ``...`` stands for anything and ends of lines have no spaces."""
    tidy = ["\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n" for text in (wanted, got)]
    return doctest.OutputChecker().check_output(tidy[0], tidy[1], doctest.ELLIPSIS | doctest.DONT_ACCEPT_BLANKLINE)


def differences(page: str, name: str) -> Iterator[Difference]:
    """Runs the page; where it prints something else than it says."""
    runner = Runner(name)
    result = blocks(page)
    for position, block in enumerate(result):
        if block.title and block.language == "diff":
            file = Path(block.title)
            file.write_text(patched(file.read_text(), block.text, block.title))
        elif block.title and Path(block.title).exists() and Path("pyproject.toml").exists():
            if block.text not in Path(block.title).read_text():
                yield Difference(block.start, block.end, block.text, f"{block.title} has no such lines\n")
        elif block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text)
        elif block.language == "console":
            got = runner.console(block.text)
            if not same(block.text, got) or got.count(FAILED) != block.text.count(FAILED):  # dots stand for that, too
                yield Difference(block.start, block.end, block.text, got)
        elif block.language == "python":
            got = runner.python(block.text)
            behind = result[position + 1] if position + 1 < len(result) else None
            if behind and behind.language == "text" and page[block.end : behind.start] == "```\n\n```text\n":
                if not same(behind.text, got):
                    yield Difference(behind.start, behind.end, behind.text, got)
            elif got:
                location = block.end + len("```\n")
                yield Difference(location, location, "", f"\n```text\n{got}```\n")
        elif block.language != "text":
            raise ValueError(f"a block of {block.language} is not run")
    for code in table_code(page):
        got = runner.python(code + "\n")
        if re.match(r"\w+(Error|Op): ", got):
            location = page.index(f"`{code}`")
            yield Difference(location, location, code, got)


def _module_name(path: Path) -> str:
    """The module that a page is: by its name, unless that is the name of a package, which the page may import."""
    name = path.stem.replace("-", "_")
    return name if importlib.util.find_spec(name) is None else f"{name}_page"


def main() -> int:
    path = Path(sys.argv[1]).resolve()
    page = path.read_text()
    root = Path(__file__).resolve().parent.parent.parent
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        if path.parent.name == "howto":
            copy_checkout(root, Path(folder))
            root = Path(folder)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
        if path.with_suffix("").is_dir():
            shutil.copytree(path.with_suffix(""), folder, dirs_exist_ok=True)
        os.chdir(folder)
        actual = list(differences(page, _module_name(path)))
        os.chdir(path.parent)
    if "--write" in sys.argv:
        for difference in reversed([d for d in actual if d.start != d.end or not d.wanted]):
            page = page[: difference.start] + difference.got + page[difference.end :]
        path.write_text(page)
    for difference in actual:
        line = page.count("\n", 0, difference.start) + 1
        print(f"{path.name}:{line}: the page says\n{difference.wanted}but this came\n{difference.got}")
    return bool(actual)


if __name__ == "__main__":
    sys.exit(main())
