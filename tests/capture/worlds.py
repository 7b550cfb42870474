"""Runs a program plain, traced and scripted, each in fresh modules, and says where they differ."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import jitgraph as jg
from tests.capture.program import Program, Step
from tests.capture.snapshot import snapshot

WAYS: dict[str, Callable[[Any], Any]] = {"traced": jg.trace, "scripted": jg.script}
X = (1.5, -2.0)


@dataclass
class Outcome:
    """What a call gave: bytes of the result, or an error, and the state after it."""

    result: str
    error: BaseException | None
    state: str


@dataclass
class Report:
    """How a way differed, with what errors ways declined, and how many calls of each agreed."""

    failures: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    agreed: dict[str, int] = field(default_factory=dict)
    changed: bool = False  # whether the plain results differed from one another
    codes: set[types.CodeType] = field(default_factory=set)


class World:
    """The modules of a program, made anew from files on the disk."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.refused_edits: list[str] = []
        self.other = sys.modules[program.other] = types.ModuleType(program.other)
        self.main = sys.modules[program.name] = types.ModuleType(program.name)
        self.main.__file__ = str(folder / "main.py") if program.has_file else None
        self.execute("main.py", program.source())
        self.function = self.main.program

    def execute(self, file: str, text: str) -> None:
        """Run source in the main module, from a file that a script can read."""
        path = self.folder / file
        if not path.exists():
            path.write_text(text)
        exec(compile(text, str(path), "exec"), vars(self.main))

    def state(self) -> str:
        return "\n".join([*self.refused_edits, snapshot(str(self.folder), self.main, self.other)])

    def edit(self, number: int, step: Step) -> None:
        """Change the state. An edit may not fit what earlier ones left; then it has to be so in every world."""
        for k, (_, text) in enumerate(step.edits):
            try:
                self.execute(f"edit_{number}_{k}.py", text)
            except (AttributeError, LookupError, NameError, TypeError) as error:
                self.refused_edits.append(f"{text}: {error!r}")

    def call(self, step: Step) -> Outcome:
        """The outcome of a call."""
        x, n = jg.asarray(np.array(X, np.float32)), eval(step.n)
        result, error = "", None
        tracer = sys.gettrace()
        try:
            actual = self.function(x, n)
            array = actual.numpy()
            result = f"{array.dtype} {array.shape} {array.tolist()}"
        except Exception as raised:
            error = raised.with_traceback(None)
        assert sys.gettrace() is tracer, "a call left its tracer behind"
        return Outcome(result, error, self.state())

    def close(self) -> None:
        del sys.modules[self.program.name], sys.modules[self.program.other]


def run(program: Program, folder: Path, modes: tuple[str, ...] = tuple(WAYS)) -> Report:
    """Run every call in every world."""
    report = Report()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world = World(program, folder)
        try:
            due = [_plain_call(world, number, step, report) for number, step in enumerate(program.steps)]
        finally:
            world.close()
        results = [(outcome.result, type(outcome.error), outcome.state) for outcome in due]
        report.changed = len({result[:2] for result in results}) > 1
        for way in modes:
            if failure := _compare(program, folder, way, due, report):
                report.failures[way] = failure
    return report


def _plain_call(world: World, number: int, step: Step, report: Report) -> Outcome:
    world.edit(number, step)
    if number:
        return world.call(step)

    def note(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(world.folder)):
            report.codes.add(frame.f_code)

    sys.setprofile(note)
    try:
        return world.call(step)
    finally:
        sys.setprofile(None)


def _compare(program: Program, folder: Path, way: str, due: list[Outcome], report: Report) -> str:
    """How a way differs from the plain calls, or nothing."""
    world = World(program, folder)
    try:
        report.agreed[way] = 0
        try:
            world.function = WAYS[way](world.function)
        except jg.ScriptError as error:
            report.refusals[way] = str(error)
            return ""
        for number, (step, expected) in enumerate(zip(program.steps, due, strict=True)):
            world.edit(number, step)
            before = world.state()
            actual = world.call(step)
            where = f"{way}, call {number}"
            if actual.error is not None:
                if isinstance(actual.error, jg.JitgraphError):
                    if expected.error is None:
                        report.refusals[way] = str(actual.error)
                        if actual.state not in (before, expected.state):
                            return f"{where}: refused, but left state changed\n{_lines(before, actual.state)}"
                elif type(actual.error) is not type(expected.error):
                    return f"{where}: {actual.error!r}, not {expected.error or expected.result!r}"
                if actual.state == expected.state:
                    continue
                return ""  # what a plain call had done before its error, or would have done, is not done
            if expected.error is not None:
                return f"{where}: {actual.result}, not {expected.error!r}"
            if actual.result != expected.result:
                return f"{where}: {actual.result}, not {expected.result}"
            if actual.state != expected.state:
                return f"{where}: another state\n{_lines(expected.state, actual.state)}"
            report.agreed[way] += 1
        return ""
    finally:
        world.close()


def _lines(due: str, actual: str) -> str:
    pairs = zip(due.splitlines(), actual.splitlines(), strict=False)
    return "\n".join(f"  due   {a}\n  found {b}" for a, b in pairs if a != b)
