"""The written loaders: one file of the parts, in which nothing of a part is lost or means something else."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jitgraph.runtime import loader
from jitgraph.standalone import write_loaders
from jitgraph.standalone.python_text import PACKAGE, PARTS, join

SOURCES = Path(loader.__file__).parent


def test_the_command_line_writes_the_loaders(tmp_path: Path, written: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "jitgraph", *arguments], capture_output=True, text=True)

    folder = tmp_path / "new" / "folder"
    done = command("loader", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(folder / name) for name in ("loader.py", "loader.c", "loader.h")]
    for path in written.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    planned = command("info", "model.jg")
    assert planned.returncode == 1 and "jitgraph info is planned for a later version" in planned.stderr
    assert command("lodaer", "x").returncode == 2
    assert command("loader", "/dev/null/x").returncode == 1


# --- Python ---------------------------------------------------------------------------------------------------------


def code_of(source: str) -> list[str]:
    """The statements of a module but for its docstring and the imports at its top."""
    return [ast.dump(node) for node in ast.parse(source).body[1:] if not isinstance(node, (ast.Import, ast.ImportFrom))]


def test_the_written_file_is_the_code_of_the_parts_in_order(written: Path) -> None:
    text = (written / "loader.py").read_text()
    assert code_of(text) == [line for name in PARTS for line in code_of((SOURCES / f"{name}.py").read_text())]
    headings = [line.split()[2] for line in text.splitlines() if line.startswith("# --- ")]
    assert headings == [f"{name}.py" for name in PARTS]
    assert ast.get_docstring(ast.parse(text)) == loader.__doc__.strip()
    assert text.count("from __future__") == 1
    assert max(map(len, text.splitlines())) <= 120


def test_the_written_file_has_the_names_of_the_parts(written_loader: Any) -> None:
    """Those that are made while the parts are imported, too."""
    for name in PARTS:
        part = vars(importlib.import_module(f"{PACKAGE}.{name}"))
        assert not {key for key in part if not key.startswith("__")} - set(vars(written_loader))
    assert set(loader.__all__) <= set(vars(written_loader))


def part(code: str, imports: str = "") -> str:
    return f'"""A part."""\n\nfrom __future__ import annotations\n\n{imports}\n{code}\n'


CLASHES = {
    "a function": (part("def f(): pass"), part("def f(): pass"), "'a' and 'b' mean different things by 'f'"),
    "a constant in a branch": (part("if True:\n    x = 1"), part("x = 1"), "mean different things by 'x'"),
    "a name that a function binds": (
        part("def f():\n    global x\n    x = 1"), part("x = 1"), "mean different things by 'x'"
    ),
    "two imports": (
        part("f(1)", "from os.path import join as f"), part("f(1)", "from ntpath import join as f"), "by 'f'"
    ),
    "an import and a function": (part("sys.exit", "import sys"), part("def sys(): pass"), "by 'sys'"),
    "an import and a function of one part": (
        part("x = 1"), part("def sys(): pass", "import sys"), "imports and defines 'sys'"
    ),
    "a builtin": (part("x = 1"), part("def open(): pass"), "builtin 'open'"),
    "an imported builtin": (part("x = 1"), part("open(1)", "from os import open"), "builtin 'open'"),
    "a later part": (part("f()", f"from {PACKAGE}.b import f"), part("def f(): pass"), "no name of an earlier part"),
    "a name that is not there": (part("x = 1"), part("y = f", f"from {PACKAGE}.a import f"), "no name of an earlier"),
    "another name": (part("x = 1"), part("z = y", f"from {PACKAGE}.a import x as y"), "no name of an earlier part"),
    "a part as a whole": (part("x = 1"), part("y = a.x", f"from {PACKAGE} import a"), "no name of an earlier part"),
    "the package": (part("x = 1"), part("y = 1", "from jitgraph.runtime import forks"), "no name of an earlier part"),
    "the package in a function": (
        part("x = 1"), part("def f():\n    from jitgraph import tensor"), "'b', line 7: this import has to stand"
    ),
    "an import below code": (part("x = 1\nimport sys"), part("y = 1"), "'a', line 7: this import has to stand"),
    "an import in a branch": (part("if x:\n    import sys"), part("y = 1"), "'a', line 7: this import has to stand"),
    "a submodule": (part("x = 1"), part("y = 1", "import os.path"), "write 'from ... import ...' for 'os.path'"),
    "code beside an import": (part("x = 1"), part("y = 1", "import sys; z = 1"), "code on lines of its own"),
    "no docstring": (part("x = 1"), "import sys\nx = 1", "'b' has no docstring"),
    "other annotations": (
        '"""A part."""\nimport sys\nx = 1', part("y = 1"), "'a' does not begin with 'from __future__"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CLASHES)
def test_parts_that_clash_are_refused(case: str) -> None:
    first, second, message = CLASHES[case]
    with pytest.raises(ValueError) as caught:
        join("A title.", {"a": first, "b": second})
    assert message in str(caught.value)


def test_parts_share_what_they_import() -> None:
    first = part("x = sys, math, np\ndef f():\n    import json", "import math\nimport sys\n\nimport numpy as np")
    second = part("y = x, fabs, sys", f"import sys\nfrom math import fabs\nfrom {PACKAGE}.a import x")
    text = join("A title.", {"a": first, "b": second})
    top = "import math\nimport sys\nfrom math import fabs\n\nimport numpy as np\n\n#"
    assert text.startswith(f'"""A title."""\n\nfrom __future__ import annotations\n\n{top}')
    found: dict[str, Any] = {}
    exec(text, found)
    assert found["y"][0] is found["x"] and found["__doc__"] == "A title."


def test_a_part_that_stands_in_no_order_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitgraph.standalone.python_text.PARTS", PARTS[:-1])
    with pytest.raises(ValueError, match="'model'"):
        write_loaders(tmp_path)
