"""Joins the parts of ``runtime/loader`` to one Python file, which users put beside a model.

A part is a docstring, then imports, then code. The file has the imports of all parts once, at its top, and the code of
the parts in order; what a part imports from another one is there already. All parts share the names of one module
then, so a name that would mean one thing in one part and another in a second is an error here.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import symtable
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from jitgraph.standalone.headings import heading

PACKAGE: Final = "jitgraph.runtime.loader"
PARTS: Final = (
    "errors", "abi", "json_objects", "specs", "structures", "signatures", "memory", "image", "pool", "host", "entry",
    "custom_calls", "artifact", "state_files", "model", "cuda", "capsules", "device_arrays", "device_model",
)  # fmt: skip
"""In the order of reading; each imports from earlier ones alone."""


class PythonModule(NamedTuple):
    """A part, taken apart."""

    name: str
    text: str  # its docstring
    imports: dict[str, tuple[str, str]]  # name here: (module, name there or "" for the module itself)
    defines: frozenset[str]
    code: str


def python_loader(folder: Path) -> str:
    """The text of ``loader.py`` from the package in ``folder``; ValueError where the parts do not go together."""
    stems = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    if stems != set(PARTS):
        raise ValueError(f"{sorted(stems ^ set(PARTS))} stand in the folder or in the order of parts alone")
    title = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")), clean=False)
    return join(title or "", {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in PARTS})


def join(title: str, sources: Mapping[str, str]) -> str:
    """One module with the docstring ``title`` of the parts' sources in order; ValueError where they clash."""
    parts: dict[str, PythonModule] = {}
    for name, source in sources.items():
        parts[name] = read_part(name, source, parts)
    require_one_meaning(list(parts.values()))
    imports = {target for part in parts.values() for target in part.imports.items()}
    sections = [section(part) for part in parts.values()]
    top = f'"""{title}"""\n\nfrom __future__ import annotations\n\n{import_lines(imports)}'
    return top + "\n\n" + "\n\n\n".join(sections) + "\n"


def section(part: PythonModule) -> str:
    """A part under its name and its docstring, both as comments."""
    lines = [f"# {line}".rstrip() for line in part.text.splitlines()]
    return "\n".join((heading("#", f"{part.name}.py"), "#", *lines, "", "", part.code))


def read_part(name: str, source: str, earlier: Mapping[str, PythonModule]) -> PythonModule:
    """Take a part apart; ValueError where it is built in another way or imports what does not stand before it."""
    tree = ast.parse(source)
    text = ast.get_docstring(tree)
    if text is None:
        raise ValueError(f"the part {name!r} has no docstring")
    head = list(itertools.takewhile(lambda node: isinstance(node, (ast.Import, ast.ImportFrom)), tree.body[1:]))
    rest = tree.body[1 + len(head) :]
    imports: dict[str, tuple[str, str]] = {}
    for node in head:
        imports.update(imported(node, name, earlier))
    if imports.pop("annotations", None) != ("__future__", "annotations"):
        raise ValueError(f"the part {name!r} does not begin with 'from __future__ import annotations'")
    last = head[-1].end_lineno or 0
    if not rest or rest[0].lineno <= last:
        raise ValueError(f"the part {name!r} has no code on lines of its own behind its imports")
    require_no_imports(rest, name)
    code = "\n".join(source.splitlines()[last:]).strip("\n")
    return PythonModule(name, text, imports, defined(tree, source), code)


def imported(node: ast.stmt, name: str, earlier: Mapping[str, PythonModule]) -> dict[str, tuple[str, str]]:
    """What an import statement binds, but for what earlier parts define."""
    if isinstance(node, ast.Import):
        if plain := [alias.name for alias in node.names if "." in alias.name and alias.asname is None]:
            raise ValueError(f"the part {name!r}, line {node.lineno}: write 'from ... import ...' for {plain[0]!r}")
        return {alias.asname or alias.name: (alias.name, "") for alias in node.names}
    assert isinstance(node, ast.ImportFrom)
    module = node.module or ""
    if module.partition(".")[0] != "jitgraph" and not node.level:
        return {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    part = earlier.get(module.removeprefix(f"{PACKAGE}."))
    for alias in node.names:
        if part is None or node.level or alias.asname or alias.name not in part.defines:
            raise ValueError(
                f"the part {name!r}, line {node.lineno}: {alias.name!r} of {module!r} is no name of an earlier part\n"
                "hint: a part takes names as they are from parts that stand before it in PARTS"
            )
    return {}


def require_no_imports(statements: Sequence[ast.stmt], name: str) -> None:
    """ValueError where code imports at the top of the module, or a part in a function."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                local = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
                if not local or any(module.partition(".")[0] in ("jitgraph", "") for module in modules):
                    raise ValueError(f"the part {name!r}, line {node.lineno}: this import has to stand at the top")


def defined(tree: ast.Module, source: str) -> frozenset[str]:
    """The names that a module binds by anything but imports."""
    symbols = symtable.symtable(source, "part", "exec").get_symbols()
    everywhere = (name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names)
    return frozenset((*(symbol.get_name() for symbol in symbols if symbol.is_assigned()), *everywhere))


def require_one_meaning(parts: Sequence[PythonModule]) -> None:
    """ValueError where two parts mean different things by one name, or a part by the name of a builtin."""
    meanings: dict[str, tuple[str, tuple[str, str]]] = {}
    for part in parts:
        own = {name: (f"the part {part.name}", name) for name in part.defines}
        if twice := own.keys() & part.imports.keys():
            raise ValueError(f"the part {part.name!r} both imports and defines {min(twice)!r}")
        for name, meaning in (*own.items(), *part.imports.items()):
            if hasattr(builtins, name):
                raise ValueError(f"the part {part.name!r} gives the builtin {name!r} another meaning to all parts")
            other, other_meaning = meanings.setdefault(name, (part.name, meaning))
            if other_meaning != meaning:
                raise ValueError(f"the parts {other!r} and {part.name!r} mean different things by {name!r}")


def import_lines(imports: set[tuple[str, tuple[str, str]]]) -> str:
    """Import statements in the usual order: the standard library's, then others'; modules, then names of modules."""
    modules = {there: here for here, (there, name) in imports if not name}
    names: dict[str, list[str]] = {}
    for here, (there, name) in sorted(imports):
        if name:
            names.setdefault(there, []).append(name if name == here else f"{name} as {here}")
    lines = [(there, f"import {there}" + (f" as {here}" if here != there else "")) for there, here in modules.items()]
    lines.sort()
    lines += [(there, f"from {there} import {', '.join(members)}") for there, members in sorted(names.items())]
    own = [line for there, line in lines if there.partition(".")[0] in sys.stdlib_module_names]
    others = [line for there, line in lines if there.partition(".")[0] not in sys.stdlib_module_names]
    return "\n\n".join("\n".join(block) for block in (own, others) if block)
