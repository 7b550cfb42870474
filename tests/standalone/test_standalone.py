"""The written loaders: one file of the parts, in which nothing of a part is lost or means something else."""

from __future__ import annotations

import ast
import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jitgraph.runtime import loader
from jitgraph.standalone import c_text, write_loaders
from jitgraph.standalone.python_text import PACKAGE, PARTS, join

SOURCES = Path(loader.__file__).parent
C_SOURCES = SOURCES.parent / "loader_c"


def test_the_command_line_writes_the_loaders(tmp_path: Path, written: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "jitgraph", *arguments], capture_output=True, text=True)

    folder = tmp_path / "new" / "folder"
    done = command("loader", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(folder / name) for name in ("loader.py", "loader.c", "loader.h")]
    for name in ("loader.py", "loader.c", "loader.h"):
        assert (folder / name).read_bytes() == (written / name).read_bytes()
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
    results: dict[str, Any] = {}
    exec(text, results)
    assert results["y"][0] is results["x"] and results["__doc__"] == "A title."


def test_a_part_that_stands_in_no_order_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitgraph.standalone.python_text.PARTS", PARTS[:-1])
    with pytest.raises(ValueError, match="'device_model'"):
        write_loaders(tmp_path)


# --- C --------------------------------------------------------------------------------------------------------------

GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")


def c_part(code: str, *includes: str) -> str:
    return "\n".join(
        ("/* A part. */", "", "#pragma once", "", *(f"#include {each}" for each in includes), "", code, "")
    )


def main_of(*names: str) -> str:
    lines = "\n".join(f'#include "{name}"' for name in ("loader.h", *names))
    return f"/* Title. */\n\n#define _GNU_SOURCE\n{lines}\n"


def test_the_written_c_file_has_every_line_of_the_parts(written: Path) -> None:
    text = (written / "loader.c").read_text()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("/* --- ")]
    assert sorted([*names, "loader.c"]) == sorted(path.name for path in C_SOURCES.glob("*.c"))
    for name in names:
        for line in (C_SOURCES / name).read_text().splitlines():
            assert line in text or line == "#pragma once" or line.startswith('#include "'), (name, line)
    assert '#include "' not in text.replace('#include "loader.h"', "", 1) and "#pragma once" not in text
    assert (written / "loader.h").read_bytes() == (C_SOURCES / "loader.h").read_bytes()


@GCC
def test_no_name_of_the_c_file_hides_another(written: Path) -> None:
    warnings = ("-Wall", "-Wextra", "-Wshadow", "-Wredundant-decls", "-Werror")
    command = ["gcc", "-std=c11", *warnings, "-fsyntax-only", str(written / "loader.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@GCC
@pytest.mark.parametrize("path", sorted(C_SOURCES.glob("*.c")), ids=lambda path: path.stem)
def test_a_c_part_includes_what_it_needs(path: Path) -> None:
    unused = ("-Wno-unused-function", "-Wno-unused-const-variable")
    command = [
        "gcc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        *unused,
        "-Werror",
        "-fsyntax-only",
        f"-I{path.parent}",
        "-xc",
        "-",
    ]
    code = f'#define _GNU_SOURCE\n#include "{path.name}"\n' if path.name != "loader.c" else path.read_text()
    done = subprocess.run([*command, "-xc", "-"], input=code, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


C_CLASHES = {
    "a macro": ({"a.c": c_part("#define X 1"), "b.c": c_part("#define X(y) y")}, "both define the macro X"),
    "a later part": ({"a.c": c_part("int x;", '"b.c"'), "b.c": c_part("int y;")}, "a.c includes b.c, which does not"),
    "a part that is not there": ({"a.c": c_part("int x;")}, "includes ['a.c', 'b.c'] of ['a.c']"),
    "a part too many": (
        {"a.c": c_part("int x;"), "b.c": c_part("int y;"), "c.c": c_part("int z;")}, "of ['a.c', 'b.c', 'c.c']"
    ),
    "no comment": ({"a.c": "int x;\n", "b.c": c_part("int y;")}, "a.c does not begin with a comment"),
    "no pragma": ({"a.c": "/* A part. */\nint x;\n", "b.c": c_part("int y;")}, "and '#pragma once'"),
    "an include below code": (
        {"a.c": c_part("int x;"), "b.c": c_part('int y;\n#include "a.c"')}, "b.c has '#include \"a.c\"' below code"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", C_CLASHES)
def test_parts_in_c_that_clash_are_refused(case: str) -> None:
    sources, message = C_CLASHES[case]
    with pytest.raises(ValueError) as caught:
        c_text.join(main_of("a.c", "b.c"), sources)
    assert message in str(caught.value)


def test_parts_in_c_share_what_they_include() -> None:
    sources = {
        "a.c": c_part("static int x;", "<stdio.h>", '"loader.h"'),
        "b.c": c_part("static int y;", "<errno.h>", "<stdio.h>", '"a.c"'),
    }
    text = c_text.join(main_of("a.c", "b.c"), sources)
    top = '#define _GNU_SOURCE\n#include "loader.h"\n\n#include <errno.h>\n#include <stdio.h>\n\n/* --- a.c ---'
    assert text.startswith(f"/* Title. */\n\n{top}")
    assert text.count("#include") == 3 and text.endswith("*/\n\n/* A part. */\n\nstatic int y;\n")
