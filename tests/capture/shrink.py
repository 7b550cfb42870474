"""Makes a failing program smaller: fewer pieces, fewer calls, fewer edits, as long as it fails in the same way."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.capture.program import Program
from tests.capture.worlds import run


def failure_of(program: Program, way: str) -> str:
    """How the program fails when it is run in a fresh folder; nothing where it does not, or does not run at all."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return run(program, Path(folder).resolve(), (way,)).failures.get(way, "")
        except NameError:  # a piece or an edit that another one needs
            return ""


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less."""
    for gone in program.pieces:
        if len(program.pieces) > 1:
            pieces = {position: piece for position, piece in program.pieces.items() if position != gone}
            steps = [
                replace(step, edits=tuple(edit for edit in step.edits if edit[0] != gone)) for step in program.steps
            ]
            yield replace(program, pieces=pieces, steps=tuple(steps))
    for at, step in enumerate(program.steps):
        if len(program.steps) > 1:
            yield replace(program, steps=(*program.steps[:at], *program.steps[at + 1 :]))
        for gone in range(len(step.edits)):
            fewer = replace(step, edits=(*step.edits[:gone], *step.edits[gone + 1 :]))
            yield replace(program, steps=(*program.steps[:at], fewer, *program.steps[at + 1 :]))


def shrunk(program: Program, failure: str, tries: int = 60) -> tuple[Program, str]:
    """A smaller program and its failure."""
    way = failure.partition(",")[0]
    while True:
        for candidate in smaller(program):
            if (tries := tries - 1) < 0:
                return program, failure
            if result := failure_of(candidate, way):
                program, failure = candidate, result
                break
        else:
            return program, failure
