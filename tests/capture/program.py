"""A program: pieces of source with their state and edits, the calls to be made, and all of it as one script."""

from __future__ import annotations

from dataclasses import dataclass

from tests.capture.rule import HEAD, indented


@dataclass(frozen=True)
class Edit:
    """What may be run between calls: a template with words that are drawn anew each time."""

    template: str
    kind: str  # the type of ``$new``
    rule: str


@dataclass(frozen=True)
class Piece:
    """Some statements of the program, with the state that they read."""

    body: str
    state: str
    cells: str
    parameters: tuple[str, ...]
    edits: tuple[Edit, ...]
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """A call: the edits before it, each with the number of its piece, and the number argument."""

    edits: tuple[tuple[int, str], ...]
    n: str


@dataclass(frozen=True)
class Program:
    """The pieces, by number, and the calls."""

    name: str
    pieces: dict[int, Piece]
    has_file: bool  # whether its main module says what file it is from
    steps: tuple[Step, ...]

    @property
    def other(self) -> str:
        """The name of the second module."""
        return self.name + "_other"

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules of all pieces."""
        return tuple(rule for piece in self.pieces.values() for rule in piece.rules)

    def source(self) -> str:
        """The text of the main module."""
        pieces = list(self.pieces.values())
        state = "\n".join(piece.state for piece in pieces if piece.state)
        cells = "\n".join(piece.cells for piece in pieces if piece.cells)
        body = "\n".join(piece.body for piece in pieces)
        parameters = [parameter for piece in pieces for parameter in piece.parameters]
        head = ", ".join(["x", "n=1", *(["*"] if parameters else []), *parameters])
        program = f"def program({head}):\n    t = 0\n{indented(body)}\n    return x * t + x"
        if cells:
            program = f"def make():\n{indented(cells)}\n{indented(program)}\n    return program\nprogram = make()"
        return f"{HEAD.replace('$other', self.other)}\n{state}\n\n\n{program}\n"

    def script(self) -> str:
        """A script that runs the program by itself, plain, traced and scripted."""
        steps = [([text for _, text in step.edits], step.n) for step in self.steps]
        known = '"main.py"' if self.has_file else None
        return _SCRIPT.format(file=known, name=self.name, other=self.other, source=self.source(), steps=steps)


_SCRIPT = """\
import os, sys, tempfile, types, warnings
import jitgraph as jg
SOURCE = r'''
{source}'''
STEPS = {steps!r}
FILE = {file}
os.environ.setdefault("JITGRAPH_INTERPRET", "1")
warnings.simplefilter("ignore")
folder = tempfile.mkdtemp()
def run(text, file, module):
    with open(os.path.join(folder, file), "w") as out:
        out.write(text)
    exec(compile(text, os.path.join(folder, file), "exec"), vars(module))
for way in (lambda f: f, jg.trace, jg.script):
    sys.modules["{other}"] = types.ModuleType("{other}")
    main = sys.modules["{name}"] = types.ModuleType("{name}")
    main.__file__ = FILE and os.path.join(folder, FILE)
    run(SOURCE, "main.py", main)
    function = way(main.program)
    for number, (edits, n) in enumerate(STEPS):
        for k, edit in enumerate(edits):
            run(edit, f"edit_{{number}}_{{k}}.py", main)
        try:
            print(function(jg.asarray([1.5, -2.0]), eval(n)).tolist(), end=" ")
        except Exception as error:
            print(type(error).__name__, str(error)[:300], end=" ")
            break
    print()
"""
